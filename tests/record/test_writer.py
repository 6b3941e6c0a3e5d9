"""The run directory: what is written, when, and what is left when something breaks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from loadgen.drive import Attempt, LoopHealth, Outcome
from loadgen.errors import StorageError
from loadgen.observe import Scrape, Scraped
from loadgen.record import COLUMNS, EXTRA_COLUMNS, Manifest, PhaseRecord, RunWriter, new_run_id, open_run
from loadgen.record.rows import scrape_of, scrape_row
from loadgen.redact import Redactor
from server_adapters.base import MetricKind, MetricsPage, Series, ServerTimings, SpecStats

MS = 1_000_000
S = 1_000_000_000
ROOT = Path(__file__).resolve().parents[2]
MakeAttempt = Callable[..., Attempt]
MakeManifest = Callable[..., Manifest]


def running(at_s: float, value: float) -> Scrape:
    series = (Series("running", MetricKind.GAUGE, value, "0", model="m"),)
    page = MetricsPage(series, ("m",), ("0",), 123.5)
    at = round(at_s * S)
    return Scrape("baseline", "http://one/metrics", at, at + MS, Scraped.OK, None, page)


def test_every_column_of_one_request(write_run: Callable[..., Path], attempt: MakeAttempt) -> None:
    """All values of a row, by hand: nothing in the contract is left to chance."""
    spec = SpecStats(3, 5, 8, 4, (1, 1, 0, 0, 1), (4, 1, 0), (4, 1, 3))
    one = attempt(
        spec=spec, timings=ServerTimings(0.1, 0.2, 0.3, 0.04, 0.05), cached_tokens=7, wait_ns=MS, connect_ns=2 * MS,
        connect_wait_ns=3 * MS, missing_stamps=1, unattributed_tokens=0, warnings=("usage_missing",),
        absent={"reasoning_len": "no reasoning"},
    )  # fmt: skip
    run = open_run(write_run([one], [running(1.1, 5.0), running(1.2, 6.0), running(1.9, 99.0)]))
    [row] = run.requests.to_pylist()
    assert {name: row[name] for name in COLUMNS} == {
        "run_id": "run-1", "arm": "baseline", "replica": "http://127.0.0.1:1", "phase": "measure", "repeat_idx": 2,
        "seq": 0, "case_id": "case-0", "task_type": "short_qa", "request_id": "r-0", "worker": 0, "stream": True,
        "input_len": 30, "input_len_requested": 32, "cached_tokens": 7, "output_len": 20, "output_len_requested": 64,
        "output_len_source": "usage", "finish_reason": "stop", "temperature": 0.0, "top_p": 1.0, "top_k": -1, "seed": 0,
        "max_tokens": 64, "draft_len": 4, "spec_method": "draft_model", "batch_size": 5.5, "concurrency": 3,
        "drafted_tokens": 8, "accepted_tokens": 5, "verify_rounds": 3, "rollback_count": 1, "rollback_low": 1,
        "rollback_high": 1, "accepted_histogram": [1, 1, 0, 0, 1], "spec_source": "per_request", "due_ns": S - 2 * MS,
        "sent_ns": S, "headers_ns": S + 90 * MS, "first_byte_ns": S + 95 * MS, "first_token_ns": S + 100 * MS,
        "first_answer_ns": S + 100 * MS, "last_token_ns": S + 260 * MS, "end_ns": S + 300 * MS, "ttft_s": 0.1,
        "ttft_from_due_s": 0.102, "total_time_s": 0.26, "tpot_s": 0.01, "draft_time_s": 0.04, "verify_time_s": 0.05,
        "server_queue_s": 0.1, "server_prefill_s": 0.2, "server_decode_s": 0.3, "gpu_mem_peak_bytes": None,
        "outcome": "ok", "error_class": None, "error_status": None, "error_message": None, "timestamp_source": "user",
        "coalesced_chunks": 0, "chunk_times_s": [0.1, 0.14, 0.18, 0.22, 0.26], "chunk_tokens": [4] * 5,
    }  # fmt: skip
    assert orjson.loads(row.pop("sampling"))["stop"] == ["END"]
    assert orjson.loads(row.pop("absent")) == {"reasoning_len": "no reasoning"}
    assert {name: row[name] for name in EXTRA_COLUMNS if name in row} == {
        "segment": 0, "stage": "c=4", "stage_index": 0, "stage_concurrency": 4, "stage_rate_per_s": None, "block": 0,
        "executor": "concurrency", "chunk_unit": "step", "task_index": 0, "case_index": 0, "shared_prefix": False,
        "input_len_source": "usage", "reasoning_len": None, "first_tokens": 4, "first_tokens_assumed": False,
        "unattributed_tokens": 0, "ttft_answer_s": 0.1, "total_time_from_due_s": 0.262, "wait_s": 0.001,
        "connect_wait_s": 0.003, "connect_s": 0.002, "missing_stamps": 1, "terminal": "both",
        "served_by": "10.0.0.7:8000", "per_step_accepted": [4, 1, 0], "per_step_drafted": [4, 1, 3],
        "arrival_no": [0, 1, 2, 3, 4], "chunk_bytes": [10, 20, 30, 40, 50], "warnings": ["usage_missing"],
        "prompt": None, "text": None, "token_ids": None, "mean_logprob": None,
    }  # fmt: skip


def test_a_finished_run_is_parquet_and_complete(
    whole: Any,
    tmp_path: Path,
    manifest: MakeManifest,
    attempt: MakeAttempt,
    phase: Callable[..., PhaseRecord],
    phase_end: Any,
) -> None:
    writer = whole(tmp_path, manifest())
    writer.phase(phase())
    health = LoopHealth(S, 0, 0.001, 0.002, 0.5, 3, 0.004, 10**10, 0.25)
    writer.health(health)
    for i in range(3):
        writer.attempt(attempt(index=i))
    writer.phase(phase_end(phase()))
    writer.finish("finished", lengths={"source": "estimate+usage"})
    writer.finish("failed", "a second call changes nothing")
    names = sorted(p.name for p in writer.path.iterdir())
    assert names == [
        "anomalies.log",
        "health.parquet",
        "manifest.json",
        "phases.jsonl",
        "requests.parquet",
        "scrapes.parquet",
    ]
    run = open_run(writer.path)
    assert run.problems == ()
    assert run.requests.num_rows == 3
    assert run.requests["case_id"].to_pylist() == ["case-0", "case-1", "case-2"]
    assert run.phases == (phase_end(phase()),)
    assert [LoopHealth(**row) for row in run.health.to_pylist()] == [health]
    assert (run.manifest.state, run.manifest.length_model) == ("finished", {"source": "estimate+usage"})
    assert run.manifest.finished is not None
    assert len(run.manifest.anchors) == 2


def test_columns_that_stayed_null_have_a_reason_in_the_manifest(write_run: Any, attempt: MakeAttempt) -> None:
    """P1: absence is never read as zero; batch size without a sample is null with its reason."""
    run = open_run(write_run([attempt(), attempt(index=1)]))
    absent = run.manifest.arms["baseline"].absent_columns
    table = run.requests
    null = {name for name in table.column_names if table[name].null_count == table.num_rows}
    assert absent.keys() == null
    assert absent["batch_size"] == "no scrape of every metrics page fell between sent and last token"
    assert absent["gpu_mem_peak_bytes"] == "no GPU telemetry, or no sample of every GPU fell inside"
    assert absent["verify_rounds"] == "the answer carried no speculation statistics"
    assert all(reason for reason in absent.values())


def test_a_request_of_an_unknown_segment_and_arm_is_kept(write_run: Any, attempt: MakeAttempt) -> None:
    run = open_run(write_run([attempt(segment=77, arm="ghost")]))
    [row] = run.requests.to_pylist()
    assert (row["arm"], row["segment"], row["stage"], row["repeat_idx"]) == ("ghost", 77, None, None)


def test_a_value_no_column_can_hold_is_null_with_a_reason_and_the_row_stays(
    write_run: Any, attempt: MakeAttempt
) -> None:
    run = open_run(write_run([attempt(), attempt(index=1, output_len=2**40), attempt(index=2)]))
    rows = run.requests.to_pylist()
    assert [row["output_len"] for row in rows] == [20, None, 20]
    assert orjson.loads(rows[1]["absent"])["output_len"].startswith("not storable")


def test_numbers_that_are_not_finite_are_never_written(write_run: Any, attempt: MakeAttempt) -> None:
    """F12: no NaN, no inf."""
    timings = ServerTimings(float("nan"), float("inf"), 0.5)
    [row] = open_run(write_run([attempt(timings=timings)])).requests.to_pylist()
    assert (row["server_queue_s"], row["server_prefill_s"], row["server_decode_s"]) == (None, None, 0.5)
    assert orjson.loads(row["absent"])["server_queue_s"] == "not a finite number: nan"


@pytest.mark.parametrize("keep", [False, True])
def test_text_is_stored_only_where_asked(
    whole: Any, tmp_path: Path, manifest: MakeManifest, attempt: MakeAttempt, keep: bool
) -> None:
    """F13, I9: prompts and answers are off by default, whatever the driver hands over."""
    writer = whole(tmp_path, manifest(scenario={"workload": {"keep_text": keep}}))
    writer.attempt(attempt(prompt="tell me more", text="once upon a time"))
    writer.finish("finished")
    [row] = open_run(writer.path).requests.to_pylist()
    assert (row["prompt"], row["text"]) == (("tell me more", "once upon a time") if keep else (None, None))


def test_a_planted_secret_is_in_no_file(
    whole: Any, tmp_path: Path, manifest: MakeManifest, attempt: MakeAttempt
) -> None:
    """I1, I4: written everywhere a secret could come from, found nowhere."""
    secret = "correct-horse-battery"
    scenario = {
        "arms": {"a": {"headers": {"X-Team": secret}, "api_key": {"env": "MY_KEY"}, "url": f"http://u:{secret}@h"}},
        "note": f"Bearer {secret}",
    }
    writer = whole(tmp_path, manifest(scenario=scenario, notes=[f"key {secret}"]), Redactor([SecretStr(secret)]))
    writer.attempt(
        attempt(
            outcome=Outcome.HTTP_ERROR,
            error_class="auth",
            error_status=401,
            error_message=f"bad key {secret}",
            replica=f"http://u:{secret}@h",
            absent={"input_len": f"said {secret}"},
        )
    )
    writer.anomaly(f"seen {secret}\nsecond line")
    writer.finish("failed", f"stopped by {secret}")
    contents = {p.name: p.read_bytes() for p in writer.path.iterdir()}
    assert len(contents) == 6
    assert [name for name, data in contents.items() if secret.encode() in data] == []
    run = open_run(writer.path)
    assert secret not in repr(run.requests.to_pylist())
    assert run.manifest.scenario["arms"]["a"]["headers"] == {"X-Team": "***"}
    assert run.manifest.scenario["arms"]["a"]["api_key"] == {"env": "MY_KEY"}
    assert "bad key ***" in contents["anomalies.log"].decode()


def test_a_secret_that_is_one_of_our_own_words_changes_none_of_them(
    whole: Any, tmp_path: Path, manifest: MakeManifest
) -> None:
    """A run whose state or id was masked could not be read back; keys are ours too. Everything else is masked."""
    words = ["running", "finished", "run-one", "sequential", "baseline", "completions", "notes", "scenario"]
    made = manifest("run-one", notes=["a baseline is running"], scenario={"name": "scenario", "x": ["finished"]})
    made.arms["baseline"].endpoint = "completions"
    made.arms["baseline"].facts = {"running": "running"}
    writer = whole(tmp_path, made, Redactor([SecretStr(word) for word in words]))
    assert orjson.loads((writer.path / "manifest.json").read_bytes())["state"] == "running"
    writer.finish("finished", "running out")
    read = open_run(writer.path).manifest
    assert (read.run_id, read.state, read.design) == ("run-one", "finished", "sequential")
    assert (read.stop_reason, read.notes) == ("*** out", ["a *** is ***"])
    assert read.scenario == {"name": "***", "x": ["***"]}
    assert (read.arms["baseline"].endpoint, read.arms["baseline"].facts) == ("completions", {"running": "***"})


def test_the_human_log_counts_habits_once_and_names_requests(write_run: Any, attempt: MakeAttempt) -> None:
    """A6: a server that never sends [DONE] is one line and a count, not one line a request."""
    attempts = [attempt(index=i, warnings=("no_done", "usage_missing", "usage_missing")) for i in range(250)]
    attempts.append(attempt(index=250, outcome=Outcome.TRUNCATED, error_class="eof", error_message="cut\nshort"))
    lines = (write_run(attempts) / "anomalies.log").read_text().splitlines()
    assert sum(" no_done" in line for line in lines) == 2
    assert sum("request=" in line and " usage_missing" in line for line in lines) == 200
    assert "2023-11-14T22:13:21.300Z arm=baseline segment=0 request=r-0 no_done" in lines
    assert "2023-11-14T22:13:21.300Z arm=baseline segment=0 request=r-250 truncated eof: cut short" in lines
    totals = [line.split(" ", 1)[1] for line in lines if " total " in line]
    assert totals == ["total no_done: 250 requests", "total truncated: 1 requests", "total usage_missing: 250 requests"]


def test_a_run_directory_is_never_written_twice(tmp_path: Path, manifest: MakeManifest) -> None:
    RunWriter(tmp_path, manifest()).finish("finished")
    with pytest.raises(StorageError, match=r"run-1: File exists; choose another folder with --out"):
        RunWriter(tmp_path, manifest())


def test_an_unwritable_root_is_a_storage_error(tmp_path: Path, manifest: MakeManifest) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Not a directory"):
        RunWriter(tmp_path / "file", manifest())


def test_run_ids_sort_by_time_and_do_not_collide() -> None:
    ids = {new_run_id("ramp") for _ in range(50)}
    assert len(ids) == 50
    assert all("-ramp-" in one for one in ids)


def test_scrapes_round_trip(write_run: Any) -> None:
    series = (
        Series("accepted_at", MetricKind.COUNTER, 5.0, "0", 3, None, "m"),
        Series("requests_finished", MetricKind.COUNTER, 1.0, None, None, "stop", None),
    )
    scrapes = [
        Scrape("baseline", "u", 1, 2, Scraped.OK, None, MetricsPage(series, ("m",), ("0",), 5.25), "start", 9),
        Scrape("baseline", "u", 3, 4, Scraped.OK, None, MetricsPage((), (), (), None)),
        Scrape("baseline", "u", 5, 6, Scraped.NOT_METRICS, "HTML", None, "end", 9),
    ]
    assert open_run(write_run([], scrapes)).scrapes == tuple(scrapes)
    assert [scrape_of(scrape_row(s)) for s in scrapes] == scrapes


KILLED = """
import sys, time
sys.path.insert(0, {here!r})
from pathlib import Path
import conftest
writer = conftest.WholeWriter(Path(sys.argv[1]), conftest.make_manifest())
writer.phase(conftest.make_phase())
i = 0
while True:
    writer.attempt(conftest.make_attempt(index=i))
    i += 1
    print(i, flush=True)
    time.sleep(0.002)
