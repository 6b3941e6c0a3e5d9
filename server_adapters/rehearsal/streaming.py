"""Server-sent events of one request: what is sent when nothing is wrong. `stream_faults` changes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from server_adapters.rehearsal.answers import (
    Card,
    MetricsLevel,
    TextStream,
    metrics_object,
    role_chunk,
    running_usage,
    text_chunk,
    usage_chunk,
    usage_object,
    whole_body,
)
from server_adapters.rehearsal.errors import engine_dead, error_object, json_response
from server_adapters.rehearsal.faults import Fault
from server_adapters.rehearsal.logprobs import LogprobsText
from server_adapters.rehearsal.runner import Delta, Runner, Stream
from server_adapters.rehearsal.types import RequestOutput, TokenLogprobs

DONE = b"data: [DONE]\n\n"
EVENT_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class Event(NamedTuple):
    """One or more events on their way. `tokens`: how many were sent with this one included; `due_s`: when the step of
    its tokens ended (None: no tokens)."""

    data: bytes
    tokens: int
    due_s: float | None = None


class SeveredError(Exception):
    """The connection is to be closed in the middle of the body."""


def sse(payload: Any) -> bytes:
    """One event."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


@dataclass(frozen=True, slots=True)
class StreamShape:
    """How a request wants its stream. `interval`: least tokens of a chunk between the first and the last."""

    usage: bool
    continuous: bool
    interval: int
    stop: tuple[str, ...]


class Events:
    """Makes the events of one stream; iterate once."""

    def __init__(
        self,
        runner: Runner,
        stream: Stream,
        card: Card,
        shape: StreamShape,
        level: MetricsLevel,
        faults: Mapping[str, Fault],
    ) -> None:
        self._stream, self._card, self._shape, self._level = stream, card, shape, level
        self._faults = faults
        self._text = TextStream(runner.engine.tokenizer, shape.stop)
        self._logprobs = logprobs_text(runner, stream, card)
        self._tokens = 0
        self._first = True
        self._role_sent = card.endpoint == "completions"

    async def __aiter__(self) -> AsyncIterator[Event]:
        if "early_role" in self._faults and not self._role_sent:
            yield self._role()
        held: list[int] = []
        told: list[TokenLogprobs] = []
        while True:
            delta = await self._stream.next()
            if delta.error is not None:
                yield Event(sse(error_object(delta.error, "InternalServerError", None, 500)), self._tokens)
                break
            if delta.final is not None and delta.final.finish_reason == "abort":
                return
            held += delta.token_ids
            told += delta.logprobs
            if len(held) < self._shape.interval and delta.final is None and not self._first:
                continue
            for event in self._chunks(held, told, delta):
                yield event
            held, told = [], []
            if delta.final is not None:
                if self._shape.usage:
                    yield Event(sse(self._last(delta.final)), self._tokens)
                break
        if "no_done" not in self._faults:
            yield Event(DONE, self._tokens)

    def _chunks(self, token_ids: list[int], told: list[TokenLogprobs], delta: Delta) -> list[Event]:
        """The chunk of these tokens, with the role chunk before (or, as a fault, after) the first."""
        role_now = not self._role_sent
        events = [self._role()] if role_now and "late_role" not in self._faults else []
        self._tokens += len(token_ids)
        text = self._text.feed(token_ids, delta.final)
        logprobs = None if self._logprobs is None else self._logprobs.feed(told)
        chunk = text_chunk(self._card, text, token_ids, delta.final, logprobs, first=self._first)
        if self._shape.continuous:
            chunk["usage"] = running_usage(self._card, self._tokens)
        elif delta.final is not None and not self._shape.usage:
            chunk["system_fingerprint"] = self._card.fingerprint
        self._first = False
        events.append(Event(sse(chunk), self._tokens, delta.due_s))
        if role_now and not self._role_sent:
            events.append(self._role())
        return events

    def _role(self) -> Event:
        self._role_sent = True
        usage = running_usage(self._card, 0) if self._shape.continuous else None
        return Event(sse(role_chunk(self._card, usage)), self._tokens)

    def _last(self, final: RequestOutput) -> dict[str, Any]:
        cached = final.num_cached_tokens if self._level.prompt_details else None
        usage = usage_object(final.num_prompt_tokens, final.num_output_tokens, cached)
        return usage_chunk(self._card, usage, metrics_object(final, self._level))


class StreamingAnswer(Response):
    """Sends events as they come, straight to ASGI; aborts the request when the client goes."""

    def __init__(self, runner: Runner, stream: Stream, events: AsyncIterator[Event]) -> None:
        super().__init__(headers=EVENT_HEADERS)
        del self.headers["content-length"]
        self._runner, self._stream, self._events = runner, stream, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await while_connected(self._send_all(send), self._runner, self._stream, receive)

    async def _send_all(self, send: Send) -> None:
        runner, stream = self._runner, self._stream
        try:
            async for data, _, due_s in self._events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                if due_s is not None:
                    runner.wrote(stream, due_s)
        except SeveredError:
            runner.abort(stream)
            return  # uvicorn closes a connection whose body is not complete
        runner.abort(stream)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WholeAnswer(Response):
    """Waits for the end and sends one body."""

    def __init__(self, runner: Runner, stream: Stream, card: Card, level: MetricsLevel) -> None:
        super().__init__()
        self._runner, self._stream, self._card, self._level = runner, stream, card, level

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer() -> None:
            response = await self._response()
            if response is not None:
                await response(scope, receive, send)

        await while_connected(answer(), self._runner, self._stream, receive)

    async def _response(self) -> Response | None:
        token_ids: list[int] = []
        told: list[TokenLogprobs] = []
        while True:
            delta = await self._stream.next()
            token_ids += delta.token_ids
            told += delta.logprobs
            if delta.error is not None:
                return json_response(engine_dead(delta.error).body(), 500)
            if delta.final is not None:
                break
        if delta.final.finish_reason == "abort":
            return None
        text = TextStream(self._runner.engine.tokenizer, ()).feed(token_ids, delta.final)
        shown = logprobs_text(self._runner, self._stream, self._card)
        logprobs = None if shown is None else shown.feed(told)
        body = whole_body(self._card, text, token_ids, delta.final, logprobs, self._level)
        self._runner.wrote(self._stream, delta.due_s)
        return json_response(body)


def logprobs_text(runner: Runner, stream: Stream, card: Card) -> LogprobsText | None:
    """What writes the log probabilities of an answer; None where they are not asked for."""
    top = stream.request.sampling.logprobs
    return None if top is None else LogprobsText(
        runner.engine.tokenizer, top, chat=card.endpoint == "chat", as_ids=card.tokens_as_ids
    )  # fmt: skip


async def while_connected(work: Any, runner: Runner, stream: Stream, receive: Receive) -> None:
    """Run `work` until it is done or the client has gone; then the request is aborted."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        runner.abort(stream)
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    message: Message = {"type": "http.request"}
    while message["type"] != "http.disconnect":
        message = await receive()
