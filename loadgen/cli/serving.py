"""Live metrics of one command: served while it runs and a while after, and written at its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from loadgen.cli.base import complain, err
from loadgen.errors import ScenarioError, StorageError
from loadgen.export import Exporter, Metrics, write_textfile

MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="serve live metrics for Prometheus; 0 = any free port"),
]
MetricsHost = Annotated[str, typer.Option("--metrics-host", help="address that --metrics-port listens on")]
Linger = Annotated[
    float, typer.Option("--linger", min=0, help="seconds that metrics stay after the end: two scrape intervals")
]
Textfile = Annotated[
    Path | None, typer.Option("--textfile", help="write the metrics at the end, for node_exporter's textfile collector")
]
LOCAL = "127.0.0.1"


@contextmanager
def served(port: int | None, host: str, linger_s: float, textfile: Path | None) -> Iterator[Metrics | None]:
    """Metrics to fill while the command runs, or None where nobody asked for any. Whatever ends the command, what has
    begun is written, and stays for `linger_s` unless a signal ends that."""
    if port is None and linger_s:
        raise ScenarioError(["--linger has no meaning without --metrics-port"])
    if port is None and textfile is None:
        yield None
        return
    metrics = Metrics()
    exporter = None if port is None else Exporter(metrics, host, port)
    if exporter is not None:
        err.print(f"metrics: {exporter.url}", style="dim", markup=False, soft_wrap=True)
    try:
        yield metrics
    finally:
        if textfile is not None:
            _write(metrics, textfile)
        if exporter is not None:
            _linger(metrics, exporter, linger_s)
            exporter.close()


def _write(metrics: Metrics, path: Path) -> None:
    """A file that cannot be written is said, and costs neither the run nor its exit code."""
    try:
        write_textfile(metrics, path)
    except StorageError as error:
        complain(str(error))


def _linger(metrics: Metrics, exporter: Exporter, linger_s: float) -> None:
    if not linger_s or not metrics.begun:
        return
    err.print(
        f"metrics stay at {exporter.url} for {linger_s:g} s; Ctrl-C ends that", style="dim", markup=False,
        soft_wrap=True,
    )  # fmt: skip
    ended = Event()
    before = {name: signal.signal(name, lambda *_: ended.set()) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended.wait(linger_s)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
