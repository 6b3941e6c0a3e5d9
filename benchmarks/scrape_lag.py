"""Does a scrape of our own /metrics every second make requests late?

    python benchmarks/scrape_lag.py [--rate 200] [--seconds 20] [--blocks 4] [--every 1] [--pin]

Whole runs of specload with --metrics-port against the truth server, one worker, in the order not scraped, scraped,
scraped, not scraped. Send lag is sent - due of every request; what is compared is each run's P99. The difference of a
block is the mean of its two scraped runs less that of its other two, and the interval is Student's over the blocks: a
drift of the machine along a line falls out. --pin: all of specload on one core, so that answering a scrape and sending
compete for it.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import numpy as np
from accuracy_process import Pinning, TruthServer, build_server, pinning, prepare
from intervals import Floats, abba, mean_interval, quantile_interval
from open_loop import send_lags
from specload_runs import running, scenario

SOURCE = Path(__file__).resolve().parent / "truth_server"
LIMIT_S = 0.0003
WITHOUT, WITH = "not scraped", "scraped"
TASKS = ("code", "short_qa", "long_form")


@dataclass
class Scraper:
    """Asks as Prometheus does, from a thread of the benchmark's process, until told to end."""

    every_s: float
    series: int = 0
    took_s: list[float] = field(default_factory=list)
    _over: Event = field(default_factory=Event)

    def scrape(self, url: str) -> None:
        request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            begun = time.monotonic()
            with urllib.request.urlopen(request, timeout=5) as answer:
                page = answer.read()
            self.took_s.append(time.monotonic() - begun)
            self.series = sum(not line.startswith(b"#") for line in page.splitlines())
            due += self.every_s

    def end(self) -> None:
        self._over.set()


def main() -> None:
    options = _options()
    prepare()
    pins = pinning() if options.pin else Pinning(None, None, "not pinned")
    print(f"{pins.text}; {options.rate:g} requests/s for {options.seconds:g} s a run, one worker")
    lags: dict[str, list[Floats]] = {WITHOUT: [], WITH: []}
    with tempfile.TemporaryDirectory() as name:
        build_server(SOURCE, Path(name) / "server")
        for number, kind in enumerate(abba(WITHOUT, WITH, 2 * options.blocks)):
            lags[kind].append(one(Path(name), number, kind, pins, options))
    for kind, parts in lags.items():
        low, p99, high = (1e3 * x for x in quantile_interval(np.concatenate(parts), 0.99))
        print(f"{kind}: P99 of {sum(map(len, parts)):,} requests {p99:.3f} ms [{low:.3f}, {high:.3f}]")
    low, mean, high = mean_interval(block_differences(*([p99_s(x) for x in lags[kind]] for kind in (WITHOUT, WITH))))
    met = "met" if high < LIMIT_S else "MISSED" if low > LIMIT_S else "not decided"
    print(
        f"scraping every {options.every:g} s moves send-lag P99 by {mean * 1e3:+.3f} ms "
        f"[{low * 1e3:+.3f}, {high * 1e3:+.3f}] (95 %, {options.blocks} blocks): limit {LIMIT_S * 1e3:g} ms {met}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send lag with and without scrapes of our own metrics")
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--blocks", type=int, default=4, help="of four runs each; at least 2, for an interval")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between scrapes")
    parser.add_argument("--pin", action="store_true", help="server on the first core, all of specload on the second")
    return parser.parse_args()


def one(folder: Path, number: int, kind: str, pins: Pinning, options: argparse.Namespace) -> Floats:
    """Send lags in seconds, of one run."""
    lengths = {"input_len": {"kind": "fixed", "value": 32}, "output_len": {"kind": "fixed", "value": 4}}
    load = {"kind": "arrival_rate", "rate_per_s": options.rate, "duration_s": options.seconds, "max_in_flight": 10_000}
    workload = {"endpoint": "completions", "tasks": [{"task_type": task, **lengths} for task in TASKS]}
    place, scraper = folder / f"run{number}", Scraper(options.every)
    with TruthServer(folder / "server", ["--ttft", "2", "--itl", "1"], pins.server) as server:
        content = scenario(server.port, load, 4, seed=number, workload=workload)
        with running(content, place, pins.client, "--metrics-port", "0") as run:
            run.until_begun()
            url = re.search(r"metrics: (\S+)", (place / "log").read_text())
            assert url is not None
            thread = Thread(target=scraper.scrape, args=(url[1],)) if kind == WITH else None
            if thread is not None:
                thread.start()
            time.sleep(options.seconds)  # the page goes with the run: no scrape may be on its way then
            scraper.end()
            if thread is not None:
                thread.join()
            whole = run.end(timeout_s=60.0)
    lags = send_lags(whole)
    _say(kind, lags, scraper, whole.summary["validity"]["state"])
    return lags


def p99_s(lags: Floats) -> float:
    return quantile_interval(lags, 0.99)[1]


def block_differences(without: Sequence[float], scraped: Sequence[float]) -> list[float]:
    """Of each ABBA block, two runs of either kind: mean scraped less mean not scraped."""
    if len(without) != len(scraped) or len(scraped) % 2:
        raise ValueError(f"{len(without)} and {len(scraped)} runs are no ABBA blocks")
    a, b = (np.asarray(side).reshape(-1, 2).mean(axis=1) for side in (without, scraped))
    return [float(x) for x in b - a]


def _say(kind: str, lags: Floats, scraper: Scraper, state: str) -> None:
    p50, p99 = (quantile_interval(lags, q)[1] * 1e3 for q in (0.5, 0.99))
    took = f"{len(scraper.took_s)} scrapes" + (
        f" of {scraper.series} series, {np.median(scraper.took_s) * 1e3:.1f} ms each" if scraper.took_s else ""
    )
    print(
        f"  {kind:>11}: {len(lags):,} sent, lag p50 {p50:.3f} p99 {p99:.3f} max {lags.max() * 1e3:.1f} ms, {took}, "
        f"{state}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
