"""What happened: the run directory."""

from loadgen.observe import Idle
from loadgen.record.columns import COLUMNS, EXTRA_COLUMNS, Column
from loadgen.record.dropping import drop_texts
from loadgen.record.export import ExportKind, export_table, write_export
from loadgen.record.files import LOCK, hold_lock, is_being_written
from loadgen.record.reader import list_runs, open_run, read_manifest
from loadgen.record.schema import HEALTH, REQUESTS, SCRAPES, TELEMETRY, record_schema
from loadgen.record.types import ArmFacts, Event, Manifest, PhaseRecord, RunData, RunEntry
from loadgen.record.worker import WorkerRecords, WorkerRecordsSetup
from loadgen.record.writer import RunWriter, new_run_id

__all__ = [
    "COLUMNS",
    "EXTRA_COLUMNS",
    "HEALTH",
    "LOCK",
    "REQUESTS",
    "SCRAPES",
    "TELEMETRY",
    "ArmFacts",
    "Column",
    "Event",
    "ExportKind",
    "Idle",
    "Manifest",
    "PhaseRecord",
    "RunData",
    "RunEntry",
    "RunWriter",
    "WorkerRecords",
    "WorkerRecordsSetup",
    "drop_texts",
    "export_table",
    "hold_lock",
    "is_being_written",
    "list_runs",
    "new_run_id",
    "open_run",
    "read_manifest",
    "record_schema",
    "write_export",
]
