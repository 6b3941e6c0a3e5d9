"""Real Prometheus and Alertmanager with the committed files, shortened, beside rehearsal engines with faults."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from loadgen.export import Burn, Limits, Windows
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import RehearsalServer

SHORT = Windows(
    rate="3s", run_rate="3s", hold="500ms", run_hold="500ms", scrape_hold="1s", baseline="2m", baseline_ago="4s",
    memory="2m", drift="2m", drift_hold="1m", interval="500ms", run_interval="500ms",
    burns=(Burn("10s", "60s", 14.4, "critical"), Burn("10s", "60s", 3.0, "warning")),
)  # fmt: skip
LIMITS = Limits(draft_tokens_per_s=5, output_tokens_per_s=5)
ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
LOW, ROLLBACK = "SpecloadAcceptanceRateLow", "SpecloadRollbackRateHigh"
SILENT, UNDELIVERED = "SpecloadSpecDecodeSilent", "SpecloadLoadNotDelivered"
CANARY, RUN = "canary", "run"
RUNNING, FAILING = ("SpecloadRunInProgress", RUN), ("SpecloadServerScrapeFailing", CANARY)
BODY = {"model": "rehearsal-70b", "prompt": "Write a function that adds numbers.", "temperature": 0, "ignore_eos": True}

Alert = tuple[str, str]
Until = Callable[..., Any]


@dataclass
class Webhook:
    """What Alertmanager delivered: ((alert, scope), status) in order."""

    told: list[tuple[Alert, str]] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                for alert in json.loads(await reader.readexactly(length))["alerts"]:
                    self.told.append(((alert["labels"]["alertname"], alert["labels"]["scope"]), alert["status"]))
                    assert "<error" not in str(alert["annotations"]), alert["annotations"]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        writer.close()

    def heard(self, name: str, scope: str, status: str) -> bool:
        return ((name, scope), status) in self.told


@dataclass
class Stack:
    engine: httpx.AsyncClient
    prometheus: Any
    alertmanager: httpx.AsyncClient
    webhook: Webhook
    phase: Gauge
    folder: Path

    def target(self, job: str, *targets: dict[str, Any]) -> None:
        (self.folder / "targets" / f"{job}.yml").write_text(yaml.safe_dump(list(targets)))

    async def inhibited(self) -> set[Alert]:
        found = (await self.alertmanager.get("/api/v2/alerts")).json()
        return {(a["labels"]["alertname"], a["labels"]["scope"]) for a in found if a["status"]["inhibitedBy"]}

    async def fault(self, name: str, **options: Any) -> None:
        answer = await self.engine.post("/rehearsal/faults", json={"name": name, **options})
        assert answer.status_code == 200, answer.text

    async def speculate(self, enabled: bool) -> None:
        answer = await self.engine.post("/rehearsal/speculation", json={"enabled": enabled})
        assert answer.status_code == 200, answer.text


def at(port: int | str, **labels: str) -> dict[str, Any]:
    """A target of a scrape job."""
    return {"targets": [f"127.0.0.1:{port}"], "labels": labels}


def managed(folder: Path, webhook: int) -> None:
    """The committed configuration of Alertmanager, with this receiver, without its waiting times."""
    manager = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())
    manager["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    manager["receivers"][1]["webhook_configs"] = [{"url": f"http://127.0.0.1:{webhook}/"}]
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(manager))


async def load(engine: httpx.AsyncClient, max_tokens: int = 64, pause_s: float = 0) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError):
            await engine.post("/v1/completions", json={**BODY, "max_tokens": max_tokens})
        await asyncio.sleep(pause_s)


@pytest.fixture
async def stack(
    tmp_path: Path, program: Callable[[str], str], prometheus_over: Callable[..., Any], free_port: Callable[[], int],
    until: Until,
) -> AsyncIterator[Stack]:  # fmt: skip
    """All of it ready, with one drafting engine in a process of its own."""
    async with contextlib.AsyncExitStack() as closing:
        webhook = Webhook()
        listener = await asyncio.start_server(webhook.answer, "127.0.0.1", 0)
        closing.push_async_callback(listener.wait_closed)
        closing.callback(listener.close)
        registry = CollectorRegistry()
        phase = Gauge("specload_run_phase_timestamp_seconds", "phases", ["run_id", "phase"], registry=registry)
        ours, _ = start_http_server(0, "127.0.0.1", registry)
        closing.callback(ours.server_close)
        closing.callback(ours.shutdown)
        managed(tmp_path, listener.sockets[0].getsockname()[1])

        async def start(*command: str, cwd: Path) -> Process:
            process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL, cwd=cwd)
            closing.push_async_callback(process.wait)
            closing.callback(process.terminate)
            return process

        engine, manager = free_port(), free_port()
        await start(
            program("prometheus-alertmanager"), "--config.file=alertmanager.yml", "--storage.path=am",
            "--web.listen-address", f"127.0.0.1:{manager}", "--cluster.listen-address=", cwd=tmp_path,
        )  # fmt: skip
        rehearsal = (sys.executable, "-m", "server_adapters.rehearsal", "--port", str(engine), "--spec", "draft:k=4")
        await start(*rehearsal, cwd=ROOT)
        clients = [
            await closing.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10))
            for port in (engine, manager)
        ]
        targets = {"inference": [at(engine)], "specload": [at(ours.server_port)], "alertmanager": [at(manager)]}
        prometheus = await closing.enter_async_context(prometheus_over(tmp_path, targets, SHORT, LIMITS))
        for client, path in zip(clients, ("/health", "/-/ready"), strict=True):

            async def ready(client: httpx.AsyncClient = client, path: str = path) -> bool:
                return (await client.get(path)).status_code == 200

            await until(ready, path)
        yield Stack(clients[0], prometheus, clients[1], webhook, phase, tmp_path)


@dataclass
class Quiet:
    """Beside the engine under load: servers that no alert may be about."""

    idle: str
    seldom: str
    restarted: str
    nowhere: str
    restart: Callable[[], Any]


@contextlib.asynccontextmanager
async def quiet_servers(stack: Stack, nowhere: int) -> AsyncIterator[Quiet]:
    """One without a request; one with a broken draft and a few tokens now and then; a busy one that can restart; and
    an address without a server."""
    async with contextlib.AsyncExitStack() as closing:
        config = RehearsalConfig(spec="draft:k=4")
        servers = [RehearsalServer(c) for c in (config, RehearsalConfig(spec="draft:k=4", faults=("draft_drift",)))]
        servers.append(RehearsalServer(config))
        clients = []
        for server in servers:
            await server.start()
            closing.push_async_callback(server.stop)
            client = httpx.AsyncClient(base_url=server.url, timeout=10)
            clients.append(await closing.enter_async_context(client))
        users = [asyncio.create_task(load(clients[1], 4, 6)), asyncio.create_task(load(clients[2]))]

        async def restart() -> None:
            await clients[2].post("/rehearsal/faults", json={"name": "counter_reset"})

        names = [server.url.removeprefix("http://") for server in servers] + [f"127.0.0.1:{nowhere}"]
        engine = str(stack.engine.base_url).removeprefix("http://").rstrip("/")
        stack.target("inference", *({"targets": [name]} for name in (engine, *names)))
        try:
            yield Quiet(*names, restart)
        finally:
            for user in users:
                user.cancel()
            await asyncio.gather(*users, return_exceptions=True)


@pytest.mark.slow
async def test_alerts_fire_reach_a_webhook_and_resolve(
    stack: Stack, until: Until, free_port: Callable[[], int]
) -> None:
    """G14, G15, G17: from servers' own metrics alone: low acceptance, then silence, then silence during a planned run.
    Meanwhile none is about servers that are idle, hardly used, restarted, or not there."""
    webhook, prometheus = stack.webhook, stack.prometheus
    async with quiet_servers(stack, free_port()) as quiet:
        users = [asyncio.create_task(load(stack.engine)) for _ in range(2)]
        try:
            healthy = 'count(specload:acceptance:ratio{scope="canary"} > 0.6) > 1'
            await until(lambda: prometheus.asked(healthy), "healthy acceptance")
            assert await prometheus.firing() <= {FAILING}

            await stack.fault("draft_drift")
            for alert in (LOW, ROLLBACK):
                await until(lambda alert=alert: webhook.heard(alert, CANARY, "firing"), f"{alert} is delivered")
            await stack.fault("draft_drift", clear=True)
            await quiet.restart()
            for alert in (LOW, ROLLBACK):
                await until(lambda alert=alert: webhook.heard(alert, CANARY, "resolved"), f"{alert} is resolved")

            await stack.speculate(False)
            await until(lambda: webhook.heard(SILENT, CANARY, "firing"), "silence is delivered")
            await quiet.restart()
            await stack.speculate(True)
            await until(lambda: webhook.heard(SILENT, CANARY, "resolved"), "silence is resolved")

            await a_planned_run_inhibits(stack, until)
            await no_alert_was_about(stack, quiet)
        finally:
            for user in users:
                user.cancel()
            await asyncio.gather(*users, return_exceptions=True)


async def a_planned_run_inhibits(stack: Stack, until: Until) -> None:
    """While the run's phase stands there, silence is an alert that nobody is told of."""
    silence = ((SILENT, CANARY), "firing")
    stack.phase.labels("r1", "measure").set_to_current_time()

    async def running() -> bool:
        return RUNNING in await stack.prometheus.firing()

    async def inhibited() -> bool:
        return (SILENT, CANARY) in await stack.inhibited()

    await until(running, "the run is seen")
    silences = stack.webhook.told.count(silence)
    await stack.speculate(False)
    await until(inhibited, "silence is inhibited")
    assert (SILENT, CANARY) in await stack.prometheus.firing()
    assert stack.webhook.told.count(silence) == silences
    stack.phase.clear()
    await until(lambda: stack.webhook.told.count(silence) > silences, "after the run the alert is delivered")


