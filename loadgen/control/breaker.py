"""A dead engine fails at once, and fast: the circuit breaker stops hammering it, and says when it is back (J2). Pure;
time is told.

Two parts. A `Trip` sits where requests end, in every worker, and counts failures without a success between them: when
there are enough it opens, and the worker holds the load. The `Breaker` sits in the coordinator: it says when to look at
the server next, and decides from what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: What one ended request says of the engine: it serves; it may be dead; neither (refused for what it asked, cut by us).
Sign = Literal["alive", "dead", "none"]
#: Between two looks at a server that is dead: doubled from the first up to the last.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 5.0


@dataclass(slots=True)
class Trip:
    """Opens after `failures` in a row. A server that turned out to be alive gets twice as many until one succeeds, so
    that one that only refuses is not looked at all the time."""

    failures: int
    count: int = 0
    first_ns: int | None = None
    limit: int = field(init=False)
    open: bool = False

    def __post_init__(self) -> None:
        self.limit = self.failures

    def note(self, sign: Sign, at_ns: int) -> bool:
        """A request has ended; True when this one opens it. `first_ns`: when the first of the row ended."""
        if sign == "alive":
            self.count, self.first_ns, self.limit = 0, None, self.failures
        elif sign == "dead":
            self.first_ns = at_ns if self.count == 0 else self.first_ns
            self.count += 1
            if self.count >= self.limit and not self.open:
                self.open = True
                return True
        return False

    def release(self, *, was_alive: bool) -> None:
        """Go on. `was_alive`: the engine had never been dead."""
        self.limit = 2 * self.limit if was_alive else self.failures
        self.count, self.first_ns, self.open = 0, None, False


@dataclass(frozen=True, slots=True)
class Look:
    """Look at the server after so long. `trial`: and ask it something small: it must serve again, not only answer."""

    wait_s: float
    trial: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """Go on. `away_s`: for how long it was dead, as far as it was seen; None: it never was."""

    away_s: float | None


@dataclass(frozen=True, slots=True)
class Dead:
    """It did not come back in time."""

    away_s: float


@dataclass(slots=True)
class Breaker:
    """Of one arm, from its opening on. `first_s`: when the first request of the row failed. `wait_s`: how long a dead
    engine may stay away. `detected_s`: from the first failure to the look that said dead; None until then."""

    first_s: float
    wait_s: float
    detected_s: float | None = None
    _wait_s: float = FIRST_WAIT_S

    def begin(self) -> Look:
        return Look(0.0, trial=False)

    def seen(self, alive: bool, at_s: float) -> Look | Closed | Dead:
        """What a look has shown."""
        if self.detected_s is None:
            if alive:
                return Closed(None)
            self.detected_s = at_s - self.first_s
        elif alive:
            return Closed(at_s - self.first_s)
        away_s = at_s - self.first_s
        left_s = self.detected_s + self.wait_s - away_s
        if left_s <= 0:
            return Dead(away_s)
        wait_s = min(self._wait_s, left_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        return Look(wait_s, trial=True)
