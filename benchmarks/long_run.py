"""Ten million chunks in one run: resident memory of every process, sampled; after warm-up it must be flat.

    python benchmarks/long_run.py [--chunks 10000000] [--streams 64] [--itl MS] [--limit-s 170]

By default the server sends as fast as it is read, eight chunks a send: this is about memory, not about time; with --itl
it sends a chunk every so many ms in each stream. A process is flat where, against the median of the second quarter of
the load, the median of the last quarter is at most 5 MB + 2 % higher, and no sample after the first quarter more than
5 MB + 25 %. What the coordinator takes after the load (Parquet, analysis) is told apart. A machine that cannot do it
within the limit says how far it came.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
from accuracy_process import TruthServer, build_server, pinning, prepare
from intervals import growth
from specload_runs import Running, Whole, running, scenario

SOURCE = Path(__file__).resolve().parent / "truth_server"
#: tokens of a request: long where the server does not wait, else short enough to end well before the load does
TOKENS, PACED_TOKENS, SAMPLE_S = 2000, 256, 0.25
MB = 1e6
Samples = dict[str, list[tuple[float, int]]]


def main() -> None:
    options = _options()
    prepare()
    pins = pinning()
    tokens = PACED_TOKENS if options.itl else TOKENS
    requests = max(options.streams, options.chunks // tokens)
    load = {
        "kind": "concurrency", "concurrency": options.streams, "cases": requests, "duration_s": options.limit_s,
    }  # fmt: skip
    print(f"{pins.text}; {requests:,} requests of {tokens:,} chunks, {options.streams} at once, one worker")
    with tempfile.TemporaryDirectory() as name:
        build_server(SOURCE, Path(name) / "server")
        pace = ["--itl", f"{options.itl:g}", *(["--phase"] if options.itl else ["--coalesce", "8"])]
        with TruthServer(Path(name) / "server", ["--ttft", "1", *pace], pins.server) as server:
            with running(scenario(server.port, load, tokens), Path(name) / "run", pins.client) as run:
                run.until_begun()
                during, after, load_s = sample(run)
                whole = run.end(120.0)
            chunks = server.stats()["chunks"]
        report(during, after, chunks, load_s, whole)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Memory over ten million chunks")
    parser.add_argument("--chunks", type=int, default=10_000_000)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument(
        "--itl", type=float, default=0.0, help="ms between the chunks of a stream; 0: as fast as it can"
    )
    parser.add_argument("--limit-s", type=float, default=170.0)
    return parser.parse_args()


def sample(run: Running) -> tuple[Samples, Samples, float]:
    """Resident bytes by process while the load lasts, and after it; seconds of load."""
    during: Samples = defaultdict(list)
    after: Samples = defaultdict(list)
    begun, load_s, found = time.monotonic(), 0.0, run.processes()
    while run.alive:
        at = time.monotonic() - begun
        if not load_s and any(line["ended_ns"] for line in run.phase_lines()):
            load_s = at
        for name, process in found.items():
            try:
                (after if load_s else during)[name].append((at, process.memory_info().rss))
            except psutil.Error:  # it has ended
                continue
        time.sleep(SAMPLE_S)
    return during, after, load_s


def report(during: Samples, after: Samples, chunks: int, load_s: float, whole: Whole) -> None:
    print(f"{chunks:,} chunks in {load_s:.0f} s of load ({chunks / load_s:,.0f}/s), exit code {whole.code}")
    missed = 0
    for name, samples in sorted(during.items()):
        early, late, most = growth([at for at, _ in samples], [rss for _, rss in samples])
        flat = late <= early * 1.02 + 5 * MB and most <= early * 1.25 + 5 * MB
        missed += not flat
        peak = max((rss for _, rss in after.get(name, ())), default=0)
        per_million = (late - early) / max(1, chunks) * 1e6 / MB * 2  # between the middles of the two quarters
        print(
            f"  {name:>11}: {early / MB:.1f} MB in the second quarter, {late / MB:.1f} MB in the last, at most "
            f"{most / MB:.1f} MB ({per_million:+.2f} MB per million chunks): {'flat' if flat else 'NOT FLAT'}"
            + (f"; after the load at most {peak / MB:.0f} MB" if peak else "")
        )
    rows = whole.run.requests.num_rows
    size = sum(file.stat().st_size for file in whole.path.iterdir())
    print(f"records: {rows:,} requests, {size / MB:.0f} MB, {size / max(1, chunks):.1f} bytes a chunk")
    print("memory is flat" if not missed else f"{missed} processes NOT FLAT")


if __name__ == "__main__":
    main()
