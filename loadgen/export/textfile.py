"""The metrics as a file: for node_exporter's textfile collector, after runs shorter than a scrape interval."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import generate_latest

from loadgen.errors import StorageError
from loadgen.export.store import Metrics


def write_textfile(metrics: Metrics, path: Path) -> None:
    """Whole or not at all: the collector may read at any time. Raises StorageError."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(generate_latest(metrics.registry))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from None
