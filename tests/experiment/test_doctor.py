"""The doctor against its null server: what it finds is of the machine, that it finds it is tested."""

import io
import json
import sys
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from rich.console import Console

from loadgen.cli import driving
from loadgen.clock import now_ns
from loadgen.drive import Deadlines, Exchange, frame, make_transport
from loadgen.experiment import DoctorReport, doctor, render_doctor
from loadgen.experiment.ceiling import SystemLimits
from loadgen.experiment.doctor import DoctorError, _ask, _judged, _null_server, _rank, _Seen

ROOT = Path(__file__).resolve().parents[2]
DEADLINES = Deadlines(5_000_000_000, 10_000_000_000, None, 20_000_000_000)


async def test_the_null_server_sends_what_was_asked_at_its_pace() -> None:
    transport = make_transport(DEADLINES)
    async with _null_server() as url:
        before = now_ns()
        exchange = await _ask(transport, f"{url}/stream?n=5&every_us=10000")
        sent = [json.loads(event.data)["sent_ns"] for event in frame(exchange.body)]
        assert exchange.complete
        assert len(sent) == 5
        assert all(before + 10_000_000 * (i + 1) <= at for i, at in enumerate(sent))
        assert sent == sorted(sent)
        assert int((await _ask(transport, f"{url}/late")).body) >= 0
        assert int((await _ask(transport, f"{url}/late")).body) == 0
    await transport.aclose()


async def test_the_null_server_ends_with_its_user() -> None:
    children = {child.pid for child in psutil.Process().children()}
    async with _null_server():
        (mine,) = {child.pid for child in psutil.Process().children()} - children
    assert not psutil.pid_exists(mine)


async def test_a_server_that_is_gone_is_an_error() -> None:
    transport = make_transport(DEADLINES)
    async with _null_server() as url:
        pass
    with pytest.raises(DoctorError, match="the null server could not be asked"):
        await _ask(transport, f"{url}/whole")
    await transport.aclose()


