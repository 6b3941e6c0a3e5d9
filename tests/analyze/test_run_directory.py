"""From attempts through a real run directory to the summary: both rooms say the same of one request."""

from array import array
from pathlib import Path
from typing import Any

import pytest

from loadgen.analyze import Summary, analyze
from loadgen.drive import UNKNOWN_TOKENS, Accounting, Attempt, Ledger, LoopHealth, Outcome
from loadgen.observe import Scrape, Scraped
from loadgen.plan import Case
from loadgen.record import ArmFacts, Idle, Manifest, PhaseRecord, RunWriter, open_run
from server_adapters.base import CANONICAL, MetricsPage, Sampling, Series, SpecStats

approx = pytest.approx
S, MS = 1_000_000_000, 1_000_000


def attempt(index: int, chunks: list[tuple[int, int]], **more: Any) -> Attempt:
    """Sent at 1 s, due 2 ms before; `chunks`: (ms after sent, tokens)."""
    at = [S + ms * MS for ms, _ in chunks]
    ledger = Ledger(
        array("q", at), array("i", [n for _, n in chunks]), array("i", [9] * len(at)), array("i", range(len(at)))
    )
    case = Case(0, "measure", index, f"c{index}", 0, "code", None, 64, 1, 1, index, False, True)
    known = [n for _, n in chunks if n != UNKNOWN_TOKENS]
    fields: dict[str, Any] = {
        "seq": index, "arm": "candidate", "replica": "http://127.0.0.1:1", "worker": 0, "segment": 0, "case": case,
        "request_id": f"r{index}", "stream": True, "sampling": Sampling(), "max_tokens": 64, "due_ns": S - 2 * MS,
        "concurrency": 1, "sent_ns": S, "headers_ns": S, "first_byte_ns": S, "end_ns": at[-1] if at else S + MS,
        "connect_ns": None, "outcome": Outcome.OK, "error_class": None, "error_status": None, "error_message": None,
        "ledger": ledger, "first_token_ns": at[0] if at else None, "last_token_ns": at[-1] if at else None,
        "first_answer_ns": at[0] if at else None, "first_tokens": known[0] if known else None,
        "output_len": sum(known) or None, "input_len": 30,
    }  # fmt: skip
    return Attempt(**{**fields, **more})


def scrape(at_ns: int, edge: Any, **values: float) -> Scrape:
    series = tuple(Series(n, CANONICAL[n], v, engine="0", model="m") for n, v in values.items())
    page = MetricsPage(series, ("m",), ("0",), 1.0)
    return Scrape("candidate", "http://one/metrics", at_ns, at_ns + 1, Scraped.OK, None, page, edge=edge, segment=0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    facts = ArmFacts(
        replicas=["http://127.0.0.1:1"], metrics_sources=["http://one/metrics"], adapter="vllm", chunk_unit="step",
        model="m", endpoint="chat", capabilities={"counts_artefact": False}, environment={}, facts={},
        spec_method="draft_model", k=4, speculation=True,
    )  # fmt: skip
    manifest = Manifest(
        run_id="r", specload_version="0", started="2026-01-01T00:00:00Z", scenario={"name": "t"}, scenario_path=None,
        scenario_sha256="0", plan_hash="p", design="sequential", length_model={}, arms={"candidate": facts}, client={},
    )  # fmt: skip
    writer = RunWriter(tmp_path, manifest)
    idle = Idle(True, None, 0.0)
    start = PhaseRecord(0, "candidate", "measure", "one", 0, 0, 0, "concurrency", 1, None, S, idle_before=idle)
    records = writer.sinks({0: start})(0)
    writer.phase(start)
    writer.scrape(scrape(S - 2, "start", drafts=0, generation_tokens=0, draft_tokens=0, accepted_tokens=0))
    stats = SpecStats(2, 5, 8, 4, (0, 0, 1, 1, 0), (3, 2), (4, 4))
    records.attempt(attempt(0, [(100, 1), (140, 4), (180, 3)], spec=stats))
    records.attempt(attempt(1, [(200, UNKNOWN_TOKENS), (300, UNKNOWN_TOKENS)], output_len=5, unattributed_tokens=5))
    records.attempt(attempt(2, [(90, 2)], outcome=Outcome.TRUNCATED, max_tokens=2))
    records.health(LoopHealth(S + 500 * MS, 0, 0.001, 0.002, 0.3, 1, 0.002, 1))
    writer.scrape(scrape(2 * S, "end", drafts=2, generation_tokens=15, draft_tokens=8, accepted_tokens=5))
    account = Accounting(scheduled=3, sent=3)
    writer.phase(
        PhaseRecord(
            0, "candidate", "measure", "one", 0, 0, 0, "concurrency", 1, None, S, S, 2 * S, 2 * S, account, None, idle,
            idle,
        )
    )  # fmt: skip
    records.close()
    writer.finish("finished")
    return writer.path


def test_numbers_from_a_run_directory(directory: Path) -> None:
    summary = analyze(open_run(directory))
    g = summary.arms["candidate"].overall
    assert summary.finished is True
    assert g.requests.outcomes["ok"] == 2
    assert (g.requests.scheduled, g.throughput.wasted_tokens) == (3, 2)
    assert g.throughput.net_tokens_per_s.value == approx(13.0)
    assert g.chunk_gap_s.p50 == approx(0.040)
    assert g.speculation.acceptance_rate.value == approx(5 / 8)
    assert g.speculation.rollback_rate.value == 1.0
    rows = {row.name: row for row in summary.reconciliation}
    assert (rows["output_tokens"].difference, rows["output_tokens"].ok) == (0, True)
    assert rows["drafted_tokens"].difference == 0
    assert summary.validity.client["loop_lag_max_s"].value == 0.002


def test_analysis_agrees_with_the_recorded_columns(directory: Path) -> None:
    """ttft, total time and TPOT are computed twice, from stamps and in the record: one definition."""
    run = open_run(directory)
    g = analyze(run).arms["candidate"].overall
    ok = [row for row in run.requests.to_pylist() if row["outcome"] == "ok"]
    for name, found in (
        ("ttft_s", g.stream.ttft_s),
        ("ttft_from_due_s", g.stream.ttft_from_due_s),
        ("ttft_answer_s", g.stream.ttft_answer_s),
        ("total_time_s", g.stream.total_time_s),
        ("total_time_from_due_s", g.stream.total_time_from_due_s),
        ("tpot_s", g.tpot_s),
    ):
        values = [row[name] for row in ok if row[name] is not None]
        assert found.n == len(values)
        assert found.mean == approx(sum(values) / len(values))
        assert found.max == approx(max(values))


def test_the_same_directory_gives_the_same_summary(directory: Path) -> None:
    """`report` recomputes everything: also through JSON."""
    first, second = (analyze(open_run(directory)) for _ in range(2))
    assert first == second == Summary.model_validate_json(first.model_dump_json())
