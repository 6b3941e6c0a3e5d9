"""An open loop at 1,000 requests/s on one worker: how late requests are sent, and how many of those asked for.

    python benchmarks/open_loop.py [--rate 1000] [--seconds 15] [--runs 2] [--arrivals poisson]

Whole runs of specload against the truth server, answers of 4 tokens within 5 ms, transports in the order kernel, plain,
plain, kernel. Send lag is sent - due of every request, its P99 with a 95 % interval by order statistics (requests near
each other are late together: it is too narrow). Delivered: requests sent while load was due / arrivals of the plan.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from accuracy_process import Pinning, TruthServer, build_server, pinning, prepare
from intervals import Floats, abba, quantile_interval
from specload_runs import Whole, run, scenario

SOURCE = Path(__file__).resolve().parent / "truth_server"
LAG_P99_S, DELIVERED = 0.002, 0.995


def main() -> None:
    options = _options()
    prepare()
    pins = pinning()
    print(f"{pins.text}; {options.rate:g} requests/s ({options.arrivals}) for {options.seconds:g} s a run, one worker")
    lags: dict[str, list[Floats]] = {"kernel": [], "plain": []}
    delivered: dict[str, list[float]] = {"kernel": [], "plain": []}
    with tempfile.TemporaryDirectory() as name:
        build_server(SOURCE, Path(name) / "server")
        for number, transport in enumerate(abba("kernel", "plain", options.runs)):
            whole = one(Path(name), number, transport, pins, options)
            lags[transport].append(send_lags(whole))
            delivered[transport].append(whole.client("delivered_rate_share") or 0.0)
            _say(transport, lags[transport][-1], delivered[transport][-1], whole)
    for transport, parts in lags.items():
        low, p99, high = quantile_interval(np.concatenate(parts), 0.99)
        share = min(delivered[transport])
        met = "met" if p99 <= LAG_P99_S and share >= DELIVERED else "MISSED"
        print(
            f"{transport}: send lag P99 {p99 * 1e3:.3f} ms [{low * 1e3:.3f}, {high * 1e3:.3f}] of "
            f"{sum(map(len, parts)):,} requests, delivered at least {share:.3%}: limits (2 ms, 99.5 %) {met}"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send lag and delivered rate of an open loop")
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--runs", type=int, default=2, help="of each transport")
    parser.add_argument("--arrivals", choices=("poisson", "uniform"), default="poisson")
    return parser.parse_args()


def one(folder: Path, number: int, transport: str, pins: Pinning, options: argparse.Namespace) -> Whole:
    load = {
        "kind": "arrival_rate",
        "rate_per_s": options.rate,
        "duration_s": options.seconds,
        "arrivals": options.arrivals,
        "max_in_flight": 10_000,
    }
    with TruthServer(folder / "server", ["--ttft", "2", "--itl", "1"], pins.server) as server:
        content = scenario(server.port, load, 4, seed=number)
        return run(content, folder / f"run{number}", pins.client, transport=transport, timeout_s=120.0)


def send_lags(whole: Whole) -> Floats:
    """Seconds, of every request that was sent."""
    table = whole.run.requests
    sent, due = (table.column(name).to_numpy(zero_copy_only=False) for name in ("sent_ns", "due_ns"))
    lags: Floats = (sent - due) / 1e9
    return lags[~np.isnan(lags)]


def _say(transport: str, lags: Floats, share: float, whole: Whole) -> None:
    p50, p99 = (quantile_interval(lags, q)[1] * 1e3 for q in (0.5, 0.99))
    cpu = whole.client("cpu_share_mean")
    print(
        f"  {transport:>6}: {len(lags):,} sent, lag p50 {p50:.3f} p99 {p99:.3f} max {lags.max() * 1e3:.1f} ms, "
        f"delivered {share:.3%}, core {cpu:.0%}, {whole.summary['validity']['state']}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
