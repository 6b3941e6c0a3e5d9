"""What a drill is judged from: its pulls, its requests, and the speculating servers' pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Bools
from loadgen.analyze.drill.counters import Watched
from loadgen.analyze.drill.rows import Rows, Sides

CLIENT = "client"


@dataclass(frozen=True)
class Pull:
    """As its event says. `until_ns`: the next pull, or the end of the load, where it is the `last`."""

    number: int
    direction: Literal["off", "on"]
    at_ns: int
    until_ns: int
    last: bool
    took_s: float
    ok: bool
    said: str

    def since(self, at_ns: int) -> float:
        """Seconds from the pull, 0 before it."""
        return max(at_ns - self.at_ns, 0) / 1e9


@dataclass(frozen=True)
class Seen:
    """All that is known of a drill. `apart`: the sides are different servers, as far as the scenario says.
    `baseline_s`: the limit on the time until latency is back; None: there is none."""

    rows: Rows
    sides: Sides
    speculating: Watched
    apart: bool
    window: int
    begin_ns: int
    first_pull_ns: int
    baseline_s: float | None = None


def count(rows: Bools) -> int:
    return int(np.count_nonzero(rows))
