"""A sweep as metrics: where it is while it runs, what it found at its end."""

from __future__ import annotations

from collections import Counter

from loadgen.analyze import PointState, SweepSummary
from loadgen.experiment.sweep_state import SweepState
from loadgen.export import Metrics, tell_sweep

STATES: tuple[PointState, ...] = ("done", "failed", "skipped", "interrupted", "pending")


class SweepMetrics:
    """Nothing is told where nobody asked for metrics."""

    def __init__(self, metrics: Metrics | None, state: SweepState) -> None:
        self._metrics = metrics
        self._id = state.sweep_id

    def progress(self, state: SweepState) -> None:
        if self._metrics is None:
            return
        counted = Counter(visit.state for visit in state.visits)
        for word in STATES:
            self._metrics.set("sweep_visits", counted[word], sweep_id=self._id, state=word)
        self._metrics.set("sweep_elapsed_seconds", state.elapsed_s, sweep_id=self._id)

    def told(self, summary: SweepSummary) -> None:
        if self._metrics is not None:
            tell_sweep(self._metrics, summary)
