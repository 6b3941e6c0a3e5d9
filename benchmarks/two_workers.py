"""One worker and two: the same plan, the same arrivals, the same results; and what `kill -9` of one of two loses.

    python benchmarks/two_workers.py [--rate 100] [--seconds 10] [--runs 2]

An open loop of Poisson arrivals, answers of 50 chunks with jittered gaps, order A B B A. Identical must be: the plan's
hash, the cases, and when each was due. Compared are TTFT and one randomly chosen chunk gap of each request (gaps of a
stream depend on each other): Kolmogorov-Smirnov and Mann-Whitney, the shift of the median with its 95 % interval, and
the same between two runs of one worker, which shows what chance does here.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_process import Pinning, TruthServer, build_server, pinning, prepare
from intervals import Floats, abba, shift_interval
from scipy.stats import ks_2samp, mannwhitneyu
from specload_runs import Whole, run, running, scenario

SOURCE = Path(__file__).resolve().parent / "truth_server"
FLAGS = ["--ttft", "40", "--itl", "10", "--jitter", "0.5"]
TOKENS = 50
#: below this a difference is no chance; it is meaningful beyond this shift of the median
P_VALUE, SHIFT_S = 0.01, 0.001


@dataclass(frozen=True)
class Seen:
    """`due`: (seq, ns after the segment's start), by seq."""

    plan_hash: str
    sent: int
    due: tuple[tuple[int, int], ...]
    ttft_s: Floats
    gap_s: Floats


def main() -> None:
    options = _options()
    prepare()
    pins, seen = pinning(), {"1": list[Seen](), "2": list[Seen]()}
    print(f"{pins.text}; {options.rate:g} requests/s for {options.seconds:g} s, {TOKENS} chunks each")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_server(SOURCE, folder / "server")
        for number, workers in enumerate(abba("1", "2", options.runs)):
            with TruthServer(folder / "server", FLAGS, pins.server) as server:
                whole = run(
                    scenario(server.port, _load(options), TOKENS, seed=7), folder / f"run{number}", pins.client,
                    workers=int(workers),
                )  # fmt: skip
                asked = server.stats()["reqs"]
            seen[workers].append(seen_in(whole))
            probes = asked - seen[workers][-1].sent
            state = whole.summary["validity"]["state"]
            print(f"  {workers} worker(s): {len(seen[workers][-1].ttft_s):,} requests, {state}", flush=True)
        compare(seen["1"], seen["2"])
        killed(folder, pins, probes, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One worker against two, and a killed one")
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=2, help="of each number of workers")
    return parser.parse_args()


def _load(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "kind": "arrival_rate", "rate_per_s": options.rate, "duration_s": options.seconds, "arrivals": "poisson",
        "max_in_flight": 10_000,
    }  # fmt: skip


def seen_in(whole: Whole) -> Seen:
    data = whole.run
    start = {phase.segment: phase.started_ns for phase in data.phases}
    rows = data.requests.select(["seq", "segment", "due_ns", "ttft_s", "chunk_times_s", "outcome"]).to_pylist()
    good = sorted((row for row in rows if row["outcome"] == "ok"), key=lambda row: int(row["seq"]))
    return Seen(
        plan_hash=data.manifest.plan_hash,
        sent=len(rows),
        due=tuple(sorted((row["seq"], row["due_ns"] - start[row["segment"]]) for row in rows)),
        ttft_s=np.array([row["ttft_s"] for row in good]),
        gap_s=one_gap_each([row["chunk_times_s"] for row in good]),
    )


def one_gap_each(times: list[list[float]]) -> Floats:
    """A random gap of each stream that has one."""
    rng = np.random.default_rng(0)
    gaps = [np.diff(row) for row in times if len(row) > 1]
    return np.array([row[rng.integers(len(row))] for row in gaps])


def compare(one: list[Seen], two: list[Seen]) -> None:
    same_plan = len({seen.plan_hash for seen in one + two}) == 1
    same_due = len({seen.due for seen in one + two}) == 1
    print(
        f"same plan: {'yes' if same_plan else 'NO'}; same cases, due at the same times: {'yes' if same_due else 'NO'}"
    )
    for name in ("ttft_s", "gap_s"):
        first, second = (np.concatenate([getattr(s, name) for s in side]) for side in (one, two))
        print(f"{name}: {sentence(first, second)}")
        print(f"  chance, one worker twice: {sentence(getattr(one[0], name), getattr(one[-1], name))}")


def sentence(first: Floats, second: Floats) -> str:
    ks, mw = ks_2samp(first, second), mannwhitneyu(first, second)
    low, shift, high = shift_interval(first, second)
    same = min(ks.pvalue, mw.pvalue) >= P_VALUE or max(abs(low), abs(high)) <= SHIFT_S
    return (
        f"medians {np.median(first) * 1e3:.3f} and {np.median(second) * 1e3:.3f} ms, shift {shift * 1e3:+.3f} "
        f"[{low * 1e3:+.3f}, {high * 1e3:+.3f}] ms, KS D = {ks.statistic:.3f} (p = {ks.pvalue:.3f}), "
        f"Mann-Whitney p = {mw.pvalue:.3f}: {'no difference that matters' if same else 'DIFFERENT'}"
    )


def killed(folder: Path, pins: Pinning, probes: int, options: argparse.Namespace) -> None:
    """Kill the second worker in the middle, and count what is missing. `probes`: requests of the preflight."""
    with TruthServer(folder / "server", FLAGS, pins.server) as server:
        content = scenario(server.port, _load(options), TOKENS, seed=7)
        with running(content, folder / "killed", pins.client, workers=2) as live:
            live.until_begun()
            time.sleep(options.seconds / 2)
            at_ns = time.monotonic_ns()
            live.processes()["worker 1"].send_signal(signal.SIGKILL)
            whole = live.end(120.0)
        asked = server.stats()["reqs"]
    rows = whole.run.requests.select(["worker", "end_ns", "outcome"]).to_pylist()
    flight_s = 0.04 + 0.01 * (TOKENS - 1)
    lost = asked - len(rows) - probes
    last = max(row["end_ns"] for row in rows if row["worker"] == 1)
    print(
        f"kill -9 of worker 1: exit code {whole.code}, state {whole.run.manifest.state}, {len(rows):,} requests kept, "
        f"{lost} lost; about {options.rate / 2 * flight_s:.0f} were in flight there; its last kept one ended "
        f"{(at_ns - last) / 1e6:.0f} ms before; cut or failed at worker 0: "
        f"{sum(row['outcome'] != 'ok' for row in rows if row['worker'] == 0)}"
    )


if __name__ == "__main__":
    main()
