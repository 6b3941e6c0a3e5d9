"""The engine in real time: one step after the other, each delivered at the time the roofline gives it.

Steps follow each other on the engine's own time axis (CLOCK_MONOTONIC seconds): a step starts where the one before
it ended, however late the process is, so that lateness does not add up. The lateness is measured (`Lag`). Above
`GIVE_UP_S` the axis moves to the present and `saturated` says so: the process cannot play this load in real time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.faults import Fault, Faults
from server_adapters.rehearsal.histograms import EngineHistograms
from server_adapters.rehearsal.lag import Lag
from server_adapters.rehearsal.types import EngineCounters, EngineRequest, RequestOutput, StepResult, TokenLogprobs

GIVE_UP_S = 0.25


#: What vLLM's front-end says of a dead engine.
DEATH = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class EngineDeadError(RuntimeError):
    """The engine has ended; nothing is served any more."""


@dataclass(slots=True)
class Delta:
    """What one request got since it was last asked: tokens of one step, or of several where the reader was slow."""

    token_ids: list[int]
    due_s: float
    final: RequestOutput | None
    error: str | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Stream:
    """One request between engine and connection. Deltas merge while nobody reads, as in vLLM's collector, so that a
    slow reader holds one delta and no more."""

    request: EngineRequest
    number: int
    pending: list[int] = field(default_factory=list)
    due_s: float = 0.0
    final: RequestOutput | None = None
    error: str | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_cached_tokens: int = 0
    last_token_s: float | None = None
    draft_time_s: float = 0.0
    verify_time_s: float = 0.0
    step_times_s: list[float] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)
    max_lag_s: float = 0.0
    _waiter: asyncio.Future[None] | None = None

    @property
    def ended(self) -> bool:
        """True once the engine has nothing more for it."""
        return self.final is not None or self.error is not None

    def push(self, output: RequestOutput, due_s: float) -> None:
        """Add what a step gave."""
        self.pending += output.new_token_ids
        if output.logprobs:
            self.logprobs += output.logprobs
        self.num_cached_tokens = output.num_cached_tokens
        self.due_s = due_s
        if output.finish_reason is not None:
            self.final = output
        self._wake()

    def fail(self, message: str) -> None:
        """End it with an error."""
        self.error = message
        self._wake()

    async def next(self) -> Delta:
        """Wait for new tokens or the end; after the end every call returns at once."""
        if not self.pending and not self.ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        delta = Delta(self.pending, self.due_s, self.final, self.error, self.logprobs)
        self.pending, self.logprobs = [], []
        return delta

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Runner:
    """Owns the engine. All methods belong to the event loop that called `start`."""

    def __init__(self, engine: Engine, faults: Faults, max_truths: int = 2000) -> None:
        self.engine = engine
        self.faults = faults
        self.lag = Lag()
        self.dead: str | None = None
        self.died_of: Fault | None = None
        self.died_s = 0.0
        self.created_s = time.time()
        self.histograms = EngineHistograms(engine.config.max_model_len)
        self.speculation_enabled = True
        self._truths: deque[tuple[dict[str, Any], Stream]] = deque(maxlen=max_truths)
        self._streams: dict[str, Stream] = {}
        self._numbers = 0
        self._visible: EngineCounters | None = None
        self._clock_s = 0.0
        self._crash: Fault | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin stepping."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End stepping; streams that still run end with an error."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.kill("the server is shutting down")

    @property
    def num_streams(self) -> int:
        """Requests in progress."""
        return len(self._streams)

    @property
    def counters(self) -> EngineCounters:
        """Counters of everything delivered so far."""
        return self._visible or self.engine.counters

    def free_id(self, asked: str, number: int) -> str:
        """An id for the engine: the one that was asked for, with the request's number where it is in use."""
        return f"{asked}-{number}" if asked in self._streams else asked

    def next_number(self) -> int:
        """Ordinal of a request, for faults and ids."""
        self._numbers += 1
        return self._numbers

    def submit(self, request: EngineRequest, number: int) -> Stream:
        """Hand a request to the engine. Raises RequestError, QueueFullError, EngineDeadError."""
        if self.dead is not None:
            raise EngineDeadError(self.dead)
        now_s = time.monotonic()
        if not self.engine.has_work:  # nothing ran since the axis ended: no step begins before this arrival
            self._clock_s = max(self._clock_s, now_s)
        self.engine.submit(request, min(now_s, self._clock_s))
        stream = Stream(request, number)
        self._streams[request.request_id] = stream
        crash = self.faults.active("crash_on", now_s)
        if crash is not None and len(request.prompt_token_ids) > crash.number("tokens"):
            self._crash = crash
        self._wake.set()
        return stream

    def abort(self, stream: Stream) -> None:
        """End a request whose client has gone; nothing where it has ended, or ends with the step under way."""
        if stream.ended or self.faults.active("deaf", time.monotonic()) is not None:
            return
        output = self.engine.abort(stream.request.request_id, time.monotonic())
        if output is None:
            return
        self._streams.pop(stream.request.request_id, None)
        stream.push(output, time.monotonic())
        self._keep_truth(stream, output)

    def wrote(self, stream: Stream, due_s: float) -> None:
        """An output that was due at `due_s` has just been written."""
        now_s = time.monotonic()
        late_s = now_s - due_s
        self.lag.observe(late_s, now_s)
        if late_s > stream.max_lag_s:
            stream.max_lag_s = late_s

    def reset_counters(self) -> None:
        """Everything counted starts at zero, as after a restart."""
        self.engine.reset_counters()
        self._visible = None
        self.histograms = EngineHistograms(self.engine.config.max_model_len)
        self.created_s = time.time()

    def kill(self, message: str, fault: Fault | None = None) -> None:
        """The engine is dead, of a fault or in earnest: running streams end with an error, nothing new is taken."""
        self.dead, self.died_of, self.died_s = message, fault, time.monotonic()
        self._crash = None
        self._visible = None
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        for stream in list(self._streams.values()):
            self.engine.abort(stream.request.request_id, time.monotonic())
            stream.fail(message)
        self._streams.clear()

    def revive(self) -> None:
        """A new engine process took over: it serves again, counters at zero."""
        self.dead = self.died_of = None
        self.reset_counters()
        self.start()

    async def _run(self) -> None:
        try:
            while self.dead is None:
                await self._step()
        except Exception as error:  # a broken engine must show, not hang its clients
            self.kill(f"EngineCore encountered an issue: {error!r}")
            raise

    async def _step(self) -> None:
        if not self.engine.has_work:
            self._wake.clear()
            await self._wake.wait()
            self._clock_s = time.monotonic()
        if self._crash is not None:
            self.kill(DEATH, self._crash)
            return
        late_s = time.monotonic() - self._clock_s
        if late_s > GIVE_UP_S:
            self.lag.give_up(late_s, time.monotonic())
            self._clock_s += late_s
        self.faults.apply(self.engine.switches, time.monotonic())
        self.engine.switches.speculation_enabled = self.speculation_enabled
        self._visible = self.engine.counters.copy()
        result = self.engine.step(self._clock_s)
        if result is None:  # all requests have been aborted
            self._visible = None
            await asyncio.sleep(0)
            return
        self._clock_s += result.duration_s
        await self._until(self._clock_s)
        self._deliver(result)
        await asyncio.sleep(0)  # readers write before the next step begins

    async def _until(self, due_s: float) -> None:
        """Sleep to `due_s`. A timer may ring early by less than its resolution of a millisecond: then sleep again."""
        left_s = due_s - time.monotonic()
        if left_s > 0:
            await asyncio.sleep(left_s)
            await self._until(due_s)

    def _deliver(self, result: StepResult) -> None:
        self._visible = None
        due_s = result.started_s + result.duration_s
        tokens = 0
        for output in result.outputs:
            stream = self._streams.get(output.request_id)
            if stream is None:
                continue  # aborted while its step ran
            tokens += self._book(stream, output, result, due_s)
            stream.push(output, due_s)
            if output.finish_reason is not None:
                del self._streams[output.request_id]
                self.histograms.observe_finished(output, stream.request)
                self._keep_truth(stream, output)
        if result.outputs:
            self.histograms.observe_step(tokens)

    def _book(self, stream: Stream, output: RequestOutput, result: StepResult, due_s: float) -> int:
        tokens = len(output.new_token_ids)
        stream.step_times_s.append(due_s)
        stream.step_tokens.append(tokens)
        if stream.last_token_s is None:
            self.histograms.observe_first(output)
            tokens += output.num_prompt_tokens
        else:
            self.histograms.observe_gap(due_s - stream.last_token_s)
            stream.draft_time_s += result.draft_time_s
            stream.verify_time_s += result.verify_time_s
        stream.last_token_s = due_s
        return tokens

    def shown_truths(self) -> list[dict[str, Any]]:
        """What is known of the last finished requests, oldest first, for JSON."""
        return [{**truth, "max_lag_s": stream.max_lag_s} for truth, stream in self._truths]

    def _keep_truth(self, stream: Stream, output: RequestOutput) -> None:
        """Times are CLOCK_MONOTONIC seconds, the same clock for all processes of a machine."""
        spec, times = output.spec, output.times
        truth: dict[str, Any] = {
            "request_id": stream.request.request_id,
            "number": stream.number,
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
            "num_prompt_tokens": output.num_prompt_tokens,
            "num_cached_tokens": output.num_cached_tokens,
            "num_output_tokens": output.num_output_tokens,
            "num_preemptions": output.num_preemptions,
            "arrival_s": times.arrival_s,
            "first_scheduled_s": times.first_scheduled_s,
            "first_token_s": times.first_token_s,
            "last_token_s": times.last_token_s,
            "step_times_s": stream.step_times_s,
            "step_tokens": stream.step_tokens,
            "draft_time_s": stream.draft_time_s,
            "verify_time_s": stream.verify_time_s,
            "per_step_accepted": spec.per_step_accepted if spec else None,
            "per_step_drafted": spec.per_step_drafted if spec else None,
            "output_faults": asdict(stream.request.faults) if stream.request.faults else None,
        }
        self._truths.append((truth, stream))
