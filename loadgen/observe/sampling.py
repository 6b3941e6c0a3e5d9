"""Looks at the arms' hardware every so often, inside the scraping process: NVML, exporters' pages, processes.

Calls that block (NVML, psutil) run in a thread, so that a slow driver delays no scrape and a scrape no sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx

from loadgen.clock import now_ns
from loadgen.observe.fetch import Refused, fetch
from loadgen.observe.types import ScrapeArm, TelemetrySample
from loadgen.observe.usage import ProcessReader
from loadgen.redact import Redactor, names_of
from loadgen.scenario import Reach
from server_adapters.base import CollectionError
from server_adapters.gpu_exporters import read_gpu_page
from server_adapters.telemetry import Look

if TYPE_CHECKING:
    from loadgen.observe.nvml import NvmlReader

NVML = "nvml"
Take = Callable[[], Awaitable[Look | str]]


class _Nvml:
    """The library is imported by the first look, in its thread: few runs need it, and it takes its time."""

    def __init__(self, devices: tuple[int | str, ...]) -> None:
        self._devices = devices
        self._reader: NvmlReader | None = None

    def read(self) -> Look:
        if self._reader is None:
            from loadgen.observe.nvml import NvmlReader

            self._reader = NvmlReader(self._devices)
        return self._reader.read()


class Sampler:
    """Emits a sample of every source of every arm each `interval_s`, also a failed one. `run` ends by being cancelled,
    or at once where no arm has a source."""

    def __init__(
        self,
        arms: tuple[ScrapeArm, ...],
        timeout_s: float,
        redactor_of: Callable[[ScrapeArm], Redactor],
        emit: Callable[[TelemetrySample], None],
    ) -> None:
        self._arms = tuple(arm for arm in arms if arm.telemetry.any)
        self._timeout_s = timeout_s
        self._redactor_of = redactor_of
        self._emit = emit

    async def run(self) -> None:
        if not self._arms:
            return
        async with AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
            for arm in self._arms:
                client = await clients.enter_async_context(self._client(arm))
                for name, take in self._takes(arm, client).items():
                    tasks.create_task(self._periodic(arm, name, take))

    def _client(self, arm: ScrapeArm) -> httpx.AsyncClient:
        """An arm's headers and certificates are for its servers: an exporter is another service, and gets no secret."""
        reach = Reach(arm.name, resolve=arm.reach.resolve)
        return httpx.AsyncClient(timeout=self._timeout_s, **reach.httpx_options())

    def _takes(self, arm: ScrapeArm, client: httpx.AsyncClient) -> dict[str, Take]:
        """What to call for a look at each source."""
        sources, found = arm.telemetry, dict[str, Take]()
        if sources.nvml:
            found[NVML] = partial(asyncio.to_thread, _Nvml(sources.nvml).read)
        if sources.pid is not None:
            found[f"pid {sources.pid}"] = partial(asyncio.to_thread, ProcessReader(sources.pid).read)
        for url, name in names_of(sources.gpu_metrics_urls, self._redactor_of(arm)).items():
            found[name] = partial(self._page, client, url, sources.devices)
        return found

    async def _page(self, client: httpx.AsyncClient, url: str, devices: tuple[int | str, ...]) -> Look | str:
        try:
            async with asyncio.timeout(self._timeout_s):
                text = await fetch(client, url)
            return read_gpu_page(text, devices)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except (CollectionError, Refused) as error:
            return str(error)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}"

    async def _periodic(self, arm: ScrapeArm, source: str, take: Take) -> None:
        """On absolute ticks; a source that has not answered yet is not asked again."""
        loop = asyncio.get_running_loop()
        begin, tick, interval_s = loop.time(), 0, arm.telemetry.interval_s
        while True:
            self._emit(await self._sample(arm, source, take))
            tick = max(tick + 1, int((loop.time() - begin) / interval_s))
            await asyncio.sleep(begin + tick * interval_s - loop.time())

    async def _sample(self, arm: ScrapeArm, source: str, take: Take) -> TelemetrySample:
        redact = self._redactor_of(arm)
        asked_ns = now_ns()
        try:
            look = await take()
        except Exception as error:  # a library's surprise costs the sample, not the scrapes
            look = f"{type(error).__name__}: {error}"
        answered_ns = now_ns()
        if isinstance(look, str):
            return TelemetrySample(arm.name, source, asked_ns, answered_ns, redact(look), ())
        absent = {name: redact(why) for name, why in look.absent.items()}
        reason = None if look.readings else next(iter(absent.values()), "it tells nothing")
        return TelemetrySample(arm.name, source, asked_ns, answered_ns, reason, look.readings, absent)
