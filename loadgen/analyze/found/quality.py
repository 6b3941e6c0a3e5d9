"""`quality.json`: what a quality run found, arm by arm, with every number its report shows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from loadgen.analyze.found.base import ExperimentResult, State
from loadgen.analyze.quality import Kind, Load, Standing
from loadgen.analyze.summary.base import Model


class PassAsked(Model):
    """One stage of one arm: what was asked, how often, and how many requests failed (they are never compared)."""

    stage: str
    kind: str
    arm: str
    passes: int
    concurrency: int | None
    requests: int
    failed: dict[str, int]


class Share(Model):
    """Of pairs that are not identical, near ties included; interval over cases."""

    value: float | None
    low: float | None
    high: float | None
    n: int


class LoadCompared(Model):
    """Greedy answers of one candidate at one load. `kinds`, `floor_kinds`: pairs of each class, with the candidate and
    of the baseline with itself. `excess_p`: that the candidate differs oftener, near ties left out; not corrected."""

    arm: str
    load: Load
    cases: int
    without: int
    kinds: dict[str, int]
    floor_kinds: dict[str, int]
    floor_share: Share | None
    share: Share | None
    excess_p: float | None


class DifferenceShown(Model):
    """A greedy case that differs: its worst finding. `before`, `baseline`, `candidate`: text at the divergence; null
    where texts were dropped."""

    arm: str
    case_id: str
    load: Load
    standing: Standing
    kind: Kind
    also: list[Kind]
    pairs: int
    differing: int
    token_index: int | None
    char_index: int | None
    margin_nat: float | None
    margin_at_least: bool
    why: str
    before: str | None = None
    baseline: str | None = None
    candidate: str | None = None


class TestMade(Model):
    """One test of the family. `detectable`: smallest true |value| that it finds with 0.9 power at the level of the
    strictest test; null where that cannot be said. `needs_cases`: of tests that are exact over cases, how many must
    differ in one arm alone."""

    arm: str
    name: str
    p: float | None
    adjusted_p: float | None
    alarm: bool
    value: float | None
    unit: str
    n_baseline: int
    n_candidate: int
    groups: int
    detectable: float | None = None
    needs_cases: int | None = None
    reason: str | None = None


class KnownCompared(Model):
    """Known answers: how many cases both arms, one or neither had right (in most of their passes)."""

    arm: str
    cases: int
    both: int
    baseline_only: list[str]
    candidate_only: list[str]
    neither: int
    reason: str | None = None


class AcceptanceCompared(Model):
    """Acceptance of a candidate's greedy answers against a reference, two-sided. `reference_run` null: its own first
    passes against its last."""

    arm: str
    reference_run: str | None
    reference: float | None
    now: float | None
    direction: Literal["low", "high"] | None
    p: float | None
    cases: int
    reason: str | None = None


class SameSeed(Model):
    """Sampled answers of one arm that were asked again with the same seed: how many came out the same."""

    arm: str
    asked: int
    same: int


class AskedAgain(Model):
    """Divergences at which the arms were asked for log probabilities. `unanswered`: why, and how many."""

    questions: int
    asked: int
    answered: int
    unanswered: dict[str, int]


class NumericsCompared(Model):
    """How far a candidate's log probabilities are from the baseline's where both say the same. `near_tie_nat`: margins
    up to it are near ties; those beyond it and up to `sure_nat` are none, but may be this candidate's numerics; those
    beyond `sure_nat` are neither. `p99_nat` null: too few `positions`."""

    arm: str
    positions: int
    p99_nat: float | None
    near_tie_nat: float
    sure_nat: float
    reason: str | None = None


class ArmQuality(Model):
    """One candidate, and why it is no pass, worst first."""

    arm: str
    state: State
    reasons: list[str]


class QualityResult(ExperimentResult):
    """`level`: chance of a false alarm of all tests together. `near_tie_nat`: margins up to it are numerics, from
    `near_tie_n` of the baseline's own divergences; `numerics`: up to where each candidate's own may have made a
    difference that is no near tie. `determinism`: by arm, the engine's mode as far as it tells. `text_kept` False:
    texts were dropped, and this result is all that is left of them."""

    kind: Literal["quality"] = "quality"
    baseline: str
    level: float
    near_tie_nat: float
    near_tie_n: int
    text_kept: bool
    asked_again: AskedAgain
    numerics: list[NumericsCompared] = Field(default_factory=list)
    arms: list[ArmQuality]
    passes: list[PassAsked]
    loads: list[LoadCompared]
    differences: list[DifferenceShown]
    tests: list[TestMade]
    known: list[KnownCompared]
    acceptance: list[AcceptanceCompared]
    same_seed: list[SameSeed]
    determinism: dict[str, dict[str, Any]]
