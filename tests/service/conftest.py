"""Services for tests: one in this process for what needs no run, one as the command that users start for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml

from loadgen.service.app import guarded, make_app
from loadgen.service.config import ServiceConfig
from loadgen.service.outgoing import Resolver, look_up
from loadgen.service.serving import listen_on, server_of
from loadgen.service.state import Service
from loadgen.service.tokens import hashed
from server_adapters.rehearsal.config import RehearsalConfig

ROOT = Path(__file__).resolve().parents[2]
#: Hashes of few rounds: the tests' tokens are no secrets.
ROUNDS = 2**4
TOKENS = {name: f"sl_{name}_{name * 8}" for name in ("eye", "ops")}
LENGTHS = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "fixed", "value": 6}}
#: A run of some seconds.
SMALL: dict[str, Any] = {
    "version": 1,
    "name": "small",
    "environment": "disposable",
    "arms": {"base": {"target": "one"}},
    "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **LENGTHS}]},
    "load": [{"kind": "concurrency", "concurrency": 2, "cases": 6}],
    "warmup": {"warmup_requests": 0},
    "scrape": {"interval_s": 0.5, "timeout_s": 2, "idle_wait_s": 0},
}


def scenario(**changes: Any) -> str:
    return yaml.safe_dump({**SMALL, **changes}, sort_keys=False)


def plain_config(folder: Path, **changes: Any) -> dict[str, Any]:
    """service.yaml as data: a viewer `eye`, an operator `ops`, a target that nobody listens at."""
    (folder / "scenarios").mkdir(exist_ok=True)
    (folder / "scenarios" / "small.yaml").write_text(scenario())
    base = {
        "version": 1,
        "listen": {"port": 0},
        "folders": {k: str(folder / k) for k in ("scenarios", "uploads", "runs")}
        | {"database": str(folder / "specload.db")},
        "targets": {"one": {"url": "http://127.0.0.1:9", "environment": "disposable"}},
        "outgoing": {"networks": ["127.0.0.0/8"]},
        "tokens": [
            {"name": "eye", "role": "viewer", "hash": hashed(TOKENS["eye"], n=ROUNDS)},
            {"name": "ops", "role": "operator", "hash": hashed(TOKENS["ops"], n=ROUNDS)},
        ],
        "limits": {"requests_per_minute": 100_000, "failures_per_minute": 100_000},
    }
    return {**base, **changes}


@dataclass
class InProcess:
    service: Service
    client: httpx.AsyncClient

    async def ask(self, method: str, path: str, who: str | None = "ops", **more: Any) -> httpx.Response:
        headers = {**({} if who is None else {"Authorization": f"Bearer {TOKENS[who]}"}), **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)


MakeInside = Callable[..., AbstractAsyncContextManager[InProcess]]


@pytest.fixture
def inside(tmp_path: Path) -> MakeInside:
    """async with inside(**changes of service.yaml) as service: in this process, without a socket."""

    @asynccontextmanager
    async def run(resolver: Resolver = look_up, **changes: Any) -> AsyncIterator[InProcess]:
        service = Service(ServiceConfig.model_validate(plain_config(tmp_path, **changes)), resolver)
        app = make_app(service)
        transport = httpx.ASGITransport(app=guarded(app), raise_app_exceptions=False)  # type: ignore[arg-type]
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            yield InProcess(service, client)

    return run


@dataclass
class Live(InProcess):
    """A real server on a real socket, in this process: so that a test can say what time it is."""

    port: int
    server: uvicorn.Server

    async def connect(self, text: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that sends what it is told to, and no more."""
        before = len(self.server.server_state.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.replace("\n", "\r\n").encode())
        await self.until(lambda: len(self.server.server_state.connections) > before)
        return reader, writer

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not true():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def later(self, seconds: float) -> None:
        """What the service does with its connections once so much time has passed."""
        self.service.patience.look(time.monotonic() + seconds)


@pytest.fixture
def live(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Live]]:
    """async with live(**changes of service.yaml) as service."""

    @asynccontextmanager
    async def run(**changes: Any) -> AsyncIterator[Live]:
        config = ServiceConfig.model_validate(plain_config(tmp_path, **changes))
        with listen_on(config) as listener:
            service = Service(config)
            listener.connections, port = service.connections, listener.getsockname()[1]
            server = server_of(service)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                while not server.started:
                    assert not serving.done(), serving
                    await asyncio.sleep(0.005)
                url = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
                    yield Live(service, client, port, server)
            finally:
                server.should_exit = True
                await serving

    return run


