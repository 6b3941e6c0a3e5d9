"""The parent's side of the scraping process: questions, answers, and what to say when it is gone."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from loadgen.clock import now_ns
from loadgen.observe.gauges import idle, load, value
from loadgen.observe.scrape_process import (
    READY,
    RETRY_PATIENCE,
    Done,
    Failed,
    Look,
    Sampled,
    Seen,
    Setup,
    redactor_of,
    serve,
)
from loadgen.observe.types import Edge, Idle, Scrape, ScrapeArm, Scraped, TelemetrySample
from loadgen.processes import signals_held
from loadgen.redact import names_of

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
#: A server that cannot be reached for so long is not waited for: it does not become idle by itself.
PATIENCE_S = 3.0
#: Between two looks while waiting for an idle server.
IDLE_POLL_S = 0.25
#: Beyond the scrapes' own time limits: a process that says nothing for so long is not there.
GRACE_S = 2.0


class Scraper:
    """Scrapes every page of every arm every `interval_s` in a child process; more looks on demand.

    Every scrape taken, also failed ones and first tries, goes to `on_scrape` exactly once and in
    order of arrival; what `edge` returns are the same objects. Without `on_scrape` they are kept
    for `drain`. Samples of the arms' hardware go to `on_sample` likewise. If the process ends by itself,
    later scrapes are UNREACHABLE and say so, and no sample comes. The loop only reads small messages
    from a pipe.
    """

    def __init__(
        self,
        arms: Sequence[ScrapeArm],
        interval_s: float,
        timeout_s: float,
        on_scrape: Callable[[Scrape], None] | None = None,
        on_sample: Callable[[TelemetrySample], None] = lambda _sample: None,
    ) -> None:
        self._setup = Setup(tuple(arms), interval_s, timeout_s)
        self._arms = {arm.name: arm for arm in arms}
        self._kept: list[Scrape] = []
        self._on_scrape = on_scrape or self._kept.append
        self._on_sample = on_sample
        self._latest: dict[tuple[str, str], Scrape] = {}
        self._answers: dict[int, asyncio.Future[tuple[Scrape, ...]]] = {}
        self._ticket = 0
        self._pipe: Connection | None = None
        self._process: BaseProcess | None = None
        self._ready = asyncio.Event()
        self._closed = asyncio.Event()
        self._stopping = False
        self.gone: str | None = "the scraping process was not started"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the process and wait until it scrapes. Does not raise: a failed start shows in every scrape."""
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(theirs,), daemon=True, name="specload-scraper")
        with signals_held():
            self._process.start()
        theirs.close()
        self.gone = None
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._readable)
        self._send(self._setup)
        ended = asyncio.create_task(self._closed.wait())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait((ended, ready), timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        ready.cancel()
        if not self._ready.is_set() and self.gone is None:
            self.gone = f"the scraping process did not start within {START_TIMEOUT_S:g} s"

    async def edge(self, arm: str, segment: int, edge: Edge) -> list[Scrape]:
        """Scrape all the arm's pages now; an unreachable one twice, the second time with RETRY_PATIENCE. One scrape a
        page, marked as the edge."""
        return await self._look(arm, edge, segment, retry=True)

    async def wait_idle(self, arm: str, timeout_s: float) -> Idle:
        """Look until running + waiting = 0 on every page, at least once, at most `timeout_s`."""
        begin = time.monotonic()
        if not self._arms[arm].metrics_urls:
            return Idle(None, "the arm has no metrics page", 0.0)
        while True:
            scrapes = await self._look(arm, None, None, retry=False)
            waited = time.monotonic() - begin
            state = idle(scrapes)
            if state:
                return Idle(True, None, waited)
            unreachable = [s.status is Scraped.UNREACHABLE for s in scrapes]
            cannot_tell = state is None and (not any(unreachable) or (all(unreachable) and waited > PATIENCE_S))
            if cannot_tell or waited + IDLE_POLL_S > timeout_s or self.gone:
                return Idle(state, _why_not_idle(scrapes), waited)
            await asyncio.sleep(IDLE_POLL_S)

    def latest(self, arm: str) -> list[Scrape]:
        """The newest scrape of every page of the arm that has one."""
        return [scrape for (name, _), scrape in self._latest.items() if name == arm]

    def waiting(self, arm: str) -> int | None:
        """Requests in the queues of the arm's servers at the latest scrapes; None if a page does not tell."""
        pages = [scrape.page for scrape in self.latest(arm)]
        queued = [value(page, "waiting") if page is not None else None for page in pages]
        known = [n for n in queued if n is not None]
        expected = len(set(self._arms[arm].metrics_urls))
        return int(sum(known)) if known and len(known) == expected else None

    def drain(self) -> list[Scrape]:
        """Take the scrapes that came since the last call (only without `on_scrape`)."""
        taken, self._kept[:] = list(self._kept), []
        return taken

    async def stop(self) -> None:
        """End the process and reap it. Safe to call twice, and when it has died."""
        self._stopping = True
        if self._process is None or self._pipe is None:
            return
        self._lose("the scraper was stopped")
        await asyncio.to_thread(self._process.join, STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._process.close()
        self._process = self._pipe = None

    async def _look(self, arm: str, edge: Edge | None, segment: int | None, *, retry: bool) -> list[Scrape]:
        if self.gone is None:
            self._ticket += 1
            ticket = self._ticket
            answer = self._answers[ticket] = asyncio.get_running_loop().create_future()
            self._send(Look(ticket, arm, edge, segment, retry))
            limit = self._setup.timeout_s * (1 + RETRY_PATIENCE if retry else 1) + GRACE_S
            try:
                return list(await asyncio.wait_for(answer, limit))
            except TimeoutError:
                return self._unreachable(arm, edge, segment, f"the scraping process said nothing for {limit:g} s")
            except _Gone:
                pass
            finally:
                self._answers.pop(ticket, None)
        return self._unreachable(arm, edge, segment, self.gone or "the scraping process is gone")

    def _unreachable(self, arm: str, edge: Edge | None, segment: int | None, reason: str) -> list[Scrape]:
        at, facts = now_ns(), self._arms[arm]
        scrapes = [
            Scrape(arm, name, at, at, Scraped.UNREACHABLE, reason, None, edge, segment)
            for name in names_of(facts.metrics_urls, redactor_of(facts)).values()
        ]
        for scrape in scrapes:
            self._seen(scrape)
        return scrapes

    def _send(self, message: Setup | Look) -> None:
        try:
            if self._pipe is not None:
                self._pipe.send(message)
        except OSError:
            self._lose(self._ending())

    def _readable(self) -> None:
        assert self._pipe is not None
        try:
            while not self._closed.is_set() and self._pipe.poll():
                self._take(self._pipe.recv())
        except (EOFError, OSError):
            self._lose(self._ending())

    def _take(self, message: str | Seen | Sampled | Done | Failed) -> None:
        if message == READY:
            self._ready.set()
        elif isinstance(message, Seen):
            self._seen(message.scrape)
        elif isinstance(message, Sampled):
            self._on_sample(message.sample)
        elif isinstance(message, Done):
            answer = self._answers.get(message.ticket)
            if answer is not None and not answer.done():
                answer.set_result(message.scrapes)
        elif isinstance(message, Failed):
            self._lose(f"the scraping process failed: {message.reason}")

    def _seen(self, scrape: Scrape) -> None:
        self._latest[scrape.arm, scrape.source] = scrape
        self._on_scrape(scrape)

    def _ending(self) -> str:
        assert self._process is not None
        self._process.join(0.1)
        code = self._process.exitcode
        return "the scraping process has ended by itself" + (f" (exit code {code})" if code is not None else "")

    def _lose(self, reason: str) -> None:
        """The pipe is no more: say so once on every page, and to everyone who waits."""
        if self._closed.is_set() or self._pipe is None:
            return
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._pipe.close()
        self.gone = reason
        self._closed.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(_Gone())
        if not self._stopping:
            for arm in self._arms:
                self._unreachable(arm, None, None, reason)


class _Gone(Exception):
    """The process ended while it was being asked."""


def _why_not_idle(scrapes: Sequence[Scrape]) -> str:
    for scrape in scrapes:
        if scrape.page is None:
            return f"{scrape.source}: {scrape.status}: {scrape.reason}"
        if load(scrape) is None:
            return f"{scrape.source}: does not tell running and waiting requests"
    return f"{sum(load(s) or 0 for s in scrapes):g} requests still running or waiting"
