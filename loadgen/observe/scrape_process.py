"""The process that scrapes. It shares nothing with the dispatching loop but a pipe.

Messages in: `Setup` first, then `Look`s; end of file ends the process, so it never outlives its
parent. Messages out: `READY`, then `Seen`, `Sampled` and `Done`; `Failed` if it ends by a fault.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing.connection import Connection

import httpx
from pydantic import SecretStr

from loadgen.clock import now_ns
from loadgen.observe.fetch import Refused, fetch
from loadgen.observe.sampling import Sampler
from loadgen.observe.types import Edge, Scrape, ScrapeArm, Scraped, TelemetrySample
from loadgen.processes import ignore_signals
from loadgen.redact import Redactor, names_of
from server_adapters.base import CollectionError, MetricsPage

READY = "ready"
RETRY_AFTER_S = 0.1
#: The second try of a look that matters may take so many times as long: a page may be slow just when its server is.
RETRY_PATIENCE = 3

Parse = Callable[[str], MetricsPage]


@dataclass(frozen=True, slots=True)
class Setup:
    arms: tuple[ScrapeArm, ...]
    interval_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """Scrape all of the arm's pages now. `retry`: once more, with more patience, where a page could not be reached."""

    ticket: int
    arm: str
    edge: Edge | None
    segment: int | None
    retry: bool


@dataclass(frozen=True, slots=True)
class Seen:
    scrape: Scrape


@dataclass(frozen=True, slots=True)
class Sampled:
    sample: TelemetrySample


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to a `Look`: the last scrape of each page, in the arm's order. All were `Seen` before."""

    ticket: int
    scrapes: tuple[Scrape, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The last message of a process that cannot go on."""

    reason: str


def serve(pipe: Connection) -> None:
    """Entry of the child process. Signals are the parent's business: the last scrapes come after them."""
    ignore_signals()
    setup = Setup((), 0.0, 0.0)
    try:
        setup = pipe.recv()
        asyncio.run(_Process(pipe, setup).run())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        redact = Redactor(secret for arm in setup.arms for secret in _secrets(arm))
        pipe.send(Failed(redact(f"{type(error).__name__}: {error}")))
        sys.exit(1)


def redactor_of(arm: ScrapeArm) -> Redactor:
    return Redactor(_secrets(arm))


def _secrets(arm: ScrapeArm) -> tuple[SecretStr, ...]:
    auth = arm.reach.proxy_auth
    return (*arm.headers.values(), *(() if auth is None else (auth,)))


async def scrape_page(
    client: httpx.AsyncClient,
    parse: Parse,
    arm: ScrapeArm,
    url: str,
    timeout_s: float,
    edge: Edge | None = None,
    segment: int | None = None,
) -> Scrape:
    """One look at one page; never raises: what went wrong is the scrape's status and reason (G23), which hold no text
    of the page: they stand in reports (I6)."""
    redact = redactor_of(arm)
    page: MetricsPage | None = None
    status, reason = Scraped.OK, None
    asked_ns = now_ns()
    answered_ns: int | None = None
    try:
        async with asyncio.timeout(timeout_s):
            text = await fetch(client, url, "; check the arm's api_key")
        answered_ns = now_ns()
        page = parse(text)
    except TimeoutError:
        status, reason = Scraped.UNREACHABLE, f"no answer within {timeout_s:g} s"
    except CollectionError as error:
        status, reason = Scraped(error.kind), str(error)
    except Refused as error:
        status, reason = Scraped.UNREACHABLE, str(error)
    except httpx.RemoteProtocolError as error:
        status, reason = Scraped.UNREACHABLE, f"no HTTP answer ({type(error).__name__})"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        status, reason = Scraped.UNREACHABLE, f"{type(error).__name__}: {error}"
    except Exception as error:
        status, reason = Scraped.NOT_METRICS, f"unreadable ({type(error).__name__})"
    return Scrape(
        arm=arm.name,
        source=names_of(arm.metrics_urls, redact)[url],
        asked_ns=asked_ns,
        answered_ns=answered_ns or now_ns(),
        status=status,
        reason=redact(reason) if reason else None,
        page=page,
        edge=edge,
        segment=segment,
    )


class _Process:
    def __init__(self, pipe: Connection, setup: Setup) -> None:
        from server_adapters import adapter_named  # only this process needs the adapters

        self._pipe = pipe
        self._setup = setup
        self._arms = {arm.name: arm for arm in setup.arms}
        self._parse: dict[str, Parse] = {a.name: adapter_named(a.adapter).parse_metrics for a in setup.arms}
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._busy: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def run(self) -> None:
        for arm in self._setup.arms:
            headers = {name: secret.get_secret_value() for name, secret in arm.headers.items()}
            self._clients[arm.name] = httpx.AsyncClient(
                timeout=self._setup.timeout_s * RETRY_PATIENCE,  # `scrape_page` has the limit of each try
                headers={**headers, "Accept-Encoding": "identity"},
                **arm.reach.httpx_options(),
            )
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._commands)
        self._pipe.send(READY)
        self._start(self._periodic())
        sampler = Sampler(
            self._setup.arms, self._setup.timeout_s, redactor_of, lambda sample: self._send(Sampled(sample))
        )
        self._start(sampler.run())
        await self._over.wait()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _commands(self) -> None:
        try:
            while self._pipe.poll():
                self._start(self._look(self._pipe.recv()))
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._over.set()

    def _send(self, message: Seen | Sampled | Done) -> None:
        try:
            self._pipe.send(message)
        except OSError:  # the parent is gone
            self._over.set()

    async def _periodic(self) -> None:
        """Every page on absolute ticks; a page that has not answered yet is not asked again (G22)."""
        begin, tick = asyncio.get_running_loop().time(), 0
        while True:
            for arm in self._setup.arms:
                for url in arm.metrics_urls:
                    if (arm.name, url) not in self._busy:
                        self._start(self._sample(arm, url))
            late = asyncio.get_running_loop().time() - begin
            tick = max(tick + 1, int(late / self._setup.interval_s))
            await asyncio.sleep(begin + tick * self._setup.interval_s - asyncio.get_running_loop().time())

    async def _sample(self, arm: ScrapeArm, url: str) -> None:
        self._busy.add((arm.name, url))
        try:
            await self._once(arm, url, None, None)
        finally:
            self._busy.discard((arm.name, url))

    async def _once(
        self, arm: ScrapeArm, url: str, edge: Edge | None, segment: int | None, patience: int = 1
    ) -> Scrape:
        limit_s = self._setup.timeout_s * patience
        scrape = await scrape_page(self._clients[arm.name], self._parse[arm.name], arm, url, limit_s, edge, segment)
        self._send(Seen(scrape))
        return scrape

    async def _look(self, look: Look) -> None:
        arm = self._arms[look.arm]
        scrapes = await asyncio.gather(*(self._insist(arm, url, look) for url in arm.metrics_urls))
        self._send(Done(look.ticket, tuple(scrapes)))

    async def _insist(self, arm: ScrapeArm, url: str, look: Look) -> Scrape:
        scrape = await self._once(arm, url, look.edge, look.segment)
        if look.retry and scrape.status is Scraped.UNREACHABLE:
            await asyncio.sleep(RETRY_AFTER_S)
            scrape = await self._once(arm, url, look.edge, look.segment, RETRY_PATIENCE)
        return scrape
