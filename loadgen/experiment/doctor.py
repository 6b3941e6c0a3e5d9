"""This machine's own ceiling: a client that is asked for more measures itself (docs/method.md, "Doctor")."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson

from loadgen import __version__
from loadgen.clock import anchor, now_ns
from loadgen.drive import Deadlines, Exchange, frame, quiet_gc
from loadgen.errors import SpecloadError
from loadgen.experiment.ceiling import DoctorReport, Step, cpu_count, machine_name, system_limits
from loadgen.experiment.driving import DEFAULT_TRANSPORT, TRANSPORTS

#: Makes the transport to be measured; one for each step.
TransportFactory = Callable[[], httpx.AsyncBaseTransport]

SERVER = Path(__file__).with_name("null_server.py")
START_TIMEOUT_S = 10.0
#: A stream is 20 chunks, 20 ms apart; each slot makes one after the other.
CHUNKS, EVERY_S = 20, 0.02
STREAM_S = CHUNKS * EVERY_S
#: What is looked at, once all slots have begun, evenly over one stream's length.
WINDOW_S = 0.6
FIRST_STREAMS, LAST_STREAMS, FACTOR, BISECTIONS = 16, 2048, 4, 2
REQUESTS_S, REQUEST_SLOTS = 0.7, 8
IDLE_S, LAG_SAMPLE_S = 0.5, 0.005
#: A step holds within the limits of a valid run: median lag of the loop, and the core; and while the chunks come.
LAG_LIMIT_S, CPU_LIMIT, DELIVERED = 0.005, 0.8, 0.85


class DoctorError(SpecloadError):
    """The null server did not start, or did not answer."""


@dataclass(slots=True)
class _Seen:
    """Arrivals of a step: when each chunk arrived, and its stamp − its send time."""

    arrival_ns: list[int] = field(default_factory=list)
    error_ns: list[int] = field(default_factory=list)
    coalesced: int = 0
    sources: set[str] = field(default_factory=set)

    def add(self, exchange: Exchange) -> None:
        """Frame and parse as a run does; a chunk's time is that of the read which completed it."""
        before = -1
        for event in frame(exchange.body):
            read = bisect_left(exchange.piece_end, event.end)
            arrival = exchange.piece_ns[read]
            self.arrival_ns.append(arrival)
            self.error_ns.append(arrival - orjson.loads(event.data)["sent_ns"])
            self.coalesced += read == before
            before = read
        self.sources.add(exchange.timestamp_source)


async def doctor(
    make: TransportFactory | None = None, say: Callable[[str], None] = lambda _: None, most_streams: int = LAST_STREAMS
) -> DoctorReport:
    """Measure a client of this machine against a null server in a child process, for ten to thirty seconds.

    Raises DoctorError. `make`: the transport to be measured, by default the one of a run. Nothing outside this
    machine is asked; `most_streams` bounds the largest step, the open-files limit does too.
    """
    make = make or _default_transport
    system = system_limits()
    most_streams = min(most_streams, max(FIRST_STREAMS, system.files_soft // 2))
    say("the idle event loop …")
    idle = await _lags(IDLE_S)
    async with _null_server() as url:
        with quiet_gc():
            say("requests/s …")
            rate = await _requests(make, url)
            steps, sources = await _climb(make, url, most_streams, say)
    steps.sort(key=lambda step: step.streams)
    held = [step for step in steps if step.held]
    best = max(held, key=lambda step: step.chunks_per_s, default=None)
    probe = make()
    await probe.aclose()
    return DoctorReport(
        machine=machine_name(),
        cpus=cpu_count(),
        python=platform.python_version(),
        specload_version=__version__,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        transport=type(probe).__name__,
        timestamp_source=", ".join(sorted(sources)),
        reader=getattr(probe, "reader", None),
        clock_resolution_s=time.get_clock_info("monotonic").resolution,
        clock_offset_uncertainty_s=anchor(16).uncertainty_ns / 1e9,
        idle_lag_p50_s=_rank(idle, 50),
        idle_lag_p95_s=_rank(idle, 95),
        idle_lag_max_s=max(idle),
        requests_per_s=rate,
        chunks_per_s=best.chunks_per_s if best else None,
        limited_by=next((step.why for step in steps if step.why), "not reached: the largest step held"),
        stamp_error_p50_s=steps[0].error_p50_s,
        stamp_error_p99_s=steps[0].error_p99_s,
        system=system,
        steps=steps,
    )


def _default_transport() -> httpx.AsyncBaseTransport:
    return TRANSPORTS[DEFAULT_TRANSPORT](Deadlines(5_000_000_000, 10_000_000_000, None, 20_000_000_000))


@asynccontextmanager
async def _null_server() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(SERVER), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        try:
            port = (await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT_S)).strip()
        except TimeoutError:
            port = b""
        if not port:
            raise DoctorError("the null server did not start")
        yield f"http://127.0.0.1:{port.decode()}"
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 2.0)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _climb(
    make: TransportFactory, url: str, most_streams: int, say: Callable[[str], None]
) -> tuple[list[Step], set[str]]:
    """Four times the streams until a step does not hold, then halfway between the last two, twice."""
    steps: list[Step] = []
    sources: set[str] = set()

    async def holds(streams: int) -> bool:
        for _ in range(2):  # one failure may be a neighbour's
            say(f"{streams:,} streams …")
            step = await _step(make, url, streams, sources)
            if step.held:
                break
        steps.append(step)
        return step.held

    held, streams = 0, min(FIRST_STREAMS, most_streams)
    while await holds(streams):
        held = streams
        if streams * FACTOR > most_streams:
            return steps, sources
        streams *= FACTOR
    for _ in range(BISECTIONS if held else 0):
        halfway = round((held * streams) ** 0.5)
        held, streams = (halfway, streams) if await holds(halfway) else (held, halfway)
    return steps, sources


