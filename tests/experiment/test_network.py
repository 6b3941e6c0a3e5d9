"""The way to a server: what arrival times of a stream say, and servers that hold, delay or name their gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from loadgen.experiment.background import background, is_local
from loadgen.experiment.network import CLUMPS, HELD, NONE, Way, buffering, judge, round_trip
from server_adapters import adapter_named
from server_adapters.base import Target
from server_adapters.probing import NOTHING_KNOWN
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import RehearsalServer

MS = 1_000_000


@pytest.mark.parametrize(
    ("at_ms", "value"),
    [
        ([100 + 10 * i for i in range(32)], NONE),  # one token every 10 ms
        ([2000 + 2 * i for i in range(64)], NONE),  # a long wait, then fast tokens
        ([400 + 0.05 * i for i in range(32)], HELD),  # all at the end
        ([250 + 0.05 * i for i in range(16)] + [500 + 0.05 * i for i in range(16)], CLUMPS),
        ([250.0] * 14 + [258.0], CLUMPS),  # held for 250 ms, and the end just after
        ([20 * (i // 4) for i in range(4, 64)], NONE),  # four events a write: merged steps, not a held stream
    ],
)
def test_what_arrival_times_say(at_ms: list[float], value: str) -> None:
    found = judge(0, [round(at * MS) for at in at_ms])
    assert found.value == value
    assert found.source is not None
    assert found.source.startswith(f"a stream of {len(at_ms)} events: ")


@pytest.mark.parametrize(
    ("at_ms", "reason"),
    [
        ([100.0] * 7, "the test stream had 7 events, too few to tell"),
        ([], "the test stream had 0 events, too few to tell"),
        ([float(i) for i in range(49)], "the test stream was over after 48 ms, too soon to tell"),
    ],
)
def test_what_they_cannot_say(at_ms: list[float], reason: str) -> None:
    found = judge(0, [round(at * MS) for at in at_ms])
    assert (found.value, found.reason) == (None, reason)


@asynccontextmanager
async def rehearsal(**fields: Any) -> AsyncIterator[str]:
    server = RehearsalServer(RehearsalConfig(**{"model": "8b", **fields}))
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


async def held(url: str) -> str | None:
    target = Target(url, (f"{url}/metrics",), "rehearsal-8b", {})
    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
        found = await buffering(client, Way(adapter_named("vllm"), target, "rehearsal-8b", NOTHING_KNOWN, "chat"))
    assert found.value is not None, found.reason
    return str(found.value)


@pytest.mark.parametrize("spec", ["off", "draft:k=4"])
async def test_a_stream_that_comes_as_it_is_made(spec: str) -> None:
    async with rehearsal(spec=spec) as url:
        assert await held(url) == NONE


@pytest.mark.parametrize(("spec", "hold_s", "value"), [("off", 5, HELD), ("draft:k=4", 5, HELD), ("off", 0.2, CLUMPS)])
async def test_a_buffering_proxy_is_found(spec: str, hold_s: float, value: str) -> None:
    """A26: on either arm, whether it holds to the end or for a while."""
    async with rehearsal(spec=spec, faults=(f"buffering_proxy:hold_s={hold_s}",)) as url:
        assert await held(url) == value


async def test_a_stream_that_fails_is_a_reason() -> None:
    async with rehearsal(faults=("storm_503",)) as url, httpx.AsyncClient(timeout=20) as client:
        way = Way(adapter_named("vllm"), Target(url, (), None, {}), "rehearsal-8b", NOTHING_KNOWN, "chat")
        found = await buffering(client, way)
    assert (found.value, found.reason) == (None, "the test stream was answered with HTTP 503")


Serve = Callable[[bytes, float], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """serve(head lines, delay_s) -> URL of a server that answers everything with {} after a delay."""
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(head: bytes, delay_s: float) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.readuntil(b"\r\n\r\n"):
                    await asyncio.sleep(delay_s)
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + head + b"\r\n{}")
                    await writer.drain()
            except (ConnectionError, asyncio.IncompleteReadError):
                writer.close()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(answer(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_round_trip_and_gateway(serve: Serve) -> None:
    """Values of headers that name a hop, only the names of those that change with every answer."""
    head = b"server: envoy\r\nvia: 1.1 gate\r\nx-envoy-upstream-service-time: 7\r\ncf-ray: 8f2-AMS\r\ndate: now\r\n"
    url = await serve(head, 0.03)
    async with httpx.AsyncClient(timeout=20) as client:
        found = await round_trip(client, Target(url, (), None, {}))
    assert 0.03 <= found["network.round_trip_s"].value < 3
    assert found["network.gateway"].value == [
        "cf-ray",
        "server: envoy",
        "via: 1.1 gate",
        "x-envoy-upstream-service-time",
    ]


async def test_no_round_trip_is_a_reason() -> None:
    async with httpx.AsyncClient(timeout=5) as client:
        found = await round_trip(client, Target("http://127.0.0.1:9", (), None, {}))
    assert {fact.value for fact in found.values()} == {None}
    assert all("GET /v1/models was not answered" in (fact.reason or "") for fact in found.values())


async def test_background_load_is_seen_and_absence_is_a_reason() -> None:
    """H20: somebody else's request runs while we look; a page that cannot be read is no zero."""
    vllm = adapter_named("vllm")
    async with rehearsal(speed=0.2) as url, httpx.AsyncClient(timeout=20) as client:
        target = Target(url, (f"{url}/metrics",), None, {})
        assert {k: f.value for k, f in (await background(client, vllm, target)).items()} == {
            "load.running": 0.0, "load.waiting": 0.0,
        }  # fmt: skip
        body = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        async with client.stream("POST", f"{url}/v1/completions", json=body) as response:
            pieces = response.aiter_raw()
            await anext(pieces)
            assert (await background(client, vllm, target))["load.running"].value == 1.0
        unknown = await background(client, vllm, Target(url, (), None, {}))
        assert unknown["load.running"].reason == "the arm has no metrics page"
        html = await background(client, vllm, Target(url, (f"{url}/health",), None, {}))
        assert "cannot be read" in (html["load.waiting"].reason or "")


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://127.0.0.1:8", True), ("http://localhost:1", True), ("http://[::1]:2", True), ("http://10.0.0.1", False),
     ("https://gpu-7.example", False)],
)  # fmt: skip
def test_loopback_addresses_are_this_machine(url: str, local: bool) -> None:
    assert is_local(url) is local
