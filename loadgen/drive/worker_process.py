"""A worker: one process, one event loop, its share of every segment. It talks with its coordinator over a pipe.

Messages in: `WorkerSetup` first, then of every segment `Prepare` and `Go`; `Stop`, `Finish`, `Hold` and `Release`
at any time; `Close` at the end. End of file ends the process too, so it never outlives its coordinator. Messages out:
`Ready`, `Poised`, `Ended`, `Closed`, each the answer to one of those; `Progress` a few times a second; `Tripped` when
an arm seems dead; `Failed` if it ends by a fault.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import httpx

from loadgen.control import Sample, Sign, Trip
from loadgen.drive.asking import Asking, DriveLimits
from loadgen.drive.cap import Budget, RateCap
from loadgen.drive.driver import Driver
from loadgen.drive.health import quiet_gc
from loadgen.drive.ledger import Redact
from loadgen.drive.live import Recent
from loadgen.drive.recorder import RECENT, Counts, Tally
from loadgen.drive.request import DriveArm
from loadgen.drive.segment_run import StopReason
from loadgen.drive.slack import Slack
from loadgen.drive.transport import make_transport
from loadgen.drive.types import Accounting, Attempt, Deadlines, LoopHealth, Outcome, SegmentResult, Sink, Teller
from loadgen.plan import LengthModel, Plan, Segment, shard
from loadgen.processes import ignore_signals

#: Between two reports of what has been done so far.
REPORT_S = 0.25

#: (tokens asked for, tokens told by the server) of warm-up prompts, by task type
PromptLengths = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Warmed:
    """What a segment of warm-up has shown: `ok` of `requests` were answered, in `busy_ns` (sent to end, summed over the
    answered ones) with `tokens` output tokens. Parts add up."""

    requests: int = 0
    ok: int = 0
    busy_ns: int = 0
    tokens: int = 0

    def __add__(self, other: Warmed) -> Warmed:
        return Warmed(
            self.requests + other.requests,
            self.ok + other.ok,
            self.busy_ns + other.busy_ns,
            self.tokens + other.tokens,
        )


class WorkerSink(Sink, Protocol):
    """Where a worker's attempts go. `failed`: why they are not kept any more. `work`: one piece of what the sink does
    with them, short; False when nothing waits. `close` does the rest and returns how many were lost."""

    @property
    def failed(self) -> str | None: ...

    def work(self) -> bool: ...

    def close(self) -> int: ...


@dataclass(frozen=True)
class WorkerSetup:
    """All that a worker needs, of `workers` alike; is pickled. `shard` (i, n): the run drives that share of its plan.

    `sinks(worker)` makes the worker's sink in its own process. `transport` makes the wire; `transports` that of
    arms with one of their own, by name. `watched`: samples of what ends are told, too. `teller(worker)` makes
    what counts for live metrics, in the worker's process.
    """

    arms: tuple[DriveArm, ...]
    plan: Plan
    lengths: LengthModel
    limits: DriveLimits
    asking: Asking
    redact: Redact
    sinks: Callable[[int], WorkerSink]
    shard: tuple[int, int] | None = None
    transport: Callable[[Deadlines], httpx.AsyncBaseTransport] = make_transport
    transports: Mapping[str, Callable[[Deadlines], httpx.AsyncBaseTransport]] = field(default_factory=dict)
    watched: bool = False
    teller: Callable[[int], Teller] | None = None
    worker: int = 0
    workers: int = 1
    #: failures in a row that make an arm look dead; 0: never
    breaker_failures: int = 0

    def whole(self, segment: Segment) -> Segment:
        """What all workers of this run drive of a segment."""
        return segment if self.shard is None else shard(segment, *self.shard)

    def part(self, segment: Segment, worker: int) -> Segment:
        return shard(self.whole(segment), worker, self.workers)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get everything ready for a segment. `rate_per_s`: this worker's share of the safety cap."""

    segment: int
    lengths: LengthModel
    nonce: str
    rate_per_s: float | None


@dataclass(frozen=True, slots=True)
class Go:
    segment: int
    start_ns: int


