"""`specload run` against real vLLM servers: what the client saw, what the server says, and that they agree."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from loadgen.analyze import Summary
from loadgen.experiment import RunOptions, RunResult, judge_run, run_scenario
from loadgen.observe import window
from loadgen.plan import Plan, Segment
from loadgen.record import COLUMNS, RunData, open_run
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchedServer
from server_adapters.rounds import from_positions
from tests.zygote import Zygote

pytestmark = pytest.mark.vllm

Specload = Callable[..., subprocess.CompletedProcess[str]]

TASKS = [
    {"task_type": "short_qa", "input_len": {"kind": "uniform", "low": 24, "high": 64}},
    {"task_type": "structured", "input_len": {"kind": "uniform", "low": 96, "high": 160}},
    {"task_type": "code", "input_len": {"kind": "uniform", "low": 64, "high": 128}},
]


class Quiet:
    """A progress display for tests: remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None:
        self.path = path

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Any) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def scenario(arms: dict[str, dict[str, Any]], **changes: Any) -> dict[str, Any]:
    tasks = [{**t, "output_len": {"kind": "uniform", "low": 12, "high": 40}} for t in TASKS]
    base: dict[str, Any] = {
        "version": 1,
        "name": "real",
        "environment": "disposable",
        "seed": 5,
        "arms": arms,
        "repeats": 1,
        "comparison": {"blocks": 1},
        "workload": {"endpoint": "completions", "tasks": tasks},
        "load": [
            {"kind": "concurrency", "concurrency": 1, "cases": 6},
            {"kind": "concurrency", "concurrency": 3, "cases": 15},
        ],
        "warmup": {"warmup_requests": 3},
        "scrape": {"interval_s": 0.5},
    }
    return {**base, **changes}


def drive(folder: Path, content: dict[str, Any]) -> RunResult:
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(content))
    return asyncio.run(run_scenario(load_scenario(file), RunOptions(folder / "runs"), Quiet()))


@pytest.fixture(scope="module")
def both(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunResult, RunData]:
    """One ramp on both arms, shared by the tests below."""
    arms = {
        "baseline": {"url": vllm_off.url, "speculation": "off"},
        "candidate": {"url": vllm_draft.url, "speculation": "on"},
    }
    result = drive(tmp_path_factory.mktemp("both"), scenario(arms))
    return result, open_run(result.path)


def measured(run: RunData, arm: str) -> list[dict[str, Any]]:
    rows = run.requests.to_pylist()
    return [r for r in rows if r["arm"] == arm and r["phase"] == "measure"]


def test_every_request_is_ok_and_every_edge_idle(both: tuple[RunResult, RunData]) -> None:
    result, run = both
    assert result.state == "finished"
    assert {r["outcome"] for r in run.requests.to_pylist()} == {"ok"}
    assert all(p.idle_before and p.idle_before.reached and p.idle_after and p.idle_after.reached for p in run.phases)
    cases = [sorted(r["case_id"] for r in measured(run, arm)) for arm in ("baseline", "candidate")]
    assert cases[0] == cases[1]
    assert len(measured(run, "baseline")) == len(measured(run, "candidate")) == 21


def test_per_request_sums_equal_counter_deltas_exactly(both: tuple[RunResult, RunData]) -> None:
    """D18, invariants 2 and 3: two sources of drafted, accepted and rounds, over idle edges."""
    _, run = both
    for phase in (p for p in run.phases if p.arm == "candidate"):
        rows = [r for r in run.requests.to_pylist() if r["segment"] == phase.segment]
        assert phase.ended_ns is not None
        w = window(run.scrapes, "candidate", "tiny", phase.started_ns, phase.ended_ns, phase.segment)
        assert sum(r["verify_rounds"] for r in rows) == w.deltas["drafts"]
        assert sum(r["drafted_tokens"] for r in rows) == w.deltas["draft_tokens"]
        assert sum(r["accepted_tokens"] for r in rows) == w.deltas["accepted_tokens"]
        assert sum(w.by_position["accepted_at"]) == w.deltas["accepted_tokens"]
        assert w.deltas["drafts"] > 0


def test_client_tokens_equal_server_tokens(both: tuple[RunResult, RunData]) -> None:
    """Invariant 8: every arm, every window."""
    _, run = both
    for phase in run.phases:
        rows = [r for r in run.requests.to_pylist() if r["segment"] == phase.segment]
        assert phase.ended_ns is not None
        w = window(run.scrapes, phase.arm, "tiny", phase.started_ns, phase.ended_ns, phase.segment)
        assert sum(r["output_len"] for r in rows) == w.deltas["generation_tokens"]
        assert sum(r["input_len"] for r in rows) == w.deltas["prompt_tokens"]


