"""What recording costs: CPU per request and per chunk, memory per pending chunk, growth over a long run.

    python benchmarks/record_cost.py [--chunks 1,4,64,256] [--total 200000] [--repeats 3] [--long 1000000]

Per row: attempts of so many chunks go to a worker's sink, as many as make `--total` chunks (at least 2000 and at
most 8000 requests), the run is closed and compacted. (a) is the CPU of the thread that calls the sink, (b) all
other CPU until the sink is closed (columns, IPC, write), (c) the CPU of compaction to Parquet. The least of
`--repeats` runs. Pending memory is what the ledgers of attempts hold that wait to be written. `--long`, first: how
far the resident set grows while so many chunks are written, in attempts of the last size and after as many for
warm-up, and how far in all when they have been compacted."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from loadgen.clock import anchor
from loadgen.drive import Attempt, Ledger, Outcome, WorkerEnd
from loadgen.plan import Case
from loadgen.record import ArmFacts, Manifest, PhaseRecord, RunWriter
from server_adapters.base import Sampling

START_NS = 1_000_000_000
STEP_NS = 20_000_000
#: Attempts made at once: a worker's pending ones, never the whole run.
BURST = 500


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one run."""

    sink_s: float
    write_s: float
    compact_s: float
    requests: int
    chunks: int
    parquet_bytes: int

    @property
    def total_s(self) -> float:
        return self.sink_s + self.write_s + self.compact_s


def make_ledger(chunks: int, jitter: int) -> Ledger:
    """As the reader makes it: one entry at a time, one chunk in eight with the one before it."""
    ledger = Ledger()
    number = -1
    for i in range(chunks):
        number += i % 8 != 7
        ledger.arrival_ns.append(START_NS + (number + 1) * STEP_NS + (number * 7919 + jitter) % 100_003)
        ledger.tokens.append(1)
        ledger.size.append(230 + i % 9)
        ledger.arrival_no.append(number)
    return ledger


def make_attempt(index: int, chunks: int) -> Attempt:
    ledger = make_ledger(chunks, index)
    first, last = ledger.arrival_ns[0], ledger.arrival_ns[-1]
    case = Case(0, "measure", index, f"case-{index}", 0, "chat", 32, chunks, index, index, None, False, True)
    return Attempt(
        seq=index, arm="baseline", replica="http://127.0.0.1:8000", worker=0, segment=0, case=case,
        request_id=f"run-0-{index:08d}", stream=True, sampling=Sampling(seed=index), max_tokens=chunks,
        due_ns=START_NS - 1000, concurrency=64, sent_ns=START_NS, headers_ns=START_NS + 900_000,
        first_byte_ns=first - 1000, end_ns=last + 1000, connect_ns=None, outcome=Outcome.OK, error_class=None,
        error_status=None, error_message=None, ledger=ledger, first_token_ns=first, first_answer_ns=first,
        last_token_ns=last, first_tokens=1, input_len=32, input_len_source="usage", output_len=chunks,
        output_len_source="usage", unattributed_tokens=0, finish_reason="length", terminal="both",
        timestamp_source="kernel", absent={"spec": "the answer carries no speculation statistics"},
    )  # fmt: skip


def open_writer(root: Path, run_id: str) -> RunWriter:
    facts = ArmFacts(
        replicas=["http://127.0.0.1:8000"], metrics_sources=[], adapter="vllm", chunk_unit="step", model="m",
        endpoint="chat", capabilities={}, environment={}, facts={}, spec_method=None, k=None, speculation=False,
    )  # fmt: skip
    return RunWriter(
        root,
        Manifest(
            run_id=run_id, specload_version="0", started="2026-01-01T00:00:00+00:00", scenario={}, scenario_path=None,
            scenario_sha256="", plan_hash="", design="sequential", length_model={}, arms={"baseline": facts}, client={},
            anchors=[anchor()],
        ),
    )  # fmt: skip


PHASE = PhaseRecord(0, "baseline", "measure", "c=64", 0, 0, 0, "concurrency", 64, None, START_NS)


def run_once(root: Path, run_id: str, chunks: int, requests: int) -> Cost:
    writer = open_writer(root, run_id)
    records = writer.sinks({0: PHASE})(0)
    sink_s = write_s = 0.0
    for begin in range(0, requests, BURST):
        attempts = [make_attempt(i, chunks) for i in range(begin, min(begin + BURST, requests))]
        thread_s, process_s = time.thread_time(), time.process_time()
        for attempt in attempts:
            records.attempt(attempt)
        sink_s += time.thread_time() - thread_s
        records.flush()
        write_s += time.process_time() - process_s
    process_s = time.process_time()
    lost = records.close()
    write_s += time.process_time() - process_s
    if records.failed or lost:
        sys.exit(f"{lost} records lost: {records.failed}")
    process_s = time.process_time()
    writer.finish("finished", workers=[WorkerEnd(0, None, None, 0)])
    compact_s = time.process_time() - process_s
    size = (writer.path / "requests.parquet").stat().st_size
    return Cost(sink_s, write_s - sink_s, compact_s, requests, requests * chunks, size)


def pending_bytes(chunks: int) -> float:
    """Memory of one ledger's buffers per chunk, its growth margin included."""
    ledger = make_ledger(chunks, 0)
    empty = sys.getsizeof(array("q"))
    held = (ledger.arrival_ns, ledger.tokens, ledger.size, ledger.arrival_no)
    return sum(sys.getsizeof(column) - empty for column in held) / chunks


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(root: Path, chunks: int, total: int) -> str:
    """Growth of the resident set over `total` chunks, after as many; of a fresh process."""
    writer = open_writer(root, "long")
    records = writer.sinks({0: PHASE})(0)
    warm = most = 0
    requests = 2 * total // chunks
    for begin in range(0, requests, BURST):
        for i in range(begin, min(begin + BURST, requests)):
            records.attempt(make_attempt(i, chunks))
        records.flush()
        most = max(most, resident_bytes())
        if begin <= requests // 2:
            warm = most
    records.close()
    writer.finish("finished", workers=[WorkerEnd(0, None, None, 0)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (
        f"{total} chunks after {total}: {warm / 1e6:.1f} MB resident, {(most - warm) / 1e6:+.1f} MB while written, "
        f"{(peak - warm) / 1e6:+.1f} MB with compaction"
    )


def row(root: Path, chunks: int, total: int, repeats: int) -> None:
    requests = min(max(total // chunks, 2000), 8000)
    runs = [run_once(root, f"run-{chunks}-{i}", chunks, requests) for i in range(repeats)]
    best = min(runs, key=lambda cost: cost.total_s)
    parts = (best.sink_s, best.write_s, best.compact_s, best.total_s)
    print(
        f"{chunks:6d} {best.requests:8d} |"
        + "".join(f" {1e6 * part / best.requests:8.2f}" for part in parts)
        + " |"
        + "".join(f" {1e6 * part / best.chunks:8.4f}" for part in parts)
        + f" | {pending_bytes(chunks):7.2f} {best.parquet_bytes / best.chunks:8.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", default="1,4,64,256")
    parser.add_argument("--total", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", type=int, default=3_000_000)
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.chunks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        if asked.long:
            print(growth(Path(folder), sizes[-1], asked.long), flush=True)
        print(
            "                 |        us CPU per request         |         us CPU per chunk          | bytes per chunk"
        )
        print(
            "chunks requests  | (a) sink (b)write (c)parq  total | (a) sink (b)write (c)parq  total | pending  Parquet"
        )
        for chunks in sizes:
            row(Path(folder), chunks, asked.total, asked.repeats)


if __name__ == "__main__":
    main()
