"""How late the process is: outputs against the end of their step on the engine's own time axis."""

from __future__ import annotations

from dataclasses import dataclass

SATURATED_LAG_S = 0.05
_SATURATED_FOR_S = 5.0


@dataclass(slots=True)
class Lag:
    """How late outputs are written, against the end of their step. Seconds."""

    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0
    last_s: float = 0.0
    forgone_s: float = 0.0
    saturated_at_s: float = -1e9

    def observe(self, late_s: float, now_s: float) -> None:
        """One output written `late_s` after its time."""
        self.count += 1
        self.total_s += late_s
        self.last_s = late_s
        if late_s > self.max_s:
            self.max_s = late_s
        if late_s > SATURATED_LAG_S:
            self.saturated_at_s = now_s

    def give_up(self, late_s: float, now_s: float) -> None:
        """The axis moves by `late_s`."""
        self.forgone_s += late_s
        self.saturated_at_s = now_s

    def saturated(self, now_s: float) -> bool:
        """Whether an output of the last seconds was later than SATURATED_LAG_S."""
        return now_s - self.saturated_at_s < _SATURATED_FOR_S

    def shown(self, now_s: float) -> dict[str, float | int | bool | None]:
        """For JSON."""
        return {
            "outputs": self.count,
            "mean_s": self.total_s / self.count if self.count else None,
            "max_s": self.max_s,
            "last_s": self.last_s,
            "forgone_s": self.forgone_s,
            "saturated": self.saturated(now_s),
        }