"""


def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    """F14: records are on disk while the run lives; a killed run reads, and says that it was killed."""
    script = KILLED.format(here=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        told: list[tuple[float, int]] = []
        alive_state = None
        for line in process.stdout:
            told.append((time.monotonic(), int(line)))
            if told[-1][0] - told[0][0] > 2.5:
                alive_state = open_run(tmp_path / "run-1").manifest.state
                os.kill(process.pid, signal.SIGKILL)
                break
        killed_at = told[-1][0]
    assert alive_state == "running"
    run = open_run(tmp_path / "run-1")
    assert run.manifest.state == "killed"
    assert any("was killed" in problem for problem in run.problems)
    second_before = max(n for at, n in told if at <= killed_at - 1.0)
    assert run.requests.num_rows >= second_before
    assert run.requests["seq"].to_pylist() == list(range(run.requests.num_rows))
    assert [p.ended_ns for p in run.phases] == [None]
    assert run.manifest.arms["baseline"].absent_columns["spec_source"]


FULL = """
import resource, signal, sys
sys.path.insert(0, {here!r})
from pathlib import Path
import conftest
from loadgen.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
writer = conftest.WholeWriter(Path(sys.argv[1]), conftest.make_manifest())
writer.phase(conftest.make_phase())
sent = 0
for batch in range(30):
    for _ in range(20):
        writer.attempt(conftest.make_attempt(index=sent))
        sent += 1
    writer.flush()
    if writer.records.failed:
        break
writer.attempt(conftest.make_attempt(index=sent))
try:
    writer.finish("finished")
except StorageError as error:
    print(sent + 1, writer.writer.lost, error)
"""


def test_a_write_that_the_disk_refuses_keeps_what_was_written(tmp_path: Path) -> None:
    """Full disk (here a real file size limit): the run learns of it, and the files end at a whole batch."""
    script = FULL.format(here=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, cwd=ROOT, text=True, check=True
    )
    sent, lost, message = done.stdout.split(" ", 2)
    assert "run-1: File too large; what was written before is kept" in message
    run = open_run(tmp_path / "run-1")
    assert run.problems == ()
    assert run.manifest.state == "failed"
    assert "File too large" in (run.manifest.stop_reason or "")
    assert f"{lost} records were lost after writing had failed" in run.manifest.notes
    assert 0 < run.requests.num_rows == int(sent) - int(lost)
    assert (tmp_path / "run-1" / "requests-0.arrow").exists()
    assert not list((tmp_path / "run-1").glob("*.part"))
