"""The page itself: over HTTP, as a file, as backfill; read by promtool."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment import judge_run
from loadgen.export import FAMILIES, Exporter, Metrics, openmetrics_lines, write_openmetrics, write_textfile
from loadgen.record import open_run

CLOSED = {"kind": "concurrency", "concurrency": 2, "cases": 6}


@pytest.fixture
def full(make_run: Any) -> Metrics:
    metrics: Metrics = make_run([CLOSED])[0]
    return metrics


def test_over_http(full: Metrics) -> None:
    exporter = Exporter(full, "127.0.0.1", 0)
    try:
        base = exporter.url.removesuffix("/metrics")
        with httpx.Client(base_url=base, trust_env=False) as client:
            text = client.get("/metrics")
            opened = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
            found = client.get("/sd")
            assert client.get("/-/healthy").text == "ok\n"
            assert client.get("/other").status_code == 404
            assert client.post("/metrics").status_code == 501
    finally:
        exporter.close()
    assert text.headers["content-type"].startswith("text/plain; version=")
    assert "specload_run_active 1.0" in text.text
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert opened.text.endswith("# EOF\n")
    assert found.headers["content-type"] == "application/json"
    assert found.json() == [{"targets": [f"127.0.0.1:{exporter.port}"], "labels": {"__meta_specload_role": "run"}}]


def test_a_port_that_is_taken_is_said(full: Metrics) -> None:
    exporter = Exporter(full, "127.0.0.1", 0)
    try:
        with pytest.raises(ScenarioError, match=f"metrics cannot be served at 127.0.0.1:{exporter.port}"):
            Exporter(full, "127.0.0.1", exporter.port)
    finally:
        exporter.close()


def test_the_text_file_is_whole_or_not_there(full: Metrics, tmp_path: Path) -> None:
    path = tmp_path / "specload.prom"
    write_textfile(full, path)
    assert "specload_run_active 1.0\n" in path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["specload.prom"]
    with pytest.raises(StorageError, match="cannot be written"):
        write_textfile(full, tmp_path / "no" / "such.prom")


def test_promtool_finds_nothing_to_say(promtool: str, recorded: Path, tmp_path: Path) -> None:
    """Names, units, help and types, of a page on which every family has a value that this run can give it."""
    run = open_run(recorded)
    judged = judge_run(run)
    page = [line for line in openmetrics_lines(run, judged.summary, judged.verdict) if line != "# EOF"]
    newest: dict[str, str] = {}
    for line in page:
        series = line.rsplit(" ", 2)[0] if not line.startswith("#") else line
        newest[series] = line if line.startswith("#") else line.rsplit(" ", 1)[0]
    text = "\n".join(_as_text(line) for line in newest.values()) + "\n"
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert len(re.findall(r"^# TYPE", text, re.MULTILINE)) >= 35


def test_promtool_finds_nothing_to_say_of_a_page_before_the_load(promtool: str, full: Metrics, tmp_path: Path) -> None:
    write_textfile(full, tmp_path / "page.prom")
    text = (tmp_path / "page.prom").read_text()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def _as_text(line: str) -> str:
    """OpenMetrics names a counter's family without _total, the text format with it."""
    words = line.split(" ", 3)
    if words[0] == "#" and words[2] in _COUNTERS:
        words[2] += "_total"
    return " ".join(words)


_COUNTERS = {family.full_name.removesuffix("_total") for family in FAMILIES.values() if family.kind == "counter"}


