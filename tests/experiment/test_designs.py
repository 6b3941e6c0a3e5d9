"""Designs on real engines: what is driven is what the design says, block by block."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import socketserver
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from loadgen.analyze import Estimates
from loadgen.control import Live, WarmUpWindow, settle
from loadgen.errors import ScenarioError, TargetUnusable
from loadgen.experiment import RunOptions, check, edges, run_scenario
from loadgen.observe import window
from loadgen.plan import Plan, Segment
from loadgen.record import RunData, list_runs, open_run
from loadgen.scenario import load_scenario
from server_adapters.rehearsal.config import RehearsalConfig

SPEED = 20.0
SPECS = {"baseline": "off", "candidate": "draft:k=4"}
BORROW = Path(__file__).with_name("borrow_engine.py")
Drive = Callable[..., Awaitable[RunData]]
Starting = Callable[..., str]
pytestmark = pytest.mark.usefixtures("forked_children")


class Quiet:
    """Progress that only listens."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None:
        self.said += notes

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def write(folder: Path, arms: dict[str, Any], **keys: Any) -> Path:
    lengths = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 12}}
    content = {
        "version": 1,
        "name": "designed",
        "environment": "disposable",
        "seed": 3,
        "arms": arms,
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": 9}],
        "repeats": 2,
        "comparison": {"blocks": 2},
        "warmup": {"warmup_requests": 2},
        "scrape": {"interval_s": 0.5},
        **keys,
    }
    file = folder / "designed.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


@pytest.fixture(scope="module")
def urls(rehearsal: Callable[[RehearsalConfig], Any]) -> Iterator[dict[str, str]]:
    """Two engines, speculation off and on, twenty times as fast as the hardware they rehearse."""
    with ExitStack() as servers:
        yield {
            arm: servers.enter_context(rehearsal(RehearsalConfig(spec=spec, speed=SPEED)))
            for arm, spec in SPECS.items()
        }


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    async def run(arms: dict[str, Any], *, workers: int = 1, budget_s: float | None = None, **keys: Any) -> RunData:
        options = RunOptions(tmp_path / "runs", workers=workers, time_budget_s=budget_s)
        result = await run_scenario(load_scenario(write(tmp_path, arms, **keys)), options, Quiet())
        assert (result.state, result.reason) == ("finished", None)
        return open_run(result.path)

    return run


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.fixture(scope="module")
def starting(rehearsal: Callable[[RehearsalConfig], Any]) -> Iterator[Starting]:
    """starting(spec, before="") -> a start command: an engine at the address that specload tells it, for as long as the
    command runs. The engine itself is forked, as importing it takes two seconds."""

    class Lend(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            spec, port = self.rfile.readline().decode().split()
            with rehearsal(RehearsalConfig(spec=spec, port=int(port), speed=SPEED)):
                self.rfile.read()

    def command(spec: str, before: str = "") -> str:
        keeper = f"{sys.executable} -S -E {BORROW} {lender.server_address[1]}"
        return f"{before} exec {keeper} {spec} ${{SPECLOAD_URL##*:}}"

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lend) as lender:
        lender.daemon_threads = True
        threading.Thread(target=lender.serve_forever, daemon=True).start()
        yield command
        lender.shutdown()