MakeLive = Callable[..., AbstractAsyncContextManager[Live]]


@dataclass
class Served:
    """A real one. `ask` is for `ops` unless another name is given."""

    folder: Path
    process: subprocess.Popen[bytes]
    client: httpx.Client
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def ask(self, method: str, path: str, who: str | None = "ops", **more: Any) -> httpx.Response:
        headers = {**({} if who is None else {"Authorization": f"Bearer {TOKENS[who]}"}), **more.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **more)

    def start(self, name: str = "small", **asked: Any) -> str:
        answer = self.ask("POST", "/api/v1/runs", json={"scenario": name, **asked})
        assert answer.status_code == 202, answer.text
        found: str = answer.json()["id"]
        return found

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/api/v1/runs/{run_id}").json()
        return found

    def until(self, true: Callable[[], Any], what: str, limit_s: float = 90) -> Any:
        end = time.monotonic() + limit_s
        while not (found := true()):
            assert time.monotonic() < end, f"not within {limit_s:g} s: {what}\n{self.log()[-3000:]}"
            time.sleep(0.1)
        return found

    def over(self, run_id: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            row = self.run(run_id)
            return None if row["state"] in ("queued", "running") else row

        found: dict[str, Any] = self.until(ended, f"{run_id} is over")
        return found

    def in_state(self, run_id: str, state: str) -> None:
        self.until(lambda: self.run(run_id)["state"] == state, f"{run_id} is {state}")

    def drives(self, run_id: str) -> None:
        """Until some requests have ended."""

        def ended() -> bool:
            looks = self.ask("GET", f"/api/v1/runs/{run_id}/live").json()["looks"]
            return bool(looks) and looks[-1]["arms"]["base"]["outcomes"].get("ok", 0) > 3

        self.until(ended, f"{run_id} drives load")

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()
        self.client.close()

    def put(self, name: str, text: str) -> None:
        (self.folder / "scenarios" / f"{name}.yaml").write_text(text)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def events(self, run_id: str, last: str | None = None) -> list[tuple[str, str, Any]]:
        """(id, kind, data) of a stream until it ends."""
        headers = {} if last is None else {"Last-Event-ID": last}
        answer = self.ask("GET", f"/api/v1/runs/{run_id}/events", headers=headers, timeout=90)
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = re.findall(r"id: (\S+)\nevent: (\w+)\ndata: (.*)\n\n", answer.text)
        return [(i, kind, json.loads(data)) for i, kind, data in found]


def begin(folder: Path, config: dict[str, Any], env: dict[str, str] | None = None, verify: bool = True) -> Served:
    """Start `specload serve` and wait until it is ready."""
    (folder / "service.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    with (folder / "log").open("ab") as log:
        at = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "loadgen", "serve", "--config", "service.yaml"], cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        )  # fmt: skip
    served = Served(folder, process, httpx.Client(trust_env=False, timeout=60, verify=verify))

    def url() -> str | None:
        assert process.poll() is None, served.log()
        found = re.search(r"specload serves at (\S+)", served.log()[at:])
        return None if found is None else found[1]

    served.client.base_url = httpx.URL(served.until(url, "the service says where it is"))

    def ready() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return served.client.get("/ready").status_code == 200
        return False

    served.until(ready, "the service is ready")
    return served


def end(served: Served) -> int:
    """As a service manager does."""
    if served.process.poll() is None:
        served.process.send_signal(signal.SIGTERM)
    try:
        return served.process.wait(60)
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()
        served.client.close()


@pytest.fixture(scope="module")
def engines(
    rehearsal: Callable[[RehearsalConfig], AbstractContextManager[str]],
) -> Iterator[dict[str, str]]:
    """Two engines that speculate."""
    with (
        rehearsal(RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0)) as one,
        rehearsal(RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0)) as two,
    ):
        yield {"one": one, "two": two}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engines: dict[str, str]) -> Iterator[Served]:
    """A service on both engines that runs two loads at once."""
    folder = tmp_path_factory.mktemp("service")
    config = plain_config(
        folder,
        targets={name: {"url": url, "environment": "disposable"} for name, url in engines.items()},
        limits={"at_once": 2, "requests_per_minute": 100_000, "failures_per_minute": 100_000},
    )
    found = begin(folder, config)
    try:
        yield found
    finally:
        assert end(found) == 0, found.log()
