"""Are the candidate's outputs still the baseline's? Pure methods on outputs as plain data (docs/quality.md)."""

from loadgen.analyze.quality.acceptance import AcceptanceAnomaly, Accepted, acceptance_anomaly
from loadgen.analyze.quality.cases import CaseFinding, case_findings
from loadgen.analyze.quality.decision import SAMPLER_REACH, counted, decide_answers
from loadgen.analyze.quality.diagnosis import Diagnosis, diagnose
from loadgen.analyze.quality.diverge import Context, Divergence, compare_outputs
from loadgen.analyze.quality.family import FAMILY_LEVEL, PROMISED, Family, family, per_test_level
from loadgen.analyze.quality.formats import FormatCheck, format_check
from loadgen.analyze.quality.greedy import REFERENCE, GreedyAtLoad
from loadgen.analyze.quality.known import is_right
from loadgen.analyze.quality.loops import Loop, loop_in
from loadgen.analyze.quality.next_token import TokenSample, next_token_test, second_tokens
from loadgen.analyze.quality.numerics import gaps_apart
from loadgen.analyze.quality.paired import (
    McNemar,
    NoiseFloor,
    Paired,
    discordant_needed,
    divergence_share,
    mcnemar,
    noise_floor,
    paired,
)
from loadgen.analyze.quality.partings import Parting, Told, margin_of, margins_of, parting_of, to_ask
from loadgen.analyze.quality.permutation import (
    DISTINCT,
    HISTOGRAM,
    LENGTH,
    MEAN_LOGPROB,
    Histogram,
    Statistic,
    permutation_test,
)
from loadgen.analyze.quality.power import (
    chi_square_power,
    largest_without_correction,
    samples_needed,
    two_sample_distance,
    without_correction,
)
from loadgen.analyze.quality.sampled import Sampled, sampled_tests
from loadgen.analyze.quality.stops import stop_ids_of
from loadgen.analyze.quality.ties import (
    MARGIN_FLOOR_NAT,
    Margin,
    NearTieLimit,
    margin,
    near_tie,
    near_tie_limit,
    with_numerics,
)
from loadgen.analyze.quality.types import POWER, Format, Kind, Output, QualityTest
from loadgen.analyze.quality.whole import (
    LOADS,
    Answers,
    CaseCompared,
    Compared,
    Evidence,
    Load,
    Standing,
    compare_answers,
    questions,
)

__all__ = [
    "DISTINCT",
    "FAMILY_LEVEL",
    "HISTOGRAM",
    "LENGTH",
    "LOADS",
    "MARGIN_FLOOR_NAT",
    "MEAN_LOGPROB",
    "POWER",
    "PROMISED",
    "REFERENCE",
    "SAMPLER_REACH",
    "AcceptanceAnomaly",
    "Accepted",
    "Answers",
    "CaseCompared",
    "CaseFinding",
    "Compared",
    "Context",
    "Diagnosis",
    "Divergence",
    "Evidence",
    "Family",
    "Format",
    "FormatCheck",
    "GreedyAtLoad",
    "Histogram",
    "Kind",
    "Load",
    "Loop",
    "Margin",
    "McNemar",
    "NearTieLimit",
    "NoiseFloor",
    "Output",
    "Paired",
    "Parting",
    "QualityTest",
    "Sampled",
    "Standing",
    "Statistic",
    "TokenSample",
    "Told",
    "acceptance_anomaly",
    "case_findings",
    "chi_square_power",
    "compare_answers",
    "compare_outputs",
    "counted",
    "decide_answers",
    "diagnose",
    "discordant_needed",
    "divergence_share",
    "family",
    "format_check",
    "gaps_apart",
    "is_right",
    "largest_without_correction",
    "loop_in",
    "margin",
    "margin_of",
    "margins_of",
    "mcnemar",
    "near_tie",
    "near_tie_limit",
    "next_token_test",
    "noise_floor",
    "paired",
    "parting_of",
    "per_test_level",
    "permutation_test",
    "questions",
    "sampled_tests",
    "samples_needed",
    "second_tokens",
    "stop_ids_of",
    "to_ask",
    "two_sample_distance",
    "with_numerics",
    "without_correction",
]  # fmt: skip
