"""The thresholds that may end a run, between the workers that tell what ended and control that decides."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.clock import now_ns
from loadgen.control import Decision, LiveThresholds, Sample
from loadgen.plan import Plan
from loadgen.scenario import Scenario


class Watch:
    """Gives control's pure state the time: seconds since the first measured segment began."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self._thresholds = LiveThresholds(scenario.parsed_thresholds, list(scenario.arms), scenario.baseline)
        self._segments = {segment.number: segment for segment in plan.segments}
        self._began_ns: int | None = None

    @property
    def any(self) -> bool:
        return self._thresholds.any

    def began(self, at_ns: int) -> None:
        """A measured segment begins; the first one is time zero."""
        self._began_ns = at_ns if self._began_ns is None else self._began_ns

    def take(self, samples: Sequence[Sample]) -> None:
        self._thresholds.take(samples, self._segments, self._at_s())

    def decide(self) -> Decision:
        return self._thresholds.decide(self._at_s())

    def _at_s(self) -> float:
        return 0.0 if self._began_ns is None else (now_ns() - self._began_ns) / 1e9
