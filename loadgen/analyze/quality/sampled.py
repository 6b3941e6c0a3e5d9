"""All tests on sampled outputs of two arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadgen.analyze.quality.formats import format_check
from loadgen.analyze.quality.loops import loop_in
from loadgen.analyze.quality.monte_carlo import MOST_DRAWS
from loadgen.analyze.quality.next_token import next_token_test, second_tokens
from loadgen.analyze.quality.paired import Paired, paired
from loadgen.analyze.quality.permutation import (
    DISTINCT,
    HISTOGRAM,
    LENGTH,
    MEAN_LOGPROB,
    Histogram,
    Statistic,
    permutation_test,
)  # fmt: skip
from loadgen.analyze.quality.types import Output, QualityTest


@dataclass(frozen=True, slots=True)
class Sampled:
    """`tests`: length, distinct_ngrams, mean_logprob, token_histogram, next_token. `looping`, `formats`: shares of
    outputs that loop, and of those whose format is valid."""

    tests: tuple[QualityTest, ...]
    looping: Paired
    formats: Paired

    def pvalues(self) -> dict[str, float | None]:
        """By name, for `family`."""
        return {**{t.name: t.p for t in self.tests}, "looping": self.looping.p, "formats": self.formats.p}


def sampled_tests(
    outputs: Sequence[Output],
    repeated: Sequence[Output],
    *,
    baseline: str,
    candidate: str,
    seed: int,
    most: int = MOST_DRAWS,
) -> Sampled:
    """`outputs`: answers with different seeds; `repeated`: many short ones (two tokens do) of few prompts.

    Every test has a stream of chance of its own; the same input and seed give the same p-values.
    """
    statistics: tuple[Statistic | Histogram, ...] = (LENGTH, DISTINCT, MEAN_LOGPROB, HISTOGRAM)
    tests = [
        permutation_test(outputs, s, baseline=baseline, candidate=candidate, seed=seed + i, most=most)
        for i, s in enumerate(statistics)
    ]
    tests.append(
        next_token_test(
            second_tokens(repeated), baseline=baseline, candidate=candidate, seed=seed + len(tests), most=most
        )
    )
    looping, formats = (
        paired(*(_by_case(outputs, arm, yes) for arm in (baseline, candidate)), seed=seed + len(tests) + i, most=most)
        for i, yes in enumerate((lambda o: loop_in(o) is not None, lambda o: format_check(o).valid))
    )
    return Sampled(tuple(tests), looping, formats)


def _by_case(outputs: Sequence[Output], arm: str, yes: Callable[[Output], bool | None]) -> dict[str, list[float]]:
    """0 or 1 of each of an arm's outputs that can be told."""
    found: dict[str, list[float]] = {}
    for one in outputs:
        if one.arm == arm and (told := yes(one)) is not None:
            found.setdefault(one.case_id, []).append(float(told))
    return found
