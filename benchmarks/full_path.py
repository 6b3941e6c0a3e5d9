"""The whole path on one worker beside the bare transport: CPU per chunk, on the same streams, in the same run.

    python benchmarks/full_path.py [--streams 1024] [--tokens 256] [--runs 2] [--bare-reader c|python]

Whole: `specload run --transport kernel --workers 1`: plan, dispatch, transport, ledger, records, all its processes
counted. Bare: the transport alone, the same number of requests in the same closed loop; `--bare-reader python` leaves
its C reader out, which is what the limit of 1.6 was set for. Each is run in two lengths,
and the CPU time of the short one is taken off, so that neither start nor end counts; order A B B A. The server's clock
gives chunks/s: from the first moment with two requests in flight to the last chunk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from accuracy_process import Measured, Pinning, TruthServer, build_server, pinning, prepare, run_measured
from intervals import abba, ratio_interval
from specload_runs import environment, run, scenario
from truth_client import chunk_errors, closed_loop

from loadgen.drive import Exchange, reader_name

SOURCE = Path(__file__).resolve().parent / "truth_server"
ITL_MS = 20
RATIO, CHUNKS_PER_S, COALESCED = 1.6, 50_000.0, 0.01


@dataclass(frozen=True)
class Run:
    """`merged`: chunks that came with another; None where it was not asked."""

    cpu_s: float
    chunks: int
    chunks_per_s: float
    merged: float | None
    state: str


def main() -> None:
    options = _options()
    if options.client:
        print(json.dumps(asyncio.run(bare_client(options.client, options))))
        return
    prepare()
    pins = pinning()
    print(
        f"{pins.text}; {options.streams} streams x {ITL_MS} ms, {options.tokens} tokens a request; whole read by "
        f"{reader_name()}, bare by {options.bare_reader}"
    )
    cost: dict[str, list[float]] = {"whole": [], "bare": []}
    best: list[Run] = []
    with tempfile.TemporaryDirectory() as name:
        build_server(SOURCE, Path(name) / "server")
        for number, kind in enumerate(abba("bare", "whole", options.runs)):
            long, short = (
                one(kind, Path(name) / f"{number}-{rounds}", rounds, pins, options) for rounds in (options.rounds, 1)
            )
            cost[kind].append((long.cpu_s - short.cpu_s) / (long.chunks - short.chunks) * 1e6)
            best += [long] if kind == "whole" else []
            _say(kind, cost[kind][-1], long)
    low, ratio, high = ratio_interval(cost["whole"], cost["bare"])
    print(f"whole / bare: {ratio:.2f} [{low:.2f}, {high:.2f}], limit {RATIO}: {'met' if ratio <= RATIO else 'MISSED'}")
    rate = max(run.chunks_per_s for run in best)
    merged = min(run.merged or 0.0 for run in best if run.chunks_per_s == rate)
    met = "met" if rate >= CHUNKS_PER_S and merged < COALESCED else "MISSED"
    print(f"sustained on one core: {rate:,.0f} chunks/s, {merged:.2%} coalesced; limits (50,000, 1 %): {met}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU per chunk of the whole path and of the bare transport")
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3, help="requests of each stream in the long run")
    parser.add_argument("--runs", type=int, default=2, help="of each kind")
    parser.add_argument("--bare-reader", choices=("c", "python"), default="c", help="who reads the bare transport")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    return parser.parse_args()


def one(kind: str, folder: Path, rounds: int, pins: Pinning, options: argparse.Namespace) -> Run:
    flags = ["--ttft", "50", "--itl", str(ITL_MS), "--phase"]
    with TruthServer(folder.parent / "server", flags, pins.server) as server:
        measured, merged, state = (whole if kind == "whole" else bare)(server.port, folder, rounds, pins, options)
        stats = server.stats()
    return Run(measured.cpu_s, stats["chunks"], stats["chunks"] / stats["busy_s"], merged, state)


def whole(
    port: int, folder: Path, rounds: int, pins: Pinning, options: argparse.Namespace
) -> tuple[Measured, float | None, str]:
    load = {"kind": "concurrency", "concurrency": options.streams, "cases": rounds * options.streams}
    done = run(scenario(port, load, options.tokens), folder, pins.client)
    assert done.measured is not None
    return done.measured, done.client("coalesced_share"), done.summary["validity"]["state"]


def bare(
    port: int, folder: Path, rounds: int, pins: Pinning, options: argparse.Namespace
) -> tuple[Measured, float | None, str]:
    folder.mkdir()
    command = [sys.executable, __file__, "--client", f"http://127.0.0.1:{port}", "--rounds", str(rounds)]
    command += ["--streams", str(options.streams), "--tokens", str(options.tokens)]
    environ = {**environment(), "SPECLOAD_READER": options.bare_reader}
    measured = run_measured(command, environ, pins.client, 120.0, folder / "log")
    text = (folder / "log").read_text(errors="replace")
    if measured.code:
        raise RuntimeError(f"the bare client failed: {text[-2000:]}")
    found = json.loads(text)
    return measured, found["merged"], "" if not found["failed"] else f"{found['failed']} failed"


async def bare_client(url: str, options: argparse.Namespace) -> dict[str, float]:
    """One request in 64 is looked at for merged chunks: that is no part of the transport."""
    seen = {"ended": 0, "failed": 0, "chunks": 0, "merged": 0}

    def ended(exchange: Exchange) -> None:
        seen["ended"] += 1
        seen["failed"] += not exchange.complete
        if seen["ended"] % 64 == 1:
            errors, last = chunk_errors(exchange)
            seen["chunks"] += len(errors)
            seen["merged"] += len(errors) - int(last.sum())

    requests = options.rounds * options.streams
    await closed_loop("kernel", url, options.streams, requests, options.tokens, ended, start_s=0.5)
    return {"merged": seen["merged"] / max(1, seen["chunks"]), "failed": seen["failed"]}


def _say(kind: str, cost_us: float, run: Run) -> None:
    merged = "" if run.merged is None else f", {run.merged:.2%} coalesced"
    print(
        f"  {kind:>5}: {cost_us:.2f} us CPU a chunk, {run.chunks_per_s:,.0f} chunks/s{merged} {run.state} "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
