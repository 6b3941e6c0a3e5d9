"""Real Prometheus and Alertmanager with the committed files, shortened, beside a rehearsal engine with faults."""

import asyncio
import contextlib
import json
import os
import socket
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

from loadgen.export import RULE_FILES, Burn, Limits, Windows, rule_file

SHORT = Windows(
    rate="5s", run_rate="5s", hold="1s", run_hold="1s", scrape_hold="2s", baseline="2m", baseline_ago="6s",
    memory="2m", drift="2m", drift_hold="1m", interval="1s", run_interval="1s",
    burns=(Burn("10s", "60s", 14.4, "critical"), Burn("10s", "60s", 3.0, "warning")),
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
LOW, ROLLBACK = "SpecloadAcceptanceRateLow", "SpecloadRollbackRateHigh"
SILENT, RUNNING = "SpecloadSpecDecodeSilent", "SpecloadRunInProgress"
UNDELIVERED = "SpecloadLoadNotDelivered"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


async def until(true: Callable[[], Any], what: str, limit_s: float = 30) -> Any:
    """`true()`, awaited where it is a coroutine, until it is something."""
    end = asyncio.get_running_loop().time() + limit_s
    while True:
        with contextlib.suppress(httpx.HTTPError):
            found = true()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
        assert asyncio.get_running_loop().time() < end, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.2)


@dataclass
class Webhook:
    """What Alertmanager delivered: (alert, status) in order."""

    told: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                for alert in json.loads(await reader.readexactly(length))["alerts"]:
                    self.told.append((alert["labels"]["alertname"], alert["status"]))
                    assert "<error" not in str(alert["annotations"]), alert["annotations"]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        writer.close()


@dataclass
class Stack:
    engine: httpx.AsyncClient
    prometheus: httpx.AsyncClient
    alertmanager: httpx.AsyncClient
    webhook: Webhook
    phase: Gauge
    folder: Path

    async def firing(self) -> set[str]:
        found = (await self.prometheus.get("/api/v1/alerts")).json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    async def inhibited(self) -> set[str]:
        found = (await self.alertmanager.get("/api/v2/alerts")).json()
        return {alert["labels"]["alertname"] for alert in found if alert["status"]["inhibitedBy"]}

    async def recorded(self, series: str) -> bool:
        found = (await self.prometheus.get("/api/v1/query", params={"query": series})).json()
        return bool(found["data"]["result"])


def configured(folder: Path, targets: dict[str, int], webhook: int) -> None:
    """The committed files with short times, these targets and this receiver."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "1s"}
    for job in config["scrape_configs"]:
        if job["job_name"] not in targets:
            job["file_sd_configs"][0]["files"] = ["targets/none.yml"]
    (folder / "targets").mkdir()
    for name, port in targets.items():
        (folder / "targets" / f"{name}.yml").write_text(yaml.safe_dump([{"targets": [f"127.0.0.1:{port}"]}]))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    for name in RULE_FILES:
        (folder / name).write_text(rule_file(name, SHORT, Limits(draft_tokens_per_s=5, output_tokens_per_s=5)))
    manager = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())
    manager["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    manager["receivers"][1]["webhook_configs"] = [{"url": f"http://127.0.0.1:{webhook}/"}]
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(manager))


async def load(engine: httpx.AsyncClient) -> None:
    body = {"model": "rehearsal-70b", "prompt": "Write a function that adds numbers.", "max_tokens": 64,
            "temperature": 0, "ignore_eos": True}  # fmt: skip
    while True:
        with contextlib.suppress(httpx.HTTPError):
            await engine.post("/v1/completions", json=body)


@pytest.fixture
async def stack(tmp_path: Path, program: Callable[[str], str]) -> AsyncIterator[Stack]:
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
        engine, prometheus, manager = free_port(), free_port(), free_port()
        targets = {"inference": engine, "specload": ours.server_port, "alertmanager": manager}
        configured(tmp_path, targets, listener.sockets[0].getsockname()[1])

        async def start(*command: str) -> Process:
            process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL, cwd=tmp_path)
            closing.push_async_callback(process.wait)
            closing.callback(process.terminate)
            return process

        here = ("--web.listen-address", f"127.0.0.1:{manager}", "--cluster.listen-address=")
        await start(program("prometheus-alertmanager"), "--config.file=alertmanager.yml", "--storage.path=am", *here)
        await start(
            program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
            "--web.listen-address", f"127.0.0.1:{prometheus}",
        )  # fmt: skip
        rehearsal = (sys.executable, "-m", "server_adapters.rehearsal", "--port", str(engine), "--spec", "draft:k=4")
        process = await asyncio.create_subprocess_exec(*rehearsal, stdout=DEVNULL, stderr=DEVNULL, cwd=ROOT)
        closing.push_async_callback(process.wait)
        closing.callback(process.terminate)
        clients = [
            await closing.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10))
            for port in (engine, prometheus, manager)
        ]
        yield Stack(clients[0], clients[1], clients[2], webhook, phase, tmp_path)


async def everything_is_ready(stack: Stack) -> None:
    for name, client, path in (
        ("engine", stack.engine, "/health"),
        ("Prometheus", stack.prometheus, "/-/ready"),
        ("Alertmanager", stack.alertmanager, "/-/ready"),
    ):

        async def ready(client: httpx.AsyncClient = client, path: str = path) -> bool:
            return (await client.get(path)).status_code == 200

        await until(ready, f"{name} is ready")


@pytest.mark.slow
async def test_alerts_fire_reach_a_webhook_and_resolve(stack: Stack) -> None:
    """From the server's own metrics alone: low acceptance, then silence, then silence during a planned run (G17)."""
    await everything_is_ready(stack)
    users = [asyncio.create_task(load(stack.engine)) for _ in range(2)]
    try:
        await until(lambda: stack.recorded('specload:acceptance:ratio{scope="canary"} > 0.6'), "healthy acceptance")
        assert not await stack.firing()

        set_up = await stack.engine.post("/rehearsal/faults", json={"name": "draft_drift"})
        assert set_up.status_code == 200, set_up.text
        for alert in (LOW, ROLLBACK):
            await until(lambda alert=alert: (alert, "firing") in stack.webhook.told, f"{alert} is delivered")
        await stack.engine.post("/rehearsal/faults", json={"name": "draft_drift", "clear": True})
        for alert in (LOW, ROLLBACK):
            await until(lambda alert=alert: (alert, "resolved") in stack.webhook.told, f"{alert} is resolved")

        await stack.engine.post("/rehearsal/speculation", json={"enabled": False})
        await until(lambda: (SILENT, "firing") in stack.webhook.told, "silence is delivered")
        await stack.engine.post("/rehearsal/speculation", json={"enabled": True})
        await until(lambda: (SILENT, "resolved") in stack.webhook.told, "silence is resolved")

        stack.phase.labels("r1", "measure").set_to_current_time()

        async def running() -> bool:
            return RUNNING in await stack.firing()

        await until(running, "the run is seen")
        silences = stack.webhook.told.count((SILENT, "firing"))
        await stack.engine.post("/rehearsal/speculation", json={"enabled": False})

        async def inhibited() -> bool:
            return SILENT in await stack.inhibited()

        await until(inhibited, "silence is inhibited")
        assert SILENT in await stack.firing()
        assert stack.webhook.told.count((SILENT, "firing")) == silences
        stack.phase.clear()
        again = (SILENT, "firing")
        await until(lambda: stack.webhook.told.count(again) > silences, "after the run the alert is delivered")
    finally:
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)


