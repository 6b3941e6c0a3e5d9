"""A real `specload serve` for a benchmark, and people who watch a run of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from specload_runs import environment

from loadgen.service import new_token

START_TIMEOUT_S, RUN_TIMEOUT_S = 60.0, 170.0


@dataclass
class Service:
    url: str
    token: str
    folder: Path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def start(self, seconds: float | None = None) -> str:
        """`seconds`: of load, instead of the scenario's."""
        overrides = {} if seconds is None else {"load.0.duration_s": seconds}
        return str(self.ask("POST", "/api/v1/runs", {"scenario": "benchmark", "overrides": overrides})["id"])

    def stop(self, run_id: str) -> None:
        """Nothing where it is over by now."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.ask("POST", f"/api/v1/runs/{run_id}/stop")

    def state(self, run_id: str) -> str:
        return str(self.ask("GET", f"/api/v1/runs/{run_id}")["state"])

    def queued(self) -> int:
        return int(self.ask("GET", "/ready")["queued"])

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]


@contextmanager
def served(folder: Path, port: int, content: dict[str, Any]) -> Iterator[Service]:
    """A service with one target, and the scenario on it. Ended with the block."""
    token, kept = new_token("benchmark")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "benchmark.yaml").write_text(
        json.dumps({**content, "arms": {"truth": {"target": "truth"}}})
    )
    target = {"url": f"http://127.0.0.1:{port}", "metrics_urls": [], "environment": "disposable"}
    config = {
        "version": 1,
        "targets": {"truth": target},
        "outgoing": {"networks": ["127.0.0.0/8"]},
        "tokens": [{"name": "benchmark", "role": "operator", "hash": kept}],
        "limits": {"at_once": 1, "requests_per_minute": 100_000},
    }
    (folder / "service.yaml").write_text(json.dumps(config))
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "loadgen", "serve", "--port", "0"],
            cwd=folder, env=environment(), stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        yield Service(_url(log), token, folder)
    finally:
        process.terminate()
        process.wait(RUN_TIMEOUT_S)


def _url(log: Path) -> str:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        found = re.search(r"serves at (\S+)", log.read_text())
        if found is not None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{found[1]}/ready", timeout=5):
                return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"the service does not answer: {log.read_text()[-2000:]}")


@dataclass
class Watchers:
    """Streams of a run's events, taken and counted by one thread. `looks`: that each stream has got."""

    service: Service
    run_id: str
    n: int
    taken_bytes: int = 0
    looks: list[int] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: Thread | None = None

    def __enter__(self) -> Watchers:
        self.looks = [0] * self.n
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._all(),), daemon=True)
        self._over = asyncio.Event()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            self._thread.join(30)

    async def _all(self) -> None:
        tasks = [asyncio.create_task(self._one(i)) for i in range(self.n)]
        await self._over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, number: int) -> None:
        host, port = self.service.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /api/v1/runs/{self.run_id}/events HTTP/1.1\r\nHost: {host}\r\n"
        writer.write(f"{head}Authorization: Bearer {self.service.token}\r\n\r\n".encode())
        try:
            while piece := await reader.read(65536):
                self.taken_bytes += len(piece)
                self.looks[number] += piece.count(b"event: look\n")
        finally:
            writer.close()
