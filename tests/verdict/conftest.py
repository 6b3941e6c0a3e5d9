"""Evidence made of hand-written intervals, and facts of a run that is all right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from loadgen.scenario import Relative, parse_threshold
from loadgen.verdict import Facts, Verdict, judge

Where = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Made:
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 480
    unit: str = "requests"
    method: str = "by hand"
    source: str = "test"
    reason: str | None = None
    needs_n: int | None = None


@dataclass
class Answers:
    """`by_metric` gives the 95 % interval; at a stricter level it is `wider` on both sides."""

    by_metric: dict[str, Made]
    wider: float = 0.0
    sent: int = 480
    asked: list[tuple[str, str, Where, Relative | None, float]] = field(default_factory=list)

    def answer(self, metric: str, aggregate: str, where: Where, relative: Relative | None, level: float) -> Made:
        self.asked.append((metric, aggregate, where, relative, level))
        found = self.by_metric[metric]
        if level == 0.95 or found.low is None or found.high is None:
            return found
        return replace(found, low=found.low - self.wider, high=found.high + self.wider)

    def samples(self, metric: str, where: Where) -> int:
        return self.sent


TWO = Facts("r-1", ("baseline", "candidate"), "baseline", "interleaved", True, 24)
ONE = Facts("r-1", ("only",))


@pytest.fixture
def made() -> type[Made]:
    return Made


@pytest.fixture
def answers() -> type[Answers]:
    return Answers


@pytest.fixture
def verdict_of() -> Callable[..., Verdict]:
    """verdict_of({"ttft_s: p(95)<0.5": Made(…)}, arms=…, wider=…, sent=…, **facts)"""

    def make(told: dict[str, Made], *, wider: float = 0.0, sent: int = 480, one: bool = False, **facts: Any) -> Verdict:
        thresholds = [parse_threshold(text) for text in told]
        by_metric = {t.metric: answer for t, answer in zip(thresholds, told.values(), strict=True)}
        found = judge(thresholds, Answers(by_metric, wider, sent), replace(ONE if one else TWO, **facts))
        assert found is not None
        return found

    return make
