"""Hand-made attempts, manifests and writers."""

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.clock import Anchor
from loadgen.drive import UNKNOWN_TOKENS, Accounting, Attempt, Ledger, Outcome, WorkerEnd
from loadgen.observe import Idle
from loadgen.plan import Case
from loadgen.record import ArmFacts, Manifest, PhaseRecord, RunWriter
from loadgen.redact import Redactor
from server_adapters.base import Sampling

MS = 1_000_000
S = 1_000_000_000


def make_ledger(chunks: list[tuple[int, int | None]]) -> Ledger:
    """From (arrival ns, tokens or None) of every chunk; equal times are one arrival."""
    times = [at for at, _ in chunks]
    numbers = {at: i for i, at in enumerate(dict.fromkeys(times))}
    return Ledger(
        array("q", times),
        array("i", [UNKNOWN_TOKENS if n is None else n for _, n in chunks]),
        array("i", [10 * (i + 1) for i in range(len(chunks))]),
        array("i", [numbers[at] for at in times]),
    )


def make_attempt(chunks: list[tuple[int, int | None]] | None = None, **more: Any) -> Attempt:
    """Sent at 1 s, due 2 ms before; default: 5 chunks of 4 tokens every 40 ms from 1.1 s on."""
    if chunks is None:
        chunks = [(S + 100 * MS + i * 40 * MS, 4) for i in range(5)]
    index = more.pop("index", 0)
    case = Case(0, "measure", index, f"case-{index}", 0, "short_qa", 32, 64, 11, 5, None, False, True)
    fields: dict[str, Any] = {
        "seq": index, "arm": "baseline", "replica": "http://127.0.0.1:1", "worker": 0, "segment": 0, "case": case,
        "request_id": f"r-{index}", "stream": True, "sampling": Sampling(stop=("END",)), "max_tokens": 64,
        "due_ns": S - 2 * MS, "concurrency": 3, "sent_ns": S, "headers_ns": S + 90 * MS, "first_byte_ns": S + 95 * MS,
        "end_ns": S + 300 * MS, "connect_ns": None, "outcome": Outcome.OK, "error_class": None, "error_status": None,
        "error_message": None, "ledger": make_ledger(chunks),
        "first_token_ns": chunks[0][0] if chunks else None, "last_token_ns": chunks[-1][0] if chunks else None,
        "first_answer_ns": chunks[0][0] if chunks else None,
        "first_tokens": chunks[0][1] if chunks else None,
        "output_len": sum(n or 0 for _, n in chunks) or None,
        "output_len_source": "usage" if any(n for _, n in chunks) else None, "finish_reason": "stop",
        "terminal": "both", "served_by": "10.0.0.7:8000", "input_len": 30, "input_len_source": "usage",
    }  # fmt: skip
    return Attempt(**{**fields, **more})


def make_phase(segment: int = 0, **more: Any) -> PhaseRecord:
    fields: dict[str, Any] = {
        "segment": segment, "arm": "baseline", "phase": "measure", "stage": "c=4", "stage_index": 0, "repeat_idx": 2,
        "block": 0, "executor": "concurrency", "concurrency": 4, "rate_per_s": None, "started_ns": S,
        "idle_before": Idle(True, None, 0.25),
    }  # fmt: skip
    return PhaseRecord(**{**fields, **more})


def ended(phase: PhaseRecord) -> PhaseRecord:
    return make_phase(
        phase.segment,
        full_ns=S + 1,
        load_end_ns=2 * S,
        ended_ns=3 * S,
        accounting=Accounting(5, 4, 1, 0, 2, 0, 0),
        idle_after=Idle(None, "no metrics page", 0.0),
    )


def make_manifest(run_id: str = "run-1", **more: Any) -> Manifest:
    facts = ArmFacts(
        replicas=["http://127.0.0.1:1"], metrics_sources=["http://one/metrics"], adapter="vllm", chunk_unit="step",
        model="m", endpoint="chat", capabilities={"counts_artefact": False}, environment={}, facts={},
        spec_method="draft_model", k=4, speculation=True,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": run_id, "specload_version": "0.1.0", "started": "2026-01-02T03:04:05.000+00:00",
        "scenario": {"name": "t", "workload": {"keep_text": False}}, "scenario_path": "t.yaml",
        "scenario_sha256": "0" * 64, "plan_hash": "p", "design": "sequential", "length_model": {},
        "arms": {"baseline": facts}, "client": {}, "anchors": [Anchor(0, 1_700_000_000 * S, 10)],
    }  # fmt: skip
    return Manifest(**{**fields, **more})


class WholeWriter:
    """A RunWriter and one worker's records, in this process: what a run of one worker writes."""

    def __init__(self, root: Path, manifest: Manifest, redact: Redactor | None = None) -> None:
        self.writer = RunWriter(root, manifest, redact)
        self.labels: dict[int, Any] = {}
        self.records = self.writer.sinks(self.labels)(0)
        self.attempt, self.health = self.records.attempt, self.records.health
        self.scrape, self.anomaly = self.writer.scrape, self.writer.anomaly
        self.path = self.writer.path

    def phase(self, phase: PhaseRecord) -> None:
        self.labels[phase.segment] = phase
        self.writer.phase(phase)

    def flush(self) -> None:
        self.writer._flush()
        self.records.flush()

    def finish(self, state: str, reason: str | None = None, **more: Any) -> None:
        lost = self.records.close()
        self.writer.finish(state, reason, workers=[WorkerEnd(0, None, self.records.failed, lost)], **more)


@pytest.fixture(scope="session")
def whole() -> type[WholeWriter]:
    return WholeWriter


@pytest.fixture
def attempt() -> Callable[..., Attempt]:
    return make_attempt


@pytest.fixture
def phase() -> Callable[..., PhaseRecord]:
    return make_phase


@pytest.fixture
def phase_end() -> Callable[[PhaseRecord], PhaseRecord]:
    return ended


@pytest.fixture
def manifest() -> Callable[..., Manifest]:
    return make_manifest


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a finished run of these attempts and scrapes; returns its directory."""

    def write(attempts: list[Attempt], scrapes: list[Any] | None = None, **more: Any) -> Path:
        writer = WholeWriter(tmp_path / "runs", make_manifest(**more))
        writer.phase(make_phase())
        for one in attempts:
            writer.attempt(one)
        for scrape in scrapes or []:
            writer.scrape(scrape)
        writer.phase(ended(make_phase()))
        writer.finish("finished")
        return writer.path

    return write
