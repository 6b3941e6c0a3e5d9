"""The command line against a server that misbehaves: exit code, message, and what is kept."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

KEY = "planted-9f3b1c77e2"
TENANT = "planted tenant 55aa"
QUERY = "planted-query-31d0"

Hostile = Callable[..., Awaitable[Any]]
Cli = Callable[..., Awaitable[Any]]
Specload = Callable[..., Any]
TheRun = Callable[[], tuple[Path, dict[str, Any]]]


def http_error(status: int, error: dict[str, Any]) -> bytes:
    body = json.dumps({"error": error}).encode()
    return b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status, len(body), body
    )  # fmt: skip


def everything_in(folder: Path) -> str:
    """All that stands in the files below `folder`; Parquet as text, since it is compressed on disk."""
    found = ""
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            found += str(pq.read_table(file).to_pylist())
        elif file.is_file():
            found += file.read_bytes().decode("utf-8", "replace")
    return found


async def test_a_server_that_repeats_our_secrets(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun, tmp_path: Path
) -> None:
    """I1, I2, I4: key, header and query of a metrics page are in no output and no file, though the server's errors
    repeat them, without their scheme and in URLs too. Its escape sequences do not get through either. F11: with half
    of the requests failed the run is invalid, and ends with 98."""

    def repeat(number: int, headers: dict[str, str]) -> bytes | None:
        key, tenant = headers["authorization"].split()[1], headers["x-tenant"]
        text = f"bad key {key}\x1b[2J of {tenant}; see http://u:{key}@up/?access_token={key}&tenant={tenant}\nFAKE LINE"
        return None if number % 2 else http_error(500, {"message": text, "type": f"[/x]{key}"})

    server = await hostile(misbehave=repeat)
    arm = {
        "url": server.url,
        "metrics_urls": [f"{server.url}/metrics?access_token={QUERY}"],
        "api_key": {"env": "HOSTILE_KEY"},
        "headers": {"X-Tenant": TENANT, "X-Retry": "1", "X-Plan": "a"},
    }
    file, env = scenario(arm), {"HOSTILE_KEY": KEY}
    done = await cli("run", file, "--out", "runs", env=env)
    assert done.code == 98, done.said
    assert "the measurement is invalid: base" in done.err
    path, manifest = the_run()
    reasons = json.loads((path / "summary.json").read_bytes())["validity"]["reasons"]
    assert any(reason.startswith("invalid: base: only 50 % of the requests succeeded") for reason in reasons)
    shown = [
        done,
        await cli("report", path),
        await cli("export", path, "--to", "jsonl"),
        await cli("check", file, env=env),
    ]
    written = everything_in(path)
    assert [one.code for one in shown] == [98, 0, 0, 0]
    assert "/metrics?access_token=***" in written
    assert f"/metrics?access_token={QUERY}" in server.paths
    for text in [written, *(one.said for one in shown)]:
        assert not any(secret in text for secret in (KEY, TENANT, QUERY, "\x1b[2J"))
    # Header values too short to be secrets have eaten nothing.
    assert manifest["run_id"] == path.name
    assert manifest["arms"]["base"]["replicas"] == [server.url]
    log = (path / "anomalies.log").read_text().splitlines()
    assert len([line for line in log if "bad key ***" in line]) == 4
    assert not any(line.startswith("FAKE") for line in log)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_before_the_first_request(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun, name: signal.Signals
) -> None:
    """The whole group gets it while the scraping process is just being born: an interrupted run, and no traceback."""
    server = await hostile()
    done = await cli("run", scenario({"url": server.url}), "--out", "runs", when="recording to", signals=(name,))
    assert done.code == 130, done.said
    assert "Traceback" not in done.said
    path, manifest = the_run()
    assert (manifest["state"], manifest["stop_reason"]) == ("interrupted", "interrupted by the user")
    assert (path / "summary.json").exists()
    assert server.asked == 0


async def test_an_interrupt_while_waiting_for_an_idle_server(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun
) -> None:
    """E16: somebody else's load keeps the server busy; Ctrl-C does not wait for that to end."""
    server = await hostile(running=3)
    file = scenario({"url": server.url}, scrape={"interval_s": 0.5, "timeout_s": 1, "idle_wait_s": 60})
    done = await cli("run", file, "--out", "runs", when="warm-up", signals=(signal.SIGINT,))
    assert done.code == 130, done.said
    assert done.after_signal_s < 20
    path, manifest = the_run()
    assert manifest["state"] == "interrupted"
    assert json.loads((path / "phases.jsonl").read_text().splitlines()[-1])["idle_before"]["reached"] is False


async def test_ctrl_c_twice_cuts_and_keeps(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun
) -> None:
    """The second one does not wait for answers that take minutes; what was cut is recorded as aborted."""
    server = await hostile()
    file = scenario({"url": server.url}, warmup={"warmup_requests": 0})

    def slow(_number: int, _headers: dict[str, str]) -> bytes | None:
        server.pause_s = 30.0
        return None

    server.misbehave = slow  # but not the answer to the probe
    done = await cli("run", file, "--out", "runs", when="measure", signals=(signal.SIGINT,) * 2)
    assert done.code == 130, done.said
    assert done.after_signal_s < 20
    path, manifest = the_run()
    assert manifest["state"] == "interrupted"
    outcomes = {row["outcome"] for row in pq.read_table(path / "requests.parquet").to_pylist()}
    assert outcomes <= {"aborted"}