async def _step(make: TransportFactory, url: str, streams: int, sources: set[str]) -> Step:
    seen, transport = _Seen(), make()
    try:
        await _ask(transport, f"{url}/late")
        end_ns = now_ns() + int((STREAM_S + WINDOW_S) * 1e9)
        slots = [
            asyncio.create_task(_slot(transport, url, i / streams * STREAM_S, end_ns, seen)) for i in range(streams)
        ]
        try:
            await asyncio.sleep(STREAM_S)
            from_ns, cpu_s = now_ns(), time.process_time()
            lags = await _lags(WINDOW_S)
            to_ns, used_s = now_ns(), time.process_time() - cpu_s
            await asyncio.gather(*slots)
        finally:
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, return_exceptions=True)
        late_ns = int((await _ask(transport, f"{url}/late")).body)
    finally:
        await transport.aclose()
    sources |= seen.sources
    return _judged(seen, streams, (from_ns, to_ns), lags, used_s, late_ns / 1e9)


async def _slot(transport: httpx.AsyncBaseTransport, url: str, after_s: float, end_ns: int, seen: _Seen) -> None:
    await asyncio.sleep(after_s)
    target = f"{url}/stream?n={CHUNKS}&every_us={round(EVERY_S * 1e6)}"
    while now_ns() < end_ns:
        seen.add(await _ask(transport, target))


def _judged(
    seen: _Seen, streams: int, window: tuple[int, int], lags: Sequence[float], cpu_s: float, late_s: float
) -> Step:
    seconds, asked = (window[1] - window[0]) / 1e9, streams / EVERY_S
    rate = sum(window[0] < at <= window[1] for at in seen.arrival_ns) / seconds
    errors = [error / 1e9 for error in seen.error_ns]
    lag, cpu = _rank(lags, 50), cpu_s / seconds
    why = None
    if lag > LAG_LIMIT_S:
        why = f"the client's event loop was mostly {lag * 1e3:.1f} ms late at {streams:,} streams"
    elif cpu > CPU_LIMIT:
        why = f"the client's core was {cpu:.0%} busy at {streams:,} streams"
    elif rate < DELIVERED * asked:
        late = f"the null server was {late_s * 1e3:.1f} ms late (P99)"
        why = f"{rate:,.0f} of {asked:,.0f} chunks/s came at {streams:,} streams; {late}"
    return Step(
        streams=streams,
        asked_chunks_per_s=asked,
        chunks_per_s=rate,
        lag_p50_s=lag,
        lag_p95_s=_rank(lags, 95),
        cpu_share=cpu,
        error_p50_s=_rank(errors, 50) if errors else None,
        error_p99_s=_rank(errors, 99) if errors else None,
        coalesced_share=seen.coalesced / len(errors) if errors else None,
        server_late_p99_s=late_s,
        held=why is None,
        why=why,
    )


async def _requests(make: TransportFactory, url: str) -> float:
    """Short requests one after the other in a few slots: requests/s of one core."""
    transport, done = make(), 0
    end_ns = now_ns() + int(REQUESTS_S * 1e9)

    async def slot() -> None:
        nonlocal done
        while now_ns() < end_ns:
            await _ask(transport, f"{url}/whole")
            done += 1

    begin_ns = now_ns()
    try:
        await asyncio.gather(*(slot() for _ in range(REQUEST_SLOTS)))
    finally:
        await transport.aclose()
    return done / ((now_ns() - begin_ns) / 1e9)


async def _ask(transport: httpx.AsyncBaseTransport, url: str) -> Exchange:
    exchange = Exchange()
    request = httpx.Request("GET", url, extensions={"exchange": exchange})
    try:
        await transport.handle_async_request(request)
    except httpx.TransportError as error:
        raise DoctorError(f"the null server could not be asked: {error}") from error
    return exchange


async def _lags(seconds: float) -> list[float]:
    """How much later than asked each of many short sleeps ended; the timers' grain of 1 ms is in it."""
    lags: list[float] = []
    end_ns = now_ns() + int(seconds * 1e9)
    while (asked_ns := now_ns()) < end_ns:
        await asyncio.sleep(LAG_SAMPLE_S)
        lags.append(max(0.0, (now_ns() - asked_ns) / 1e9 - LAG_SAMPLE_S))
    return lags


def _rank(values: Sequence[float], percent: int) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, -(-percent * len(values) // 100) - 1)]
