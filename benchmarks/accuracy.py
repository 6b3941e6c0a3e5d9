"""specload and its peers on the same streams of a server that knows the truth; fills docs/accuracy.md.

    python benchmarks/accuracy.py                       everything, at most 15 minutes; say it again to go on
    python benchmarks/accuracy.py --levels 8 --special-level 8 --tools specload,vllm --out runs/try --docs ''

Builds benchmarks/truth_server and gives every cell (one tool under one condition) a fresh server on the first core;
the tool has the second. Peers come from scripts/setup_peers.sh; one that is not installed gets a row that says so.
Cells are kept in OUT/cells and not measured again unless --fresh is given or the tool's version (for specload: its
sources) changed. Run it on a quiet machine: the tables tell how much CPU time other processes took.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from accuracy_cells import Condition, Kind, expected_s, grid, limit_s
from accuracy_process import Measured, Pinning, TruthServer, build_server, pinning, prepare, run_measured
from accuracy_results import read_truth
from accuracy_tables import fill_between, markdown
from accuracy_tools import HERE, PROJECT, Tool, tools

Cell = dict[str, Any]


def commas(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["specload", "vllm", "aiperf", "guidellm"]
    parser.add_argument("--tools", default=names, metavar="A,B", help=f"of {','.join(names)}", type=commas)
    parser.add_argument("--transport", default=[], metavar="A,B", help="specload with each: plain,kernel", type=commas)
    parser.add_argument("--levels", default=["64", "256", "1024", "2048"], metavar="N,M", help="streams", type=commas)
    parser.add_argument("--special-level", type=int, default=256, help="streams of the stall and the error runs")
    parser.add_argument(
        "--kinds", default=list(get_args(Kind)), metavar="A,B", help=",".join(get_args(Kind)), type=commas
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="streaming time of a steady run up to 256 streams")
    parser.add_argument("--rate-requests", type=int, default=3200, help="requests of the closed loop without waiting")
    parser.add_argument("--minutes", type=float, default=15.0, help="start no cell that would end later than this")
    parser.add_argument("--out", type=Path, default=PROJECT / "runs" / "accuracy", help="folder of the results")
    parser.add_argument("--docs", default=str(PROJECT / "docs" / "accuracy.md"), help="file to fill; '' = none")
    parser.add_argument("--fresh", action="store_true", help="measure every cell again")
    parser.add_argument("--no-pin", action="store_true", help="let server and client share all cores")
    asked = parser.parse_args()
    for option, given, known in (
        ("--tools", asked.tools, names), ("--kinds", asked.kinds, get_args(Kind)),
        ("--transport", asked.transport, ("plain", "kernel")),
    ):  # fmt: skip
        if unknown := set(given) - set(known):
            parser.error(f"{option}: there is no {', '.join(sorted(unknown))}")
    asked.levels = [int(n) for n in asked.levels]
    return asked


def order(conditions: list[Condition], chosen: list[Tool]) -> Iterator[tuple[Condition, Tool]]:
    """All tools under one condition, one right after the other; who begins takes turns."""
    for number, condition in enumerate(conditions):
        turn = number % len(chosen)
        for tool in chosen[turn:] + chosen[:turn]:
            yield condition, tool


def blank(condition: Condition, tool: Tool, state: str, reason: str) -> Cell:
    return {
        "condition": asdict(condition), "tool": tool.id, "label": tool.label, "version": tool.version, "state": state,
        "reason": reason,
    }  # fmt: skip


def cell_file(out: Path, condition: Condition, tool: Tool) -> Path:
    return out / "cells" / f"{condition.id}-{tool.id}.json"


def kept(path: Path, tool: Tool) -> Cell | None:
    """A cell measured before with this version of the tool; one that failed is tried again."""
    if not path.is_file():
        return None
    cell: Cell = json.loads(path.read_bytes())
    if cell["version"] != tool.version or cell["state"] == "failed":
        return None
    return {**cell, "label": tool.label}


def measure(condition: Condition, tool: Tool, binary: Path, cores: Pinning, folder: Path) -> Cell:
    """Run one cell. Whatever goes wrong with the tool is the cell's state, never an exception."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    load, started = os.getloadavg()[0], datetime.now(UTC)
    with TruthServer(binary, condition.server_flags(), cores.server) as server:
        argv, env = tool.start(condition, server.port, folder)
        run = run_measured(argv, env, cores.client, limit_s(condition, tool.family), folder / "log.txt")
        stats = server.stats()
    cell = blank(condition, tool, "ok", "") | facts(run, stats)
    cell |= {"started": started.isoformat(timespec="seconds"), "load_before": load, "pinned": cores.text}
    if run.timed_out:
        reason = f"ended after {run.wall_s:.0f} s, with {stats['done']:,} of {condition.requests:,} requests done"
        return cell | {"state": "timeout", "reason": reason}
    try:
        reported = tool.read(folder)
        ended = f"exit code {run.code}" if run.code else ""
        note = ", ".join(x for x in (reported.note, ended) if x)
        return cell | {"reported": reported.json() | {"note": note}}
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError) as error:
        reason = f"exit code {run.code}, no readable result ({type(error).__name__}: {error}); see {folder / 'log.txt'}"
        return cell | {"state": "failed", "reason": reason}


