"""Real data for the pictures: Prometheus with the committed rules, rehearsal engines, runs, and a watched canary."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

import scenarios
from loadgen.export import RULE_FILES, Limits, rule_file

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "grafana" / "prometheus"
#: After a run's end: so long its last values are served, several scrapes.
LINGER_S = 30
#: The rules' floor of traffic is meant for windows of days; here they hold minutes of it.
FLOOR = Limits(requests_per_s=1e-4)
#: Requests of the canary's users, for each arm.
USERS, PAUSE_S = 3, 0.6


@dataclass
class Stage:
    """Where everything of one drive is: processes end with `closing`, files stay in `folder`."""

    folder: Path
    closing: contextlib.AsyncExitStack

    async def start(self, name: str, *command: str) -> Process:
        log = self.closing.enter_context((self.folder / f"{name}.log").open("wb"))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=log, stderr=STDOUT, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.closing.push_async_callback(_ended, process)
        return process

    async def engines(self, name: str, specs: Mapping[str, str]) -> dict[str, str]:
        """Arm to URL, once all answer."""
        urls = {}
        for arm, spec in specs.items():
            port = free_port()
            urls[arm] = f"http://127.0.0.1:{port}"
            await self.start(
                f"{name}-{arm}", sys.executable, "-m", "server_adapters.rehearsal", "--port", str(port), "--spec", spec,
                "--hardware", "a100", "--per-request-spec-metrics", "detailed",
            )  # fmt: skip
        for url in urls.values():
            await answering(f"{url}/health")
        return urls


async def drive(folder: Path, soak_s: float) -> None:
    """Fills `folder`: Prometheus' data, logs, and drive.json with run ids and times. Takes about `soak_s`."""
    folder.mkdir(parents=True)  # noqa: ASYNC240
    async with contextlib.AsyncExitStack() as closing:
        stage = Stage(folder, closing)
        run_port, watch_port, prometheus_port = free_port(), free_port(), free_port()
        canary = await stage.engines("canary", scenarios.CANARY_ENGINES)
        baseline, candidate = (int(canary[arm].rsplit(":", 1)[1]) for arm in ("baseline", "candidate"))
        targets = {
            "inference": [
                target("baseline:8001", baseline, arm="baseline"),
                target("candidate:8002", candidate, arm="candidate", speculation="expected"),
            ],
            "specload": [target("specload:9464", run_port)],
            "specload-watch": [target("watch:9465", watch_port)],
        }
        configure(folder, targets)
        await stage.start("prometheus", *prometheus(folder, prometheus_port))
        await answering(f"http://127.0.0.1:{prometheus_port}/-/ready")
        named = [f"{arm}={url}" for arm, url in canary.items()]
        await stage.start(
            "watch", sys.executable, "-m", "loadgen", "watch", *named, "--json", "--metrics-port", str(watch_port)
        )
        urls = await stage.engines("sweep", scenarios.SWEEP_ENGINES)
        pair = {"baseline": urls["baseline"], "candidate": urls["k4"]}
        times: dict[str, Any] = {"canary": {"from_ms": now_ms()}}
        async with asyncio.TaskGroup() as both:
            both.create_task(soak(canary, soak_s))
            comparison = both.create_task(run(stage, "ab", scenarios.comparison(pair), run_port))
        times["ab"] = comparison.result()
        # at the end of the picture everything is up: the run has ended, and is still served
        times["canary"]["to_ms"] = min(now_ms(), times["ab"]["to_ms"] - LINGER_S * 500)
        times["sweep"] = await run(stage, "sweep", scenarios.sweep(urls), run_port)
        (folder / "drive.json").write_text(json.dumps(times, indent=2))


async def run(stage: Stage, name: str, content: Mapping[str, Any], port: int) -> dict[str, Any]:
    """A real `specload run`: its times. Raises RuntimeError where it did not get to its end."""
    began_ms = now_ms()
    (stage.folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    process = await stage.start(
        f"run-{name}", sys.executable, "-m", "loadgen", "run", f"{name}.yaml", "--out", "runs",
        "--metrics-port", str(port), "--linger", str(LINGER_S),
    )  # fmt: skip
    code = await process.wait()
    if code not in (0, 98, 99):
        raise RuntimeError(f"{name} ended with {code}: see {stage.folder}/run-{name}.log")
    times = {"scenario": content["name"], "from_ms": began_ms, "to_ms": now_ms(), "exit_code": code}
    print(f"{name}: {times}", flush=True)
    return times


async def soak(urls: Mapping[str, str], length_s: float) -> None:
    """Users of both arms; meanwhile, from 0.4 to 0.75 of the time, the candidate's drafts drift."""
    users = [asyncio.create_task(_use(url, n)) for url in urls.values() for n in range(USERS)]
    try:
        async with httpx.AsyncClient(base_url=urls["candidate"], timeout=10) as candidate:
            await asyncio.sleep(length_s * 0.4)
            (await candidate.post("/rehearsal/faults", json={"name": "draft_drift"})).raise_for_status()
            await asyncio.sleep(length_s * 0.35)
            (await candidate.post("/rehearsal/faults", json={"name": "draft_drift", "clear": True})).raise_for_status()
            await asyncio.sleep(length_s * 0.25)
    finally:
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)


async def _use(url: str, number: int) -> None:
    questions = ("Write a function that adds numbers.", "What is the capital of Norway?", "Describe a river in autumn.")
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for n in range(1_000_000):
            body = {"model": "rehearsal-70b", "prompt": questions[(n + number) % 3], "max_tokens": 48, "seed": n}
            (await client.post("/v1/completions", json=body)).raise_for_status()
            await asyncio.sleep(PAUSE_S)


def configure(folder: Path, targets: Mapping[str, list[dict[str, Any]]]) -> None:
    """The committed configuration, with FLOOR, these targets by job, and no Alertmanager."""
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    del config["alerting"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    for name in RULE_FILES:
        (folder / name).write_text(rule_file(name, limits=FLOOR))
    (folder / "targets").mkdir()
    for job in config["scrape_configs"]:
        found = yaml.safe_dump(targets.get(job["job_name"], []))
        (folder / "targets" / f"{job['job_name']}.yml").write_text(found)


def target(instance: str, port: int, **labels: str) -> dict[str, Any]:
    """With a name that stays the same, whatever port was free."""
    return {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": instance, **labels}}


def prometheus(folder: Path, port: int, config: str = "prometheus.yml") -> list[str]:
    return [
        "prometheus", f"--config.file={folder / config}", f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip


@contextlib.asynccontextmanager
async def stored(folder: Path) -> AsyncIterator[str]:
    """URL of a Prometheus over what a drive left; it scrapes nothing."""
    async with contextlib.AsyncExitStack() as closing:
        (folder / "stored.yml").write_text("{}\n")
        port = free_port()
        await Stage(folder, closing).start("stored", *prometheus(folder, port, "stored.yml"))
        url = f"http://127.0.0.1:{port}"
        await answering(f"{url}/-/ready")
        yield url


async def answering(url: str, limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    async with httpx.AsyncClient(timeout=2) as client:
        while time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(0.2)
    raise TimeoutError(f"{url} did not answer within {limit_s:g} s")


async def _ended(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await process.wait()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


def now_ms() -> int:
    return time.time_ns() // 1_000_000