class Counting(httpx.AsyncBaseTransport):
    """Any transport that fills exchanges can be measured."""

    reader = "c"

    def __init__(self) -> None:
        self.inner = make_transport(DEADLINES)
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        response = await self.inner.handle_async_request(request)
        request.extensions["exchange"].timestamp_source = "kernel"
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit whose looks are short: whether a number is good is not asked."""
    for name, seconds in (("WINDOW_S", 0.2), ("REQUESTS_S", 0.2), ("IDLE_S", 0.1)):
        monkeypatch.setattr(sys.modules[doctor.__module__], name, seconds)


async def test_a_whole_visit(briefly: None) -> None:
    """One step of two streams. Every number is there; whether it is good is the machine's affair."""
    made: list[Counting] = []

    def make() -> Counting:
        made.append(Counting())
        return made[-1]

    found = await doctor(make, most_streams=2)
    assert [(step.streams, step.asked_chunks_per_s) for step in found.steps] == [(2, 100.0)]
    assert (found.transport, found.timestamp_source, found.reader) == ("Counting", "kernel", "c")
    (step,) = found.steps
    assert step.error_p50_s is not None
    assert step.error_p99_s is not None
    assert 0 <= step.error_p50_s <= step.error_p99_s
    assert (found.stamp_error_p50_s, found.stamp_error_p99_s) == (step.error_p50_s, step.error_p99_s)
    assert found.requests_per_s > 0
    assert step.held == (found.chunks_per_s is not None) == (step.why is None)
    assert 0 <= found.idle_lag_p50_s <= found.idle_lag_p95_s <= found.idle_lag_max_s
    assert sum(one.asked for one in made) > 4
    console = Console(file=io.StringIO(), width=160)
    render_doctor(found, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for word in ("chunks/s", "stamp error", "open files", "local ports", "somaxconn", "clock", "Ceiling", "C reader"):
        assert word in text


@pytest.mark.parametrize(
    ("cpus", "said"),
    [
        (4, "On 4 cores a run uses at most 3 workers: 30,000 chunks/s, 3,000 short requests/s, unless told otherwise"),
        (2, "On 2 cores a run uses one worker, unless told otherwise with --workers."),
    ],
)
def test_the_ceiling_is_told_of_the_workers_that_a_run_uses(cpus: int, said: str) -> None:
    system = SystemLimits(files_soft=1024, files_hard=None, ports=None, somaxconn=None)
    report = DoctorReport(
        machine="m", cpus=cpus, python="3", specload_version="0", measured="now", transport="T", timestamp_source="u",
        clock_resolution_s=1e-9, clock_offset_uncertainty_s=1e-7, idle_lag_p50_s=0.0, idle_lag_p95_s=0.0,
        idle_lag_max_s=0.0, requests_per_s=1000.0, chunks_per_s=10_000.0, limited_by="core", stamp_error_p50_s=None,
        stamp_error_p99_s=None, system=system,
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=160)
    render_doctor(report, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert said in text
    assert "Ceiling of one worker: 10,000 chunks/s, 1,000 short requests/s" in text


def test_a_chunk_has_the_time_of_the_read_that_completed_it() -> None:
    """Three events in two reads; two of one read are one arrival."""
    event = b'data: {"sent_ns":%d}\n\n'
    body = event % 100 + event % 200 + event % 300
    one = len(event % 100)
    seen = _Seen()
    seen.add(
        Exchange(body=bytearray(body), piece_ns=array("q", [150, 350]), piece_end=array("q", [one + 3, len(body)]))
    )
    assert (seen.arrival_ns, seen.error_ns, seen.coalesced) == ([150, 350, 350], [50, 150, 50], 1)
    assert seen.sources == {"user"}


def seen_of(chunks: int) -> _Seen:
    """`chunks` arrivals evenly over one second, 100 µs after they were sent, one after 1 ms."""
    return _Seen([round((i + 1) * 1e9 / chunks) for i in range(chunks)], [100_000] * (chunks - 1) + [1_000_000])


@pytest.mark.parametrize(
    ("lag", "cpu", "chunks", "why"),
    [
        (0.005, 0.8, 85, None),
        (0.006, 0.1, 100, "the client's event loop was mostly 6.0 ms late at 2 streams"),
        (0.001, 0.81, 100, "the client's core was 81% busy at 2 streams"),
        (0.001, 0.1, 84, "84 of 100 chunks/s came at 2 streams; the null server was 3.0 ms late (P99)"),
    ],
)
def test_when_a_step_holds(lag: float, cpu: float, chunks: int, why: str | None) -> None:
    step = _judged(seen_of(chunks), 2, (0, 1_000_000_000), [lag], cpu, 0.003)
    assert (step.held, step.why) == (why is None, why)
    assert (step.chunks_per_s, step.asked_chunks_per_s) == (chunks, 100)
    assert (step.error_p50_s, step.error_p99_s) == (1e-4, 1e-4 if chunks == 100 else 1e-3)


def test_a_step_in_which_nothing_came() -> None:
    step = _judged(_Seen(), 2, (0, 1_000_000_000), [0.001], 0.1, 0.0)
    assert (step.held, step.error_p50_s, step.coalesced_share) == (False, None, None)


def test_nearest_rank() -> None:
    assert [_rank([3.0, 1.0, 2.0, 4.0], percent) for percent in (0, 50, 51, 99, 100)] == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_the_command(
    specload: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, briefly: None
) -> None:
    """JSON on stdout, the result kept for check. It climbs, here no further than the second step."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(driving, "doctor", partial(doctor, most_streams=64))
    done = specload("doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "specload" / "doctor.json").read_bytes())
    streams = [step["streams"] for step in json.loads(done.stdout)["steps"]]
    assert streams[0] == 16
    assert streams[-1] <= 64
