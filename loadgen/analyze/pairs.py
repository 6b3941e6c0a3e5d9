"""Both arms under one selection: which blocks and cases stand beside each other (docs/method.md, "Comparison")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.metrics import column, population
from loadgen.analyze.sides import Side
from loadgen.analyze.statistics import Estimate, log_ratio_t
from loadgen.analyze.values import CLIENT

#: Blocks that a reason names; it counts the others
NAMED = 3

BLOCKS = "blocks"


def unknown(reason: str, n: int = 0, unit: str = BLOCKS, source: str = CLIENT, level: float = 0.95) -> Estimate:
    return Estimate(None, None, None, n, unit, "none", source, reason, level)


def with_note(found: Estimate, note: str | None) -> Estimate:
    """A note beside what is already said."""
    if note is None:
        return found
    return replace(found, reason=note if found.reason is None else f"{found.reason}; {note}")


@dataclass(frozen=True)
class Pair:
    """The rows of both arms under one selection. `whole`: it is all requests of its stages, so that windows and
    counters are its own."""

    candidate: Side
    baseline: Side
    rows: Ints
    base_rows: Ints
    whole: bool

    @property
    def sides(self) -> tuple[tuple[Side, Ints], tuple[Side, Ints]]:
        return (self.candidate, self.rows), (self.baseline, self.base_rows)

    @cached_property
    def blocks(self) -> Ints:
        """The blocks that both arms finished, with a request of the selection in both."""
        asked = [_any_in(side, rows) for side, rows in self.sides]
        return np.flatnonzero(self._finished & asked[0] & asked[1])

    @property
    def _finished(self) -> Bools:
        return self.candidate.whole & self.baseline.whole

    @cached_property
    def unfinished(self) -> int:
        """Blocks of the selection's stages that not both arms finished, also where they never began them."""
        stage = np.array([key[0] for key in self.candidate.keys])
        asked = _any_in(self.candidate, self.rows) | _any_in(self.baseline, self.base_rows)
        return int((np.isin(stage, stage[asked]) & ~self._finished).sum())

    @cached_property
    def nothing_from(self) -> list[tuple[str, int]]:
        """(arm, block) of the finished blocks in which requests were asked for and the arm delivered not one."""
        asked = _any_in(self.candidate, self.rows) | _any_in(self.baseline, self.base_rows)
        found = []
        for side, rows in self.sides:
            empty = self._finished & asked & ~_any_in(side, rows[side.frame.net[rows]])
            found += [(side.name, int(at)) for at in np.flatnonzero(empty)]
        return found

    @cached_property
    def matched(self) -> tuple[Ints, Ints]:
        """Rows of the same cases, candidate and baseline, in usable blocks."""
        partner = self.candidate.partner[self.rows]
        there = np.zeros(self.baseline.frame.n + 1, dtype=np.bool_)
        there[self.base_rows] = True
        usable = (partner >= 0) & there[partner] & np.isin(self.candidate.block[self.rows], self.blocks)
        return self.rows[usable], partner[usable]

    def with_both(self, name: str) -> tuple[Ints, Ints, str | None]:
        """Matched rows that are ok and have the number in both arms, and how many others there are."""
        mine, theirs = self.matched
        good = self._has(self.candidate, name)[mine] & self._has(self.baseline, name)[theirs]
        asked = (population(self.candidate.frame, name)[mine]).sum()
        left_out = int(asked - good.sum())
        note = f"{left_out} of {int(asked)} cases left out: not ok, or without the number, in one arm or both"
        return mine[good], theirs[good], note if left_out else None

    @staticmethod
    def _has(side: Side, name: str) -> Bools:
        frame = side.frame
        found: Bools = frame.ok & population(frame, name) & ~np.isnan(column(frame, name))
        return found


def _any_in(side: Side, rows: Ints) -> Bools:
    """(blocks,) whether it holds one of `rows`."""
    mine = side.block[rows]
    found: Bools = np.bincount(mine[mine >= 0], minlength=len(side.keys)) > 0
    return found


