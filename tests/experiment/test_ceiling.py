"""What a plan asks of this client, held against what it can do."""

import platform
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import StorageError
from loadgen.experiment import ceiling as module
from loadgen.experiment.ceiling import (
    Ceiling,
    DoctorReport,
    SystemLimits,
    beyond,
    ceiling,
    cpu_count,
    machine_name,
    save_doctor,
    stored_doctor,
    system_limits,
)
from loadgen.plan import Peak

SYSTEM = SystemLimits(files_soft=1024, files_hard=4096, ports=28_232, somaxconn=4096)
ABLE = Ceiling(10_000, 1_000, SYSTEM, "specload doctor of today")


def report(**changes: Any) -> DoctorReport:
    content: dict[str, Any] = {
        "machine": machine_name(), "cpus": cpu_count(), "python": platform.python_version(), "specload_version": "0",
        "measured": "2026-01-01T00:00:00+00:00", "transport": "PlainTransport", "timestamp_source": "user",
        "clock_resolution_s": 1e-9, "clock_offset_uncertainty_s": 1e-7, "idle_lag_p50_s": 1e-4, "idle_lag_p95_s": 1e-3,
        "idle_lag_max_s": 1e-3, "requests_per_s": 900.0, "chunks_per_s": 12_000.0, "limited_by": "core",
        "stamp_error_p50_s": 1e-4, "stamp_error_p99_s": 1e-3, "system": SYSTEM,
    }  # fmt: skip
    return DoctorReport(**{**content, **changes})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "specload" / "doctor.json"


def test_a_plan_within_the_ceiling_gives_no_warning() -> None:
    assert list(beyond(Peak(960, 1_000.0, 10_000.0), "if", ABLE)) == []


def test_everything_beyond_is_named() -> None:
    """C22, E20: chunks, requests, open files (64 more than connections are needed), local ports."""
    warnings = list(beyond(Peak(30_000, 1_500.0, 1_500_000.0), "if answers stream", ABLE))
    assert warnings == [
        "the plan peaks at about 1,500,000 chunks/s if answers stream, and one worker here does 10,000 "
        "(specload doctor of today): beyond that the client's own lateness is measured",
        "the plan peaks at about 1,500 requests/s if answers stream, and one worker here does 1,000 "
        "(specload doctor of today): beyond that the client's own lateness is measured",
        "the plan peaks at about 30,000 connections, and this process may open 1,024 files: raise the limit "
        "(ulimit -n 30064)",
        "the plan peaks at about 30,000 connections, and there are 28,232 local ports to one address "
        "(net.ipv4.ip_local_port_range)",
    ]
    assert len(list(beyond(Peak(961, 1.0, 1.0), "if", ABLE))) == 1


def test_the_ceiling_is_that_of_the_workers_of_the_run() -> None:
    """C22: three do three times as much where there are cores for them; files are each one's own."""
    peak = Peak(2_000, 2_500.0, 30_000.0)
    assert list(beyond(peak, "if", ABLE, workers=3, cores=4)) == []
    assert [warning.split(" (")[0] for warning in beyond(peak, "if", ABLE, workers=3, cores=2)] == [
        "the plan peaks at about 30,000 chunks/s if, and 3 workers on 2 cores here do 20,000",
        "the plan peaks at about 2,500 requests/s if, and 3 workers on 2 cores here do 2,000",
    ]
    assert list(beyond(peak, "if", ABLE, workers=2, cores=2))[2] == (
        "the plan peaks at about 2,000 connections, and each worker may open 1,024 files: raise the limit "
        "(ulimit -n 1064)"
    )
    assert "30,001 chunks/s if, and 3 workers here do 30,000" in next(
        beyond(Peak(1, 1.0, 30_001.0), "if", ABLE, workers=3, cores=3)
    )


def test_ports_that_cannot_be_seen_are_not_judged() -> None:
    blind = Ceiling(1e9, 1e9, SYSTEM.model_copy(update={"ports": None, "files_soft": 10**6}), "x")
    assert list(beyond(Peak(100_000, 1.0, 1.0), "if", blind)) == []


def test_without_a_measurement_the_defaults_say_so() -> None:
    found = ceiling()
    assert (found.chunks_per_s, found.requests_per_s) == (2_000, 300)
    assert found.source == "cautious defaults: specload doctor measures them"
    assert found.system == system_limits()


def test_the_last_doctor_is_kept_and_used(cache: Path) -> None:
    assert save_doctor(report()) == cache
    assert stored_doctor() == report()
    found = ceiling()
    assert (found.chunks_per_s, found.requests_per_s) == (12_000, 900)
    assert found.source == "specload doctor of 2026-01-01T00:00:00+00:00"
    assert [p.name for p in cache.parent.iterdir()] == ["doctor.json"]


@pytest.mark.parametrize("changes", [{"machine": "other x86_64"}, {"cpus": 999}, {"python": "3.0.0"}])
def test_another_machine_says_nothing_of_this_one(changes: dict[str, Any]) -> None:
    save_doctor(report(**changes))
    assert stored_doctor() is None
    assert ceiling().chunks_per_s == 2_000


def test_a_doctor_that_found_no_step_to_hold_leaves_the_defaults() -> None:
    save_doctor(report(chunks_per_s=None))
    assert ceiling().chunks_per_s == 2_000


@pytest.mark.parametrize("text", ["", "{", '{"machine": 1}', "null"])
def test_a_broken_file_is_no_measurement(cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert stored_doctor() is None


def test_a_place_that_cannot_be_written(cache: Path) -> None:
    cache.parent.write_text("in the way")
    with pytest.raises(StorageError, match=r"doctor\.json: cannot be written"):
        save_doctor(report())


def test_system_limits_are_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E20: ports are counted with both ends; what cannot be read is None."""
    file = tmp_path / "ports"
    file.write_text("32768\t60999\n")
    monkeypatch.setattr(module, "_PORTS", file)
    monkeypatch.setattr(module, "_SOMAXCONN", tmp_path / "none")
    found = system_limits()
    assert (found.ports, found.somaxconn) == (28_232, None)
    assert found.files_soft > 0
