"""The pure parts of benchmarks/accuracy.py, on small recorded result files of every tool, and its process runner."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from accuracy_cells import Condition, expected_s, grid, limit_s
from accuracy_process import run_measured
from accuracy_results import READERS, Reading, read_aiperf, read_truth
from accuracy_tables import (
    BEGIN,
    END,
    cpu_per_million,
    fill_between,
    markdown,
    number,
    request_rate,
)
from accuracy_tools import peer, scenario_for

from loadgen.scenario import load_scenario

SAMPLES = Path(__file__).parent / "samples"
LEVELS = (64, 256, 1024, 2048)
KINDS = ("steady", "short", "stall", "errors", "rate")


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_bytes())


def reading(**changes: Any) -> dict[str, Any]:
    base = Reading(60.6, 69.97, 20.0, 20.02, 20.0, 20.1, 100, 0).json()
    return base | changes


def cell(tool: str, kind: str = "steady", streams: int = 64, per_chunk: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "condition": {"kind": kind, "streams": streams, "tokens_per_chunk": per_chunk},
        "tool": tool, "label": tool, "version": "1.0", "state": "ok", "reason": "", "reported": reading(),
        "truth": reading(ttft_p50_ms=60.5), "chunks": 30_000, "busy_done": 100, "busy_s": 10.0, "cpu_s": 3.0,
        "peak_rss_bytes": 100_000_000, "processes": 2, "max_running": streams, "resets": 0, "late_p99_us": 50.0,
        "load_before": 0.1, "other_cpu_share": 0.01, "started": "2026-11-29T22:00:00+00:00", "pinned": "pinned",
    } | changes  # fmt: skip


def absent(tool: str, kind: str = "steady") -> dict[str, Any]:
    condition = {"kind": kind, "streams": 64, "tokens_per_chunk": 1}
    return {"condition": condition, "tool": tool, "label": tool, "version": None, "state": "absent",
            "reason": "not installed: scripts/setup_peers.sh x"}  # fmt: skip


def test_reads_specload() -> None:
    """One of 16 requests ended in an error; 15 samples are too few for a P99."""
    got = READERS["specload"](sample("specload"))
    assert got.ttft_p50_ms == pytest.approx(58.521752)
    assert got.ttft_p99_ms is None
    assert got.tpot_p50_ms == pytest.approx(20.000071)
    assert got.gap_p99_ms == pytest.approx(24.645112)
    assert (got.requests, got.errors, got.note) == (16, 1, "0.00% coalesced")


def test_reads_vllm_bench() -> None:
    """It took the request with the error object for a success."""
    got = READERS["vllm"](sample("vllm"))
    assert (got.ttft_p50_ms, got.ttft_p99_ms) == (60.362269999586715, 72.51866464989689)
    assert (got.tpot_p50_ms, got.tpot_p99_ms) == (20.00061176524256, 20.01254577777391)
    assert (got.gap_p50_ms, got.gap_p99_ms) == (19.998325500182546, 20.36442625012569)
    assert (got.requests, got.errors) == (16, 0)


def test_reads_aiperf() -> None:
    got = READERS["aiperf"](sample("aiperf"))
    assert (got.ttft_p50_ms, got.ttft_p99_ms) == (67.0794155, 75.13319834999999)
    assert (got.tpot_p50_ms, got.tpot_p99_ms) == (20.03291734920635, 20.15689252761905)
    assert (got.gap_p50_ms, got.gap_p99_ms) == (19.9995625, 24.766683999999998)
    assert (got.requests, got.errors) == (16, 0)


def test_aiperf_errors_are_counted_beside_its_requests() -> None:
    result = sample("aiperf") | {"error_request_count": {"avg": 3.0}, "request_error_rate": {"avg": 15.8}}
    assert (read_aiperf(result).requests, read_aiperf(result).errors) == (19, 3)


def test_aiperf_without_any_count_of_errors_says_nothing() -> None:
    result = {k: v for k, v in sample("aiperf").items() if k != "request_error_rate"}
    assert (read_aiperf(result).requests, read_aiperf(result).errors) == (None, None)


def test_reads_guidellm() -> None:
    """Its times are those of successful requests; it has no gap of chunks."""
    got = READERS["guidellm"](sample("guidellm"))
    assert (got.ttft_p50_ms, got.ttft_p99_ms) == (65.05489349365234, 99.2422103881836)
    assert (got.tpot_p50_ms, got.tpot_p99_ms) == (20.020636301192027, 20.126914221142965)
    assert (got.gap_p50_ms, got.gap_p99_ms, got.requests, got.errors) == (None, None, 16, 1)


def test_guidellm_without_a_success_has_no_times() -> None:
    result = sample("guidellm")
    for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
        result["benchmarks"][0]["metrics"][name]["successful"] = None
    assert READERS["guidellm"](result).ttft_p50_ms is None


def test_several_arms_or_benchmarks_are_refused() -> None:
    specload, guidellm = sample("specload"), sample("guidellm")
    specload["arms"]["second"] = specload["arms"]["truth"]
    guidellm["benchmarks"] *= 2
    with pytest.raises(ValueError, match="too many"):
        READERS["specload"](specload)
    with pytest.raises(ValueError, match="too many"):
        READERS["guidellm"](guidellm)


def test_reads_the_truth() -> None:
    got = read_truth(sample("stats"))
    assert (got.ttft_p50_ms, got.tpot_p50_ms, got.gap_p99_ms) == (5.0483, 1.771, 4.225)
    assert (got.requests, got.errors) == (6, 2)


def test_the_truth_of_nothing_is_nothing() -> None:
    stats = sample("stats")
    stats["tpot"] |= {"n": 0, "p50_us": 0.0, "p99_us": 0.0}
    assert read_truth(stats).tpot_p50_ms is None


def test_cpu_is_the_difference_of_two_lengths() -> None:
    long, short = cell("a", chunks=50_000, cpu_s=9.0), cell("a", "short", chunks=10_000, cpu_s=8.0)
    assert cpu_per_million(long, short) == 25.0


@pytest.mark.parametrize(
    "short",
    [
        cell("a", "short", chunks=10_000, cpu_s=9.5),
        cell("a", "short", chunks=49_500, cpu_s=8.0),
        cell("a", "short", state="timeout", chunks=10_000, cpu_s=8.0),
        absent("a", "short"),
    ],
    ids=["noise", "same length", "did not finish", "absent"],
)
def test_no_cost_without_a_difference(short: dict[str, Any]) -> None:
    assert cpu_per_million(cell("a", chunks=50_000, cpu_s=9.0), short) is None


def test_request_rate_is_the_servers() -> None:
    assert request_rate(cell("a", busy_done=3200, busy_s=0.5)) == 6400.0
    assert request_rate(cell("a", busy_s=0.0)) is None
    assert request_rate(absent("a")) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (0.0031, "0.003"), (5.0004, "5.000"), (60.5049, "60.50"), (271.26, "271.3"),
     (3004.9, "3,005"), (1_234_567.8, "1,234,568"), (-2.5, "-2.500")],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def lines_of(cells: list[dict[str, Any]]) -> list[str]:
    return markdown(cells, {"machine": "2 cores"}).splitlines()


def test_timing_stands_beside_its_truth() -> None:
    rows = lines_of([cell("specload", reported=reading(gap_p50_ms=None, note="0.10% coalesced"))])
    assert (
        "| 64 | specload | 60.60 (60.50) | 69.97 (69.97) | 20.00 (20.00) | 20.02 (20.02) | – | 20.10 (20.10) "
        "| 0.10% coalesced |"
    ) in rows


def test_a_tool_that_did_not_run_has_a_row_that_says_so() -> None:
    rows = lines_of([cell("specload"), absent("aiperf")])
    assert "| 64 | aiperf | absent: not installed: scripts/setup_peers.sh x |  |  |  |  |  |  |" in rows


def test_every_row_is_as_wide_as_its_header() -> None:
    cells = [c for kind in KINDS for c in (cell("specload", kind), absent("aiperf", kind))]
    rows = [row for row in lines_of(cells) if row.startswith("|")]
    headers = [n for n, row in enumerate(rows) if set(row) == {"|", "-"}]
    assert len(headers) == 5
    for header in headers:
        assert {row.count("|") for row in rows[header - 1 : header + 3]} == {rows[header].count("|")}


def test_cost_and_ratio_come_from_the_same_run() -> None:
    cells = [
        cell("specload", chunks=50_000, cpu_s=3.0), cell("specload", "short", chunks=10_000, cpu_s=2.5),
        cell("vllm", chunks=50_000, cpu_s=9.0), cell("vllm", "short", chunks=10_000, cpu_s=8.0),
        cell("aiperf", chunks=50_000, cpu_s=20.0), cell("aiperf", "short", state="failed", reason="x"),
    ]  # fmt: skip
    rows = lines_of(cells)
    assert "| 64 | specload | 12.50 | 1.0 | 100.0 (2) | 5,000 |" in rows
    assert "| 64 | vllm | 25.00 | 0.50 | 100.0 (2) | 5,000 |" in rows
    assert "| 64 | aiperf | – | – | 100.0 (2) | 5,000 |" in rows


def test_errors_sent_and_counted() -> None:
    truth = reading(errors=51)
    rows = lines_of([
        cell("specload", "errors", truth=truth, reported=reading(errors=51, requests=512)),
        cell("other", "errors", truth=truth, reported=reading(errors=None, requests=None)),
    ])  # fmt: skip
    assert "| 64 | specload | 51 | 51 | 512 |" in rows
    assert "| 64 | other | 51 | – | – |" in rows


def test_request_rates_against_ours() -> None:
    rows = lines_of([
        cell("specload", "rate", busy_done=3200, busy_s=0.5, max_running=36),
        cell("vllm", "rate", busy_done=3200, busy_s=1.0, max_running=12),
    ])  # fmt: skip
    assert "| 64 | specload | 6,400 | 1.0 | 36 |" in rows
    assert "| 64 | vllm | 3,200 | 2.0 | 12 |" in rows


def test_rows_keep_the_order_of_the_tools_whoever_began() -> None:
    cells = [cell("specload"), cell("vllm"), cell("vllm", streams=8), cell("specload", streams=8)]
    rows = [row.split(" | ")[:2] for row in lines_of(cells) if row.startswith(("| 64 |", "| 8 |"))]
    assert rows[:4] == [["| 8", "specload"], ["| 8", "vllm"], ["| 64", "specload"], ["| 64", "vllm"]]


def test_only_what_stands_between_the_markers_changes() -> None:
    page = f"# Page\n\n{BEGIN}\nold\n{END}\nend\n"
    once = fill_between(page, "new\n")
    assert once == f"# Page\n\n{BEGIN}\nnew\n{END}\nend\n"
    assert fill_between(once, "new\n") == once


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="needs one line"):
        fill_between(page, "new\n")


def test_docs_page_can_be_filled() -> None:
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text()
    assert "FILLED" in fill_between(page, "FILLED\n")


def test_the_grid_has_every_condition_of_the_claim() -> None:
    conditions = grid(LEVELS, 15.0, 256, 3200, KINDS)
    steady = {(c.streams, c.tokens_per_chunk) for c in conditions if c.kind == "steady"}
    assert steady == {(n, k) for n in LEVELS for k in (1, 4)}
    assert {c.streams for c in conditions if c.kind == "short"} == set(LEVELS)
    assert len({c.id for c in conditions}) == len(conditions) == 15


def test_a_long_run_is_longer_than_its_short_one() -> None:
    conditions = grid(LEVELS, 1.0, 256, 3200, ("steady", "short"))
    for streams in LEVELS:
        long, short = (
            next(c for c in conditions if (c.kind, c.streams, c.tokens_per_chunk) == (kind, streams, 1))
            for kind in ("steady", "short")
        )
        assert long.chunks >= 2 * short.chunks
        assert (long.tokens, long.first_ms, long.gap_ms) == (short.tokens, short.first_ms, short.gap_ms)


def test_the_stall_is_in_the_percentile_that_must_show_it() -> None:
    """More than 1 % of the gaps of a stream, and none where no stall is asked for."""
    (stall,) = grid(LEVELS, 15.0, 256, 3200, ("stall",))
    assert 1 / (stall.tokens - 1) > 0.01
    assert stall.server_flags()[-2:] == ["--stall-ms", "1000"]
    assert "--stall-ms" not in Condition("steady", 64, 1, 256, 128).server_flags()


def test_a_cell_may_take_longer_than_expected_but_not_for_ever() -> None:
    for condition in grid(LEVELS, 15.0, 256, 3200, KINDS):
        for family in READERS:
            assert expected_s(condition, family) < limit_s(condition, family) <= 180.0


def test_the_scenario_asks_for_the_condition(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario_for(Condition("steady", 2048, 4, 256, 4096), 8000)))
    scenario = load_scenario(file).scenario
    assert scenario.arms["truth"].url == "http://127.0.0.1:8000"
    stage = scenario.load[0].model_dump()
    assert (stage["concurrency"], stage["cases"]) == (2048, 4096)
    assert scenario.workload.tasks[0].model_dump()["output_len"]["value"] == 256


def test_a_peer_that_is_not_installed_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accuracy_tools.CACHE", tmp_path)
    tool = peer("aiperf")
    assert (tool.absent, tool.version) == ("not installed: scripts/setup_peers.sh aiperf", None)


CHILDREN = """
import subprocess, sys, time
spin = "import time; e = time.process_time() + 0.3\\nwhile time.process_time() < e: pass"
subprocess.run([sys.executable, "-c", spin])
print("done")
"""


def test_children_count(tmp_path: Path) -> None:
    run = run_measured([sys.executable, "-c", CHILDREN], os.environ, None, 30.0, tmp_path / "log")
    assert (run.code, run.timed_out, (tmp_path / "log").read_text()) == (0, False, "done\n")
    assert run.cpu_s >= 0.3
    assert run.peak_rss_bytes > 1_000_000


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_tool_that_does_not_end_is_ended_with_its_family(tmp_path: Path) -> None:
    run = run_measured([sys.executable, "-c", STUBBORN], os.environ, None, 1.5, tmp_path / "log")
    assert run.timed_out
    child = int((tmp_path / "log").read_text())
    until = time.monotonic() + 10
    while _lives(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    """Ended counts as ended, also where whoever adopted it has yet to reap it."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
