"""What this machine can drive, and whether a plan asks for more: the last `specload doctor`, or cautious defaults."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadgen.errors import StorageError
from loadgen.plan import Peak

#: Without a measurement: what a slow shared core has been seen to do, halved.
DEFAULT_CHUNKS_PER_S = 2_000.0
DEFAULT_REQUESTS_PER_S = 300.0
#: Files that the process needs besides its connections.
OTHER_FILES = 64
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Step(_Model):
    """One load of paced streams. Errors are arrival stamp − send time. `held`: the client kept up; else `why`."""

    streams: int
    asked_chunks_per_s: float
    chunks_per_s: float
    lag_p50_s: float
    lag_p95_s: float
    cpu_share: float
    error_p50_s: float | None
    error_p99_s: float | None
    coalesced_share: float | None
    server_late_p99_s: float
    held: bool
    why: str | None


class SystemLimits(_Model):
    """What the operating system allows now. None where it does not tell."""

    files_soft: int
    files_hard: int | None
    ports: int | None
    somaxconn: int | None


class DoctorReport(_Model):
    """This machine's own ceiling. `chunks_per_s` is None where not even the smallest step held."""

    machine: str
    cpus: int
    python: str
    specload_version: str
    measured: str
    transport: str
    timestamp_source: str
    reader: str | None = None  # of the kernel transport: "c" or "python"; None = another transport
    clock_resolution_s: float
    clock_offset_uncertainty_s: float
    idle_lag_p50_s: float
    idle_lag_p95_s: float
    idle_lag_max_s: float
    requests_per_s: float
    chunks_per_s: float | None
    limited_by: str
    stamp_error_p50_s: float | None
    stamp_error_p99_s: float | None
    system: SystemLimits
    steps: list[Step] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """For one worker. `source` says where the rates come from; system limits are those of now."""

    chunks_per_s: float
    requests_per_s: float
    system: SystemLimits
    source: str


def machine_name() -> str:
    return f"{platform.node()} {platform.machine()}"


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def system_limits() -> SystemLimits:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    span = _numbers(_PORTS)
    listening = _numbers(_SOMAXCONN)
    return SystemLimits(
        files_soft=soft if soft != resource.RLIM_INFINITY else 2**31 - 1,
        files_hard=None if hard == resource.RLIM_INFINITY else hard,
        ports=span[1] - span[0] + 1 if len(span) == 2 else None,
        somaxconn=listening[0] if listening else None,
    )


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []


def stored_at() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "specload" / "doctor.json"


def save_doctor(report: DoctorReport) -> Path:
    """Keep the report for `check`. Raises StorageError."""
    path = stored_at()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(report.model_dump_json(indent=2))
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def stored_doctor() -> DoctorReport | None:
    """The last report, if it is of this machine as it is now. None: there is none, or it is of another one."""
    try:
        report = DoctorReport.model_validate_json(stored_at().read_bytes())
    except (OSError, ValidationError):
        return None
    same = (report.machine, report.cpus, report.python) == (machine_name(), cpu_count(), platform.python_version())
    return report if same else None


def ceiling() -> Ceiling:
    report, system = stored_doctor(), system_limits()
    if report is None or report.chunks_per_s is None:
        return Ceiling(
            DEFAULT_CHUNKS_PER_S, DEFAULT_REQUESTS_PER_S, system, "cautious defaults: specload doctor measures them"
        )
    return Ceiling(report.chunks_per_s, report.requests_per_s, system, f"specload doctor of {report.measured}")


def beyond(peak: Peak, assumption: str, found: Ceiling, workers: int = 1, cores: int | None = None) -> Iterator[str]:
    """A sentence for everything a plan asks of the client beyond what it can do (E20, C22).

    `workers` drive the plan. They do as much as that many times one, as far as there are `cores` (default: those
    of this process) for them; each has its own limit of open files; local ports are the machine's.
    """
    cores = cores or cpu_count()
    who = "one worker here does" if workers == 1 else f"{workers} workers here do"
    if workers > cores:
        who = f"{workers} workers on {cores} cores here do" if cores > 1 else f"{workers} workers on one core here do"
    for asked, of_one, what in (
        (peak.chunks_per_s, found.chunks_per_s, "chunks/s"),
        (peak.requests_per_s, found.requests_per_s, "requests/s"),
    ):
        limit = of_one * min(workers, cores)
        if asked > limit:
            yield (
                f"the plan peaks at about {asked:,.0f} {what} {assumption}, and {who} "
                f"{limit:,.0f} ({found.source}): beyond that the client's own lateness is measured"
            )
    files, ports = found.system.files_soft, found.system.ports
    needed = ceil(peak.streams / workers) + OTHER_FILES
    if needed > files:
        each = "this process" if workers == 1 else "each worker"
        yield (
            f"the plan peaks at about {peak.streams:,} connections, and {each} may open {files:,} files: "
            f"raise the limit (ulimit -n {needed})"
        )
    if ports is not None and peak.streams > ports:
        yield (
            f"the plan peaks at about {peak.streams:,} connections, and there are {ports:,} local ports to one "
            "address (net.ipv4.ip_local_port_range)"
        )