async def test_a_run_without_one_success_is_no_pass(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun
) -> None:
    """A4: every measured request failed: exit code 1, the reason is named, the records are whole."""
    server = await hostile(misbehave=lambda n, _h: None if n == 0 else http_error(503, {"message": "too busy"}))
    done = await cli("run", scenario({"url": server.url}), "--out", "runs")
    assert done.code == 1, done.said
    assert "no request of base succeeded" in done.err
    path, manifest = the_run()
    assert manifest["state"] == "finished"
    summary = json.loads((path / "summary.json").read_bytes())
    assert summary["arms"]["base"]["overall"]["requests"]["outcomes"]["http_error"] == 6


async def test_production_is_left_alone_when_it_fails(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun
) -> None:
    """E16: a server that fails at once is not asked for the rest; the run says why it ended."""
    server = await hostile(misbehave=lambda n, _h: None if n == 0 else b"HTTP/1.1 500 -\r\ncontent-length: 0\r\n\r\n")
    file = scenario(
        {"url": server.url},
        environment="production",
        safety={"max_requests_per_second": 20},
        load=[{"kind": "concurrency", "concurrency": 4, "cases": 500}],
    )
    done = await cli("run", file, "--out", "runs")
    assert done.code == 1, done.said
    assert "safety.abort_error_share" in done.err
    assert the_run()[1]["state"] == "failed"
    assert 20 <= server.asked < 100


async def test_a_full_disk_keeps_what_was_written_and_leaves_no_halves(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], the_run: TheRun, specload: Specload
) -> None:
    """The records do not fit: exit code 1, no half-written file in the way, the report still works. A batch has at most
    128 requests, here of less than 200 kB: the first one fits however late it is written, and all of them do not."""
    server = await hostile()
    load = [{"kind": "concurrency", "concurrency": 2, "cases": 2000}]
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (400_000, 400_000))
    done = await cli("run", scenario({"url": server.url}, load=load), "--out", "runs", before=full)
    assert done.code == 1
    assert "File too large" in done.err
    assert "Traceback" not in done.said
    path, manifest = the_run()
    assert manifest["state"] == "failed"
    assert not list(path.glob("*.part"))
    again = specload("report", path, "--json")
    assert again.returncode == 0
    kept = json.loads(again.stdout)["arms"]["base"]["overall"]["requests"]["sent"]
    assert 0 < kept < 2000


async def test_an_output_folder_on_a_full_disk_is_left_clean(
    cli: Cli, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    done = await cli("run", scenario({"url": "http://127.0.0.1:1"}), "--out", "runs", before=full)
    assert done.code == 2
    assert "--out" in done.err
    assert not list((tmp_path / "runs").iterdir())


async def test_two_runs_at_once_in_one_folder(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    server = await hostile()
    file = scenario({"url": server.url})
    both = await asyncio.gather(*(cli("run", file, "--out", "runs") for _ in range(2)))
    assert {one.code for one in both} <= {0, 98}, both[0].said  # 98: this machine was too busy to measure
    assert len(list((tmp_path / "runs").iterdir())) == 2


async def test_init_to_stdout(hostile: Hostile, cli: Cli, tmp_path: Path) -> None:
    """`-` is stdout, with nothing but the scenario on it, also where a file of that name would be in the way."""
    server = await hostile()
    done = await cli("init", server.url, "--file", "-")
    assert done.code == 0, done.said
    assert [arm["url"] for arm in yaml.safe_load(done.out)["arms"].values()] == [server.url]
    assert "speculation" in done.err
    assert not (tmp_path / "-").exists()
    assert (await cli("init", server.url, "--file", "-", "--json")).code == 2


async def test_init_names_the_key_and_quotes_what_the_server_says(hostile: Hostile, cli: Cli, tmp_path: Path) -> None:
    """I2: the scenario says where the key is, not what it is; a model may be called anything."""
    server = await hostile(model="[/red] off: #1")
    done = await cli("init", server.url, "--api-key-env", "HOSTILE_KEY", env={"HOSTILE_KEY": KEY})
    assert done.code == 0, done.said
    text = (tmp_path / "scenario.yaml").read_text()
    (arm,) = yaml.safe_load(text)["arms"].values()
    assert arm["model"] == "[/red] off: #1"
    assert arm["api_key"] == {"env": "HOSTILE_KEY"}
    assert KEY not in text + done.said
    assert "models [/red] off: #1" in done.out
    key = {"HOSTILE_KEY": KEY}
    checked = await cli("check", "scenario.yaml", "--set", "workload.endpoint=completions", env=key)
    assert checked.code == 0, checked.said


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{KEY}@127.0.0.1:1",
        f"http://127.0.0.1:1/?token={KEY}",
        "http://127.0.0.1:99999",
        "http://a b:1",
        "x",
    ],
)
def test_init_refuses_what_is_no_base_url(specload: Specload, tmp_path: Path, url: str) -> None:
    """I4: neither asked nor repeated."""
    done = specload("init", url, cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a server's base URL" in done.stderr
    assert KEY not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


async def test_check_asks_the_endpoint_that_the_run_will_ask(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path]
) -> None:
    """A server of completions alone: a run on chat would fail in every request, so it does not start."""
    server = await hostile()
    done = await cli("check", scenario({"url": server.url}), "--set", "workload.endpoint=chat")
    assert done.code == 3
    assert "/v1/chat/completions answered a test request with 404" in done.err


async def test_a_metrics_page_that_is_none_is_named_with_its_reason(
    hostile: Hostile, cli: Cli, scenario: Callable[..., Path]
) -> None:
    """D5: which page, and what is wrong with it."""
    server = await hostile()
    page = f"{server.url}/no-such-page"
    done = await cli("check", scenario({"url": server.url, "metrics_urls": [page]}))
    assert done.code == 3
    assert f"{page}: HTTP 404" in done.err
    assert "arms.base.metrics_urls" in done.err
