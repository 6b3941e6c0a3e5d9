"""Bad input on the command line: a clear message, the exit code of docs/cli.md, nothing sent, nothing left behind."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from loadgen.analyze import analyze
from loadgen.cli import results
from loadgen.cli.base import line
from loadgen.experiment import RunResult
from loadgen.experiment.ceiling import cpu_count
from loadgen.record import open_run
from tests.service.canary_files import write_canary

ROOT = Path(__file__).resolve().parents[1]
Specload = Callable[..., subprocess.CompletedProcess[str]]


def process(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as users start it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "loadgen", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


def write(folder: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "version": 1,
        "name": "bad",
        "environment": "disposable",
        "arms": {"baseline": {"url": f"http://127.0.0.1:{free_port()}"}},
        "workload": {
            "tasks": [
                {
                    "task_type": "code",
                    "input_len": {"kind": "fixed", "value": 64},
                    "output_len": {"kind": "fixed", "value": 16},
                }
            ]
        },
        "load": [{"kind": "concurrency", "concurrency": 1, "cases": 2}],
    }
    file = folder / "bad.yaml"
    file.write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
    return file


def test_version_and_help() -> None:
    assert process("--version").stdout.strip()
    done = process("--help")
    assert done.returncode == 0
    assert "report" in done.stdout


def test_ctrl_c_while_modules_are_imported_is_no_traceback() -> None:
    """They take a second or more, in which `main` is not there yet."""
    pressed = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'loadgen.cli.base': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from loadgen.cli import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", pressed], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_line_of_a_watch_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    line("word " * 100, soft_wrap=True)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_run_that_is_not_there_is_named_with_both_places(specload: Specload, tmp_path: Path) -> None:
    done = specload("report", "20990101T000000Z-x", "--out", "folder", cwd=tmp_path)
    assert done.returncode == 2
    assert "20990101T000000Z-x: no such directory, nor a run of this id in folder" in done.stderr


def test_unreachable_target_is_exit_3_and_leaves_no_run(tmp_path: Path) -> None:
    """E26: a connect failure is said at once, with the arm's name."""
    done = process("run", write(tmp_path), "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert "baseline" in done.stderr
    assert not list((tmp_path / "runs").iterdir())


def test_unwritable_output_is_exit_2_before_any_load(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = process("run", write(tmp_path), "--out", tmp_path / "file" / "runs")
    assert done.returncode == 2
    assert "--out" in done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lod": []}, ["lod", "load"]),
        ({"load": [{"kind": "concurrency", "concurrency": 0, "cases": 2}]}, ["load.0.concurrency"]),
        ({"load": [{"kind": "concurrency", "concurrency": 2}]}, ["duration_s", "cases"]),
        ({"sampling": {"temperature": -1}}, ["sampling.temperature"]),
    ],
)
def test_scenario_errors_name_file_line_and_key(
    specload: Specload, tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    done = specload("check", write(tmp_path, **changes), "--offline")
    assert done.returncode == 2
    assert "bad.yaml:" in done.stderr
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("workload.tasks.0.weight", "0"),
        ("workload.tasks.0.input_len", "{kind: fixed, value: 0}"),
        ("workload.tasks.0.output_len", "{kind: uniform, low: 9, high: 3}"),
        ("workload.tasks.0.output_len.value", "-4"),
    ],
)
def test_zero_weights_and_impossible_lengths(specload: Specload, tmp_path: Path, key: str, value: str) -> None:
    done = specload("check", write(tmp_path), "--offline", "--set", f"{key}={value}")
    assert done.returncode == 2
    assert key.split(".")[-1] in done.stderr
    assert "--set" in done.stderr or "bad.yaml:" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "SCENARIO", "--arm", "baseline"),
        ("run", "SCENARIO", "--shard", "4/4"),
        ("run", "SCENARIO", "--no-such-option"),
        ("check", "missing.yaml"),
        ("report", "no-such-run"),
        ("export", "no-such-run", "--to", "jsonl"),
        ("schema", "nonsense"),
        ("init", "not a url"),
    ],
)
def test_usage_errors(specload: Specload, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    scenario = write(tmp_path)
    done = specload(*(str(scenario) if a == "SCENARIO" else a for a in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_a_plan_beyond_the_caps_of_production_is_refused(specload: Specload, tmp_path: Path) -> None:
    load = [{"kind": "concurrency", "concurrency": 4, "cases": 5000}]
    done = specload("check", write(tmp_path, load=load, environment="production"), "--offline")
    assert done.returncode == 2
    assert "max_requests" in done.stderr
    assert "production" in done.stderr


def test_check_draws_the_load_and_counts_it(specload: Specload, tmp_path: Path) -> None:
    done = specload("check", write(tmp_path), "--offline", "--json")
    found = json.loads(done.stdout)
    assert found["totals"]["requests"] == 2 + 6 * 3  # two measured, at most six windows of three of warm-up
    assert found["stages"][0]["unit"] == "users"
    assert set(found["stages"][0]["values"]) == {1.0}


@pytest.mark.parametrize("what", ["scenario", "record", "summary", "verdict"])
def test_schemas_are_json_schema(specload: Specload, what: str) -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(json.loads(specload("schema", what).stdout))


def test_runs_shows_verdicts_sweeps_and_canaries(specload: Specload, tmp_path: Path) -> None:
    """A verdict that cannot be read is none; of it and of what an experiment found, the worse; a sweep says how far it
    has come, a broken one why it cannot be read."""
    for name in ("judged", "torn", "found"):
        shutil.copytree(ROOT / "tests" / "data" / "runs" / "small", tmp_path / name)
    (tmp_path / "judged" / "verdict.json").write_text('{"verdict": "fail"}')
    (tmp_path / "torn" / "verdict.json").write_text('{"verdict": ')
    (tmp_path / "found" / "verdict.json").write_text('{"verdict": "pass"}')
    (tmp_path / "found" / "access.json").write_text('{"state": "fail", "reasons": ["no key: 200", "another"]}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sweep.json").write_text("{}")
    write_canary(tmp_path / "20261130T070600Z-odd-canary-1a2b3c", windows=4)
    found = json.loads(specload("runs", "--out", tmp_path, "--json").stdout)
    rows = {Path(row["path"]).name: row for row in found}
    assert (rows["judged"]["verdict"], rows["torn"]["verdict"]) == ("fail", None)
    assert (rows["found"]["verdict"], rows["found"]["problem"]) == ("fail", "access: no key: 200 (and 1 more)")
    canary = rows["20261130T070600Z-odd-canary-1a2b3c"]
    assert (canary["kind"], canary["state"], canary["verdict"]) == ("canary", "being watched", "fail")
    assert canary["problem"] == "candidate beside baseline, 4 windows, state fail"
    assert (rows["judged"]["kind"], rows["broken"]["kind"]) == ("run", "sweep")
    assert rows["broken"]["state"] == "unreadable"
    assert "sweep.json" in rows["broken"]["problem"]
    told = specload("runs", "--out", tmp_path).stdout
    assert "verdict" in told
    assert " fail " in told


def test_runs_of_an_empty_folder(specload: Specload, tmp_path: Path) -> None:
    told = specload("runs", "--out", tmp_path)
    assert told.returncode == 0
    assert told.stdout.split() == f"no runs in the folder {tmp_path}".split()
    assert json.loads(specload("runs", "--out", tmp_path, "--json").stdout) == []


def test_an_option_that_holds_a_password_is_not_repeated(specload: Specload, tmp_path: Path) -> None:
    """I1, I4: a mistyped --arm and a refused address."""
    for arm in ("http://user:planted9@host", "baseline=http://host/?access_token=planted9"):
        done = specload("check", write(tmp_path), "--offline", "--arm", arm)
        assert done.returncode == 2
        assert "--arm" in done.stderr
        assert "planted9" not in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", ["schema summary", "check bad.yaml --offline", "--help"])
def test_an_output_that_takes_no_more(tmp_path: Path, arguments: str) -> None:
    """A full disk behind stdout is said in one line; a reader that has gone (`| head`) is not worth a word."""
    write(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "loadgen", *arguments.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "cannot be written" in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_check_warns_of_a_plan_beyond_this_client(
    specload: Specload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C22, E20: 400 slots of half a second and 16 tokens: more requests/s than the defaults; it says whose they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load = [{"kind": "concurrency", "concurrency": 400, "cases": 400}]
    found = json.loads(specload("check", write(tmp_path, load=load), "--offline", "--json").stdout)
    peak = {"streams": 400, "requests_per_s": 400 / 0.82, "chunks_per_s": 6400 / 0.82}
    assert found["estimate"]["peak"] == pytest.approx(peak)
    assert found["ceiling"]["source"] == "cautious defaults: specload doctor measures them"
    assert [warning.split(" (")[0] for warning in found["warnings"][:2]] == [
        "the plan peaks at about 7,805 chunks/s if an answer begins after 0.5 s and streams at 50 tokens/s, "
        "and one worker here does 2,000",
        "the plan peaks at about 488 requests/s if an answer begins after 0.5 s and streams at 50 tokens/s, "
        "and one worker here does 300",
    ]
    assert found["workers"] == 1
    told = json.loads(specload("check", write(tmp_path, load=load), "--offline", "--json", "--workers", "2").stdout)
    assert told["workers"] == 2
    assert ("2 workers here do 4,000" in told["warnings"][0]) == (cpu_count() > 1)
    shown = specload("check", write(tmp_path, load=load), "--offline").stdout
    assert "! the plan peaks at about 7,805 chunks/s" in shown
    assert json.loads(specload("check", write(tmp_path), "--offline", "--json").stdout)["warnings"] == []


@pytest.mark.parametrize(
    ("state", "validity", "judged", "code"),
    [
        ("finished", "valid", True, None),
        ("finished", "doubtful", True, None),
        ("finished", "invalid", True, 98),
        ("finished", "invalid", False, None),
        ("interrupted", "invalid", True, 130),
        ("failed", "invalid", True, 1),
        ("inconclusive", "invalid", True, 98),
        ("inconclusive", "invalid", False, 98),
    ],
)
def test_an_invalid_run_is_inconclusive(state: str, validity: str, judged: bool, code: int | None) -> None:
    """F11: never a success; but what ended a run early is said first."""
    path = ROOT / "tests" / "data" / "runs" / "small"
    summary = analyze(open_run(path))
    told = summary.validity.model_copy(update={"state": validity, "reasons": ["invalid: for a test"]})
    result = RunResult(path, summary.model_copy(update={"validity": told}), state, "a reason")
    found = None
    try:
        results.finish(result, json=False, judged=judged)
    except typer.Exit as ended:
        found = ended.exit_code
    assert found == code
