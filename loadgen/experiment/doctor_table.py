"""The doctor's findings as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.experiment.ceiling import DoctorReport, Step
from loadgen.experiment.driving import most_workers
from loadgen.report import count, percent, seconds

_READERS = {"c": "the C reader", "python": "Python: the C reader is not built", None: "the transport's library"}


def render_doctor(report: DoctorReport, console: Console) -> None:
    """One table of facts, one of the steps, and what ended the climb."""
    facts = _table(f"This machine, one core ({report.machine}, Python {report.python})", ("measure", "value"))
    for name, value in _facts(report):
        facts.add_row(name, value)
    console.print(facts)
    steps = _table(
        "Paced streams against the null server (20 ms a chunk)",
        ("streams", "chunks/s", "asked", "lag p50 / p95", "core", "stamp error p50 / p99", "coalesced", "held"),
    )
    for step in report.steps:
        steps.add_row(*_step(step))
    console.print(steps)
    console.print(Text(f"Ceiling of one worker: {_ceiling(report, 1)}. What ended the climb: {report.limited_by}."))
    most = most_workers(report.cpus)
    shared = f"at most {most} workers: {_ceiling(report, most)}" if most > 1 else "one worker"
    console.print(Text(f"On {count(report.cpus)} cores a run uses {shared}, unless told otherwise with --workers."))


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", overflow="fold")
    return table


def _ceiling(report: DoctorReport, workers: int) -> str:
    chunks = "no step held" if report.chunks_per_s is None else f"{count(workers * report.chunks_per_s)} chunks/s"
    return f"{chunks}, {count(workers * report.requests_per_s)} short requests/s"


def _facts(report: DoctorReport) -> Iterator[tuple[str, str]]:
    system = report.system
    yield "cores", count(report.cpus)
    yield "transport", report.transport
    yield "arrival stamps from", report.timestamp_source
    yield "sockets read by", _READERS[report.reader]
    yield "stamp error p50 / p99, smallest step", _pair(report.stamp_error_p50_s, report.stamp_error_p99_s)
    yield (
        "event loop lag when idle p50 / p95 / max",
        (f"{_pair(report.idle_lag_p50_s, report.idle_lag_p95_s)} / {seconds(report.idle_lag_max_s)}"),
    )
    yield "clock resolution", seconds(report.clock_resolution_s)
    yield "wall clock offset known to ±", seconds(report.clock_offset_uncertainty_s)
    yield "open files soft / hard", f"{count(system.files_soft)} / {count(system.files_hard)}"
    yield "local ports to one address", count(system.ports)
    yield "somaxconn", count(system.somaxconn)


def _step(step: Step) -> tuple[str, ...]:
    return (
        count(step.streams),
        count(step.chunks_per_s),
        count(step.asked_chunks_per_s),
        _pair(step.lag_p50_s, step.lag_p95_s),
        percent(step.cpu_share),
        _pair(step.error_p50_s, step.error_p99_s),
        percent(step.coalesced_share),
        "yes" if step.held else "no",
    )


def _pair(low: float | None, high: float | None) -> str:
    return seconds(None) if low is None else f"{seconds(low)} / {seconds(high)}"
