"""The measured segments of one arm as time windows, with the server's side of each.

Steady window = (full_ns, load_end_ns], whole = (started_ns, ended_ns]. Of a segment that was never
closed (killed, power cut) the end is its last record (docs/method.md, "Windows").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Bools
from loadgen.analyze.frames import MEASURE, Frame
from loadgen.observe import CounterWindow, GaugeTrack, Scrape, window
from loadgen.record import PhaseRecord, RunData

Span = tuple[int, int]


@dataclass(frozen=True)
class SegmentWindow:
    """`steady` is None where the load never stood (reason beside it). `running`: (mean, samples) of the server's
    running batch over the steady window. `idle`: both edges seen idle; None = cannot be known."""

    phase: PhaseRecord
    whole: Span
    steady: Span | None
    steady_reason: str
    counters: CounterWindow
    running: tuple[float, int] | None
    idle: bool | None

    @property
    def label(self) -> str:
        return f"{self.phase.stage}, repeat {self.phase.repeat_idx}, segment {self.phase.segment}"


def windows_of(run: RunData, frame: Frame) -> tuple[SegmentWindow, ...]:
    """One for each measured segment of the frame's arm that was begun."""
    arm = frame.arm
    scrapes = [s for s in run.scrapes if s.arm == arm]
    model = run.manifest.arms[arm].model
    running = GaugeTrack(scrapes, arm, "running", model)
    phases = [p for p in _latest(run.phases) if p.arm == arm and p.phase == MEASURE]
    return tuple(_window(phase, frame, scrapes, model, running) for phase in phases)


def _latest(phases: Sequence[PhaseRecord]) -> list[PhaseRecord]:
    """The last record of every segment: it is written at its start and again at its end."""
    return list({p.segment: p for p in phases}.values())


def seconds(spans: Sequence[Span | None]) -> float:
    return sum((span[1] - span[0]) / 1e9 for span in spans if span is not None)


def _window(phase: PhaseRecord, frame: Frame, scrapes: list[Scrape], model: str, running: GaugeTrack) -> SegmentWindow:
    rows = frame.segment == phase.segment
    ended = phase.ended_ns if phase.ended_ns is not None else _last_record(phase, frame, rows)
    load_end = phase.load_end_ns if phase.load_end_ns is not None else ended
    full = phase.full_ns if phase.full_ns is not None else _full(phase, frame, rows)
    whole = (phase.started_ns, max(ended, phase.started_ns))
    steady = (full, load_end) if full is not None and full < load_end else None
    within = steady or whole
    return SegmentWindow(
        phase=phase,
        whole=whole,
        steady=steady,
        steady_reason="the load ended before all of it had started: there was no steady state",
        counters=window(scrapes, frame.arm, model, whole[0], whole[1], phase.segment),
        running=running.mean(within[0], within[1]),
        idle=_idle(phase),
    )


def _last_record(phase: PhaseRecord, frame: Frame, rows: Bools) -> int:
    ends = frame.end[0][rows & frame.end[1]]
    return int(ends.max()) if len(ends) else phase.started_ns


def _full(phase: PhaseRecord, frame: Frame, rows: Bools) -> int | None:
    """Open loop: the start. Closed loop: the first send that filled the plateau; None if none did.

    A row's own count is of its worker; over all workers, requests begun less requests ended. Those whose end
    was never recorded are not in it, so that this is never too early.
    """
    if phase.concurrency is None:
        return phase.started_ns
    sent = rows & frame.sent[1]
    begun, ended = np.sort(frame.sent[0][sent]), np.sort(frame.end[0][sent & frame.end[1]])
    at = frame.sent[0][sent]
    together = np.searchsorted(begun, at, side="right") - np.searchsorted(ended, at, side="right")
    filled = np.maximum(together, frame.in_flight[sent]) >= phase.concurrency
    return int(at[filled].min()) if filled.any() else None


def _idle(phase: PhaseRecord) -> bool | None:
    edges = [e.reached if e is not None else None for e in (phase.idle_before, phase.idle_after)]
    if False in edges:
        return False
    return None if None in edges else True
