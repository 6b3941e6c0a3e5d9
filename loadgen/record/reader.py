"""Reads run directories: finished, still running, or left behind by a process that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from loadgen.errors import StorageError
from loadgen.observe import TelemetrySample
from loadgen.record.compact import scrapes_of, telemetry_samples
from loadgen.record.complete import BatchSizes, GpuPeaks, NullColumns, conform
from loadgen.record.files import EVENTS, MANIFEST, PHASES, is_being_written, read_stream, streams_of
from loadgen.record.schema import HEALTH, REQUESTS, SCRAPES, TELEMETRY
from loadgen.record.types import MANIFEST_SCHEMA, Event, Manifest, PhaseRecord, RunData, RunEntry

_PHASE = TypeAdapter(PhaseRecord)
_EVENT = TypeAdapter(Event)
T = TypeVar("T")


def open_run(path: Path | str) -> RunData:
    """A run in memory. Raises StorageError: no run there, unreadable, or of a newer version.

    A killed run has state "killed", and its torn ends are named in `problems`.
    """
    path = Path(path)
    manifest = read_manifest(path)
    problems: list[str] = []
    if manifest.state == "killed":
        problems.append("the run was killed: at most its last second is missing, and open segments have no end")
    scrape_table = _table(path, "scrapes", SCRAPES, problems)
    scrapes = tuple(sorted(scrapes_of(scrape_table), key=lambda s: (s.answered_ns, s.asked_ns)))
    telemetry = _telemetry(path, problems)
    events = _events(path, problems)
    requests = _table(path, "requests", REQUESTS, problems)
    if not (path / "requests.parquet").exists():
        requests = GpuPeaks(telemetry).fill(BatchSizes(scrapes, manifest.arms).fill(requests))
        nulls = NullColumns()
        nulls.add(requests)
        manifest.arms = nulls.complete(manifest.arms)
    return RunData(
        path=str(path),
        manifest=manifest,
        requests=requests,
        phases=_phases(path, problems),
        scrapes=scrapes,
        health=_table(path, "health", HEALTH, problems),
        problems=tuple(problems),
        telemetry=telemetry,
        events=events,
    )


def read_manifest(path: Path) -> Manifest:
    """manifest.json, checked; the state of a dead process that still says "running" is "killed"."""
    file = path / MANIFEST
    try:
        data = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        raise StorageError(f"{path}: not a run directory: it has no {MANIFEST}") from None
    except OSError as error:
        raise StorageError(f"{file}: cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise StorageError(f"{file}: not JSON: {error}") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{file}: not a specload manifest: it has no schema_version")
    if version > MANIFEST_SCHEMA:
        raise StorageError(
            f"{file}: written by a newer specload ({data.get('specload_version', 'unknown')}, record schema "
            f"{version}; this one reads up to {MANIFEST_SCHEMA}): upgrade specload to read it"
        )
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StorageError(f"{file}: {where}: {first['msg']}") from None
    if manifest.state == "running" and not is_being_written(path):
        manifest.state = "killed"
    return manifest


def list_runs(root: Path | str) -> list[RunEntry]:
    """All runs under `root`, newest first; directories that cannot be read are listed with the reason.

    A folder without manifest.json is not a run and is not listed. An absent root holds no runs.
    """
    root = Path(root)
    if not root.is_dir():
        return []
    entries: list[RunEntry] = []
    for path in root.iterdir():
        if not (path / MANIFEST).exists():
            continue
        try:
            found = read_manifest(path)
            verdict = _verdict(path)
            kind, arms = str(found.scenario.get("experiment", "run")), tuple(found.arms)
            entries.append(
                RunEntry(str(path), found.run_id, found.started, found.state, found, None, verdict, kind, arms)
            )
        except StorageError as error:
            entries.append(RunEntry(str(path), path.name, None, "unreadable", None, str(error)))
    return sorted(entries, key=lambda e: (e.started or "", e.run_id), reverse=True)


def _verdict(path: Path) -> str | None:
    """None where the run has not been judged, or its verdict cannot be read."""
    try:
        found = orjson.loads((path / "verdict.json").read_bytes())["verdict"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _table(path: Path, name: str, schema: pa.Schema, problems: list[str]) -> pa.Table:
    parquet, streams = path / f"{name}.parquet", streams_of(path, name)
    try:
        if parquet.exists():
            return conform(pq.read_table(str(parquet)), schema)
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{parquet}: cannot be read: {error}") from None
    if not streams:
        problems.append(f"neither {parquet.name} nor an .arrow file of {name} is there: no {name} were read")
        return schema.empty_table()
    tables: list[pa.Table] = []
    for batch in (batch for stream in streams for batch in read_stream(stream)):
        if isinstance(batch, str):
            problems.append(batch)
        else:
            tables.append(conform(pa.Table.from_batches([batch]), schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _telemetry(path: Path, problems: list[str]) -> tuple[TelemetrySample, ...]:
    """Nothing, without a problem, where no arm had a source."""
    if not (path / "telemetry.parquet").exists() and not streams_of(path, "telemetry"):
        return ()
    table = _table(path, "telemetry", TELEMETRY, problems)
    return tuple(sorted(telemetry_samples(table), key=lambda s: (s.answered_ns, s.asked_ns)))


def _phases(path: Path, problems: list[str]) -> tuple[PhaseRecord, ...]:
    """The last record of every segment, in the order in which they began."""
    if not (path / PHASES).exists():
        problems.append(f"{PHASES} is not there: no segment is known")
    return tuple({phase.segment: phase for phase in _lines_of(path, PHASES, _PHASE, problems)}.values())


def _events(path: Path, problems: list[str]) -> tuple[Event, ...]:
    return tuple(sorted(_lines_of(path, EVENTS, _EVENT, problems), key=lambda event: event.at_ns))


def _lines_of(path: Path, name: str, kind: TypeAdapter[T], problems: list[str]) -> Iterator[T]:
    """Each line of a JSON Lines file; nothing where there is none."""
    try:
        lines = (path / name).read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{name}: cannot be read: {error.strerror}")
        return
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield kind.validate_python(orjson.loads(line))
        except (orjson.JSONDecodeError, ValidationError):
            problems.append(f"{name}: line {number} is torn and was left out")
