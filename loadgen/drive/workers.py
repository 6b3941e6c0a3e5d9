"""The coordinator's side of the worker processes: start them, let them begin together, add up, see one die."""

from __future__ import annotations

import asyncio
import multiprocessing
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from loadgen.clock import now_ns
from loadgen.control import Sample
from loadgen.drive.cap import Budget
from loadgen.drive.recorder import Counts
from loadgen.drive.segment_run import StopReason
from loadgen.drive.types import Accounting, SegmentResult, WorkerEnd
from loadgen.drive.worker_process import (
    Close,
    Closed,
    Ended,
    Failed,
    Finish,
    Go,
    Hold,
    Poised,
    Prepare,
    Progress,
    PromptLengths,
    Ready,
    Release,
    Stop,
    Tripped,
    Warmed,
    WorkerSetup,
    serve,
)
from loadgen.plan import LengthModel, OpenLoop, Segment
from loadgen.processes import signals_held

START_TIMEOUT_S = 60
#: To write the last rows.
CLOSE_TIMEOUT_S = 60
#: A worker reports four times a second: one that says nothing for so long is not there.
SILENT_S = 30
#: The same, and for the close, once what is in flight is cut: the user has asked twice.
HURRIED_S = 5
#: After so much silence then, it is said who is waited for.
TOLD_AFTER_S = 2


class Workers:
    """The worker processes of a run. Does not raise for a worker that dies: that is told to `on_lost`, once and
    at once, and what is awaited of it ends.

    `on_ended(requests, failed)`: so many more requests have ended. `on_samples`: of measured ones among them, where the
    setup says `watched`. `on_waiting`: after a second stop, which silent worker is waited for. `on_told`: what a
    worker's teller has counted. `on_tripped`: an arm seems dead; what its worker would send it is held until `release`.
    `max_requests` is exact over all workers.
    """

    def __init__(
        self,
        setup: WorkerSetup,
        workers: int,
        *,
        max_requests: int | None = None,
        max_requests_per_second: float | None = None,
        on_ended: Callable[[int, int], None] = lambda _requests, _failed: None,
        on_lost: Callable[[str], None] = lambda _reason: None,
        on_samples: Callable[[Sequence[Sample]], None] = lambda _samples: None,
        on_told: Callable[[Any], None] = lambda _told: None,
        on_waiting: Callable[[str], None] = lambda _who: None,
        on_tripped: Callable[[Tripped], None] = lambda _tripped: None,
    ) -> None:
        self._on_tripped = on_tripped
        self._on_samples = on_samples
        self._on_told = on_told
        self._on_waiting = on_waiting
        self._stops = 0
        self._setup = replace(setup, workers=workers)
        self._max_requests = max_requests
        self._rate_per_s = max_requests_per_second
        self._on_ended = on_ended
        self._on_lost = on_lost
        self._budget: Budget | None = None
        self._links: list[_Link] = []
        self.lengths_learned: PromptLengths = {}
        self._warmed: dict[int, Warmed] = {}
        self._nonces: dict[tuple[str, int, int], str] = {}

    @property
    def pids(self) -> list[int | None]:
        return [link.process.pid for link in self._links]

    @property
    def counts(self) -> Counts:
        return sum((link.progress.counts for link in self._links), Counts())

    def accounting(self, segment: int) -> Accounting:
        """The books of a segment in progress, as told so far."""
        return _added([told for link in self._links if (told := link.progress.accounting.get(segment)) is not None])

    @property
    def sink_failed(self) -> str | None:
        """Why a worker's records are not kept any more."""
        return next((p.sink_failed for p in (link.progress for link in self._links) if p.sink_failed), None)

    async def start(self) -> None:
        """Start the processes and wait until all listen."""
        self._budget = None if self._max_requests is None else Budget.of(self._max_requests)
        for number in range(self._setup.workers):
            self._links.append(
                _Link(number, self._budget, self._progressed, self._on_lost, self._on_waiting, self._on_tripped)
            )
        await asyncio.gather(*(link.begin(replace(self._setup, worker=link.number)) for link in self._links))

    async def prepare(self, group: Sequence[Segment], lengths: LengthModel) -> None:
        """Have the segments that will be driven together prepared. Returns when every worker has said ready."""
        segments = {segment.number: segment for segment in group}
        parts = {number: self._working(segment) for number, segment in segments.items()}
        widest = max(len(working) for working in parts.values())
        rate_per_s = None if self._rate_per_s is None else self._rate_per_s / widest
        asks = []
        for number, working in parts.items():
            asked = Prepare(number, lengths, self._nonce(segments[number]), rate_per_s)
            asks += [link.ask(asked, ("poised", number)) for link in working]
        await asyncio.gather(*asks)

    async def drive(self, segment: Segment, start_ns: int) -> SegmentResult:
        """Drive a prepared segment; every worker begins at `start_ns`. The parts' results, added up; of a worker
        that died, as far as it had told."""
        working = self._working(segment)
        ended = await asyncio.gather(
            *(link.ask(Go(segment.number, start_ns), ("ended", segment.number)) for link in working)
        )
        self.lengths_learned = {}
        self._warmed[segment.number] = sum((answer.warmed for answer in ended if answer), Warmed())
        for answer in ended:
            for task, pairs in answer.lengths.items() if answer else ():
                self.lengths_learned.setdefault(task, []).extend(pairs)
        parts = [
            answer.result if answer else _lost_result(link, segment, start_ns)
            for link, answer in zip(working, ended, strict=True)
        ]
        return merge_results(parts)

    def warmed(self, segment: int) -> Warmed:
        """What a segment of warm-up that was driven has shown; taken once."""
        return self._warmed.pop(segment, Warmed())

    def _nonce(self, segment: Segment) -> str:
        """Begins the cache salts. One for each arm, stage and repeat, so that no repeat and no arm finds a prompt of
        another in a cache, while blocks of one repeat can share a prefix; of warm-up one for each window, since all
        windows ask the same requests."""
        if segment.phase == "warmup":
            return secrets.token_hex(8)
        return self._nonces.setdefault(
            (segment.arm, segment.stage_index, segment.repeat_idx), secrets.token_hex(8)
        )  # fmt: skip

    def stop(self, reason: StopReason) -> None:
        """Start nothing more, also in later segments; a second call cuts what is in flight at once, and waits a few
        seconds at most for a worker that says nothing."""
        self._stops += 1
        for link in self._links:
            link.hurried = self._stops > 1
            link.send(Stop(reason))

    def finish(self, segment: int) -> None:
        """The load of a segment in progress ends now, as if its time were over; later segments are driven."""
        for link in self._links:
            link.send(Finish(segment))

    def hold(self, arm: str) -> None:
        """Start nothing new for an arm until `release`: what is in flight goes on."""
        for link in self._links:
            link.send(Hold(arm))

    def release(self, arm: str, *, was_alive: bool) -> None:
        """Go on with an arm. `was_alive`: it had never been dead."""
        for link in self._links:
            link.send(Release(arm, was_alive))

    async def close(self) -> list[WorkerEnd]:
        """Have every worker write the rest, end, and reap it. How each has ended. Safe to call twice."""
        ends = list(await asyncio.gather(*(link.close() for link in self._links)))
        if self._budget is not None:
            self._budget.close()
            self._budget = None
        return ends

    def _working(self, segment: Segment) -> list[_Link]:
        """Workers whose part of the segment is not empty; at least one."""
        parts = [self._setup.part(segment, link.number).load for link in self._links]
        times = [part.due_ns if isinstance(part, OpenLoop) else part.start_ns for part in parts]
        return [link for link, due in zip(self._links, times, strict=True) if len(due)] or self._links[:1]

    def _progressed(self, link: _Link, progress: Progress) -> None:
        before, link.progress = link.progress.counts, progress
        ended, failed = progress.counts.ended - before.ended, progress.counts.failed - before.failed
        if ended:
            self._on_ended(ended, failed)
        if progress.samples:
            self._on_samples(progress.samples)
        if progress.told is not None:
            self._on_told(progress.told)