def facts(run: Measured, stats: dict[str, Any]) -> Cell:
    """What the machine and the server tell of a run."""
    other_s = run.machine_busy_s - run.cpu_s - stats["cpu_s"]
    return {
        "truth": read_truth(stats).json(), "chunks": stats["chunks"], "busy_done": stats["busy_done"],
        "busy_s": stats["busy_s"], "max_running": stats["max_running"], "resets": stats["resets"],
        "late_p99_us": stats["late"]["p99_us"], "server_cpu_s": stats["cpu_s"], "code": run.code,
        "wall_s": run.wall_s, "cpu_s": run.cpu_s, "peak_rss_bytes": run.peak_rss_bytes, "processes": run.processes,
        "other_cpu_share": max(0.0, other_s) / (run.wall_s * (os.cpu_count() or 1)),
    }  # fmt: skip


def machine() -> dict[str, str]:
    """What it was measured on."""
    model = next((x.split(":", 1)[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines()
                  if x.startswith("model name")), platform.machine())  # fmt: skip
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "machine": f"{os.cpu_count()} cores, {model}, {memory:.0f} GB, Linux {platform.release()}, loopback",
        "Python of specload": platform.python_version(),
        "streams": "TTFT 50 to 70 ms evenly, a chunk every 20 ms, phases spread; closed loop, prompts of 32 tokens,"
        " 256 tokens a request (64 with stalls and errors)",
    }


def told(cell: Cell) -> str:
    if cell["state"] != "ok":
        return f"{cell['state']}: {cell['reason']}"
    said, true = cell["reported"], cell["truth"]
    ttft = "–" if said["ttft_p50_ms"] is None else f"{said['ttft_p50_ms']:.1f}"
    times = f"TTFT P50 {ttft} ms (true {true['ttft_p50_ms']:.1f}), errors {said['errors']} ({true['errors']})"
    return f"{times}, CPU {cell['cpu_s']:.1f} s, {cell['peak_rss_bytes'] / 1e6:.0f} MB, took {cell['wall_s']:.0f} s"


def write(asked: argparse.Namespace, cells: list[Cell]) -> None:
    """accuracy.json, accuracy.md and the file of --docs."""
    text = markdown(cells, machine())
    (asked.out / "accuracy.md").write_text(text)
    (asked.out / "accuracy.json").write_text(json.dumps({"machine": machine(), "cells": cells}, indent=1))
    if asked.docs:
        page = Path(asked.docs)
        page.write_text(fill_between(page.read_text(), text))
    print(text)


def measure_all(asked: argparse.Namespace, plan: list[tuple[Condition, Tool]]) -> list[Cell]:
    """Every cell of the plan, in its order; those the budget or Ctrl-C leaves out say so."""
    binary, cores, cells = asked.out / "truth_server", pinning(not asked.no_pin), []
    build_server(HERE / "truth_server", binary)
    prepare()
    end, left_out = time.monotonic() + asked.minutes * 60, ""
    for number, (condition, tool) in enumerate(plan, 1):
        path = cell_file(asked.out, condition, tool)
        cell = None if asked.fresh else kept(path, tool)
        if tool.absent:
            cell = blank(condition, tool, "absent", tool.absent)
        elif cell is None and not left_out and time.monotonic() + expected_s(condition, tool.family) > end:
            left_out = f"the {asked.minutes:g} minutes were over; the same command again goes on"
        if cell is None and left_out:
            cell = blank(condition, tool, "not measured", left_out)
        if cell is None:
            try:
                cell = measure(condition, tool, binary, cores, asked.out / "work" / path.stem)
                path.write_text(json.dumps(cell, indent=1))
            except KeyboardInterrupt:
                left_out = "interrupted; the same command again goes on"
                cell = blank(condition, tool, "not measured", left_out)
            print(f"[{number}/{len(plan)}] {condition.id} {tool.label}: {told(cell)}", file=sys.stderr, flush=True)
        cells.append(cell)
    return cells


def main() -> None:
    asked = arguments()
    (asked.out / "cells").mkdir(parents=True, exist_ok=True)
    chosen = tools(asked.tools, asked.transport)
    plan = list(order(grid(asked.levels, asked.seconds, asked.special_level, asked.rate_requests, asked.kinds), chosen))
    runnable = [(c, t) for c, t in plan if not t.absent]
    todo = [(c, t) for c, t in runnable if asked.fresh or kept(cell_file(asked.out, c, t), t) is None]
    minutes = sum(expected_s(c, t.family) for c, t in todo) / 60
    some = f"{len(todo)} of {len(plan)} cells to measure, about {minutes:.0f} minutes"
    print(f"{some}; at most about {asked.minutes:g} now", file=sys.stderr)
    write(asked, measure_all(asked, plan))


if __name__ == "__main__":
    main()
