"""The human log: what went wrong, when, to which request. Bounded; the whole number stands at its end."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from loadgen.clock import Anchor
from loadgen.drive import Attempt, Outcome
from loadgen.redact import Redactor

#: Lines of one kind that a worker writes out; how many there were is told at the end.
LINES_PER_KIND = 200
#: Kinds that are a habit of the server, not of a request: one line, and a count at the end (A6).
ONCE = frozenset({"no_done"})


class AnomalyLog:
    """Makes the lines; whoever holds it writes them."""

    def __init__(self, anchor: Anchor, redact: Redactor) -> None:
        self._offset_ns = anchor.wall_ns - anchor.mono_ns
        self._redact = redact
        self._seen: Counter[str] = Counter()

    def lines(self, attempt: Attempt) -> list[str]:
        """One line for each distinct kind of the attempt's warnings, and one if it failed."""
        failed = attempt.outcome is not Outcome.OK
        if not failed and not attempt.warnings:
            return []
        kinds = dict.fromkeys(attempt.warnings, "")
        if failed:
            status = "" if attempt.error_status is None else f" status {attempt.error_status}"
            why = attempt.error_class or "no class"
            kinds[attempt.outcome.value] = f"{why}{status}: {attempt.error_message or 'no message'}"
        where = f"arm={attempt.arm} segment={attempt.segment} request={attempt.request_id}"
        found = []
        for kind, detail in kinds.items():
            self._seen[kind] += 1
            if self._seen[kind] <= (1 if kind in ONCE else LINES_PER_KIND):
                found.append(self.line(f"{where} {kind}{' ' + detail if detail else ''}", attempt.end_ns))
        return found

    def line(self, text: str, at_ns: int) -> str:
        wall = datetime.fromtimestamp((at_ns + self._offset_ns) / 1e9, UTC)
        text = self._redact(text).replace("\r", " ").replace("\n", " ")
        return f"{wall.isoformat(timespec='milliseconds').replace('+00:00', 'Z')} {text}\n"


class Totals:
    """How many requests had each kind, from the rows themselves: of every worker, also of one that died."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    def add(self, table: pa.Table) -> None:
        """A kind counts once a row, however often its warnings name it, and its outcome too."""
        warnings, outcomes = table["warnings"].combine_chunks(), table["outcome"].combine_chunks()
        failed = pc.indices_nonzero(pc.not_equal(outcomes, pa.scalar(Outcome.OK.value)))
        rows = pa.concat_arrays([pc.list_parent_indices(warnings), failed.cast(pa.int64())])
        kinds = pa.concat_arrays([pc.list_flatten(warnings), outcomes.take(failed)])
        told = pa.table({"row": rows, "kind": kinds}).group_by(["row", "kind"]).aggregate([])
        self._kinds.update(str(kind) for kind in told["kind"].to_pylist())

    def lines(self) -> list[str]:
        return [f"total {kind}: {n} requests" for kind, n in sorted(self._kinds.items())]
