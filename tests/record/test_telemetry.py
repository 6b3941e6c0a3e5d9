"""Samples of the arms' hardware in the run directory, and GPU memory of every request."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadgen.drive import Attempt
from loadgen.observe import TelemetrySample
from loadgen.record import open_run
from server_adapters.telemetry import Reading

MS, S = 1_000_000, 1_000_000_000
GIB = 2**30


def sample(at_ms: int, *used: float, reason: str | None = None) -> TelemetrySample:
    readings = tuple(Reading("memory_used_bytes", "ab"[i], n * GIB, "7" if i else None) for i, n in enumerate(used))
    absent = {"energy_joules": "NVMLError_NotSupported: Not Supported"}
    return TelemetrySample("baseline", "nvml", at_ms * MS, at_ms * MS, reason, readings, absent)


@pytest.fixture
def sampled(whole: Any, manifest: Any, phase: Any, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """sampled(attempts, samples, finish=True) -> the run's directory"""
    open_writers: list[Any] = []

    def write(attempts: list[Attempt], samples: list[TelemetrySample], finish: bool = True) -> Path:
        made = whole(tmp_path / "runs", manifest())
        made.phase(phase())
        for one in attempts:
            made.attempt(one)
        for each in samples:
            made.writer.telemetry(each)
        if finish:
            made.finish("finished")
        else:
            made.flush()
            open_writers.append(made)
        return Path(made.path)

    yield write
    for made in open_writers:
        made.finish("finished")


def test_samples_come_back_as_they_were(sampled: Callable[..., Path], attempt: Callable[..., Attempt]) -> None:
    samples = [sample(900, 1, 2), sample(1100), sample(1200, reason="NVMLError_GpuIsLost: GPU is lost")]
    path = sampled([attempt()], samples)
    assert open_run(path).telemetry == tuple(samples)
    assert (path / "telemetry.parquet").exists()
    assert not (path / "telemetry.arrow").exists()


def test_a_request_has_the_most_memory_of_its_own_time(
    sampled: Callable[..., Path], attempt: Callable[..., Attempt]
) -> None:
    """Sent at 1 s, last token at 1.26 s: both GPUs at one time, not what came before or after; no sample inside is null
    with the reason, not a neighbour's."""
    samples = [sample(t, *used) for t, used in ((900, (90, 90)), (1100, (10, 5)), (1200, (2, 12)), (1300, (90, 90)))]
    late = attempt(index=1, sent_ns=1400 * MS, first_token_ns=1450 * MS, last_token_ns=1460 * MS)
    other = attempt(index=2, arm="ghost")
    rows = {row["seq"]: row for row in open_run(sampled([attempt(), late, other], samples)).requests.to_pylist()}
    assert rows[0]["gpu_mem_peak_bytes"] == 15 * GIB
    assert rows[1]["gpu_mem_peak_bytes"] is None
    why = "no sample of every GPU fell between sent and last token"
    assert orjson.loads(rows[1]["absent"])["gpu_mem_peak_bytes"] == why
    assert rows[2]["gpu_mem_peak_bytes"] is None
    assert "gpu_mem_peak_bytes" not in orjson.loads(rows[2]["absent"])


def test_a_run_that_goes_on_has_its_samples_and_peaks(
    sampled: Callable[..., Path], attempt: Callable[..., Attempt]
) -> None:
    """What a reader sees of a run that was killed, too: streams, joined as they are read."""
    run = open_run(sampled([attempt()], [sample(1100, 10), sample(1200, 11)], finish=False))
    assert [s.readings[0].value for s in run.telemetry] == [10 * GIB, 11 * GIB]
    assert run.requests["gpu_mem_peak_bytes"].to_pylist() == [11 * GIB]


def test_a_run_without_telemetry_has_no_file_and_no_problem(
    write_run: Callable[..., Path], attempt: Callable[..., Attempt]
) -> None:
    path = write_run([attempt()])
    assert open_run(path).telemetry == ()
    assert open_run(path).problems == ()
    assert list(path.glob("telemetry*")) == []
