"""Any number of a run that a threshold may ask for, with its interval (docs/method.md, "Intervals of one arm").

Percentiles are of the all-sent view: failed and drain-cut requests count as +∞.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadgen.analyze import beside
from loadgen.analyze.absolute import Chosen, asked_of, estimate_of, hits_of
from loadgen.analyze.arms import ArmData, arm_data, baseline_of
from loadgen.analyze.columns import Ints
from loadgen.analyze.metrics import METRICS, quantile_of
from loadgen.analyze.pairs import Pair, unknown
from loadgen.analyze.sides import Side, block_key, planned_blocks, sides_of
from loadgen.analyze.speedup import SPEEDUP_MIXED, SpeedupKind, SpeedupOf, kind_alone, kind_of
from loadgen.analyze.statistics import LEVEL, Estimate
from loadgen.record import RunData

Where = tuple[tuple[str, str], ...]
#: Selectors besides `arm`; all but the first three split the requests of a stage
SELECTORS = ("stage", "concurrency", "rate_per_s", "task_type", "input_segment", "output_segment")
_OF_STAGES = SELECTORS[:3]
#: Shorter blocks are mostly filling and draining (docs/comparison.md, "Blocks")
SHORT_BLOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class Query:
    """`metric`: a name of `METRICS`. `aggregate`: "p50" … "p99.9", "avg", "max", "min", "count", or "value" of what is
    one number; of `tpot_s` also "pooled": Σ decode seconds ÷ Σ decode tokens. `where`: (selector, value), all must
    hold: `arm` and `SELECTORS`, measured phase only. `relative`: to the baseline in the same design blocks."""

    metric: str
    aggregate: str
    where: Where = ()
    relative: Literal["ratio", "difference"] | None = None


class Estimates:
    """What a run can say about itself. `baseline`: None with one arm. `blocks`: design blocks that all arms finished.

    `one_window`: the design drives a block of all arms in one window (interleaved, parallel, restart). `paired`: it
    does, and some candidate finished a block that the baseline finished too."""

    def __init__(
        self,
        run: RunData,
        arms: Mapping[str, ArmData] | None = None,
        baseline: str | None = None,
        design: str | None = None,
    ) -> None:
        data = {name: arm_data(run, name) for name in run.manifest.arms} if arms is None else dict(arms)
        scenario = run.manifest.scenario
        self.arms: tuple[str, ...] = tuple(data)
        named = baseline or baseline_of(run)
        self.baseline: str | None = named if named in data and len(data) > 1 else None
        self.design: str = (design or run.manifest.design).split(":")[0]
        planned = planned_blocks(run.manifest.comparison)
        self.sides: dict[str, Side] = sides_of(data, self.baseline, planned)
        #: stages that end by time: shown, not paired, and no part of a question that names no stage
        self.unpaired: frozenset[str] = frozenset((scenario.get("comparison") or {}).get("unpaired") or ())
        self.slos = scenario.get("slos") or {}
        self.seed = int(scenario.get("seed") or 0) % 2**32
        whole = np.logical_and.reduce([side.whole for side in self.sides.values()]) if self.sides else np.zeros(0)
        self.blocks: int = int(whole.sum()) if self.baseline is not None else 0
        self.one_window: bool = self.design not in ("sequential", "apart")
        self.paired: bool = self.one_window and self._any_common_block()
        self._cache: dict[tuple[Query, float], Estimate] = {}
        self._pairs: dict[tuple[str, Where], Pair | str] = {}

    def _any_common_block(self) -> bool:
        if self.baseline is None:
            return False
        base = self.sides[self.baseline].whole
        return any(bool((side.whole & base).any()) for name, side in self.sides.items() if name != self.baseline)

    def tasks(self) -> tuple[str, ...]:
        """Task types that were measured, in order of their names."""
        found = {t for side in self.sides.values() for t in side.frame.task_type if t is not None}
        return tuple(sorted(found))

    def stages(self) -> tuple[str, ...]:
        """Measured stages in the order of the plan."""
        found = {w.phase.stage_index: w.phase.stage for side in self.sides.values() for w in side.data.windows}
        return tuple(found[index] for index in sorted(found))

    def estimate(self, query: Query, level: float = LEVEL) -> Estimate:
        """Never raises for what is not there: `value` None and the reason."""
        key = (query, level)
        if key not in self._cache:
            self._cache[key] = self._estimate(query, level)
        return self._cache[key]

    def _estimate(self, query: Query, level: float) -> Estimate:
        spec = METRICS.get(query.metric)
        if spec is None:
            return unknown(f"there is no metric {query.metric}", level=level)
        where = dict(query.where)
        wrong = [name for name in where if name != "arm" and name not in SELECTORS]
        if wrong:
            return unknown(f"there is no selector {', '.join(wrong)}", level=level)
        arm = self._arm(where.pop("arm", None))
        if isinstance(arm, Estimate):
            return arm
        if spec.kind == "relative" or query.relative is not None:
            pair = self.pair(arm, where)
            return self._beside(pair, query, level) if isinstance(pair, Pair) else unknown(pair, level=level)
        return estimate_of(self.chosen(arm, where, level), query.metric, query.aggregate)

    def _arm(self, named: str | None) -> str | Estimate:
        """Without a name: the only arm, else the only candidate."""
        if named is not None:
            return named if named in self.sides else unknown(f"there is no arm {named}")
        others = [name for name in self.arms if name != self.baseline]
        if len(others) == 1:
            return others[0]
        return unknown(f"name the arm: there are {', '.join(self.arms)}")

    def chosen(self, arm: str, where: Mapping[str, str], level: float = LEVEL) -> Chosen:
        side = self.sides[arm]
        return Chosen(side, _rows(side, where), set(where) <= set(_OF_STAGES), self.slos, self.seed, level)

    def pair(self, arm: str, where: Mapping[str, str]) -> Pair | str:
        """The same selection of both arms; or why there is nothing to compare."""
        key = (arm, tuple(sorted(where.items())))
        if key not in self._pairs:
            self._pairs[key] = self._pair(arm, where)
        return self._pairs[key]

    def _pair(self, arm: str, where: Mapping[str, str]) -> Pair | str:
        if self.baseline is None:
            return "there is one arm only: nothing to compare it with"
        if arm == self.baseline:
            return f"{arm} is the baseline itself"
        side, base = self.sides[arm], self.sides[self.baseline]
        rows, base_rows = (self._comparable(one, _rows(one, where), where) for one in (side, base))
        return Pair(side, base, rows, base_rows, set(where) <= set(_OF_STAGES))

    def _comparable(self, side: Side, rows: Ints, where: Mapping[str, str]) -> Ints:
        if "stage" in where or not self.unpaired:
            return rows
        return rows[~np.isin(side.labels["stage"][rows].astype(str), sorted(self.unpaired))]

    def kind(self, pair: Pair) -> SpeedupKind:
        return kind_of(pair)

    def kind_alone(self, where: Where) -> SpeedupOf | None:
        """Of what a speedup of this selection of one arm is to be taken: its load decides. None: closed and open."""
        chosen = self.chosen(dict(where)["arm"], {name: value for name, value in where if name != "arm"})
        rows = self._comparable(chosen.side, chosen.rows, dict(where))
        return kind_alone(chosen.side, rows, chosen.whole)

    def short_blocks(self) -> Iterator[tuple[str, float]]:
        """Stages whose finished blocks lasted less than `SHORT_BLOCK_S`, with the median of their seconds."""
        stages = {w.phase.stage_index: w.phase.stage for side in self.sides.values() for w in side.data.windows}
        for index, stage in sorted(stages.items()):
            lengths = [
                length
                for side in self.sides.values()
                for key, length, whole in zip(side.keys, side.whole_s, side.whole, strict=True)
                if key[0] == index and whole
            ]
            if lengths and np.median(lengths) < SHORT_BLOCK_S:
                yield stage, float(np.median(lengths))

    def halves(self) -> Iterator[tuple[str, int, int]]:
        """Of each stage: the blocks that all arms finished before their nodes were exchanged, and after it."""
        sides = list(self.sides.values())
        swapped = {block_key(w): w.phase.swapped for side in sides for w in side.data.windows}
        whole = np.logical_and.reduce([side.whole for side in sides])
        driven = [(key[0], swapped[key]) for key, done in zip(sides[0].keys, whole, strict=True) if done]
        stages = {w.phase.stage_index: w.phase.stage for side in sides for w in side.data.windows}
        for index, stage in sorted(stages.items()):
            yield stage, driven.count((index, False)), driven.count((index, True))

    def mixed(self) -> bool:
        """The stages of a question without a stage are closed and open loops: each has a speedup of another kind."""
        pairs = [self.pair(arm, {}) for arm in self.arms]
        return any(isinstance(pair, Pair) and kind_of(pair).mixed for pair in pairs)

    def _beside(self, pair: Pair, query: Query, level: float) -> Estimate:
        spec, name = METRICS[query.metric], query.metric
        if spec.kind == "relative":
            return self._relative(pair, name, level)
        if spec.kind == "share" and query.relative == "difference":
            mine, theirs = (hits_of(side, name, self.slos) for side in (pair.candidate, pair.baseline))
            if isinstance(mine, str) or isinstance(theirs, str):
                return unknown(str(mine), level=level)
            asked = (asked_of(pair.candidate, name), asked_of(pair.baseline, name))
            return beside.difference_of_shares(pair, (mine, theirs), asked, level, self.seed)
        q = quantile_of(query.aggregate)
        if query.relative == "difference":
            return self._difference(pair, query, q, level)
        if spec.kind == "request" and q is not None:
            return beside.quantile_ratio(pair, name, q, level, self.seed)
        if spec.kind == "sample" and q is not None:
            return beside.sample_ratio(pair, name, q, level, self.seed)
        return self._ratio(pair, query, level)

    def _relative(self, pair: Pair, name: str, level: float) -> Estimate:
        if name == "speedup":
            kind = kind_of(pair)
            if kind.mixed:
                return unknown(SPEEDUP_MIXED, len(pair.blocks), level=level)
            found = self._relative(pair, "speedup_net" if kind.kind == "net_throughput" else "speedup_decode", level)
            return replace(found, method=f"{kind.name}: {found.method}")
        if name == "speedup_net":
            return beside.net_throughput(pair, level)
        if name == "speedup_total_time":
            return beside.mean_ratio(pair, "total_time_s", level, inverse=True)
        return beside.decode_parts(pair, level)[name]

    def _ratio(self, pair: Pair, query: Query, level: float) -> Estimate:
        if METRICS[query.metric].kind == "request" and query.aggregate == "avg":
            return beside.mean_ratio(pair, query.metric, level)
        if query.metric == "net_tokens_per_s":
            return beside.net_throughput(pair, level)
        if query.metric == "e_decode":
            return beside.decode_parts(pair, level)["e_ratio"]
        return beside.ratio_of_intervals(*self._apart(pair, query, level), level)

    def _apart(self, pair: Pair, query: Query, level: float) -> tuple[Estimate, Estimate]:
        """An interval of each arm in the blocks that both finished, so sure that both together are at `level`."""
        half, found = beside.half_level(level), []
        for side, rows in pair.sides:
            mine = rows[np.isin(side.block[rows], pair.blocks)]
            chosen = Chosen(side, mine, pair.whole, self.slos, self.seed, half)
            found.append(estimate_of(chosen, query.metric, query.aggregate))
        return found[0], found[1]

    def _difference(self, pair: Pair, query: Query, q: float | None, level: float) -> Estimate:
        spec = METRICS[query.metric]
        if spec.kind == "request" and q is None and query.aggregate == "avg":
            return beside.mean_difference(pair, query.metric, level, self.seed)
        return beside.difference_of_intervals(*self._apart(pair, query, level), level)


def _rows(side: Side, where: Mapping[str, str]) -> Ints:
    found = side.block >= 0
    for name, value in where.items():
        found = found & side.mask(name, value)
    return np.flatnonzero(found)
