"""What went wrong, by cause: the failures of an arm's measured requests, grouped, most first."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from loadgen.analyze.summary import Failure

_COLUMNS = ("arm", "phase", "outcome", "error_class", "error_status", "error_message", "task_type")


def failures_of(requests: pa.Table, arm: str) -> list[Failure]:
    """One entry per (outcome, class, status); `example` is the message most requests of it had."""
    rows = requests.select(_COLUMNS).to_pylist()
    failed = [r for r in rows if r["arm"] == arm and r["phase"] == "measure" and r["outcome"] != "ok"]
    causes: dict[tuple[str, str | None, int | None], list[dict[str, str | None]]] = defaultdict(list)
    for row in failed:
        causes[row["outcome"], row["error_class"], row["error_status"]].append(row)
    found = [
        Failure(
            outcome=outcome,
            error_class=error_class,
            error_status=status,
            n=len(rows),
            task_types=sorted({str(row["task_type"]) for row in rows}),
            example=_commonest([row["error_message"] for row in rows]),
        )
        for (outcome, error_class, status), rows in causes.items()
    ]
    return sorted(found, key=lambda f: (-f.n, f.outcome, f.error_class or ""))


def _commonest(messages: list[str | None]) -> str | None:
    told = [m for m in messages if m]
    return max(sorted(set(told)), key=told.count) if told else None