def test_tokens_per_chunk_give_the_accepted_count_within_k_plus_one(both: tuple[RunResult, RunData]) -> None:
    """D22: the last round is trimmed after it was counted, so equality holds up to k + 1."""
    _, run = both
    for row in measured(run, "candidate"):
        tokens = row["chunk_tokens"]
        assert sum(tokens) == row["output_len"]
        if max(tokens) > 5:
            continue  # the server merged steps under load: such chunks tell no accepted count
        assert abs(sum(n - 1 for n in tokens[1:]) - row["accepted_tokens"]) <= 5


def test_baseline_has_no_speculation_and_says_so(both: tuple[RunResult, RunData]) -> None:
    """D5, D8: absent, never 0."""
    result, run = both
    assert all(r["drafted_tokens"] is None and r["verify_rounds"] is None for r in measured(run, "baseline"))
    alpha = result.summary.arms["baseline"].overall.speculation.acceptance_rate
    assert alpha.value is None
    assert alpha.reason


def test_rollback_is_exact_where_rounds_are_told(both: tuple[RunResult, RunData]) -> None:
    """The method is read from the server's development routes here, so its counts are known to be no artefact."""
    result, run = both
    rollback = result.summary.arms["candidate"].overall.speculation.rollback_rate
    rows = measured(run, "candidate")
    truth = sum(a < d for r in rows for a, d in zip(r["per_step_accepted"], r["per_step_drafted"], strict=True))
    rounds = sum(r["verify_rounds"] for r in rows)
    assert rollback.exact
    assert rollback.value == pytest.approx(truth / rounds)
    assert rollback.source == "per_request"


def test_speedup_of_decoding_is_e_over_c(both: tuple[RunResult, RunData]) -> None:
    """mean TPOT baseline / mean TPOT candidate = E / c, an identity of pooled means."""
    result, run = both
    assert [d.stage for d in result.summary.decomposition] == ["c1", "c3"]
    for d in result.summary.decomposition:
        pooled = {}
        for arm in ("baseline", "candidate"):
            # a stream read at one instant has no duration: its sample is invalid, never clamped
            rows = [r for r in measured(run, arm) if r["stage"] == d.stage and r["tpot_s"] is not None]
            time_ns = sum(r["last_token_ns"] - r["first_token_ns"] for r in rows)
            pooled[arm] = time_ns / sum(r["output_len"] - r["first_tokens"] for r in rows)
        assert d.speedup_decode.value == pytest.approx(pooled["baseline"] / pooled["candidate"])
        assert d.e_decode.value is not None
        assert d.c.value is not None
        assert d.e_decode.value / d.c.value == pytest.approx(d.speedup_decode.value)
        assert 1.0 < d.e_decode.value <= 5.0


def test_all_reconciliations_hold(both: tuple[RunResult, RunData]) -> None:
    """Chunks against steps may differ where a busy server merged chunks; nothing else may."""
    result, _ = both
    bad = [r for r in result.summary.reconciliation if r.ok is False and "merged chunks" not in r.note]
    assert bad == []
    assert sum(r.ok is True for r in result.summary.reconciliation) >= 20


def test_prompt_lengths_are_what_was_asked(both: tuple[RunResult, RunData]) -> None:
    """B18: sized with the server's own tokenizer; requested and real are both kept."""
    _, run = both
    assert run.manifest.length_model["source"] == "server_tokenize"
    asked = np.array([r["input_len_requested"] for r in measured(run, "baseline")])
    real = np.array([r["input_len"] for r in measured(run, "baseline")])
    assert np.median(np.abs(real - asked) / asked) < 0.15
    assert sorted(r["input_len"] for r in measured(run, "candidate")) == sorted(real.tolist())


def test_the_summary_is_recomputed_from_the_records(both: tuple[RunResult, RunData]) -> None:
    result, _ = both
    on_disk = Summary.model_validate_json((result.path / "summary.json").read_bytes())
    assert on_disk == judge_run(open_run(result.path)).summary == result.summary


def test_ngram_interval_from_counters_contains_the_exact_value(vllm_ngram: LaunchedServer, tmp_path: Path) -> None:
    """Drafts of variable length: counters give an interval, per-request rounds the truth inside it (D14)."""
    content = scenario({"candidate": {"url": vllm_ngram.url, "speculation": "on"}})
    for task in content["workload"]["tasks"]:
        task["output_len"] = {"kind": "uniform", "low": 40, "high": 80}
    run = open_run(drive(tmp_path, content).path)
    found = 0
    for phase in run.phases:
        rows = [r for r in run.requests.to_pylist() if r["segment"] == phase.segment and r["per_step_drafted"]]
        assert phase.ended_ns is not None
        w = window(run.scrapes, "candidate", "tiny", phase.started_ns, phase.ended_ns, phase.segment)
        rounds, drafted = round(w.deltas["drafts"]), round(w.deltas["draft_tokens"])
        assert sum(r["verify_rounds"] for r in rows) == rounds
        assert sum(r["drafted_tokens"] for r in rows) == drafted
        bounds = from_positions(rounds, drafted, [round(a) for a in w.by_position["accepted_at"]])
        truth = sum(a < d for r in rows for a, d in zip(r["per_step_accepted"], r["per_step_drafted"], strict=True))
        assert bounds.low <= truth <= bounds.high
        found += rounds
    assert found > 0


