"""Clients that go at every stage, that send byte by byte, and that send no HTTP. What a real vLLM makes of the same is
in tests/vllm/test_disconnects.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
LONG = {"prompt": "def add(numbers):", "max_tokens": 3000, "ignore_eos": True}


def request(body: dict[str, Any]) -> bytes:
    """A whole HTTP/1.1 request; its head ends at the blank line."""
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\nConnection: close\r\n\r\n".encode() + content


async def connected(live: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(live.server.url.rsplit(":", 1)[1]))


def handled(status: str) -> str:
    return f'http_requests_total{{handler="/v1/completions",method="POST",status="{status}"}}'


@pytest.mark.parametrize("stage", ["inside the head", "before the body", "inside the body"])
async def test_a_client_that_goes_before_its_request_is_whole(start_server: Start, stage: str) -> None:
    """Nothing reaches the engine; the next client is served."""
    live = await start_server()
    whole = request(LONG)
    head = whole.index(b"\r\n\r\n") + 4
    _, writer = await connected(live)
    writer.write(whole[: {"inside the head": 30, "before the body": head, "inside the body": head + 20}[stage]])
    await writer.drain()
    if stage != "inside the head":
        await asyncio.sleep(0.05)  # the server has begun to wait for the body, or not yet: both are the same to it
    writer.close()
    if stage != "inside the head":

        async def counted() -> bool:
            return (await live.metrics()).get(handled("4xx")) == 1

        await live.until(counted)
    assert (await live.post("/v1/completions", {**LONG, "max_tokens": 2})).status_code == 200
    assert (await live.truth())["counters"]["request_success"] == {"stop": 0, "length": 1, "abort": 0, "error": 0}


@pytest.mark.parametrize("stage", ["before the answer", "inside the stream", "before a whole answer"])
async def test_a_client_that_goes_ends_its_request_and_frees_its_blocks(start_server: Start, stage: str) -> None:
    """H20: aborted at once, whether or not it ever got a byte."""
    live = await start_server(speed=1.0)
    reader, writer = await connected(live)
    writer.write(request({**LONG, "stream": stage != "before a whole answer"}))
    await live.truth_has("gauges", "num_blocks_used")
    if stage == "inside the stream":
        await reader.readuntil(b"data: ")
    writer.close()

    async def free() -> bool:
        gauges = (await live.truth())["gauges"]
        return gauges["num_requests_running"] == gauges["num_blocks_used"] == 0

    await live.until(free)
    told = await live.truth()
    assert told["counters"]["request_success"]["abort"] == 1
    assert told["requests"][0]["finish_reason"] == "abort"
    assert told["requests"][0]["num_output_tokens"] < 3000

    async def counted() -> bool:
        return (await live.metrics()).get(handled("2xx")) == 1

    await live.until(counted)


async def test_a_slow_body_is_waited_for(start_server: Start) -> None:
    """Byte by byte; others are served meanwhile."""
    live = await start_server()
    reader, writer = await connected(live)
    sent = request({"prompt": "a", "max_tokens": 1})
    for at in range(len(sent)):
        writer.write(sent[at : at + 1])
        await writer.drain()
        if at == len(sent) // 2:
            assert (await live.post("/v1/completions", {"prompt": "a", "max_tokens": 1})).status_code == 200
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x00garbage\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
async def test_what_is_no_http(start_server: Start, sent: bytes) -> None:
    live = await start_server()
    reader, writer = await connected(live)
    writer.write(sent)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request")
    writer.close()
    assert (await live.http.get("/health")).status_code == 200
