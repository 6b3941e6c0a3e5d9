"""Plain against kernel transport on streams of known timing: rate, CPU, arrival error, coalesced share.

    python benchmarks/wire_transport.py [--streams 64,256,1024] [--seconds 10] [--order plain,kernel] [--stall-ms 0]

A server in C writes into every chunk when it sent it (CLOCK_MONOTONIC, "sm"), one chunk every 20 ms and
stream. Arrival error is the exchange's stamp minus that. Runs are in the order plain, kernel, kernel, plain by
default; server and client are pinned to different cores where there are two. CPU is the client process's from the
first request to the last end, over the chunks; the start of the requests is in it. "unmarked" are the arrivals of one
chunk, and of several the last: the ones whose time is known.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from truth_client import chunk_errors, closed_loop, hold_the_loop

from loadgen.drive import Exchange

ITL_S = 0.02


def main() -> None:
    options = _options()
    if options.client:
        kind, url = options.client
        print(json.dumps(asyncio.run(measure(kind, url, options))))
        return
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "sse_server"
        subprocess.run(["gcc", "-O2", "-o", binary, options.source, "-lm"], check=True)
        print("  ".join(f"{name:>{width}}" for name, width in _COLUMNS))
        for streams in map(int, options.streams.split(",")):
            for kind in options.order.split(","):
                with server(binary) as url:
                    show(kind, streams, run_client(kind, url, streams, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plain against kernel transport on streams of known timing")
    parser.add_argument("--streams", default="64,256,1024")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--order", default="plain,kernel,kernel,plain", help="transports, one run each")
    parser.add_argument("--stall-ms", type=float, default=0, help="block the event loop for so long, 10 times a second")
    parser.add_argument("--source", type=Path, default=Path(__file__).parent / "truth_server" / "sse_server.c")
    parser.add_argument("--client", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    return parser.parse_args()


_COLUMNS = (
    ("transport", 9), ("streams", 7), ("chunks/s", 9), ("CPU us/chunk", 12), ("CPU", 5),
    ("all p50 us", 10), ("p99", 9), ("max", 9), ("unmarked p50 us", 15), ("p99", 9), ("max", 9),
    ("coalesced", 9), ("stamps", 6), ("failed", 6), ("load", 5),
)  # fmt: skip


def show(kind: str, streams: int, found: dict[str, Any]) -> None:
    cells = [
        *(kind, streams, f"{found['rate']:.0f}", f"{found['cpu_us']:.1f}", f"{found['cpu_share']:.0%}"),
        *(f"{value:.1f}" for value in (*found["every_us"], *found["unmarked_us"])),
        *(f"{found['coalesced']:.3%}", found["source"], found["failed"], f"{os.getloadavg()[0]:.1f}"),
    ]
    print("  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)), flush=True)


@contextlib.contextmanager
def server(binary: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(binary), "--port", str(port), "--ttft", "60", "--itl", str(round(ITL_S * 1000)), "--phase"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: _pin(0)
    )
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core % len(cores)]})


def run_client(kind: str, url: str, streams: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [
        *(sys.executable, __file__, "--client", kind, url, "--streams", str(streams)),
        *("--seconds", str(options.seconds), "--stall-ms", str(options.stall_ms)),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, preexec_fn=lambda: _pin(1))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def measure(kind: str, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run in this process: requests started over the first second, all of the same length."""
    streams, exchanges = int(options.streams), list[Exchange]()
    stall_s = options.stall_ms / 1000
    cpu_s, wall_s = await closed_loop(
        kind, url, streams, streams, round(options.seconds / ITL_S), exchanges.append,
        beside=(lambda: hold_the_loop(stall_s, 0.1)) if stall_s else None,
    )  # fmt: skip
    return _result(exchanges, cpu_s, wall_s)


def _result(exchanges: list[Exchange], cpu_s: float, wall_s: float) -> dict[str, Any]:
    every, known, marked = [], [], 0
    for exchange in exchanges:
        errors, last = chunk_errors(exchange)
        every.append(errors)
        known.append(errors[last])
        marked += len(errors) - int(last.sum())
    chunks = sum(map(len, every))
    return {
        "rate": chunks / wall_s,
        "cpu_us": cpu_s / chunks * 1e6,
        "cpu_share": cpu_s / wall_s,
        "every_us": _quantiles(np.concatenate(every)),
        "unmarked_us": _quantiles(np.concatenate(known)),
        "coalesced": marked / chunks,
        "source": "/".join(sorted({exchange.timestamp_source for exchange in exchanges})),
        "failed": sum(not exchange.complete for exchange in exchanges),
    }


def _quantiles(errors: np.ndarray) -> list[float]:
    return [float(value) / 1000 for value in (*np.quantile(errors, [0.5, 0.99]), errors.max())]


if __name__ == "__main__":
    main()