def test_chat_and_whole_answers_are_kept_apart(vllm_draft: LaunchedServer, tmp_path: Path) -> None:
    """C10, G25: a request that did not stream has no TTFT; the two are never pooled."""
    content = scenario(
        {"candidate": {"url": vllm_draft.url}}, load=[{"kind": "concurrency", "concurrency": 2, "cases": 16}]
    )
    content["workload"] |= {"endpoint": "chat", "stream_fraction": 0.5}
    result = drive(tmp_path, content)
    rows = measured(open_run(result.path), "candidate")
    streamed = [r for r in rows if r["stream"]]
    whole = [r for r in rows if not r["stream"]]
    assert {r["outcome"] for r in rows} == {"ok"}
    assert 0 < len(streamed) < len(rows)
    assert all(r["ttft_s"] > 0 and r["output_len"] and r["verify_rounds"] for r in streamed)
    assert all(r["ttft_s"] is None and r["total_time_s"] > 0 and r["output_len"] for r in whole)
    overall = result.summary.arms["candidate"].overall
    assert overall.stream.ttft_s.n == len(streamed)
    assert overall.non_stream.total_time_s.n == len(whole)


@pytest.fixture
def specload(zygote: Zygote, tmp_path: Path) -> Specload:
    return lambda *args: zygote.run(args, cwd=tmp_path)


def test_wrong_model_name_lists_the_right_ones(vllm_off: LaunchedServer, tmp_path: Path, specload: Specload) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(scenario({"baseline": {"url": vllm_off.url, "model": "tinny"}})))
    done = specload("run", file, "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert "tinny" in done.stderr
    assert "tiny" in done.stderr.replace("tinny", "")
    assert not list((tmp_path / "runs").iterdir())


def test_speculation_expected_but_absent(vllm_off: LaunchedServer, tmp_path: Path, specload: Specload) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(scenario({"candidate": {"url": vllm_off.url, "speculation": "on"}})))
    done = specload("check", file)
    assert done.returncode == 3
    assert "speculation: on" in done.stderr
    assert "speculation off" in done.stderr


def test_init_check_run_report_export(vllm_draft: LaunchedServer, tmp_path: Path, specload: Specload) -> None:
    """The way of a newcomer: from a URL to an export."""
    file, runs = tmp_path / "scenario.yaml", tmp_path / "runs"
    done = specload("init", vllm_draft.url, "--file", file, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["capabilities"]["k"] == 4
    small = ("--set", "load=[{kind: concurrency, concurrency: 2, cases: 4}]", "--set", "environment=disposable")
    assert specload("check", file, *small).returncode == 0
    done = specload("run", file, *small, "--out", runs, "--json")
    assert done.returncode in (0, 98), done.stderr  # 98: this machine was too busy to measure
    summary = json.loads(done.stdout)
    path = runs / summary["run_id"]
    again = specload("report", path, "--format", "json")
    assert json.loads(again.stdout) == summary
    assert "candidate" in specload("report", summary["run_id"], "--out", runs).stdout
    done = specload("export", path, "--to", "parquet")
    assert done.returncode == 0
    assert pq.read_schema(path / "export.parquet").names[: len(COLUMNS)] == list(COLUMNS)
    assert summary["run_id"] in specload("runs", "--out", runs).stdout


def long_run(folder: Path, url: str) -> subprocess.Popen[str]:
    content = scenario({"baseline": {"url": url}}, load=[{"kind": "concurrency", "concurrency": 2, "duration_s": 60}])
    (folder / "s.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "loadgen", "run", str(folder / "s.yaml"), "--out", str(folder / "runs")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_records(folder: Path, process: subprocess.Popen[str], rows: int) -> Path:
    """Wait until `rows` requests are on disk."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for path in (folder / "runs").glob("*-real-*"):
            if (path / "requests-0.arrow").exists() and open_run(path).requests.num_rows >= rows:
                return path
        time.sleep(0.2)
    raise AssertionError("no records")


def test_ctrl_c_keeps_everything_and_reports(vllm_off: LaunchedServer, tmp_path: Path) -> None:
    process = long_run(tmp_path, vllm_off.url)
    path = wait_for_records(tmp_path, process, 6)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "did not finish" in stdout
    run = open_run(path)
    assert run.manifest.state == "interrupted"
    assert run.requests.num_rows >= 6
    assert (path / "requests.parquet").exists()


def test_kill_9_leaves_a_readable_run(vllm_off: LaunchedServer, tmp_path: Path, specload: Specload) -> None:
    process = long_run(tmp_path, vllm_off.url)
    path = wait_for_records(tmp_path, process, 6)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    done = specload("report", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["finished"] is False
    assert summary["arms"]["baseline"]["overall"]["requests"]["outcomes"]["ok"] >= 1