def ratio_of_blocks(pair: Pair, candidate: Floats, baseline: Floats, level: float, source: str) -> Estimate:
    """Of one number a block and arm.

    Blocks that were not finished, or of which the number is not known, are left out and counted. A block in which an
    arm delivered nothing, or in which the number is 0, is a result: there is no ratio then, since the other blocks
    alone would say something else.
    """
    mine, theirs = candidate[pair.blocks], baseline[pair.blocks]
    why_not = nothing_from(pair) or _zero_in(pair, mine, theirs)
    if why_not:
        return unknown(f"not enough data: {why_not}", len(pair.blocks), source=source, level=level)
    known = ~(np.isnan(mine) | np.isnan(theirs))
    note = left_out(pair, int((~known).sum()))
    if not known.any():
        return unknown(note or "no design block is finished in both arms", source=source, level=level)
    couples, single = _couples(pair, pair.blocks[known])
    if not len(couples):
        return with_note(log_ratio_t(mine[known], theirs[known], level, source=source), note)
    return with_note(_of_couples(candidate, baseline, couples, level, source), _joined(note, single))


def _couples(pair: Pair, blocks: Ints) -> tuple[Ints, int]:
    """(couples, 2): of a run whose arms exchanged their nodes halfway, the k-th block before it of every stage with the
    k-th after it; and how many blocks have no other. Empty where nothing was exchanged in these blocks."""
    stage = np.array([key[0] for key in pair.candidate.keys])[blocks]
    after = pair.candidate.swapped[blocks]
    found: list[tuple[int, int]] = []
    for index in np.unique(stage):
        mine = stage == index
        found += zip(blocks[mine & ~after].tolist(), blocks[mine & after].tolist(), strict=False)
    return np.array(found, dtype=np.int64).reshape(-1, 2), len(blocks) - 2 * len(found)


def _of_couples(candidate: Floats, baseline: Floats, couples: Ints, level: float, source: str) -> Estimate:
    """What the nodes add to an arm in one half it takes from it in the other: in a couple it is gone, where between the
    blocks it would look like noise and widen the interval."""
    both = [np.sqrt(values[couples[:, 0]] * values[couples[:, 1]]) for values in (candidate, baseline)]
    found = log_ratio_t(both[0], both[1], level, source=source)
    method = f"{found.method}, each of a block before and one after the exchange"
    return replace(found, n=2 * len(couples), needs_n=found.needs_n and 2 * found.needs_n, method=method)


def _joined(note: str | None, single: int) -> str | None:
    left_out = f"{single} blocks left out: without a block in the other half" if single else None
    return "; ".join(part for part in (note, left_out) if part) or None


def nothing_from(pair: Pair) -> str | None:
    """ "candidate delivered nothing in block 3 of repeat 0 of c8: …"; None where there is no such block."""
    places = [f"{arm} delivered nothing in {_place(pair, at)}" for arm, at in pair.nothing_from]
    return f"{_some(places)}: the other blocks alone would say something else" if places else None


def _zero_in(pair: Pair, mine: Floats, theirs: Floats) -> str | None:
    places = [
        f"the number is 0 for {side.name} in {_place(pair, int(at))}"
        for (side, _), values in zip(pair.sides, (mine, theirs), strict=True)
        for at in pair.blocks[values <= 0]
    ]
    return f"{_some(places)}: a ratio with 0 says nothing" if places else None


def _place(pair: Pair, at: int) -> str:
    stages = {w.phase.stage_index: w.phase.stage for side, _ in pair.sides for w in side.data.windows}
    stage, repeat, block = pair.candidate.keys[at]
    return f"block {block} of repeat {repeat} of {stages[stage]}"


def _some(parts: list[str]) -> str:
    more = f", and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return f"{', '.join(parts[:NAMED])}{more}"


def left_out(pair: Pair, unknown_in: int = 0) -> str | None:
    """Blocks that are in no number of the pair, `unknown_in` of them since theirs is not known; None: all are."""
    parts = []
    if pair.unfinished:
        blocks = "1 block" if pair.unfinished == 1 else f"{pair.unfinished} blocks"
        parts.append(f"{blocks} left out: not driven to their end in both arms")
    if unknown_in:
        parts.append(f"{unknown_in} of {len(pair.blocks)} paired blocks left out: the number is not known in both arms")
    return "; ".join(parts) or None
