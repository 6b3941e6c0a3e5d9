"""From one exchange to one attempt: facts, counts, and exactly one outcome (docs/method.md, "Outcomes")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadgen.drive.reading import Reading, StreamReader, read_whole, stray_error
from loadgen.drive.sse import MAX_EVENT_BYTES
from loadgen.drive.types import Attempt, Exchange, Outcome
from loadgen.plan import Case
from loadgen.redact import printable
from server_adapters.base import Adapter, Sampling, ServerError

Redact = Callable[[str], str]

MESSAGE_CHARS = 300
CLASS_CHARS = 80
SERVED_BY_CHARS = 200
#: redaction reads no more than this of a server's error page
_MESSAGE_SOURCE_CHARS = 8192


@dataclass(frozen=True, slots=True)
class Sent:
    """Who a request was: what an attempt says besides what came back."""

    seq: int
    arm: str
    replica: str
    worker: int
    segment: int
    case: Case
    request_id: str
    stream: bool
    sampling: Sampling
    max_tokens: int
    due_ns: int | None
    concurrency: int
    wait_ns: int = 0
    prompt: str | None = None
    served_by_header: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    error_class: str | None = None
    status: int | None = None
    message: str | None = None


def read_exchange(
    exchange: Exchange,
    sent: Sent,
    adapter: Adapter,
    redact: Redact,
    keep_text: bool = False,
    max_event_bytes: int = MAX_EVENT_BYTES,
) -> Attempt:
    """The attempt that an ended exchange was. Never raises: a fault of ours ends as `client_fault` (C11)."""
    reader = ExchangeReader(exchange, sent, adapter, redact, keep_text, max_event_bytes)
    for _ in reader.steps():
        pass
    return reader.attempt()


class ExchangeReader:
    """`read_exchange` in steps, so that a long answer does not hold the event loop."""

    def __init__(
        self,
        exchange: Exchange,
        sent: Sent,
        adapter: Adapter,
        redact: Redact,
        keep_text: bool = False,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self._exchange = exchange
        self._sent = sent
        self._adapter = adapter
        self._redact = redact
        self._keep_text = keep_text
        self._max_event_bytes = max_event_bytes
        self._reading: Reading | None = None
        self._bug: Exception | None = None

    def steps(self) -> Iterator[None]:
        try:
            yield from self._steps()
        except Exception as bug:
            self._bug = bug

    def attempt(self) -> Attempt:
        """Call when `steps` has ended."""
        if self._bug is None:
            try:
                reading = self._reading or Reading()
                return self._attempt(reading, judge(self._exchange, self._sent, reading, self._adapter))
            except Exception as bug:
                self._bug = bug
        fault = Verdict(
            Outcome.CLIENT_FAULT, type(self._bug).__name__, message=f"reading the answer failed: {self._bug}"
        )
        return self._attempt(Reading(warnings=["client_bug"]), fault)

    def _steps(self) -> Iterator[None]:
        exchange = self._exchange
        if not _readable(exchange):
            return
        if self._sent.stream:
            reader = StreamReader(exchange, self._adapter, self._keep_text, self._max_event_bytes)
            self._reading = reader.reading
            yield from reader.steps()
        elif exchange.complete:
            self._reading = read_whole(exchange, self._adapter, self._keep_text)

    def _attempt(self, reading: Reading, verdict: Verdict) -> Attempt:
        exchange, sent = self._exchange, self._sent
        output_len, source = _output_len(reading, verdict.outcome)
        bearing, told = reading.bearing, reading.bearing.told
        ends = [ns for ns in (exchange.end_ns, exchange.headers_ns, exchange.sent_ns, sent.due_ns) if ns is not None]
        return Attempt(
            seq=sent.seq,
            arm=sent.arm,
            replica=sent.replica,
            worker=sent.worker,
            segment=sent.segment,
            case=sent.case,
            request_id=sent.request_id,
            stream=sent.stream,
            sampling=sent.sampling,
            max_tokens=sent.max_tokens,
            due_ns=sent.due_ns,
            concurrency=sent.concurrency,
            sent_ns=exchange.sent_ns,
            headers_ns=exchange.headers_ns,
            first_byte_ns=exchange.piece_ns[0] if exchange.piece_ns else None,
            end_ns=ends[0] if ends else 0,
            connect_ns=exchange.connect_ns,
            outcome=verdict.outcome,
            error_class=self._message(verdict.error_class, CLASS_CHARS),
            error_status=verdict.status,
            error_message=self._message(verdict.message, MESSAGE_CHARS),
            ledger=bearing.ledger,
            first_token_ns=bearing.first_token_ns,
            first_answer_ns=bearing.first_answer_ns,
            last_token_ns=bearing.last_token_ns,
            first_tokens=bearing.first_tokens,
            input_len=reading.prompt_tokens,
            input_len_source=None if reading.prompt_tokens is None else "usage",
            cached_tokens=reading.cached_tokens,
            output_len=output_len,
            output_len_source=source,
            unattributed_tokens=None if told is None or reading.usage is None else reading.usage - told,
            reasoning_len=reading.reasoning_tokens,
            finish_reason=reading.finish_reason,
            terminal=reading.terminal,
            mean_logprob=reading.mean_logprob,
            spec=reading.spec,
            timings=reading.timings,
            timestamp_source=exchange.timestamp_source,
            missing_stamps=exchange.missing_stamps,
            wait_ns=sent.wait_ns,
            connect_wait_ns=exchange.connect_wait_ns,
            served_by=self._message(exchange.headers.get(sent.served_by_header or ""), SERVED_BY_CHARS),
            text=reading.text if self._keep_text else None,
            prompt=sent.prompt if self._keep_text else None,
            token_ids=reading.token_ids,
            warnings=tuple(reading.warnings),
            absent=_absent(reading, sent, output_len),
        )

    def _message(self, message: str | None, limit: int) -> str | None:
        """What a server said, fit to be stored and shown."""
        if message is None:
            return None
        return printable(self._redact(message[:_MESSAGE_SOURCE_CHARS])[:limit])


def judge(exchange: Exchange, sent: Sent, reading: Reading, adapter: Adapter) -> Verdict:
    """The one outcome. Adds to `reading.warnings` what is odd but no failure.

    Order: our own fault; a status that is no success; an error the server told inside the
    answer; an answer that cannot be read; a cut by wire, deadline or drain; no terminal marker; no output.
    """
    if exchange.failure is Outcome.CLIENT_FAULT:
        return _failed(exchange)
    if exchange.status is None:
        return _failed(exchange)
    if not 200 <= exchange.status < 300:
        return _failed(exchange) if exchange.failure is Outcome.ABORTED else _http_error(exchange, reading, adapter)
    if reading.error is None and sent.stream and not reading.events and exchange.complete:
        reading.error = stray_error(exchange, adapter)
    if reading.error is not None:
        error = reading.error
        return Verdict(Outcome.STREAM_ERROR, error.kind, error.status, error.message)
    if bad := _unreadable(exchange, sent, reading):
        code, _, message = bad.partition(": ")
        return Verdict(Outcome.MALFORMED, code, exchange.status, message)
    return _judge_end(exchange, sent, reading)


def _judge_end(exchange: Exchange, sent: Sent, reading: Reading) -> Verdict:
    if exchange.failure is not None:
        whole = reading.done or (exchange.failure is Outcome.TRUNCATED and reading.terminal is not None)
        if not whole:
            return _failed(exchange)
        reading.warn("cut_after_end")
    if sent.stream and reading.terminal is None:
        return Verdict(Outcome.TRUNCATED, "no_terminal", exchange.status, "the stream ended without a terminal marker")
    produced = len(reading.bearing.ledger) > 0 if sent.stream else reading.has_output or bool(reading.usage)
    if reading.terminal == "finish_reason" and sent.stream:
        reading.warn("no_done")
    if reading.finish_reason is None:
        reading.warn("no_finish_reason")
    if reading.usage is None:
        reading.warn("usage_missing")
    if not produced:
        return Verdict(Outcome.NO_OUTPUT, "no_output", exchange.status, "a finished answer without any output")
    return Verdict(Outcome.OK)


def _readable(exchange: Exchange) -> bool:
    """A success whose bytes are the answer's own."""
    return exchange.status is not None and 200 <= exchange.status < 300 and not _encoding(exchange)


