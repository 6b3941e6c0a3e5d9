"""From the bytes of one answer to its ledger and facts: docs/method.md, "Per request"."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from loadgen.drive.rows import Bearing, Ints, Rows
from loadgen.drive.sse import MAX_EVENT_BYTES, Event, Framer, is_done, plain_payloads
from loadgen.drive.types import Exchange
from server_adapters.base import Adapter, Chunk, ChunkRun, ServerError, ServerTimings, SpecStats

ParseRun = Callable[[Sequence[bytes]], ChunkRun]

#: what is worked on between two chances for the event loop to run: about half a millisecond
_BLOCK_BYTES = 128 * 1024
_RUN_PAYLOADS = 400
#: an event read by itself takes as long as this many payloads of a run
_EVENT_WORK = 16
#: payloads that are not plain, beyond half of all, after which runs are not tried any more
_ODD_PAYLOADS = 32


@dataclass(slots=True)
class Reading:
    """What one answer said. Counts are the server's; `usage` is its last cumulative completion count, `bad` the first
    payload that cannot be read: "code: message". `bearing` is there when all has been read."""

    bearing: Bearing = field(default_factory=Bearing)
    usage: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    error: ServerError | None = None
    bad: str | None = None
    spec: SpecStats | None = None
    timings: ServerTimings | None = None
    has_output: bool = False
    text: str = ""
    token_ids: array[int] | None = None
    logprobs: int = 0
    logprob_sum: float = 0.0
    comments: int = 0
    events: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def mean_logprob(self) -> float | None:
        """Of all tokens that came with one, nat."""
        return self.logprob_sum / self.logprobs if self.logprobs else None

    @property
    def terminal(self) -> str | None:
        if self.done:
            return "both" if self.finish_reason else "done"
        return "finish_reason" if self.finish_reason else None

    def take(self, chunk: Chunk, keep_text: bool) -> None:
        """The facts of one payload; of those told twice the last counts (B8)."""
        self.error = self.error or chunk.error
        self.has_output = self.has_output or chunk.has_output
        for name in _LAST_WINS:
            value = getattr(chunk, name)
            if value is not None:
                setattr(self, name, value)
        if chunk.completion_tokens is not None:
            self._count(chunk.completion_tokens)
        if chunk.logprobs:
            self.logprobs += len(chunk.logprobs)
            self.logprob_sum += sum(chunk.logprobs)
        if keep_text:
            self.text += chunk.answer
            if chunk.token_ids is not None:
                self.token_ids = array("q") if self.token_ids is None else self.token_ids
                self.token_ids.extend(chunk.token_ids)

    def take_run(self, run: ChunkRun) -> None:
        """What `take` of each of its chunks would: the texts are not kept."""
        self.has_output = self.has_output or 1 in run.outputs
        if run.prompt_tokens is not None:
            self.prompt_tokens = run.prompt_tokens
        if run.finish_reason is not None:
            self.finish_reason = run.finish_reason
        told = np.asarray(run.completion_tokens, dtype=np.int64)
        counts = told[told >= 0]
        if len(counts):
            self._count(int(counts[0]))
            if (counts[1:] < counts[:-1]).any():
                self.warn("usage_fell")
            self.usage = int(counts[-1])

    def _count(self, tokens: int) -> None:
        if self.usage is not None and tokens < self.usage:
            self.warn("usage_fell")
        self.usage = tokens

    def warn(self, code: str) -> None:
        if code not in self.warnings:
            self.warnings.append(code)


_LAST_WINS = (
    "prompt_tokens", "cached_tokens", "reasoning_tokens", "finish_reason", "spec", "timings"
)  # fmt: skip


class StreamReader:
    """Reads the body of a streamed answer. `steps` does it in pieces; `reading` is whole when it has ended.

    Plain blocks (`plain_payloads`) of a server whose adapter has `parse_run` are read many payloads at a time; all
    else, and every payload that a run leaves, event by event. Both give the same reading.
    """

    def __init__(
        self, exchange: Exchange, adapter: Adapter, keep_text: bool = False, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self.reading = Reading()
        self._exchange = exchange
        self._adapter = adapter
        self._keep_text = keep_text
        self._framer = Framer(max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._rows = Rows()
        self._work = 0
        self._odd = 0
        self._parse_run: ParseRun | None = None if keep_text else getattr(adapter, "parse_run", None)

    def steps(self) -> Iterator[None]:
        reading, framer = self.reading, self._framer
        for at, block in _blocks(self._exchange.body):
            if (plain := self._plain(block)) is not None:
                payloads, ends = plain
                yield from self._runs(payloads, ends + at)
                framer.skip(len(block))
                continue
            for event in framer.feed(block):
                self._event(event)
                if self._has_worked(_EVENT_WORK):
                    yield
        if last := framer.close():
            reading.warn("no_final_newline")
            self._event(last)
        if framer.overflow and reading.bad is None:
            reading.bad = f"event_too_large: an event of more than {self._max_event_bytes} bytes"
        reading.comments = framer.comments
        if self._has_worked(len(self._rows.ends) // _EVENT_WORK):
            yield
        reading.bearing = self._rows.bearing(self._exchange)

    def _plain(self, block: bytes) -> tuple[list[bytes], Ints] | None:
        if self._parse_run is None or not self._framer.idle or len(block) > self._max_event_bytes:
            return None
        return plain_payloads(block)

    def _runs(self, payloads: list[bytes], ends: Ints) -> Iterator[None]:
        """The payloads of a plain block; their events end at `ends`."""
        at = 0
        while at < len(payloads):
            taken = self._run(payloads[at : at + _RUN_PAYLOADS], ends[at : at + _RUN_PAYLOADS])
            at += taken
            if taken < _RUN_PAYLOADS and at < len(payloads):
                self._odd += 1
                self._event(Event(payloads[at], int(ends[at])))
                at += 1
                taken += _EVENT_WORK
            if self._has_worked(taken):
                yield

    def _run(self, payloads: list[bytes], ends: Ints) -> int:
        """How many of the payloads could be read as one run. Where most are not plain it is not tried for long."""
        reading = self.reading
        if self._parse_run is None or self._odd > _ODD_PAYLOADS + reading.events // 2 or payloads[0][:1] != b"{":
            return 0
        run = self._parse_run(payloads)
        taken = len(run)
        if taken:
            reading.events += taken
            reading.take_run(run)
            self._rows.add_run(run, ends[:taken], map(len, payloads[:taken]))
        return taken

    def _has_worked(self, work: int) -> bool:
        """Whether it is time to let the event loop run."""
        self._work += work
        if self._work < _RUN_PAYLOADS:
            return False
        self._work = 0
        return True

    def _event(self, event: Event) -> None:
        reading = self.reading
        reading.events += 1
        if is_done(event.data):
            reading.done = True
            return
        if not event.data:
            return
        chunk = self._parse(event)
        if chunk is None:
            return
        reading.take(chunk, self._keep_text)
        if chunk.has_choices:
            self._rows.add(chunk, event.end, len(event.data))

    def _parse(self, event: Event) -> Chunk | None:
        try:
            chunk = self._adapter.parse_chunk(event.data)
        except ValueError as bad:
            if event.name == b"error":
                return Chunk(error=ServerError(None, "error_event", event.data.decode("utf-8", "replace")))
            if self.reading.bad is None:
                self.reading.bad = f"bad_payload: event {self.reading.events}: {bad}"
            return None
        if event.name == b"error" and chunk.error is None:
            return Chunk(error=ServerError(None, "error_event", event.data.decode("utf-8", "replace")))
        return chunk


def _blocks(body: bytearray) -> Iterator[tuple[int, bytes]]:
    """The body in blocks that end with an event where they can, each with the number of its first byte.

    Nothing of the body is held between two of them.
    """
    at = 0
    while at < len(body):
        end = body.rfind(b"\n\n", at, at + _BLOCK_BYTES) + 2
        if end < 2:
            end = at + _BLOCK_BYTES
        yield at, bytes(memoryview(body)[at:end])
        at = end


def read_whole(exchange: Exchange, adapter: Adapter, keep_text: bool) -> Reading:
    """A non-streaming answer: facts, no ledger, no token times."""
    reading = Reading()
    try:
        reading.take(adapter.parse_body(bytes(exchange.body)), keep_text)
    except ValueError as bad:
        reading.bad = f"bad_body: {bad}"
    return reading


def stray_error(exchange: Exchange, adapter: Adapter) -> ServerError | None:
    """The error object of a 200 whose body is plain JSON where a stream was asked for."""
    try:
        orjson.loads(exchange.body)
        return adapter.parse_body(bytes(exchange.body)).error
    except ValueError:
        return None
