"""Live aggregates and decisions. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Live:
    """What is known while a segment runs. Counts are of the whole run so far unless named otherwise.

    `recent_failures` of `recent_ended` last ended requests (at most 50) failed by the server's fault.
    `server_waiting`: the server's queue lengths of the last scrapes, oldest first, summed over pages.
    """

    sent: int
    output_tokens: int
    cost: float | None
    recent_ended: int
    recent_failures: int
    server_waiting: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Go on, or end the run: with the sentence that says why."""

    action: Literal["continue", "abort"]
    reason: str | None = None