def _encoding(exchange: Exchange) -> str | None:
    encoding = exchange.headers.get("content-encoding", "identity").strip().lower()
    return None if encoding in ("", "identity") else encoding


def _unreadable(exchange: Exchange, sent: Sent, reading: Reading) -> str | None:
    if encoding := _encoding(exchange):
        reading.warn("content_encoding")
        return f"content_encoding: {encoding} though identity was asked for: the timings are the compressor's"
    if reading.bad is not None:
        return reading.bad
    if sent.stream and not reading.events and not reading.comments and exchange.body.strip():
        kind = exchange.headers.get("content-type", "no content type")
        start = bytes(exchange.body[:_MESSAGE_SOURCE_CHARS]).decode("utf-8", "replace")
        return f"not_event_stream: {kind}: {start}"
    return None


def _http_error(exchange: Exchange, reading: Reading, adapter: Adapter) -> Verdict:
    status = exchange.status
    assert status is not None
    body = bytes(exchange.body)
    try:
        error = adapter.parse_error(status, body)
    except Exception:
        reading.warn("client_bug")
        error = ServerError(status, "http_error", body[:_MESSAGE_SOURCE_CHARS].decode("utf-8", "replace"))
    return Verdict(Outcome.HTTP_ERROR, error.kind, status, error.message)


def _failed(exchange: Exchange) -> Verdict:
    code, _, message = (exchange.failure_detail or "unknown: no answer and no reason").partition(": ")
    return Verdict(exchange.failure or Outcome.CLIENT_FAULT, code, exchange.status, message or None)


def _output_len(reading: Reading, outcome: Outcome) -> tuple[int | None, str | None]:
    if outcome in (Outcome.OK, Outcome.NO_OUTPUT):
        if reading.usage is not None:
            return reading.usage, "usage"
        ids = reading.bearing.id_tokens
        return (ids, "token_ids") if ids else (None, None)
    seen = max(reading.usage or 0, reading.bearing.id_tokens)
    return (seen, "partial") if seen else (None, None)


def _absent(reading: Reading, sent: Sent, output_len: int | None) -> dict[str, str]:
    """Why what a reader would look for is not there."""
    absent: dict[str, str] = {}
    if not sent.stream:
        absent["first_token_ns"] = "not streamed: there is no time to first token"
    elif reading.bearing.first_token_ns is None:
        absent["first_token_ns"] = "no chunk bore a token"
    elif reading.bearing.first_tokens is None:
        absent["first_tokens"] = "the server's chunks carry no token counts"
    if output_len is None:
        absent["output_len"] = "the server told no token count"
    if reading.prompt_tokens is None:
        absent["input_len"] = "the server told no usage"
    if reading.spec is None:
        absent["spec"] = "the answer carries no speculation statistics"
    return absent
