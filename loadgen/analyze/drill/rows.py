"""The measured requests of a drill in the order of their sending, and which side answered each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.analyze.columns import Bools, Floats, Ints, bools, floats, ints, strings
from loadgen.analyze.found.drill import KnownBy
from loadgen.drive import Outcome

#: Sides. A request whose server is not known may be of either; one of `NEITHER` is of none.
SPECULATING, FALLBACK, UNKNOWN, NEITHER = 1, 0, -1, -2
#: So many answers before the first pull, all with statistics, say that an answer without them is the fallback's.
LEAST_TOLD = 5
#: Our own doing: neither the server nor the switch has lost them.
_OURS = frozenset({Outcome.ABORTED.value, Outcome.CLIENT_FAULT.value})


@dataclass(frozen=True)
class Rows:
    """One entry a request, by `begin_ns`: when it was sent, or was to be. `last_ns`: last token (end of the body where
    not streamed), 0 with `has_last` False where none came. `accepted` is NaN where the answer told none."""

    begin_ns: Ints
    end_ns: Ints
    last_ns: Ints
    has_last: Bools
    outcome: NDArray[np.object_]
    status: NDArray[np.object_]
    message: NDArray[np.object_]
    served_by: NDArray[np.object_]
    rounds: Floats
    accepted: Floats
    ttft_s: Floats
    tpot_s: Floats

    @property
    def ok(self) -> Bools:
        return np.asarray(self.outcome == Outcome.OK.value, dtype=np.bool_)

    @property
    def lost(self) -> Bools:
        return np.asarray([o not in _OURS and o != Outcome.OK.value for o in self.outcome], dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.begin_ns)


def rows_of(requests: pa.Table) -> Rows:
    """Measured ones of all segments."""
    table = requests.filter(np.asarray(strings(requests, "phase") == "measure", dtype=np.bool_))
    sent, due, end = ints(table, "sent_ns"), ints(table, "due_ns"), ints(table, "end_ns")
    begin = np.where(sent[1], sent[0], np.where(due[1], due[0], end[0]))
    table, begin = table.take(np.argsort(begin, kind="stable")), np.sort(begin, kind="stable")
    stream, outcome = bools(table, "stream"), strings(table, "outcome")
    last, end = ints(table, "last_token_ns"), ints(table, "end_ns")
    whole = ~stream & (outcome == Outcome.OK.value)
    return Rows(
        begin_ns=begin,
        end_ns=end[0],
        last_ns=np.where(whole, end[0], last[0]),
        has_last=np.asarray(last[1] | whole, dtype=np.bool_),
        outcome=outcome,
        status=strings(table, "error_status"),
        message=strings(table, "error_message"),
        served_by=np.asarray([last_of(value) for value in strings(table, "served_by")], dtype=object),
        rounds=floats(table, "verify_rounds"),
        accepted=floats(table, "accepted_tokens"),
        ttft_s=floats(table, "ttft_s"),
        tpot_s=floats(table, "tpot_s"),
    )


def last_of(served_by: str | None) -> str | None:
    """A gateway that tried several servers names all, in order: "a, b", or "a : b" after an internal redirect (nginx).
    The last one answered."""
    if served_by is None:
        return None
    return served_by.replace(" : ", ",").split(",")[-1].strip() or None


@dataclass(frozen=True)
class Sides:
    """Which side answered each row, how that is known, and what is to be said about it."""

    side: Ints
    known_by: KnownBy | None
    note: str


def sides_of(
    rows: Rows, speculating: Collection[str], fallback: Collection[str], first_pull_ns: int, counters: bool
) -> Sides:
    """By the gateway's header where the scenario says what it means, else by the statistics that only a speculating
    server puts into its answers; `counters`: these are left where there are none."""
    nobody = np.full(len(rows), UNKNOWN)
    if speculating:
        return _by_header(rows, frozenset(speculating), frozenset(fallback))
    before = rows.ok & (rows.end_ns < first_pull_ns)
    told = before & (rows.rounds > 0)
    if told.any():
        return _by_statistics(rows, int(told.sum()), int(before.sum()))
    if counters:
        why = "no header is named and no answer before the pull carried statistics of rounds"
        return Sides(nobody, "counters", f"{why}: only the servers' counters tell")
    return Sides(nobody, None, "no header is named, no answer carried statistics of rounds, no counters are named")


def without_straddlers(sides: Sides, rows: Rows, on_ns: Sequence[int]) -> Sides:
    """Where a server is switched and nobody is moved: a request that was under way when it was switched on has its
    rounds from then on, and tells nothing of when it was sent."""
    side = sides.side.copy()
    for at_ns in on_ns:
        side[(rows.begin_ns < at_ns) & (rows.end_ns >= at_ns) & (side == SPECULATING)] = NEITHER
    return replace(sides, side=side)


def _by_statistics(rows: Rows, told: int, before: int) -> Sides:
    """An answer without statistics is the fallback's only where the speculating servers' answers always carry them."""
    sure = told == before and before >= LEAST_TOLD
    side = np.where(rows.rounds > 0, SPECULATING, np.where(rows.ok & sure, FALLBACK, UNKNOWN))
    note = f"{told} of the {before} answers before the first pull carried statistics of rounds"
    if not sure:
        note += ": an answer without them may be a speculating server's too"
    return Sides(side, "statistics", note)


def _by_header(rows: Rows, speculating: frozenset[str], fallback: frozenset[str]) -> Sides:
    def side(value: str | None) -> int:
        if value is None:
            return UNKNOWN
        if value in speculating:
            return SPECULATING
        return FALLBACK if not fallback or value in fallback else NEITHER

    found = np.asarray([side(value) for value in rows.served_by], dtype=np.int64)
    missing = sum(value is None for value in rows.served_by)
    strange = Counter(v for v, s in zip(rows.served_by, found, strict=True) if v is not None and s == NEITHER)
    note = f"the header named a server of {len(rows) - missing} of {len(rows)} requests"
    if strange:
        others = ", ".join(f"{value} ({n})" for value, n in strange.most_common(3))
        note += f"; of neither side: {others}"
    return Sides(found, "header", note)