async def no_alert_was_about(stack: Stack, quiet: Quiet) -> None:
    """Over the whole test; and each was what it is meant to be: measured, and beyond the limits where it is guarded."""
    asked = stack.prometheus.asked
    names = "|".join((quiet.idle, quiet.seldom, quiet.restarted, quiet.nowhere))
    found = await asked(f'count_over_time(ALERTS{{alertstate="firing",instance=~"{names}"}}[5m])')
    assert {(labels["alertname"], labels["instance"]) for labels, _ in found} == {(FAILING[0], quiet.nowhere)}
    drafted = "specload:draft_tokens:rate"
    (idle,) = await asked(f'max_over_time({drafted}{{instance="{quiet.idle}"}}[5m])')
    (seldom,) = await asked(f'max_over_time({drafted}{{instance="{quiet.seldom}"}}[5m])')
    (bad,) = await asked(f'min_over_time(specload:acceptance:ratio{{instance="{quiet.seldom}"}}[5m])')
    (resets,) = await asked(f'resets(vllm:spec_decode_num_drafts_total{{instance="{quiet.restarted}"}}[5m])')
    (well,) = await asked(f'max_over_time(specload:acceptance:ratio{{instance="{quiet.restarted}"}}[5m])')
    assert idle[1] == 0
    assert 0 < seldom[1] < LIMITS.draft_tokens_per_s
    assert bad[1] < LIMITS.acceptance
    assert resets[1] == 2
    assert well[1] > 0.6


