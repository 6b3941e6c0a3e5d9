"""How long a sweep of 60 visits takes to be analyzed, shown and drawn, from its run directories.

    python benchmarks/sweep_figures.py [--visits 60] [--page FILE]

Every visit is a real run directory (tests/data/runs/small) with the summary of that run, whose throughput, times and
speedup follow a made-up law of k and concurrency with noise, so that curves have shapes to be found.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import shutil
import sys
import time
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadgen.experiment import judge_run, save_sweep, sweep_report
from loadgen.experiment.sweep_state import Attempt, SweepState, VisitState, now, write_state
from loadgen.record import open_run
from loadgen.report import render_sweep_html, render_sweep_terminal

ROOT = Path(__file__).resolve().parent.parent
SMALL = ROOT / "tests" / "data" / "runs" / "small"
KS, LEVELS = (0, 1, 2, 4), (1, 4, 16, 64, 256)
LIMIT_S = 20.0


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--visits", type=int, default=60)
    made.add_argument("--page", type=Path, help="keep the page there")
    options = made.parse_args()
    visits: int = options.visits
    with TemporaryDirectory(prefix="specload-sweep-") as name:
        folder = Path(name)
        build(folder, visits)
        begin, busy = time.monotonic(), time.process_time()
        summary = sweep_report(folder)
        analyzed_s = time.monotonic() - begin
        save_sweep(folder, summary)
        text = StringIO()
        render_sweep_terminal(summary, Console(file=text, width=160))
        told_s = time.monotonic() - begin
        page = render_sweep_html(summary)
        took_s = time.monotonic() - begin
        print(text.getvalue())
        if options.page is not None:
            options.page.write_text(page, encoding="utf-8")
        print(
            f"{visits} visits, {len(summary.curves)} curves: analyzed in {analyzed_s:.2f} s, {told_s:.2f} s with the "
            f"terminal report, {took_s:.2f} s with the page of {len(page.encode()) / 1e6:.2f} MB, of them "
            f"{time.process_time() - busy:.2f} s of CPU (limit {LIMIT_S:g} s)"
        )
    return int(took_s > LIMIT_S)


def build(folder: Path, visits: int) -> None:
    """A sweep's directory as `specload sweep` leaves it."""
    summary = judge_run(open_run(SMALL)).summary.model_dump(mode="json")
    noise = random.Random(1)
    grid = list(product(KS, LEVELS))
    states = []
    for number in range(visits):
        (k, level), repeat = grid[number % len(grid)], number // len(grid)
        visit = VisitState(
            number=number, index=number % len(grid), slug=f"k{k}-concurrency{level}-r{repeat}",
            values={"k": k, "concurrency": level}, baseline=(k, level) == (0, 1), repeat=repeat, visit=repeat,
            arm="candidate",
        )  # fmt: skip
        run = folder / visit.folder / "run"
        shutil.copytree(SMALL, run)
        (run / "summary.json").write_bytes(orjson.dumps(changed(summary, k, level, noise)))
        visit.attempts.append(
            Attempt(state="done", folder=visit.folder, started=now(), at_s=10.0 * number, took_s=9.0, run_id="run",
                    directory=f"{visit.folder}/run")
        )  # fmt: skip
        states.append(visit)
    write_state(
        folder,
        SweepState(
            sweep_id="sixty", name="sixty", objective="throughput", plan_hash="made", scenario={}, scenario_path=None,
            scenario_sha256="", overrides=[], axes={"k": list(KS), "concurrency": list(LEVELS)},
            baseline={"k": 0, "concurrency": 1}, started=now(), elapsed_s=10.0 * visits, visits=states,
        ),
    )  # fmt: skip


def changed(summary: dict[str, Any], k: int, level: int, noise: random.Random) -> dict[str, Any]:
    """The run's summary with the numbers of this setting."""
    found = copy.deepcopy(summary)
    e = 1 + sum(0.75**j for j in range(1, k + 1))
    c = 1 + (0.1 + 0.08 * k) * (1 + level / 64) if k else 1.0
    for name, speedup in (("baseline", 1.0), ("candidate", e / c)):
        per_user = 60.0 / (1 + level / 32) * speedup * math.exp(noise.gauss(0, 0.02))
        group = found["arms"][name]["overall"]
        put(group["throughput"]["net_tokens_per_s"], per_user * level)
        put(group["speculation"]["e_decode"], e if name == "candidate" else 1.0)
        for key in ("mean", "p50", "p95"):
            group["tpot_s"][key] = 1 / per_user
        for key in ("mean", "p50"):
            group["stream"]["total_time_s"][key] = 40 / per_user
    for row in found["comparison"]:
        put(row["speedup"]["value"], e / c * math.exp(noise.gauss(0, 0.02)))
        put(row["c"], c)
    return found


def put(number: dict[str, Any], value: float) -> None:
    number |= {"value": value, "low": value * 0.97, "high": value * 1.03, "reason": None}


if __name__ == "__main__":
    sys.exit(main())