class _Link:
    """One worker process, and the pipe to it."""

    def __init__(
        self,
        number: int,
        budget: Budget | None,
        on_progress: Callable[[_Link, Progress], None],
        on_lost: Callable[[str], None],
        on_waiting: Callable[[str], None],
        on_tripped: Callable[[Tripped], None],
    ) -> None:
        self.number = number
        self.gone: str | None = None
        self.hurried = False
        self.progress = Progress(Counts(), {}, None)
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._on_waiting = on_waiting
        self._on_tripped = on_tripped
        self._heard = 0  # messages
        self._answers: dict[tuple[str, int], asyncio.Future[Any]] = {}
        self._end: WorkerEnd | None = None
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(theirs, budget), daemon=True, name=f"specload-worker-{number}")
        with signals_held():
            self.process.start()
        theirs.close()

    async def begin(self, setup: WorkerSetup) -> None:
        """Hand over the setup, secrets and all, and wait until the process listens."""
        loop = asyncio.get_running_loop()
        ready = self._answers[Ready.key] = loop.create_future()
        loop.add_reader(self._pipe.fileno(), self._readable)
        await asyncio.to_thread(self.send, setup)  # large plans: until the process reads
        await self._answered(ready, START_TIMEOUT_S, "did not start within")

    async def ask(self, message: Prepare | Go | Close, key: tuple[str, int], patience_s: int = SILENT_S) -> Any:
        """Send, and wait for the answer; None if the worker is gone, goes meanwhile, or says nothing for so long."""
        if self.gone is not None:
            return None
        answer = self._answers[key] = asyncio.get_running_loop().create_future()
        self.send(message)
        await self._answered(answer, patience_s, "said nothing for")
        return answer.result()

    async def _answered(self, answer: asyncio.Future[Any], patience_s: int, failing: str) -> None:
        """Until the answer is there, or the worker is lost."""
        heard, silent_s = self._heard, 0
        while not answer.done():
            await asyncio.wait([answer], timeout=1.0)
            silent_s = silent_s + 1 if self._heard == heard else 0  # our own waits: a stopped terminal is no silence
            heard = self._heard
            most_s = min(patience_s, HURRIED_S) if self.hurried else patience_s
            if answer.done():
                return
            if silent_s > most_s:
                self.lose(f"{failing} {most_s} s")
            elif self.hurried and silent_s == TOLD_AFTER_S:
                self._on_waiting(
                    f"waiting for worker {self.number} (process {self.process.pid}), which says nothing: "
                    f"{most_s - silent_s + 1} s more at most"
                )

    def send(self, message: WorkerSetup | Prepare | Go | Stop | Finish | Hold | Release | Close) -> None:
        """What cannot be sent is not: that the worker is gone shows where it is read."""
        if self.gone is None:
            with suppress(OSError):
                self._pipe.send(message)

    async def close(self) -> WorkerEnd:
        if self._end is None:
            closed: Closed | None = await self.ask(Close(), ("closed", 0), CLOSE_TIMEOUT_S)
            self._shut("was closed")
            await asyncio.to_thread(self.process.join, 5.0)
            if self.process.is_alive():
                self.process.kill()
                await asyncio.to_thread(self.process.join)
            self.process.close()
            died = self.gone if closed is None else None
            self._end = WorkerEnd(
                self.number,
                died,
                closed.sink_failed if closed else self.progress.sink_failed,
                closed.lost if closed else 0,
            )
        return self._end

    def _readable(self) -> None:
        try:
            while self.gone is None and self._pipe.poll():
                self._take(self._pipe.recv())
        except (EOFError, OSError):
            self.lose(self._ending())

    def _take(self, message: Ready | Poised | Progress | Tripped | Ended | Closed | Failed) -> None:
        self._heard += 1
        if isinstance(message, Progress):
            self._on_progress(self, message)
        elif isinstance(message, Tripped):
            self._on_tripped(message)
        elif isinstance(message, Failed):
            self.lose(f"failed: {message.reason}")
        elif (answer := self._answers.pop(message.key, None)) is not None and not answer.done():
            answer.set_result(message)
        if isinstance(message, Closed):
            self._shut("was closed")  # the end of file behind its last message is no loss

    def _ending(self) -> str:
        self.process.join(0.5)
        code = self.process.exitcode
        if code is None:
            return "closed its pipe"
        return f"died (signal {-code})" if code < 0 else f"ended by itself (exit code {code})"

    def lose(self, how: str) -> None:
        """The worker is no more: told once, to everyone who waits and to the run."""
        if self.gone is None:
            self._shut(f"worker {self.number} {how}")
            self.process.kill()
            self._on_lost(self.gone or "")

    def _shut(self, why: str) -> None:
        if self.gone is not None:
            return
        self.gone = why
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._pipe.close()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)
        self._answers.clear()


def _lost_result(link: _Link, segment: Segment, start_ns: int) -> SegmentResult:
    """Of a worker that died: its accounting as it last told it; what it had not told as sent counts as unsent."""
    told, at_ns = link.progress.accounting.get(segment.number), now_ns()
    books = Accounting() if told is None else replace(told, unsent=told.scheduled - told.sent - told.dropped)
    return SegmentResult(segment.number, link.number, start_ns, start_ns, at_ns, at_ns, books, link.gone)


def merge_results(parts: Sequence[SegmentResult]) -> SegmentResult:
    """The parts of one segment as one: sums, earliest start, latest of all others. `aborted`: the first reason.
    `worker`: of the first part."""
    books = _added([part.accounting for part in parts])
    return replace(
        parts[0],
        started_ns=min(part.started_ns for part in parts),
        full_ns=max(part.full_ns for part in parts),
        load_end_ns=max(part.load_end_ns for part in parts),
        ended_ns=max(part.ended_ns for part in parts),
        accounting=books,
        aborted=next((part.aborted for part in parts if part.aborted), None),
    )


def _added(parts: Sequence[Accounting]) -> Accounting:
    return Accounting(*(sum(getattr(part, f.name) for part in parts) for f in fields(Accounting)))
