"""Server counters over the measured segments of an arm, summed (docs/method.md, "Sources")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.observe import CounterWindow


@dataclass(frozen=True)
class Counters:
    """Sum of disjoint windows. A family that is absent in one of them is absent here, with its reason."""

    deltas: dict[str, float]
    by_position: dict[str, tuple[float, ...]]
    by_detail: dict[str, dict[str, float]]
    absent: dict[str, str]
    restarts: int
    incomplete: tuple[str, ...]
    engines: int

    def get(self, name: str) -> float | None:
        return self.deltas.get(name)

    def why(self, name: str) -> str:
        return self.absent.get(name, "the server's metrics do not hold it")

    @property
    def whole(self) -> bool:
        """Nothing was missed at an edge or by a restart."""
        return not self.incomplete and self.restarts == 0


def combine(windows: Sequence[CounterWindow]) -> Counters:
    """No window gives no counters, all absent."""
    absent: dict[str, str] = {}
    for window in windows:
        absent |= window.absent
    return Counters(
        deltas=_summed([w.deltas for w in windows]),
        by_position=_positions([w.by_position for w in windows]),
        by_detail={
            name: _sum_all([w.by_detail.get(name, {}) for w in windows])
            for name in sorted({name for w in windows for name in w.by_detail})
        },
        absent=absent,
        restarts=sum(w.restarts for w in windows),
        incomplete=tuple(dict.fromkeys(reason for w in windows for reason in w.incomplete)),
        engines=max((w.engines for w in windows), default=0),
    )


def _summed(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Only names that every part has."""
    if not parts:
        return {}
    names = set.intersection(*(set(part) for part in parts))
    return {name: sum(part[name] for part in parts) for name in sorted(names)}


def _sum_all(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _positions(parts: Sequence[dict[str, tuple[float, ...]]]) -> dict[str, tuple[float, ...]]:
    if not parts:
        return {}
    names = set.intersection(*(set(part) for part in parts))
    total: dict[str, tuple[float, ...]] = {}
    for name in sorted(names):
        longest = max(len(part[name]) for part in parts)
        rows = [part[name] + (0.0,) * (longest - len(part[name])) for part in parts]
        total[name] = tuple(sum(column) for column in zip(*rows, strict=True))
    return total
