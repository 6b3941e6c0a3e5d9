"""Evidence made of hand-written intervals, and facts of a run that is all right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from loadgen.analyze import Estimate, Query
from loadgen.scenario import parse_threshold
from loadgen.verdict import Facts, Verdict, judge


def estimate(
    value: float | None = None,
    low: float | None = None,
    high: float | None = None,
    n: int = 480,
    unit: str = "requests",
    **more: Any,
) -> Estimate:
    return Estimate(value, low, high, n, unit, "by hand", "test", **more)


@dataclass
class Answers:
    """`by_metric` gives the 95 % interval; at a stricter level it is `wider` on both sides."""

    by_metric: dict[str, Estimate]
    wider: float = 0.0
    sent: int = 480
    asked: list[tuple[Query, float]] = field(default_factory=list)

    def estimate(self, query: Query, level: float = 0.95) -> Estimate:
        if query.aggregate == "count":
            return estimate(self.sent, self.sent, self.sent, self.sent)
        self.asked.append((query, level))
        found = self.by_metric[query.metric]
        if level == 0.95 or found.low is None or found.high is None:
            return found
        return replace(found, low=found.low - self.wider, high=found.high + self.wider)


TWO = Facts("r-1", ("baseline", "candidate"), "baseline", "interleaved", True, 24)
ONE = Facts("r-1", ("only",))


@pytest.fixture
def made() -> Callable[..., Estimate]:
    return estimate


@pytest.fixture
def answers() -> type[Answers]:
    return Answers


@pytest.fixture
def verdict_of() -> Callable[..., Verdict]:
    """verdict_of({"ttft_s: p(95)<0.5": made(…)}, arms=…, wider=…, sent=…, **facts)"""

    def make(
        told: dict[str, Estimate], *, wider: float = 0.0, sent: int = 480, one: bool = False, **facts: Any
    ) -> Verdict:
        thresholds = [parse_threshold(text) for text in told]
        by_metric = {t.metric: answer for t, answer in zip(thresholds, told.values(), strict=True)}
        found = judge(thresholds, Answers(by_metric, wider, sent), replace(ONE if one else TWO, **facts))
        assert found is not None
        return found

    return make
