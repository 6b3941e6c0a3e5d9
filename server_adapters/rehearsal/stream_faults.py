"""Faults inside a stream: each takes events and gives others. Only those that are set are in the way of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from server_adapters.rehearsal.errors import error_object
from server_adapters.rehearsal.faults import Fault
from server_adapters.rehearsal.streaming import DONE, Event, SeveredError, sse

KEEP_ALIVE = b": keep-alive\n\n"
Stage = Callable[[AsyncIterator[Event], Fault], AsyncIterator[Event]]


def with_faults(events: AsyncIterator[Event], faults: Mapping[str, Fault]) -> AsyncIterator[Event]:
    """The events with every fault that hits this request, nearest to the engine first."""
    for name, stage in _STAGES.items():
        if name in faults:
            events = stage(events, faults[name])
    return events


async def _stalled(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    waited = False
    async for event in events:
        yield event
        if not waited and event.tokens >= fault.number("at_tokens"):
            waited = True
            async for comment in _silence(fault.number("seconds"), fault.number("keep_alive_s"), event.tokens):
                yield comment


async def _silence(seconds: float, keep_alive_s: float, tokens: int) -> AsyncIterator[Event]:
    if keep_alive_s <= 0:
        await asyncio.sleep(seconds)
        return
    for _ in range(int(seconds / keep_alive_s)):
        await asyncio.sleep(keep_alive_s)
        yield Event(KEEP_ALIVE, tokens)


async def _with_error(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if event.tokens >= fault.number("at_tokens"):
            code = int(fault.number("code"))
            message = error_object("the rehearsal engine was told to fail here", "InternalServerError", None, code)
            yield Event(sse(message), event.tokens)
            yield Event(DONE, event.tokens)
            return


async def _truncated(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if event.tokens >= fault.number("at_tokens"):
            return


async def _severed(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if event.tokens >= fault.number("at_tokens"):
            raise SeveredError


async def _coalesced(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    held: list[Event] = []
    async for event in events:
        held.append(event)
        if len(held) >= fault.number("events"):
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


async def _buffered(events: AsyncIterator[Event], fault: Fault) -> AsyncIterator[Event]:
    held: list[Event] = []

    async def collect() -> None:
        async for event in events:
            held.append(event)

    task = asyncio.ensure_future(collect())
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=max(fault.number("hold_s"), 0.001))
            if held:
                yield _joined(held)
                held.clear()
        task.result()
    finally:
        task.cancel()


def _joined(events: list[Event]) -> Event:
    """Several events as one write; its time is that of the first tokens in it."""
    due = next((e.due_s for e in events if e.due_s is not None), None)
    return Event(b"".join(e.data for e in events), events[-1].tokens, due)


_STAGES: Mapping[str, Stage] = {
    "stall": _stalled,
    "in_stream_error": _with_error,
    "truncate": _truncated,
    "coalesce": _coalesced,
    "buffering_proxy": _buffered,
    "sever": _severed,
}