def last_values(lines: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            series, value, _ = line.rsplit(" ", 2)
            found[series] = float(value)
    return found


def test_backfilled_numbers_are_those_of_the_records(recorded: Path) -> None:
    run = open_run(recorded)
    judged = judge_run(run)
    values = last_values(list(openmetrics_lines(run, judged.summary, judged.verdict)))
    rows = [row for row in run.requests.to_pylist() if row["phase"] == "measure"]
    for arm in run.manifest.arms:
        mine = [row for row in rows if row["arm"] == arm]
        for outcome in {row["outcome"] for row in mine}:
            n = sum(v for k, v in values.items() if k.startswith("specload_requests_total") and f'arm="{arm}"' in k
                    and f'outcome="{outcome}"' in k)  # fmt: skip
            assert n == sum(row["outcome"] == outcome for row in mine) > 0
        ttft = [row["ttft_s"] for row in mine if row["ttft_s"] is not None and row["outcome"] == "ok"]
        total = sum(v for k, v in values.items() if k.startswith("specload_ttft_seconds_sum") and f'arm="{arm}"' in k)
        assert total == pytest.approx(sum(ttft))
        accepted = [row["accepted_tokens"] or 0 for row in mine if row["outcome"] == "ok"]
        told = sum(v for k, v in values.items() if k.startswith("specload_accepted_tokens_total")
                   and f'arm="{arm}"' in k and 'source="per_request"' in k)  # fmt: skip
        assert told == sum(accepted)
        overall = judged.summary.arms[arm].overall
        e = f'specload_run_tokens_per_step{{run_id="{run.manifest.run_id}",arm="{arm}",stage="all"}}'
        assert values.get(e) == overall.speculation.e_decode.value


def test_requests_of_a_segment_whose_record_was_lost_are_still_told(recorded: Path, tmp_path: Path) -> None:
    """G18: the power went before the last segments were written down: their requests count, under stage "other"."""
    cut = tmp_path / "cut"
    shutil.copytree(recorded, cut)
    lines = (cut / "phases.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"phase":"warmup"' in line] or lines[:1]
    (cut / "phases.jsonl").write_text("".join(kept))
    whole, rest = open_run(recorded), open_run(cut)
    judged = judge_run(rest)
    values = last_values(list(openmetrics_lines(rest, judged.summary, judged.verdict)))
    told = {k: v for k, v in values.items() if k.startswith("specload_requests_total")}
    measured = [row for row in whole.requests.to_pylist() if row["phase"] == "measure"]
    assert sum(told.values()) == len(measured) > 0
    assert sum(v for k, v in told.items() if 'stage="other"' in k) == len(measured)


def test_times_are_whole_seconds_in_order_and_counters_never_go_back(recorded: Path) -> None:
    """G20: every series ends with the run, none is born late: they all begin with the first look."""
    run = open_run(recorded)
    judged = judge_run(run)
    lines = list(openmetrics_lines(run, judged.summary, judged.verdict))
    assert lines[-1] == "# EOF"
    series: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, value, at = line.rsplit(" ", 2)
            series.setdefault(name, []).append((int(at), float(value)))
    first, last = min(p[0][0] for p in series.values()), max(p[-1][0] for p in series.values())
    assert 5 <= last - first <= 120
    for name, points in series.items():
        assert [at for at, _ in points] == sorted({at for at, _ in points})
        if re.match(r"\w+(_total|_bucket|_count)\{", name):
            assert [v for _, v in points] == sorted(v for _, v in points)
            assert (points[0][0], points[0][1]) == (first, 0.0) or "server_s" in name or "warmup" in name


def test_promtool_backfills_and_gives_the_same_numbers_back(promtool: str, recorded: Path, tmp_path: Path) -> None:
    run = open_run(recorded)
    judged = judge_run(run)
    file, data = tmp_path / "run.om", tmp_path / "tsdb"
    written = write_openmetrics(run, judged.summary, judged.verdict, file)
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", file, data], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    (data / "wal").mkdir()  # a Prometheus makes it when it starts; dump needs it
    dumped = subprocess.run([promtool, "tsdb", "dump", data], capture_output=True, text=True, check=True).stdout
    points = dumped.splitlines()
    assert len(points) == written
    newest: dict[str, tuple[int, float]] = {}
    for line in points:
        labels, value, at_ms = re.fullmatch(r"(\{.*\}) (\S+) (\d+)", line).groups()  # type: ignore[union-attr]
        newest[labels] = max(newest.get(labels, (0, 0.0)), (int(at_ms), float(value)))
    ok = [v for k, (_, v) in newest.items() if '__name__="specload_requests_total"' in k and 'outcome="ok"' in k]
    rows = run.requests.to_pylist()
    assert sum(ok) == sum(row["phase"] == "measure" and row["outcome"] == "ok" for row in rows)
