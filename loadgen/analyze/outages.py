"""When an arm's engine was dead, by what the circuit breaker saw, and which requests failed meanwhile (J2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.frames import Frame
from loadgen.drive import Outcome
from loadgen.record import Event

_NOT_FAILED = (Outcome.OK.value, Outcome.ABORTED.value)


@dataclass(frozen=True, slots=True)
class Outage:
    """`detected_s`: from the first failure to the look that found it dead, for `how`. `away_s`: until it served again;
    None: it did not. `failed`: measured requests that ended meanwhile without success. `sure`: its health route said
    so, or nobody took a connection; else only requests had failed."""

    arm: str
    first_ns: int
    detected_s: float
    how: str
    away_s: float | None
    failed: int
    sure: bool = True


def outages_of(events: Sequence[Event], frame: Frame) -> tuple[Outage, ...]:
    """Of the frame's arm, in order of time."""
    found: list[Outage] = []
    first_ns: int | None = None
    dead: Event | None = None
    for event in events:
        if event.data.get("arm") != frame.arm:
            continue
        if event.name == "breaker_open":
            first_ns, dead = int(event.data["first_ns"]), None
        elif event.name == "engine_dead":
            dead = event
        elif event.name in ("engine_back", "engine_gone") and first_ns is not None and dead is not None:
            found.append(_outage(frame, first_ns, dead, event))
            first_ns = dead = None
    if first_ns is not None and dead is not None:  # the run ended first
        found.append(_outage(frame, first_ns, dead, None))
    return tuple(found)


def _outage(frame: Frame, first_ns: int, dead: Event, over: Event | None) -> Outage:
    back = over is not None and over.name == "engine_back"
    until = over.at_ns if over is not None and back else np.iinfo(np.int64).max
    ends = frame.end[0]
    during = frame.end[1] & (ends >= first_ns) & (ends <= until) & ~np.isin(frame.outcome.astype(str), _NOT_FAILED)
    away = float(over.data["away_s"]) if over is not None and back else None
    return Outage(
        frame.arm, first_ns, float(dead.data["detected_s"]), str(dead.data["how"]), away, int(during.sum()),
        bool(dead.data.get("sure", True)),
    )  # fmt: skip
