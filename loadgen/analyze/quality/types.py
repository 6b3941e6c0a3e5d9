"""Plain data of the quality methods: outputs as they came, formats they were asked for, and results of tests."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadgen.analyze.quality.power import distance_detected, shift_detected

#: How one output differs from another (docs/quality.md, "Classes").
Kind = Literal[
    "identical", "near_tie", "text_after_stop", "early_stop", "finish_reason", "looping", "format_broken",
    "first_token", "divergent",
]  # fmt: skip

#: Chance of finding an effect that "detectable" stands for.
POWER = 0.9
_WORDS = re.compile(r"\s*\S+|\s+")


def words(text: str) -> list[str]:
    """The words of a text with the space before them; together they are the text."""
    return _WORDS.findall(text)


def pieces(outputs: Sequence[Output]) -> list[Sequence[Hashable]]:
    """The token ids of each output; where one of them has none, the words of all."""
    ids = [o.token_ids for o in outputs if o.token_ids is not None]
    return list(ids) if len(ids) == len(outputs) else [words(o.text) for o in outputs]


@dataclass(frozen=True, slots=True)
class Format:
    """What an answer was asked to be: any JSON, JSON that fits `schema` (draft 2020-12), or Python source."""

    kind: Literal["json", "json_schema", "python"]
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One answer of one arm.

    `token_ids` None: the server does not tell them; comparison is then by text. `stop`: stop strings that were asked
    for. `stop_ids`: token ids that end an output (EOS, asked stop ids); empty where they are not known or the request
    says ignore_eos. `mean_logprob`: mean log probability of the output's tokens in nat, where they were asked for.
    `n_tokens`: as the server counted them; `max_tokens`: what was asked for at most; None where not known.
    """

    case_id: str
    arm: str
    repeat: int
    token_ids: tuple[int, ...] | None
    text: str
    finish_reason: str | None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    format: Format | None = None
    stop_ids: tuple[int, ...] = ()
    mean_logprob: float | None = None
    n_tokens: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class QualityTest:
    """A test between two arms. p None: it could not be made, `reason` says why.

    `value`: candidate - baseline in `unit`, or a distance (no sign). `n_baseline`, `n_candidate`: outputs or samples
    used, in `groups` cases or contexts. `draws`: permutations drawn (0: exact). `null_mean`, `null_variance`: moments
    of the statistic under exchanged labels, which say what the test can see. `left_out`: groups without both arms.
    """

    name: str
    p: float | None
    value: float | None
    unit: str
    n_baseline: int
    n_candidate: int
    groups: int
    left_out: int
    draws: int
    null_mean: float | None = None
    null_variance: float | None = None
    distance: bool = False
    reason: str | None = None

    def detectable(self, level: float, power: float = POWER) -> float | None:
        """Smallest true |value| that this test, with these samples, finds at `level` with chance `power`.

        A shift: normal approximation. A distance: its null is matched to a chi-square by mean and variance, the
        alternative is the noncentral one (docs/quality.md, "Power"). None where the null distribution is not known.
        """
        if self.null_mean is None or self.null_variance is None or self.null_variance <= 0:
            return None
        if self.distance:
            return distance_detected(self.null_mean, self.null_variance, level, power)
        return shift_detected(self.null_variance, level, power)
