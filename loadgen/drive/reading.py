"""From the bytes of one answer to its ledger and facts: docs/method.md, "Per request"."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from loadgen.drive.sse import MAX_EVENT_BYTES, Event, Framer, is_done
from loadgen.drive.types import UNKNOWN_TOKENS, Exchange, Ledger
from server_adapters.base import Adapter, Chunk, ServerError, ServerTimings, SpecStats

#: bytes and events worked on between two chances for the event loop to run
_SLICE_BYTES = 64 * 1024
_SLICE_EVENTS = 32


@dataclass(slots=True)
class Reading:
    """What one answer said. Counts are the server's; `usage` is its last cumulative completion count."""

    ledger: Ledger = field(default_factory=Ledger)
    counted: bool = False  # the ledger's token counts are known
    by_ids: bool = False
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    first_tokens: int | None = None
    usage: int | None = None
    id_tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    error: ServerError | None = None
    bad: str | None = None  # the first payload that cannot be read: "code: message"
    spec: SpecStats | None = None
    timings: ServerTimings | None = None
    has_output: bool = False
    text: str = ""
    comments: int = 0
    events: int = 0
    warnings: list[str] = field(default_factory=list)

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
            if self.usage is not None and chunk.completion_tokens < self.usage:
                self.warn("usage_fell")
            self.usage = chunk.completion_tokens
        if keep_text:
            self.text += chunk.answer

    def warn(self, code: str) -> None:
        if code not in self.warnings:
            self.warnings.append(code)


_LAST_WINS = (
    "prompt_tokens", "cached_tokens", "reasoning_tokens", "finish_reason", "spec", "timings"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """A payload with choices, kept until it is known how this stream tells its counts."""

    arrival_ns: int
    size: int
    ids: int
    cumulative: int | None
    has_output: bool
    is_answer: bool


class StreamReader:
    """Reads the body of a streamed answer. `steps` does it in pieces; `reading` is whole when it has ended."""

    def __init__(
        self, exchange: Exchange, adapter: Adapter, keep_text: bool = False, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self.reading = Reading()
        self._exchange = exchange
        self._adapter = adapter
        self._keep_text = keep_text
        self._max_event_bytes = max_event_bytes
        self._rows: list[_Row] = []

    def steps(self) -> Iterator[None]:
        reading, framer = self.reading, Framer(self._max_event_bytes)
        body = memoryview(self._exchange.body)
        for at in range(0, len(body), _SLICE_BYTES):
            for event in framer.feed(body[at : at + _SLICE_BYTES]):
                self._event(event)
                if reading.events % _SLICE_EVENTS == 0:
                    yield
        if last := framer.close():
            reading.warn("no_final_newline")
            self._event(last)
        if framer.overflow and reading.bad is None:
            reading.bad = f"event_too_large: an event of more than {self._max_event_bytes} bytes"
        reading.comments = framer.comments
        yield
        self._fill_ledger()

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
            self._rows.append(
                _Row(
                    self._arrival(event.end),
                    len(event.data),
                    len(chunk.token_ids or ()),
                    chunk.completion_tokens,
                    chunk.has_output,
                    bool(chunk.answer or chunk.tool),
                )
            )

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

    def _arrival(self, end: int) -> int:
        return self._exchange.piece_ns[bisect_left(self._exchange.piece_end, end)]

    def _fill_ledger(self) -> None:
        rows, reading = self._rows, self.reading
        reading.id_tokens = sum(row.ids for row in rows)
        reading.by_ids = reading.id_tokens > 0
        continuous = _counts_rise(rows)
        reading.counted = reading.by_ids or continuous
        told = 0
        for row in rows:
            if reading.counted:
                # ids may be hidden while usage rises (reasoning), and usage may lag behind ids: both tell of tokens
                risen = (row.cumulative or 0) - told if continuous else 0
                tokens = max(risen, row.ids, 0)
                told += tokens
            else:
                tokens = UNKNOWN_TOKENS if row.has_output else 0
            if tokens:
                self._bear(row, tokens)

    def _bear(self, row: _Row, tokens: int) -> None:
        reading, ledger = self.reading, self.reading.ledger
        number = 0
        if len(ledger):
            number = ledger.arrival_no[-1] + (ledger.arrival_ns[-1] != row.arrival_ns)
        else:
            reading.first_token_ns = row.arrival_ns
            reading.first_tokens = tokens if reading.counted else None
        ledger.arrival_ns.append(row.arrival_ns)
        ledger.tokens.append(tokens)
        ledger.size.append(row.size)
        ledger.arrival_no.append(number)
        reading.last_token_ns = row.arrival_ns
        if row.is_answer and reading.first_answer_ns is None:
            reading.first_answer_ns = row.arrival_ns


def _counts_rise(rows: list[_Row]) -> bool:
    """Continuous usage: the first chunk with output brought the count with it (or, where none
    has output, the first chunk)."""
    first = next((row for row in rows if row.has_output), rows[0] if rows else None)
    return first is not None and first.cumulative is not None


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
