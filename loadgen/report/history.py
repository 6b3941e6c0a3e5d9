"""The history: one line a run, sweep or canary."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.record import RunEntry
from loadgen.redact import printable
from loadgen.report.format import DASH


def render_runs(runs: Iterable[RunEntry], console: Console) -> None:
    """Newest first, as given; a run that cannot be read says why."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("run", "kind", "started (UTC)", "state", "verdict", "arms", "what happened"):
        table.add_column(column, overflow="fold", no_wrap=column == "run")
    for run in runs:
        manifest = run.manifest
        started = (run.started or DASH)[:19].replace("T", " ")
        arms = ", ".join(run.arms) or DASH
        said = "; ".join(filter(None, (manifest.stop_reason if manifest else None, run.problem)))
        verdict = Text(printable(run.verdict or DASH))
        table.add_row(run.run_id, run.kind or DASH, started, run.state, verdict, arms, Text(printable(said)))
    console.print(table)
