"""What happened to one request, and where to put it. Data and seams of the room."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from loadgen.plan import Case
from server_adapters.base import Sampling, ServerTimings, SpecStats


class Outcome(StrEnum):
    """Exactly one for every request sent (docs/method.md, "Outcomes")."""

    OK = "ok"
    HTTP_ERROR = "http_error"
    STREAM_ERROR = "stream_error"  # an error object inside a 200 stream
    TRUNCATED = "truncated"  # no terminal marker
    NO_OUTPUT = "no_output"
    STALLED = "stalled"  # no token for the idle limit
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    REFUSED = "refused"  # no connection
    CLIENT_FAULT = "client_fault"  # ports, file descriptors, pool, our own bug
    ABORTED = "aborted"  # cut by our own drain or stop


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Separate limits, nanoseconds; None = none. Token idle ignores bytes that carry no token (E30)."""

    connect_ns: int
    byte_idle_ns: int | None
    token_idle_ns: int | None
    total_ns: int | None


@dataclass(slots=True)
class Exchange:
    """What the wire gave for one request: bytes and stamps, no interpretation.

    The driver makes it and hands it over as `request.extensions["exchange"]`; the transport fills
    it, also when the request fails before there is a response.

    `piece_ns[i]` is when the i-th read's bytes arrived, `piece_end[i]` the body length
    after it. Times are CLOCK_MONOTONIC ns; None = did not come to pass.
    """

    sent_ns: int | None = None
    headers_ns: int | None = None
    end_ns: int | None = None
    connect_ns: int | None = None  # duration of connection set-up; None = reused
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    piece_ns: array[int] = field(default_factory=lambda: array("q"))
    piece_end: array[int] = field(default_factory=lambda: array("q"))
    #: body ended as HTTP says it should (last chunk, content length); False = cut
    complete: bool = False
    #: why the exchange did not run to its end, None if it did
    failure: Outcome | None = None
    failure_detail: str | None = None
    #: "kernel": every read has the kernel's stamp; "kernel_partial": some have none; "user": none has
    timestamp_source: str = "user"
    #: reads stamped in user space although the kernel's stamp was asked for; None = it was not asked for
    missing_stamps: int | None = None
    #: waited for its turn to connect, not part of `connect_ns`; None = reused a connection
    connect_wait_ns: int | None = None
    #: while the answer comes: brings body and pieces up to date. None: they are
    refresh: Callable[[], None] | None = field(default=None, compare=False, repr=False)


#: `Ledger.tokens` entry of a token-bearing chunk whose count the server did not tell
UNKNOWN_TOKENS = -1


@dataclass(slots=True)
class Ledger:
    """(arrival, tokens, bytes, arrival number) of every token-bearing chunk, in order: 20 bytes a chunk.

    A chunk's arrival is the stamp of the piece that holds the line end which terminates its event.
    Same arrival number ⇔ same stamp: such chunks came together, and only the last one's time is known.

    Which chunk bears tokens, and how many: one whose token ids are not empty, or with which cumulative
    usage rises (where usage came with the stream's first chunk of output: continuous usage); in a stream
    with neither, any chunk with output, its count `UNKNOWN_TOKENS`. A payload without choices never does.
    """

    arrival_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    size: array[int] = field(default_factory=lambda: array("i"))
    arrival_no: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def coalesced(self) -> int:
        """Chunks without an arrival time of their own: m − 1 of every arrival of m chunks."""
        return len(self.arrival_no) - len(set(self.arrival_no))