def each_case_once(run: RunData, cases: dict[str, int]) -> None:
    """Every arm has answered every case of every stage once a repeat, block by block the same."""
    rows = [row for row in run.requests.to_pylist() if row["phase"] == "measure"]
    seen: dict[tuple[str, int], dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        assert row["outcome"] == "ok"
        seen[row["stage"], row["repeat_idx"]][row["arm"]].append((row["seq"], row["block"]))
    assert {stage for stage, _ in seen} == set(cases)
    for (stage, _), arms in seen.items():
        first = sorted(arms["baseline"])
        assert [seq for seq, _ in first] == list(range(cases[stage]))
        assert sorted(arms["candidate"]) == first


async def test_the_arm_found_without_speculation_is_the_baseline(
    urls: dict[str, str], drive: Drive, tmp_path: Path
) -> None:
    """Decided once the servers have told, before the load: a threshold that compares it with itself is refused."""
    arms = {"quick": {"url": urls["candidate"]}, "plain": {"url": urls["baseline"]}}
    run = await drive(arms, load=[{"kind": "concurrency", "concurrency": 1, "cases": 4}], repeats=1)
    assert run.manifest.comparison["baseline"] == run.manifest.scenario["comparison"]["baseline"] == "plain"
    assert Estimates(run).baseline == "plain"
    report = await check(load_scenario(write(tmp_path, arms)))
    assert "plain is the baseline: it is the only arm found without speculation" in report.notes
    itself = load_scenario(write(tmp_path, arms, thresholds=["speedup{arm:plain}: value>=1"]))
    with pytest.raises(ScenarioError, match="compares plain with itself"):
        await check(itself)


async def test_interleaved_blocks_with_exact_counters(urls: dict[str, str], drive: Drive) -> None:
    """H20, H12: the order of the plan; every block's counters are its own tokens, though arms and blocks alternate, and
    no repeat finds another's prompts in a cache."""
    rate = {"kind": "arrival_rate", "rate_per_s": 24, "arrivals": "uniform", "duration_s": 1}
    closed = {"kind": "concurrency", "concurrency": 2, "cases": 9}
    run = await drive({n: {"url": u} for n, u in urls.items()}, workers=2, load=[closed, rate])
    each_case_once(run, {"c2": 9, "r24": 24})
    assert run.manifest.design == "interleaved"
    design = run.manifest.comparison
    stages = [s["stage"] for s in design["stages"]]
    driven = [(p.stage, p.repeat_idx, p.block, p.arm) for p in run.phases if p.phase == "measure"]
    planned = [
        (stage, repeat, block, arm)
        for stage, facts in zip(stages, design["stages"], strict=True)
        for repeat, block, arms in facts["order"]
        for arm in arms
    ]
    assert driven == planned
    tokens: dict[int, int] = defaultdict(int)
    for row in run.requests.to_pylist():
        tokens[row["segment"]] += row["output_len"]
    for phase in run.phases:
        assert phase.ended_ns is not None
        model = run.manifest.arms[phase.arm].model
        counted = window(run.scrapes, phase.arm, model, phase.started_ns, phase.ended_ns, phase.segment)
        assert counted.deltas["generation_tokens"] == tokens[phase.segment]
        assert counted.deltas["prefix_cache_queries"] > 0 == counted.deltas["prefix_cache_hits"], "H12: all cold"
    assert [(w["settled"], len(w["windows"])) for w in design["warmups"]] == [(None, 1)] * 4


async def test_parallel_arms_begin_together(urls: dict[str, str], drive: Drive) -> None:
    run = await drive({n: {"url": u} for n, u in urls.items()}, comparison={"design": "parallel", "blocks": 2})
    each_case_once(run, {"c2": 9})
    begins: dict[tuple[int, int], set[int]] = defaultdict(set)
    for phase in run.phases:
        if phase.phase == "measure":
            begins[phase.repeat_idx, phase.block].add(phase.started_ns)
    assert [len(at) for at in begins.values()] == [1] * 4
    assert any("no interval sees" in mark for mark in run.manifest.comparison["marks"])


async def test_warm_up_goes_on_until_windows_agree(urls: dict[str, str], drive: Drive) -> None:
    """Windows ask the same requests again; how it ended is what control says of the windows that are kept."""
    arms = {n: {"url": u} for n, u in urls.items()}
    run = await drive(arms, warmup={"agree_within": 0.5}, repeats=1, comparison={"blocks": 1})
    for found in run.manifest.comparison["warmups"]:
        windows = [WarmUpWindow(**w) for w in found["windows"]]
        told = settle(windows, 0.5, 6)
        assert (told.over, told.settled, told.reason) == (True, found["settled"], found["reason"])
        assert not settle(windows[:-1], 0.5, 6).over, "no window more than needed"
        rows = [r for r in run.requests.to_pylist() if (r["phase"], r["arm"]) == ("warmup", found["arm"])]
        asked: dict[int, list[str]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["seq"]):
            asked[row["block"]].append(row["case_id"])
        assert [asked[i] for i in range(len(windows))] == [asked[0]] * len(windows)
        assert len(asked) == len(windows) >= 3


async def test_one_node_is_shared_by_restarts(drive: Drive, starting: Starting) -> None:
    """ABBA: both arms have the same address; each is started when its turn comes, and nothing stays behind."""
    (port,) = free_ports(1)
    url, secret = f"http://127.0.0.1:{port}", "sesame-open-4711"
    arms = {
        arm: {"url": url, "start": starting(spec, f"echo {arm} {secret};"), "headers": {"X-Pass": secret}}
        for arm, spec in SPECS.items()
    }
    run = await drive(arms, comparison={"design": "restart", "blocks": 2})
    each_case_once(run, {"c2": 9})
    assert [p.arm for p in run.phases if p.phase == "warmup"] == ["baseline", "candidate", "candidate", "baseline"]
    hooks = [(hook["action"], hook["arm"]) for hook in run.manifest.comparison["hooks"]]
    turns = ["candidate", "baseline", "candidate", "baseline"]
    assert hooks == [(action, arm) for arm in turns for action in ("start", "stop")]
    assert all(hook["failed"] is None and hook["took_s"] > 0 for hook in run.manifest.comparison["hooks"])
    assert {arm: facts.speculation for arm, facts in run.manifest.arms.items()} == {
        "baseline": False,
        "candidate": True,
    }
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "the last server is gone"
    logs = {log.name: log.read_text() for log in (Path(run.path) / "servers").iterdir()}
    assert sorted(logs) == ["0-candidate.log", "1-baseline.log", "2-candidate.log", "3-baseline.log"]
    assert logs["1-baseline.log"].startswith("baseline ***")
    assert not [text for text in logs.values() if secret in text]


async def test_a_server_that_comes_back_another_ends_the_run(starting: Starting, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    noted = f"cd {tmp_path}; [ -e once ] && touch again; touch once;"
    changing = starting("draft:k=$([ -e again ] && echo 2 || echo 4)", noted)
    arms = {"baseline": {"url": url, "start": starting("off")}, "candidate": {"url": url, "start": changing}}
    file = write(tmp_path, arms, comparison={"design": "restart", "blocks": 1}, repeats=1)
    result = await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs"), Quiet())
    assert result.state == "failed"
    assert result.reason == "candidate: k was 4 at the preflight and is 2 now"
    run = open_run(result.path)
    assert {p.arm for p in run.phases} == {"baseline"}, "what was measured is kept"


async def test_arms_exchange_their_nodes(drive: Drive, starting: Starting) -> None:
    """Both halves of the blocks, each arm on each node; the scrapes follow the arm."""
    ports = free_ports(2)
    nodes = dict(zip(SPECS, (f"http://127.0.0.1:{port}" for port in ports), strict=True))
    arms = {arm: {"url": nodes[arm], "start": starting(spec)} for arm, spec in SPECS.items()}
    run = await drive(arms, comparison={"design": "parallel", "blocks": 2, "swap": True})
    each_case_once(run, {"c2": 9})
    swapped = {p.segment: p.swapped for p in run.phases}
    for row in run.requests.to_pylist():
        own = nodes[row["arm"]]
        assert (row["replica"] == own) is not swapped[row["segment"]]
    halves = [p.swapped for p in run.phases if p.phase == "measure" and p.arm == "baseline"]
    assert halves == [False, False, True, True]
    drafts = {
        arm: sum(
            window(run.scrapes, arm, run.manifest.arms[arm].model, p.started_ns, p.ended_ns or 0, p.segment).deltas.get(
                "drafts", 0.0
            )
            for p in run.phases
            if p.arm == arm and p.swapped
        )
        for arm in SPECS
    }
    assert drafts["baseline"] == 0 < drafts["candidate"]


async def test_nodes_that_cannot_be_exchanged_are_refused(urls: dict[str, str], tmp_path: Path) -> None:
    file = write(tmp_path, {n: {"url": u} for n, u in urls.items()}, comparison={"design": "parallel", "swap": True})
    with pytest.raises(TargetUnusable, match="cannot exchange their URLs: baseline: speculation was False"):
        await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs"), Quiet())
    assert not list((tmp_path / "runs").iterdir())


async def test_a_start_that_fails_says_so_with_its_log(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    arms = {"baseline": {"url": f"http://127.0.0.1:{port}", "start": ["sh", "-c", "echo no GPU here; exit 3"]}}
    with pytest.raises(TargetUnusable, match=r"baseline: the server ended early with status 3(.|\n)*no GPU here"):
        await run_scenario(load_scenario(write(tmp_path, arms)), RunOptions(tmp_path / "runs"), Quiet())
    (folder,) = (tmp_path / "runs").iterdir()
    assert [log.read_text() for log in (folder / "servers").iterdir()] == ["no GPU here\n"]
    assert list_runs(tmp_path / "runs") == [], "a log is no run"


async def test_an_interrupt_stops_what_was_started(command: Callable[..., Awaitable[Any]], tmp_path: Path) -> None:
    """Ctrl-C while a server starts: 130, and its process is gone."""
    (port,) = free_ports(1)
    pid_file = tmp_path / "pid"
    start = f"echo $$ > {pid_file}.part; mv {pid_file}.part {pid_file}; exec sleep 300"
    file = write(tmp_path, {"baseline": {"url": f"http://127.0.0.1:{port}", "start": start, "stop_timeout_s": 5}})
    run = await command("run", file)
    while not pid_file.exists():
        assert psutil.pid_exists(run.pid)
        await asyncio.sleep(0.05)
    os.kill(run.pid, signal.SIGINT)
    assert await run.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_time_budget_is_measured_fitted_and_kept(urls: dict[str, str], drive: Drive, tmp_path: Path) -> None:
    """The pace is that of the servers; what it costs stands in the manifest, and the run is of the plan that fits."""
    arms = {n: {"url": u} for n, u in urls.items()}
    big = {"load": [{"kind": "concurrency", "concurrency": 2, "cases": 4000}], "comparison": {"blocks": 1}}
    run = await drive(arms, budget_s=9.0, **big)
    budget = run.manifest.comparison["time_budget"]
    assert budget["seconds"] <= 9.0 < budget["before_s"]
    assert "as 2 at once did just now" in budget["source"]
    assert 0 < budget["share"] < 1
    assert "times as wide" in budget["sentence"]
    kept = run.manifest.scenario["load"][0]["cases"] * run.manifest.scenario["repeats"]
    assert kept / (4000 * 2) == pytest.approx(budget["share"])
    found = await check(load_scenario(write(tmp_path, arms, **big)), time_budget_s=9.0)
    assert found.notes[0].startswith("time budget of 9 s: the whole scenario takes about")
    assert found.loaded.scenario.passes <= 2


async def test_an_aa_run_must_be_one(tmp_path: Path, urls: dict[str, str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    arms = {n: {"url": u} for n, u in urls.items()}
    file = write(tmp_path, arms, comparison={"design": "parallel", "aa_run": "other"})
    with pytest.raises(ScenarioError, match=r"comparison\.aa_run"):
        await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs"), Quiet())
    with pytest.raises(ScenarioError, match=r"comparison\.aa_run"):
        await check(load_scenario(file), targets=False)


def test_check_starts_nothing(tmp_path: Path, specload: Callable[..., Any]) -> None:
    (port,) = free_ports(1)
    touched = tmp_path / "touched"
    arms = {"baseline": {"url": f"http://127.0.0.1:{port}", "start": f"touch {touched}"}}
    done = specload("check", write(tmp_path, arms), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["notes"] == ["baseline: started by the run itself, so no target was looked at"]
    assert not touched.exists()


async def test_a_server_that_is_never_idle_is_waited_for_once(
    hostile: Callable[..., Awaitable[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H20: others' load is said of every block, and does not make a run of many blocks a day long."""
    monkeypatch.setattr(edges, "BUSY_WAIT_S", 0.5)
    server = await hostile(running=3)
    scrape = {"interval_s": 0.5, "timeout_s": 1, "idle_wait_s": 3}
    file = write(
        tmp_path, {"only": {"url": server.url}}, warmup={"warmup_requests": 0}, scrape=scrape, repeats=1
    )  # fmt: skip
    result = await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs"), Quiet())
    waits = [idle for p in open_run(result.path).phases for idle in (p.idle_before, p.idle_after)]
    assert [idle.reached if idle else None for idle in waits] == [False] * 4
    waited = [idle.waited_s for idle in waits if idle]
    assert waited[0] > 2 > max(waited[1:])