@pytest.mark.slow
async def test_a_real_run_fires_and_resolves(stack: Stack, until: Until, free_port: Callable[[], int]) -> None:
    """The metrics of `specload run`: a run in progress, requests dropped while the engine is slow, drafts that are
    rejected, then none; all resolve, the run's with its end (G18, G19). What the server's own metrics show of it is
    inhibited."""
    port = free_port()
    stack.target("specload", at(port))
    (stack.folder / "live.yaml").write_text(yaml.safe_dump(scenario(str(stack.engine.base_url).rstrip("/"))))
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadgen", "run", "live.yaml", "--metrics-port", str(port), "--linger", "60",
        cwd=stack.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    webhook, prometheus = stack.webhook, stack.prometheus

    async def fires(alert: Alert) -> bool:
        return alert in await prometheus.firing()

    async def rests(alert: Alert) -> bool:
        return alert not in await prometheus.firing()

    async def provoked(*names: str) -> None:
        for name in names:
            await until(lambda name=name: webhook.heard(name, RUN, "firing"), f"{name} is delivered")

    async def over(*names: str) -> None:
        for name in names:
            await until(lambda name=name: webhook.heard(name, RUN, "resolved"), f"{name} is resolved")

    try:
        await until(lambda: fires(RUNNING), "the run is seen")
        await until(lambda: prometheus.asked('specload:acceptance:ratio{scope="run"} > 0.6'), "healthy acceptance")
        assert not {name for name, _ in await prometheus.firing()} & {UNDELIVERED, LOW, ROLLBACK, SILENT}
        await stack.fault("cold_start", factor=30)
        await provoked(UNDELIVERED)
        await stack.fault("cold_start", clear=True)
        await over(UNDELIVERED)
        await stack.fault("draft_drift")
        await provoked(LOW, ROLLBACK)
        await until(lambda: fires((LOW, CANARY)), "the server's metrics show it, too")
        await stack.fault("draft_drift", clear=True)
        await over(LOW, ROLLBACK)
        await stack.speculate(False)
        await provoked(SILENT)
        await stack.speculate(True)
        await over(SILENT)
        assert await fires(RUNNING)
        assert {scope for (_, scope), _ in webhook.told} == {RUN}
        run.terminate()
        await until(lambda: rests(RUNNING), "the run's end is seen")
    finally:
        if run.returncode is None:
            run.terminate()
        await run.wait()


def scenario(url: str) -> dict[str, Any]:
    task = {
        "task_type": "code",
        "input_len": {"kind": "fixed", "value": 40},
        "output_len": {"kind": "fixed", "value": 24},
    }
    return {
        "version": 1,
        "name": "live",
        "environment": "disposable",
        "arms": {"candidate": {"url": url}},
        "workload": {"endpoint": "completions", "tasks": [task]},
        "load": [{"kind": "arrival_rate", "rate_per_s": 6, "duration_s": 120, "max_in_flight": 12}],
        "warmup": {"warmup_requests": 2},
    }