@dataclass(slots=True)
class Attempt:
    """One request sent: all that the client knows of it. `record` turns it into a row.

    `seq` is the number of the request within its stage before sharding (`Case.index`).
    `due_ns` is CLOCK_MONOTONIC: open loop, when the plan wanted it; closed loop, when its slot
    became free. `output_len` is None where no honest count exists; `output_len_source` is "usage",
    "token_ids", "partial" (highest cumulative count seen before a failure) or None.
    `unattributed_tokens`: final usage minus the ledger's sum (tokens no chunk told of).
    `first_*`/`last_*` are arrival times of token-bearing chunks; a non-streaming request has
    an empty ledger and none of them. `absent` gives the reason of a None where a reader would ask.
    `warnings` are anomaly codes ("no_done", "usage_missing", …) for the human log.
    `error_class` of an ABORTED request: "drain", "user_stop" or "policy"; only drain-cut tokens
    count as net throughput. A REFUSED request counts as sent though `sent_ns` is None.
    """

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
    concurrency: int  # in flight at the worker, this one included, when it was sent
    sent_ns: int | None
    headers_ns: int | None
    first_byte_ns: int | None
    end_ns: int
    connect_ns: int | None
    outcome: Outcome
    error_class: str | None
    error_status: int | None
    error_message: str | None  # redacted
    ledger: Ledger
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    first_tokens: int | None = None  # cumulative count at the first token-bearing chunk
    input_len: int | None = None
    input_len_source: str | None = None
    cached_tokens: int | None = None
    output_len: int | None = None
    output_len_source: str | None = None
    unattributed_tokens: int | None = None
    reasoning_len: int | None = None
    finish_reason: str | None = None
    terminal: str | None = None  # "done", "finish_reason", "both", None
    mean_logprob: float | None = None  # of the answer's tokens, nat; only where it was asked for
    spec: SpecStats | None = None
    timings: ServerTimings | None = None
    timestamp_source: str = "user"
    missing_stamps: int | None = None  # as in `Exchange`
    wait_ns: int = 0  # waited for the safety cap between due and sent
    connect_wait_ns: int | None = None  # waited for its turn to connect, before `connect_ns` began
    served_by: str | None = None  # which server behind a gateway answered, as its header says; redacted
    text: str | None = None  # only where the scenario asks for text
    prompt: str | None = None  # likewise; chat messages as JSON
    token_ids: Sequence[int] | None = None  # likewise, where the server tells them
    warnings: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Accounting:
    """scheduled = sent + dropped + unsent, always. Late and capped are subsets of scheduled."""

    scheduled: int = 0
    sent: int = 0
    dropped: int = 0  # arrivals given up because max_in_flight was reached, or while the load was held (a dead engine)
    unsent: int = 0  # still waiting when the segment was stopped
    late: int = 0  # sent more than `LATE_NS` after due
    capped_in_flight: int = 0  # delayed (not dropped) by max_in_flight
    capped_rate: int = 0  # delayed by safety.max_requests_per_second


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """One second of the client's own state: lag of the event loop, CPU and memory of the process."""

    at_ns: int
    worker: int
    lag_p50_s: float
    lag_max_s: float
    cpu_share: float  # of one core
    in_flight: int
    send_lag_max_s: float
    rss_bytes: int
    #: largest step of the wall clock seen meanwhile, without sign; None = nobody compared the clocks
    clock_step_s: float | None = None


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """How a segment went. `aborted` is the reason it was ended early, None if it ran to its end.

    Steady window = [full_ns, load_end_ns]; whole = [started_ns, ended_ns]. Of several workers:
    sums of the accounting, earliest start, latest end.
    """

    segment: int
    worker: int
    started_ns: int
    full_ns: int  # all slots had begun; open loop: = started_ns
    load_end_ns: int  # last moment at which new requests could start
    ended_ns: int  # everything drained or cut
    accounting: Accounting
    aborted: str | None


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How a worker process ended. `died`: why it did before it was told to. `failed`: why its records end early,
    with so many `lost`."""

    worker: int
    died: str | None
    failed: str | None
    lost: int


class Teller(Protocol):
    """What a worker counts for live metrics, beside its records. Called on the event loop after a request
    has been read: must be cheap. `take`: small sums since the last call, which can be pickled."""

    def attempt(self, attempt: Attempt) -> None: ...

    def health(self, health: LoopHealth) -> None: ...

    def take(self) -> object: ...


class Sink(Protocol):
    """Where drive puts what happened. Called on the event loop: must not block."""

    def attempt(self, attempt: Attempt) -> None: ...

    def health(self, health: LoopHealth) -> None: ...