@dataclass(frozen=True, slots=True)
class Stop:
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Finish:
    """The load of a segment has gone on for long enough: it ends as if its time were over."""

    segment: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Start nothing new for an arm."""

    arm: str


@dataclass(frozen=True, slots=True)
class Release:
    """Go on with an arm. `was_alive`: it had never been dead."""

    arm: str
    was_alive: bool


@dataclass(frozen=True, slots=True)
class Close:
    pass


@dataclass(frozen=True, slots=True)
class Ready:
    key = ("ready", 0)


@dataclass(frozen=True, slots=True)
class Poised:
    segment: int

    @property
    def key(self) -> tuple[str, int]:
        return ("poised", self.segment)


@dataclass(frozen=True, slots=True)
class Progress:
    """So far: of the whole run, and of the segments in progress. `sink_failed`: the sink keeps nothing any more.
    `samples`: of what ended since the last report; `told`: what the teller has counted since then."""

    counts: Counts
    accounting: Mapping[int, Accounting]
    sink_failed: str | None
    samples: tuple[Sample, ...] = ()
    told: object = None


@dataclass(frozen=True, slots=True)
class Ended:
    result: SegmentResult
    lengths: PromptLengths
    warmed: Warmed

    @property
    def key(self) -> tuple[str, int]:
        return ("ended", self.result.segment)


@dataclass(frozen=True, slots=True)
class Closed:
    sink_failed: str | None
    lost: int
    key = ("closed", 0)


@dataclass(frozen=True, slots=True)
class Tripped:
    """An arm seems dead: so many requests in a row failed, the first at `first_ns`. Nothing new is sent to it."""

    arm: str
    failures: int
    first_ns: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The last message of a process that cannot go on."""

    reason: str


#: Between two looks at what the sink has to do
KEEP_S = 0.2
#: The thread that writes records must give the loop its turn back soon: at 5 ms, Python's own interval, every read of
#: a socket could wait so long for it
SWITCH_S = 0.0005


def serve(pipe: Connection, budget: Budget | None) -> None:
    """Entry of the process."""
    ignore_signals()
    sys.setswitchinterval(SWITCH_S)
    redact: Redact = str
    try:
        setup: WorkerSetup = pipe.recv()
        redact = setup.redact
        asyncio.run(_Worker(pipe, setup, budget).run())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        pipe.send(Failed(redact(f"{type(error).__name__}: {error}")))
        sys.exit(1)


class _Learning:
    """The sink, the teller, and what warm-up tells of prompt lengths and of the server's pace."""

    def __init__(
        self,
        sink: WorkerSink,
        teller: Teller | None = None,
        on_attempt: Callable[[Attempt], None] = lambda _attempt: None,
    ) -> None:
        self.sink = sink
        self.teller = teller
        self._on_attempt = on_attempt
        self._lengths: PromptLengths = defaultdict(list)
        self._warmed: dict[int, Warmed] = defaultdict(Warmed)

    def attempt(self, attempt: Attempt) -> None:
        self.sink.attempt(attempt)
        if self.teller is not None:
            self.teller.attempt(attempt)
        self._on_attempt(attempt)
        if attempt.case.phase != "warmup":
            return
        self._warmed[attempt.segment] += _pace(attempt)
        asked, told = attempt.case.input_len_requested, attempt.input_len
        if asked is not None and told is not None:
            self._lengths[attempt.case.task_type].append((asked, told))

    def health(self, health: LoopHealth) -> None:
        self.sink.health(health)
        if self.teller is not None:
            self.teller.health(health)

    def told(self) -> object:
        return None if self.teller is None else self.teller.take()

    def learned(self) -> PromptLengths:
        """Since the last call."""
        told, self._lengths = dict(self._lengths), defaultdict(list)
        return told

    def warmed(self, segment: int) -> Warmed:
        """Of one segment, which has ended."""
        return self._warmed.pop(segment, Warmed())


#: A dead engine refuses connections, breaks streams off, answers 5xx, or nothing any more.
_DEAD = frozenset(
    {
        Outcome.REFUSED,
        Outcome.TIMEOUT,
        Outcome.STALLED,
        Outcome.TRUNCATED,
        Outcome.STREAM_ERROR,
    }
)


def sign_of(attempt: Attempt) -> Sign:
    """What a request says of the engine. A refusal for what was asked (4xx) says nothing: a front-end gives it too."""
    if attempt.outcome is Outcome.OK:
        return "alive"
    five = attempt.outcome is Outcome.HTTP_ERROR and (attempt.error_status or 0) >= 500
    return "dead" if five or attempt.outcome in _DEAD else "none"


def _pace(attempt: Attempt) -> Warmed:
    if attempt.outcome is not Outcome.OK or attempt.sent_ns is None or not attempt.output_len:
        return Warmed(1)
    return Warmed(1, 1, attempt.end_ns - attempt.sent_ns, attempt.output_len)


