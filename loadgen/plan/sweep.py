"""Which settings a sweep visits, and in which order: seeded, the same on any machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import ceil

from loadgen.errors import ScenarioError
from loadgen.plan.streams import permutation
from loadgen.scenario import AxisValue, LoadedScenario, Scenario, Sweep

#: What an arm's place decides nothing about: the hash of a sweep is of what is asked, not of where.
_PLACES = ("url", "urls", "metrics_urls", "health_url")


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One visit. `index`: of its setting on the grid. `repeat`: the pass that it belongs to, whose visits ask the same
    cases and are compared with each other. `visit`: how often this setting was visited before."""

    index: int
    values: dict[str, AxisValue]
    baseline: bool
    repeat: int
    visit: int

    @property
    def slug(self) -> str:
        """For a folder's name: "k4-concurrency8-r0"."""
        parts = [f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}" for name, value in self.order()]
        return "-".join([*parts, f"r{self.repeat}"])

    @property
    def text(self) -> str:
        """ "concurrency 8, k 4"."""
        return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                         for name, value in self.values.items())  # fmt: skip

    def order(self) -> list[tuple[str, AxisValue]]:
        return list(self.values.items())


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """`points`: every visit, by setting and pass; `order`: the places in `points`, as they are driven. `hash`: over
    axes, order and everything of the scenario but where the arms are."""

    axes: dict[str, list[AxisValue]]
    baseline: dict[str, AxisValue]
    points: tuple[SweepPoint, ...]
    order: tuple[int, ...]
    hash: str

    @property
    def visits(self) -> tuple[SweepPoint, ...]:
        """In the order in which they are driven."""
        return tuple(self.points[i] for i in self.order)


def plan_sweep(loaded: LoadedScenario) -> SweepPlan:
    """The visits of the scenario's section `sweep`. Raises ScenarioError where there is none.

    Every pass begins with the baseline point; the others follow in an order of their own, and after `baseline_every` of
    them the baseline point comes again: what drifts meets all of them alike, and is seen at the baseline.
    """
    scenario, sweep = loaded.scenario, sweep_of(loaded)
    axes, baseline = sweep.axes, sweep.baseline_values
    settings = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    base = settings.index(baseline)
    others = [i for i in range(len(settings)) if i != base]
    driven: list[tuple[int, int]] = []
    for repeat in range(sweep.repeats):
        order = [others[i] for i in permutation(len(others), scenario.seed, "sweep", repeat).tolist()]
        for part in range(max(1, ceil(len(order) / sweep.baseline_every))):
            at = part * sweep.baseline_every
            driven += [(base, repeat), *((i, repeat) for i in order[at : at + sweep.baseline_every])]
    visits = _counted(driven, settings, base)
    ranked = sorted(range(len(visits)), key=lambda n: (visits[n].index, visits[n].visit))
    place = {n: i for i, n in enumerate(ranked)}
    points = tuple(visits[n] for n in ranked)
    order_driven = tuple(place[n] for n in range(len(visits)))
    return SweepPlan(axes, baseline, points, order_driven, _hash(scenario, points, order_driven))


def sweep_of(loaded: LoadedScenario) -> Sweep:
    if loaded.scenario.sweep is None:
        name = loaded.path or loaded.scenario.name
        raise ScenarioError([f"{name}: has no section sweep: say what is to be tried with sweep.over (docs/sweeps.md)"])
    return loaded.scenario.sweep


def _counted(driven: list[tuple[int, int]], settings: list[dict[str, AxisValue]], base: int) -> list[SweepPoint]:
    seen: dict[int, int] = {}
    found = []
    for index, repeat in driven:
        found.append(SweepPoint(index, settings[index], index == base, repeat, seen.get(index, 0)))
        seen[index] = seen.get(index, 0) + 1
    return found


def _hash(scenario: Scenario, points: tuple[SweepPoint, ...], order: tuple[int, ...]) -> str:
    told = scenario.model_dump(mode="json", exclude={"description": True, "arms": {"__all__": set(_PLACES)}})
    visits = [[p.index, p.values, p.repeat, p.visit] for p in points]
    content = json.dumps([told, visits, list(order)], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(content.encode()).hexdigest()
