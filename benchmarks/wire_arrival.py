"""Arrival times against the server's own send times, while the client's event loop is busy, and while it stands still.

    python benchmarks/wire_arrival.py [--streams 1024] [--seconds 8] [--repeats 2] [--no-tls] [--no-run]

The truth server writes into every chunk when it sends it, one chunk every 20 ms and stream. With TLS it is the server
itself that encrypts, and stamps right before its SSL_write. The bare kernel transport reads, all connections in one
event loop, which is held on purpose:

* busy: for 1 ms, 200 times a second. Of the unmarked arrivals the P99 error must be at most 50 us.
* stall 10: for 10 ms, 5 times a second, less than a stream's gap. No unmarked arrival may be off by more than 200 us.
* stall 50: for 50 ms, 4 times a second, more than two gaps. Chunks merge; each must be marked as coalesced, and the
  share is beyond the limit of a valid run.

"slow" are the chunks whose send had not returned 150 us after their stamp: the server was interrupted, and no client
can be more exact. So many arrivals are excused. Last, a whole run is stopped (SIGSTOP) for 50 ms twice a second: its
own validity must say so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from accuracy_process import Pinning, TruthServer, build_server, on_core, pinning, prepare
from specload_runs import running, scenario
from truth_client import chunk_errors, closed_loop, hold_the_loop

from loadgen.analyze.validity import LIMITS
from loadgen.drive import Exchange

ITL_MS = 20
SOURCE = Path(__file__).resolve().parent / "truth_server"
#: name: (held for s, every s)
HOLDS = {"busy": (0.001, 0.005), "stall 10": (0.010, 0.2), "stall 50": (0.050, 0.25)}
P99_US, MOST_US = 50.0, 200.0
_COALESCED = next(limit for limit in LIMITS if limit.name == "coalesced_share")


@dataclass(frozen=True)
class Found:
    """Errors in us, of unmarked arrivals. `beyond`: how many by more than 200 us; `hidden`: unmarked, though later than
    the stream's next chunk was sent, so merged with it."""

    chunks: int
    coalesced: float
    p50_us: float
    p99_us: float
    max_us: float
    beyond: int
    hidden: int
    failed: int
    source: str
    cpu_share: float
    slow: int = 0


def main() -> None:
    options = _options()
    if options.client:
        hold, url, pem = options.client
        print(json.dumps(asdict(asyncio.run(measure(hold, url, pem, options.streams, options.seconds)))))
        return
    prepare()
    pins, missed = pinning(), 0
    print(f"{pins.text}; {options.streams} streams x {ITL_MS} ms")
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tls in (False, True)[: 1 if options.no_tls else 2]:
            build(folder, tls)
            for _ in range(options.repeats):
                for hold in HOLDS:
                    found = one(folder, tls, hold, pins, options)
                    missed += len(faults := judge(hold, found))
                    print(row(hold, tls, found, faults), flush=True)
        if not options.no_run:
            missed += whole_run(folder, pins, options)
    print("all limits met" if not missed else f"{missed} limits MISSED")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Arrival times against true send times")
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--no-tls", action="store_true")
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--run-streams", type=int, default=128, help="streams of the whole run that is stopped")
    parser.add_argument("--client", nargs=3, metavar=("HOLD", "URL", "PEM"), help=argparse.SUPPRESS)
    return parser.parse_args()


def build(folder: Path, tls: bool) -> None:
    """The server, and a certificate for it."""
    target = folder / ("tls_server" if tls else "server")
    if not tls:
        build_server(SOURCE, target)
        return
    subprocess.run(["make", "-s", "-C", str(SOURCE), "tls", f"OUT={target}"], check=True)
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", names, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    both = (folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes()
    (folder / "both.pem").write_bytes(both)


def one(folder: Path, tls: bool, hold: str, pins: Pinning, options: argparse.Namespace) -> Found:
    flags = ["--ttft", "60", "--itl", str(ITL_MS), "--phase", *(["--tls", str(folder / "both.pem")] if tls else [])]
    scheme, pem = ("https", str(folder / "cert.pem")) if tls else ("http", "")
    with TruthServer(folder / ("tls_server" if tls else "server"), flags, pins.server) as server:
        url = f"{scheme}://127.0.0.1:{server.port}"
        command = [sys.executable, __file__, "--client", hold, url, pem]
        command += ["--streams", str(options.streams), "--seconds", str(options.seconds)]
        with on_core(pins.client):
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
        found = Found(**json.loads(done.stdout))
        return replace(found, slow=stats(url, pem)["slow"])


def stats(url: str, pem: str) -> dict[str, Any]:
    """What the server says of itself."""
    context = ssl.create_default_context(cafile=pem) if pem else True
    answer = httpx.get(f"{url}/stats", verify=context, trust_env=False, timeout=10.0)
    return dict(answer.json())