@pytest.mark.slow
async def test_a_real_run_fires_and_resolves(stack: Stack) -> None:
    """The metrics of `specload run`: a run in progress, requests dropped while the engine is slow, then drafts that
    are rejected; all resolve, the run's with its end (G18, G19)."""
    await everything_is_ready(stack)
    port = free_port()
    (stack.folder / "targets" / "specload.yml").write_text(yaml.safe_dump([{"targets": [f"127.0.0.1:{port}"]}]))
    task = {
        "task_type": "code",
        "input_len": {"kind": "fixed", "value": 40},
        "output_len": {"kind": "fixed", "value": 24},
    }
    content = {
        "version": 1,
        "name": "live",
        "environment": "disposable",
        "arms": {"candidate": {"url": str(stack.engine.base_url).rstrip("/")}},
        "workload": {"endpoint": "completions", "tasks": [task]},
        "load": [{"kind": "arrival_rate", "rate_per_s": 6, "duration_s": 90, "max_in_flight": 12}],
        "warmup": {"warmup_requests": 2},
    }
    (stack.folder / "live.yaml").write_text(yaml.safe_dump(content))
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadgen", "run", "live.yaml", "--metrics-port", str(port), "--linger", "60",
        cwd=stack.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip

    async def fires(name: str) -> bool:
        return name in await stack.firing()

    async def rests(name: str) -> bool:
        return name not in await stack.firing()

    try:
        await until(lambda: fires(RUNNING), "the run is seen")
        await until(lambda: stack.recorded('specload:acceptance:ratio{scope="run"} > 0.6'), "healthy acceptance")
        assert not (await stack.firing()) & {UNDELIVERED, LOW, ROLLBACK, SILENT}
        for fault, alert in (({"name": "cold_start", "factor": 30}, UNDELIVERED), ({"name": "draft_drift"}, LOW)):
            await stack.engine.post("/rehearsal/faults", json=fault)
            await until(lambda alert=alert: fires(alert), f"{alert} fires")
            await until(lambda alert=alert: (alert, "firing") in stack.webhook.told, f"{alert} is delivered")
            await stack.engine.post("/rehearsal/faults", json={"name": fault["name"], "clear": True})
            await until(lambda alert=alert: rests(alert), f"{alert} resolves")
        assert await fires(RUNNING)
        run.terminate()
        await until(lambda: rests(RUNNING), "the run's end is seen")
    finally:
        if run.returncode is None:
            run.terminate()
        await run.wait()
