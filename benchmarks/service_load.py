"""Do people and Prometheus around the service make a load late?

    python benchmarks/service_load.py [--rate 200] [--seconds 10] [--blocks 4] [--queued 50] [--watchers 20]

Runs asked for through one `specload serve`, against the truth server, in the order alone, beset, beset, alone. Beset:
so many runs of the same target wait behind it, asked for before it began; so many watchers read its events; and
/metrics is scraped every second. Send lag is sent - due of every request; what is compared is each run's P99, as in
scrape_lag.py: the difference of a block is the mean of its two beset runs less that of its other two, the interval is
Student's over the blocks. In both kinds the run's state is asked for every two seconds. Takes about five minutes.

Neighbours are kept off with `nice -n -18` once autogroups are off (docs/wire.md): the service lowers itself below the
runs that it starts, whatever it was started with.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
from accuracy_process import TruthServer, build_server, prepare
from intervals import Floats, mean_interval, quantile_interval
from open_loop import send_lags
from scrape_lag import Scraper, block_differences, p99_s
from service_process import RUN_TIMEOUT_S, Service, Watchers, served
from specload_runs import Whole, scenario

SOURCE = Path(__file__).resolve().parent / "truth_server"
LIMIT_S = 0.0005
ALONE, BESET = "alone", "beset"
POLL_S = 2.0
#: Longer than asking for the whole queue takes.
HOLD_S = 600.0


@dataclass
class Crowd:
    """What was around a run while its load was driven. `queued`: runs that waited, at least; `looks`: events with
    numbers that the watcher who got fewest has got."""

    queued: int
    looks: int
    taken_bytes: int
    scraper: Scraper

    def problems(self, options: argparse.Namespace) -> list[str]:
        """Why this was not what is asked."""
        least = max(1, int(options.seconds) - 3)
        found = []
        if self.queued < options.queued:
            found.append(f"only {self.queued} runs waited")
        if self.looks < least:
            found.append(f"a watcher got {self.looks} looks, fewer than {least}")
        if len(self.scraper.took_s) < least / options.every:
            found.append(f"only {len(self.scraper.took_s)} scrapes")
        return found

    def __str__(self) -> str:
        took = f"{np.median(self.scraper.took_s) * 1e3:.1f} ms" if self.scraper.took_s else "-"
        return (
            f"; {self.queued} queued, at least {self.looks} looks to each watcher ({self.taken_bytes >> 10} KiB in "
            f"all), {len(self.scraper.took_s)} scrapes of {self.scraper.series} series, {took} each"
        )


def main() -> None:
    options = _options()
    prepare()
    print(f"{options.rate:g} requests/s for {options.seconds:g} s a run, one worker, {machine()}")
    lags: dict[str, list[Floats]] = {ALONE: [], BESET: []}
    problems: list[str] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_server(SOURCE, folder / "server")
        with TruthServer(folder / "server", ["--ttft", "2", "--itl", "1"], None) as server:
            load = {"kind": "arrival_rate", "rate_per_s": options.rate, "duration_s": options.seconds}
            load["max_in_flight"] = 10_000
            with served(folder, server.port, scenario(server.port, load, 4)) as service:
                for _ in range(options.blocks):
                    lags[ALONE].append(alone(service))
                    for found, crowd in beset_twice(service, options):
                        lags[BESET].append(found)
                        problems += crowd.problems(options)
                    lags[ALONE].append(alone(service))
    for kind, parts in lags.items():
        low, p99, high = (1e3 * x for x in quantile_interval(np.concatenate(parts), 0.99))
        print(f"{kind}: P99 of {sum(map(len, parts)):,} requests {p99:.3f} ms [{low:.3f}, {high:.3f}]")
    print(sentence([p99_s(x) for x in lags[ALONE]], [p99_s(x) for x in lags[BESET]], problems, options))
    print(f"took {(time.monotonic() - begun) / 60:.1f} min")


def sentence(alone_s: list[float], beset_s: list[float], problems: list[str], options: argparse.Namespace) -> str:
    low, mean, high = mean_interval(block_differences(alone_s, beset_s))
    word = "met" if high < LIMIT_S else "not met" if low > LIMIT_S else "not shown"
    if problems:
        word = f"not shown ({'; '.join(dict.fromkeys(problems))})"
    return (
        f"{options.queued} queued runs, {options.watchers} watchers and a scrape every {options.every:g} s "
        f"move send-lag P99 by {mean * 1e3:+.3f} ms [{low * 1e3:+.3f}, {high * 1e3:+.3f}] (95 %, {options.blocks} "
        f"blocks): limit {LIMIT_S * 1e3:g} ms: {word}"
    )


def machine() -> str:
    file = Path("/proc/sys/kernel/sched_autogroup_enabled")
    groups = {"1": "on", "0": "off"}.get(file.read_text().strip() if file.exists() else "", "unknown")
    return f"{os.cpu_count()} cores, nice {os.nice(0)}, autogroups {groups}, load {os.getloadavg()[0]:.1f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send lag with and without a crowd around the service")
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--blocks", type=int, default=4, help="of four runs each; at least 2, for an interval")
    parser.add_argument("--queued", type=int, default=50)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between scrapes")
    return parser.parse_args()


def alone(service: Service) -> Floats:
    run_id = service.start()
    _over(service, run_id)
    return _lags(service, ALONE, run_id)


def beset_twice(service: Service, options: argparse.Namespace) -> Iterator[tuple[Floats, Crowd]]:
    """A run that holds the target until the whole queue is there, then two that are measured, one after the other."""
    holding = service.start(HOLD_S)
    measured = [service.start(), service.start()]
    waiting = [service.start() for _ in range(options.queued)]
    service.stop(holding)
    _over(service, holding)
    for number, run_id in enumerate(measured):
        with _around(service, run_id, options) as crowd:
            _driven(service, run_id, options.seconds, crowd)
            for name in waiting if number == len(measured) - 1 else ():
                service.stop(name)
        _over(service, run_id)
        yield _lags(service, BESET, run_id, crowd), crowd


@contextmanager
def _around(service: Service, run_id: str, options: argparse.Namespace) -> Iterator[Crowd]:
    crowd = Crowd(2**31, 0, 0, Scraper(options.every))
    scraping = Thread(target=_scrape, args=(crowd.scraper, service))
    with Watchers(service, run_id, options.watchers) as watchers:
        scraping.start()
        try:
            yield crowd
        finally:
            crowd.scraper.end()
            scraping.join()
            crowd.looks, crowd.taken_bytes = min(watchers.looks, default=0), watchers.taken_bytes


def _driven(service: Service, run_id: str, seconds: float, crowd: Crowd) -> None:
    """Until all of its load is sent."""
    end = time.monotonic() + RUN_TIMEOUT_S
    while service.state(run_id) in ("queued", "running"):
        looks = service.ask("GET", f"/api/v1/runs/{run_id}/live")["looks"]
        if looks and looks[-1]["run_s"] >= seconds:
            return
        crowd.queued = min(crowd.queued, service.queued())
        if time.monotonic() > end:
            raise RuntimeError(f"{run_id} is not driven: {service.said()}")
        time.sleep(POLL_S)


def _over(service: Service, run_id: str) -> None:
    end = time.monotonic() + RUN_TIMEOUT_S
    while service.state(run_id) in ("queued", "running"):
        if time.monotonic() > end:
            raise RuntimeError(f"{run_id} does not end: {service.said()}")
        time.sleep(POLL_S)


def _lags(service: Service, kind: str, run_id: str, crowd: Crowd | None = None) -> Floats:
    """Send lags in seconds, of one run."""
    whole = Whole(service.folder / "runs" / run_id, 0, None)
    lags = send_lags(whole)
    p50, p99 = (quantile_interval(lags, q)[1] * 1e3 for q in (0.5, 0.99))
    print(
        f"  {kind:>6}: {len(lags):,} sent, lag p50 {p50:.3f} p99 {p99:.3f} max {lags.max() * 1e3:.1f} ms, "
        f"{service.state(run_id)}, {whole.summary['validity']['state']}, load {os.getloadavg()[0]:.1f}{crowd or ''}",
        flush=True,
    )
    return lags


def _scrape(scraper: Scraper, service: Service) -> None:
    opener = urllib.request.build_opener()
    opener.addheaders = [("Authorization", f"Bearer {service.token}")]
    urllib.request.install_opener(opener)  # Scraper asks as Prometheus does, which has a token as well
    scraper.scrape(f"{service.url}/metrics")


if __name__ == "__main__":
    main()