class _Worker:
    def __init__(self, pipe: Connection, setup: WorkerSetup, budget: Budget | None) -> None:
        self._pipe = pipe
        self._setup = setup
        teller = None if setup.teller is None else setup.teller(setup.worker)
        self._sink = _Learning(setup.sinks(setup.worker), teller, self._note)
        self._trips = {arm.name: Trip(setup.breaker_failures) for arm in setup.arms if setup.breaker_failures}
        samples = Recent(seed=setup.worker) if setup.watched else None
        self._tally = Tally(budget, recent=-(-RECENT // setup.workers), samples=samples)
        self._rate_per_s: float | None = None
        self._slack = Slack()
        self._segments = {segment.number: segment for segment in setup.plan.segments}
        self._drivers = {arm.name: self._driver(arm) for arm in setup.arms}
        self._begins: dict[int, asyncio.Future[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._fault: BaseException | None = None

    def _driver(self, arm: DriveArm) -> Driver:
        s = self._setup
        return Driver(
            arm, s.plan, s.lengths, self._sink, s.limits, s.asking, s.redact,
            worker=s.worker, tally=self._tally, transport=s.transports.get(arm.name, s.transport),
            slack=self._slack,
        )  # fmt: skip

    async def run(self) -> None:
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._commands)
        self._send(Ready())
        self._start(self._report())
        self._start(self._keep())
        await self._over.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        lost = await asyncio.to_thread(self._sink.sink.close)
        if self._fault is not None:
            raise self._fault
        self._send(self._progress())
        self._send(Closed(self._sink.sink.failed, lost))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """What a driver raises ends the worker: its coordinator is told, and ends the run."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()
            self._over.set()

    def _commands(self) -> None:
        try:
            while not self._over.is_set() and self._pipe.poll():
                self._take(self._pipe.recv())
        except (EOFError, OSError):
            self._leave()

    def _note(self, attempt: Attempt) -> None:
        """The breaker's: enough failures in a row hold the arm's load, and are told."""
        trip = self._trips.get(attempt.arm)
        if trip is not None and trip.note(sign_of(attempt), attempt.end_ns):
            self._drivers[attempt.arm].hold()
            self._send(Tripped(attempt.arm, trip.count, trip.first_ns or attempt.end_ns))

    def _release(self, message: Release) -> None:
        if message.arm in self._trips:
            self._trips[message.arm].release(was_alive=message.was_alive)
        self._drivers[message.arm].release()

    def _take(self, message: Prepare | Go | Stop | Finish | Hold | Release | Close) -> None:
        if isinstance(message, Prepare):
            self._begins[message.segment] = asyncio.get_running_loop().create_future()
            self._start(self._drive(message))
        elif isinstance(message, Go):
            self._begins[message.segment].set_result(message.start_ns)
        elif isinstance(message, Stop):
            for driver in self._drivers.values():
                driver.stop(message.reason)
        elif isinstance(message, Finish):
            if message.segment in self._begins:
                self._drivers[self._segments[message.segment].arm].finish()
        elif isinstance(message, Hold):
            self._drivers[message.arm].hold()
        elif isinstance(message, Release):
            self._release(message)
        else:
            self._leave()

    def _leave(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._over.set()

    def _send(self, message: Ready | Poised | Progress | Tripped | Ended | Closed) -> None:
        try:
            self._pipe.send(message)
        except OSError:  # the coordinator is gone
            self._over.set()

    async def _drive(self, asked: Prepare) -> None:
        segment = self._segments[asked.segment]
        driver = self._drivers[segment.arm]
        part = self._setup.part(segment, self._setup.worker)
        driver.lengths = asked.lengths
        self._share_cap(asked.rate_per_s)
        await driver.prepare(part, asked.nonce)
        with quiet_gc():
            self._send(Poised(segment.number))
            start_ns = await self._begins[segment.number]
            result = await driver.run(part, start_ns, asked.nonce)
        del self._begins[segment.number]
        self._send(self._progress())
        self._send(Ended(result, self._sink.learned(), self._sink.warmed(segment.number)))

    def _share_cap(self, rate_per_s: float | None) -> None:
        """One cap for all arms: they may share hardware. It is kept as long as the share stays the same."""
        if rate_per_s == self._rate_per_s:
            return
        self._rate_per_s = rate_per_s
        cap = None if rate_per_s is None else RateCap(rate_per_s)
        for driver in self._drivers.values():
            driver.cap = cap

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._send(self._progress())

    async def _keep(self) -> None:
        """The sink's work, in pieces between which requests are sent when they are due."""
        while True:
            await self._slack.spare()
            if not self._sink.sink.work():
                await asyncio.sleep(KEEP_S)

    def _progress(self) -> Progress:
        driven = {n: self._drivers[self._segments[n].arm].accounting for n in self._begins}
        accounting = {n: replace(books) for n, books in driven.items() if books is not None}
        samples, told = self._tally.take_samples(), self._sink.told()
        return Progress(self._tally.counts(), accounting, self._sink.sink.failed, samples, told)
