"""The bare transport as a client of the truth server: closed loops without plan, ledger or records."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from loadgen.drive import Deadlines, Exchange, make_transport
from loadgen.drive.health import quiet_gc
from loadgen.drive.kernel import make_kernel_transport

S = 1_000_000_000
#: the server's send time (CLOCK_MONOTONIC ns) in a chunk, to the end of its first line
_SENT = re.compile(rb'"sm":"(\d{19})"[^\n]*\n')
_MAKERS: dict[str, Callable[..., httpx.AsyncBaseTransport]] = {
    "plain": make_transport,
    "kernel": make_kernel_transport,
}


async def closed_loop(
    kind: str,
    url: str,
    streams: int,
    requests: int,
    tokens: int,
    on_end: Callable[[Exchange], None],
    *,
    start_s: float = 1.0,
    context: ssl.SSLContext | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> tuple[float, float]:
    """`streams` slots, which begin evenly over `start_s`, make `requests` together. CPU and wall seconds of it.

    `beside()` runs meanwhile. `on_end` gets every exchange as it ends."""
    transport = _MAKERS[kind](Deadlines(30 * S, 30 * S, None, None), None, context)
    body = json.dumps({"prompt": "x" * 64, "max_tokens": tokens, "stream": True}).encode()
    left = iter(range(requests))
    begun_s = time.monotonic()

    async def slot(number: int) -> None:
        await asyncio.sleep(max(0.0, begun_s + start_s * number / streams - time.monotonic()))
        for _ in left:
            exchange = Exchange()
            request = httpx.Request("POST", f"{url}/v1/completions", content=body, extensions={"exchange": exchange})
            with contextlib.suppress(httpx.TransportError):  # the exchange says so
                await transport.handle_async_request(request)
            on_end(exchange)

    with quiet_gc():
        cpu_s = time.process_time()
        disturbing = None if beside is None else asyncio.create_task(beside())
        await asyncio.gather(*(slot(number) for number in range(streams)))
        cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - begun_s
        if disturbing is not None:
            disturbing.cancel()
    await transport.aclose()
    return cpu_s, wall_s


async def hold_the_loop(seconds: float, every_s: float) -> None:
    """Keep the event loop busy for so long, over and over, until cancelled: as a heavy callback does."""
    while True:
        await asyncio.sleep(max(0.0, every_s - seconds))
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass


def chunk_errors(exchange: Exchange) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Of each chunk: its stamp − its send time in ns, and whether it is the last of its arrival: the one whose time
    is known. The others are marked as coalesced."""
    found = list(_SENT.finditer(exchange.body))
    sent = np.array([int(match[1]) for match in found], dtype=np.int64)
    ends = np.array([match.end() for match in found], dtype=np.int64)
    piece = np.searchsorted(np.asarray(exchange.piece_end), ends)
    last = np.append(piece[1:] != piece[:-1], True)[: len(piece)]
    errors: NDArray[np.int64] = np.asarray(exchange.piece_ns)[piece] - sent
    return errors, last