async def measure(hold: str, url: str, pem: str, streams: int, seconds: float) -> Found:
    """In the client's process: one request of that length in each of the streams."""
    exchanges: list[Exchange] = []
    context = ssl.create_default_context(cafile=pem) if pem else None
    cpu_s, wall_s = await closed_loop(
        "kernel", url, streams, streams, round(seconds * 1000 / ITL_MS), exchanges.append,
        context=context, beside=partial(hold_the_loop, *HOLDS[hold]),
    )  # fmt: skip
    return found_in(exchanges, cpu_s / wall_s)


def found_in(exchanges: list[Exchange], cpu_share: float) -> Found:
    parts = [chunk_errors(exchange) for exchange in exchanges]
    known = np.concatenate([errors[last] for errors, last in parts]) / 1000
    chunks = sum(len(errors) for errors, _ in parts)
    p50, p99 = np.quantile(known, [0.5, 0.99])
    return Found(
        chunks=chunks,
        coalesced=1 - len(known) / chunks,
        p50_us=float(p50),
        p99_us=float(p99),
        max_us=float(known.max()),
        beyond=int((known > MOST_US).sum()),
        hidden=int((known > ITL_MS * 1000).sum()),
        failed=sum(not exchange.complete for exchange in exchanges),
        source="/".join(sorted({exchange.timestamp_source for exchange in exchanges})),
        cpu_share=cpu_share,
    )


def state_of(coalesced: float) -> str:
    """What a run with this share is at best."""
    assert _COALESCED.invalid is not None
    return "invalid" if coalesced > _COALESCED.invalid else "doubtful" if coalesced > _COALESCED.doubtful else "valid"


def judge(hold: str, found: Found) -> list[str]:
    """Which limits were missed."""
    faults = [f"{found.failed} streams failed"] if found.failed else []
    if found.source != "kernel":
        faults.append(f"stamps are {found.source}")
    if hold == "busy" and found.p99_us > P99_US:
        faults.append(f"P99 above {P99_US:g} us")
    if hold == "stall 10" and found.beyond > found.slow:
        faults.append(f"{found.beyond} arrivals off by more than {MOST_US:g} us")
    if hold == "stall 50":
        if found.hidden > found.slow:
            faults.append(f"{found.hidden} merged chunks are not marked")
        if state_of(found.coalesced) == "valid":
            faults.append("the share is that of a valid run")
    return faults


HEADER = (
    f"{'loop':>8}  {'TLS':>3}  {'chunks':>8}  {'core':>5}  {'coalesced':>9}  {'state':>8}  {'p50 us':>7}  "
    f"{'p99 us':>8}  "
    f"{'max us':>9}  {'>200us':>6}  {'slow':>6}  {'load':>5}  limits"
)


def row(hold: str, tls: bool, f: Found, faults: list[str]) -> str:
    return (
        f"{hold:>8}  {'yes' if tls else 'no':>3}  {f.chunks:>8}  {f.cpu_share:>5.0%}  {f.coalesced:>9.3%}  "
        f"{state_of(f.coalesced):>8}  {f.p50_us:>7.1f}  {f.p99_us:>8.1f}  {f.max_us:>9.1f}  {f.beyond:>6}  "
        f"{f.slow:>6}  {os.getloadavg()[0]:>5.1f}  {'met' if not faults else 'MISSED: ' + '; '.join(faults)}"
    )


def whole_run(folder: Path, pins: Pinning, options: argparse.Namespace) -> int:
    """Stop the worker of a whole run for 50 ms, twice a second. Returns how many limits were missed."""
    load = {"kind": "concurrency", "concurrency": options.run_streams, "duration_s": options.seconds}
    with TruthServer(folder / "server", ["--ttft", "60", "--itl", str(ITL_MS), "--phase"], pins.server) as server:
        content: dict[str, Any] = scenario(server.port, load, 100)
        with running(content, folder / "stopped", pins.client) as run:
            run.until_begun()
            worker = run.processes()["worker 0"]
            until = time.monotonic() + options.seconds
            while time.monotonic() < until and run.alive:
                time.sleep(0.45)
                worker.send_signal(signal.SIGSTOP)
                time.sleep(0.05)
                worker.send_signal(signal.SIGCONT)
            whole = run.end(60.0)
    validity, share = whole.summary["validity"], whole.client("coalesced_share")
    told = [reason for reason in validity["reasons"] if _COALESCED.name in reason]
    print(f"whole run, {options.run_streams} streams, its worker stopped for 50 ms twice a second:")
    print(f"  coalesced {share:.3%}, state {validity['state']}, exit code {whole.code}")
    print("\n".join(f"  {reason}" for reason in told) or "  MISSED: no reason names the coalesced share")
    return 0 if told and validity["state"] != "valid" else 1


if __name__ == "__main__":
    main()
