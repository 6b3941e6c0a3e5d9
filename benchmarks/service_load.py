"""Do people and Prometheus around the service make a load late?

    python benchmarks/service_load.py [--rate 200] [--seconds 20] [--blocks 4] [--queued 50] [--watchers 20]

Runs asked for through one `specload serve`, against the truth server, in the order alone, beset, beset, alone. Beset:
so many runs are asked for behind it (each is checked and planned while the load is driven) and wait, so many watchers
take its events, and /metrics is scraped. Send lag is sent - due of every request; what is compared is each run's P99,
as in scrape_lag.py: the difference of a block is the mean of its two beset runs less that of its other two, the
interval is Student's over the blocks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
from accuracy_process import TruthServer, build_server, prepare
from intervals import Floats, abba, mean_interval, quantile_interval
from open_loop import send_lags
from scrape_lag import Scraper, block_differences, p99_s
from specload_runs import Whole, environment, scenario

from loadgen.service import new_token

SOURCE = Path(__file__).resolve().parent / "truth_server"
LIMIT_S = 0.0005
ALONE, BESET = "alone", "beset"
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

    def start(self) -> str:
        return str(self.ask("POST", "/api/v1/runs", {"scenario": "benchmark"})["id"])

    def state(self, run_id: str) -> str:
        return str(self.ask("GET", f"/api/v1/runs/{run_id}")["state"])

    def begun(self, run_id: str) -> bool:
        return bool(self.ask("GET", f"/api/v1/runs/{run_id}/live")["looks"])


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
    """Streams of a run's events, taken and counted by one thread."""

    service: Service
    run_id: str
    n: int
    taken_bytes: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: Thread | None = None

    def __enter__(self) -> Watchers:
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._all(),), daemon=True)
        self._over = asyncio.Event()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            self._thread.join(30)

    async def _all(self) -> None:
        tasks = [asyncio.create_task(self._one()) for _ in range(self.n)]
        await self._over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self) -> None:
        host, port = self.service.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /api/v1/runs/{self.run_id}/events HTTP/1.1\r\nHost: {host}\r\n"
        writer.write(f"{head}Authorization: Bearer {self.service.token}\r\n\r\n".encode())
        try:
            while piece := await reader.read(65536):
                self.taken_bytes += len(piece)
        finally:
            writer.close()


def main() -> None:
    options = _options()
    prepare()
    print(f"{options.rate:g} requests/s for {options.seconds:g} s a run, one worker, {os.cpu_count()} cores")
    lags: dict[str, list[Floats]] = {ALONE: [], BESET: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_server(SOURCE, folder / "server")
        with TruthServer(folder / "server", ["--ttft", "2", "--itl", "1"], None) as server:
            load = {"kind": "arrival_rate", "rate_per_s": options.rate, "duration_s": options.seconds}
            load["max_in_flight"] = 10_000
            with served(folder, server.port, scenario(server.port, load, 4)) as service:
                for kind in abba(ALONE, BESET, 2 * options.blocks):
                    lags[kind].append(one(service, kind, options))
    for kind, parts in lags.items():
        low, p99, high = (1e3 * x for x in quantile_interval(np.concatenate(parts), 0.99))
        print(f"{kind}: P99 of {sum(map(len, parts)):,} requests {p99:.3f} ms [{low:.3f}, {high:.3f}]")
    low, mean, high = mean_interval(block_differences(*([p99_s(x) for x in lags[kind]] for kind in (ALONE, BESET))))
    met = "met" if high < LIMIT_S else "MISSED" if low > LIMIT_S else "not decided"
    moved = f"{mean * 1e3:+.3f} ms [{low * 1e3:+.3f}, {high * 1e3:+.3f}] (95 %, {options.blocks} blocks)"
    print(
        f"{options.queued} queued runs, {options.watchers} watchers and a scrape every {options.every:g} s "
        f"move send-lag P99 by {moved}: limit {LIMIT_S * 1e3:g} ms {met}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send lag with and without a crowd around the service")
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--blocks", type=int, default=4, help="of four runs each; at least 2, for an interval")
    parser.add_argument("--queued", type=int, default=50)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between scrapes")
    return parser.parse_args()


def one(service: Service, kind: str, options: argparse.Namespace) -> Floats:
    """Send lags in seconds, of one run."""
    run_id = service.start()
    said = ""
    if kind == BESET:
        said = _beset(service, run_id, options)
    end = time.monotonic() + RUN_TIMEOUT_S
    while (state := service.state(run_id)) in ("queued", "running"):
        if time.monotonic() > end:
            raise RuntimeError(f"{run_id} does not end: {(service.folder / 'log').read_text()[-2000:]}")
        time.sleep(1.0)
    whole = Whole(service.folder / "runs" / run_id, 0, None)
    lags = send_lags(whole)
    p50, p99 = (quantile_interval(lags, q)[1] * 1e3 for q in (0.5, 0.99))
    print(
        f"  {kind:>6}: {len(lags):,} sent, lag p50 {p50:.3f} p99 {p99:.3f} max {lags.max() * 1e3:.1f} ms, {state}, "
        f"{whole.summary['validity']['state']}, load {os.getloadavg()[0]:.1f}{said}",
        flush=True,
    )
    return lags


def _beset(service: Service, run_id: str, options: argparse.Namespace) -> str:
    """Until the load is nearly over."""
    queued: list[str] = []
    asking = Event()

    def ask() -> None:
        while len(queued) < options.queued and not asking.is_set():
            queued.append(service.start())

    scraper = Scraper(options.every)
    threads = [Thread(target=ask), Thread(target=_scrape, args=(scraper, service))]
    with Watchers(service, run_id, options.watchers) as watchers:
        for thread in threads:
            thread.start()
        while not service.begun(run_id):
            time.sleep(0.1)
        time.sleep(options.seconds - 2.0)
        asking.set()
        scraper.end()
        for thread in threads:
            thread.join()
    for name in queued:
        service.ask("POST", f"/api/v1/runs/{name}/stop")
    took = f"{np.median(scraper.took_s) * 1e3:.1f} ms" if scraper.took_s else "-"
    return (
        f"; {len(queued)} queued, {watchers.taken_bytes >> 10} KiB taken by {options.watchers} watchers, "
        f"{len(scraper.took_s)} scrapes of {scraper.series} series, {took} each"
    )


def _scrape(scraper: Scraper, service: Service) -> None:
    opener = urllib.request.build_opener()
    opener.addheaders = [("Authorization", f"Bearer {service.token}")]
    urllib.request.install_opener(opener)  # Scraper asks as Prometheus does, which has a token as well
    scraper.scrape(f"{service.url}/metrics")


if __name__ == "__main__":
    main()
