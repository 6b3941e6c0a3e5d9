"""Streams of a run's events: who may open how many, and what ends them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from loadgen.service.events import RunEvents, TooSlow, Watcher
from loadgen.service.problems import Problem
from loadgen.service.registry import RunRow

#: A comment, so that proxies and clients see that the stream lives.
HEARTBEAT_S = 15.0


class Watching:
    """Slots for streams, in all and for each token. On the service's loop only."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return self._open.total()

    def take(self, who: str) -> None:
        """A slot, until `leave`. Raises Problem."""
        if self._open[who] >= self._most_of_one:
            raise Problem(
                429, "too-many-watchers", f"{who} has {self._open[who]} streams open, and may have no more "
                "(limits.watchers_per_token)", headers={"Retry-After": "30"},
            )  # fmt: skip
        if self.open >= self._most:
            raise Problem(
                503, "too-many-watchers", "too many streams are open (limits.watchers)", headers={"Retry-After": "30"}
            )
        self._open[who] += 1

    def leave(self, who: str) -> None:
        self._open[who] -= 1
        if self._open[who] <= 0:
            del self._open[who]


class Stream(StreamingResponse):
    """`closed` is called once, also where the client had gone before the first byte."""

    def __init__(self, told: RunEvents, watcher: Watcher, closed: Callable[[], None]) -> None:
        super().__init__(_frames(told, watcher), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._told, self._watcher, self._closed = told, watcher, closed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._told.leave(self._watcher)
            self._closed()


async def settled(find: Callable[[], RunRow], events: Callable[[RunRow], RunEvents]) -> tuple[RunRow, RunEvents]:
    """A run's row and its events, of one moment: nothing was told while the row was read. Raises what `find` does."""
    row = await run_in_threadpool(find)
    while True:
        told = events(row)
        before = told.number
        row = await run_in_threadpool(find)
        if events(row) is told and told.number == before:
            return row, told


async def _frames(told: RunEvents, watcher: Watcher) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                event = await watcher.take()
        except TimeoutError:
            yield b": still there\n\n"
            continue
        except TooSlow:
            return
        if event is None:
            return
        yield event.frame(told.boot)
