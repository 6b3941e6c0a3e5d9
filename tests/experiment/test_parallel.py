"""Parallel arms on two nodes, one of which is faster: what an A/A run and an exchange of the nodes see."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import Estimates, Query
from loadgen.control import Live
from loadgen.experiment import RunOptions, RunResult, judge_run, run_scenario
from loadgen.plan import Plan, Segment
from loadgen.record import open_run
from loadgen.scenario import load_scenario
from loadgen.verdict import Verdict
from server_adapters.rehearsal.config import RehearsalConfig

#: How much faster than the hardware they rehearse.
NODES = {"fast": ("off", 40.0), "slow": ("off", 4.0), "drafting": ("draft:k=4", 4.0)}
pytestmark = pytest.mark.usefixtures("forked_children")
SPEEDUP = Query("speedup", "value", (("arm", "candidate"),))


class Quiet:
    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def nodes(rehearsal: Callable[[RehearsalConfig], Any]) -> Iterator[dict[str, str]]:
    with ExitStack() as servers:
        yield {
            name: servers.enter_context(rehearsal(RehearsalConfig(spec=spec, speed=speed)))
            for name, (spec, speed) in NODES.items()
        }


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., Any]:
    """drive(baseline's node, candidate's node, thresholds=…, **comparison) -> result; eight blocks of four requests."""

    async def run(baseline: str, candidate: str, thresholds: list[str] | None = None, **comparison: Any) -> RunResult:
        lengths = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 24}}
        content = {
            "version": 1,
            "name": "nodes",
            "environment": "disposable",
            "arms": {"baseline": {"url": baseline}, "candidate": {"url": candidate}},
            "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
            "load": [{"kind": "concurrency", "concurrency": 1, "cases": 16}],
            "repeats": 2,
            "warmup": {"warmup_requests": 2},
            "scrape": {"interval_s": 0.5},
            "comparison": {"design": "parallel", "blocks": 4, **comparison},
            "thresholds": thresholds or ["speedup: value>=0.05"],
        }
        file = tmp_path / "nodes.yaml"
        file.write_text(yaml.safe_dump(content))
        result = await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs", workers=1), Quiet())
        assert (result.state, result.reason) == ("finished", None)
        return result

    return run


def obstacles(result: RunResult) -> list[str]:
    """What of the nodes keeps the run from a pass."""
    assert result.verdict is not None
    return [text for text in result.verdict.obstacles if "nodes" in text or "A/A" in text]


async def test_an_aa_run_on_unequal_nodes_keeps_a_verdict_from_passing(
    nodes: dict[str, str], drive: Callable[..., Any]
) -> None:
    """H8: the difference of equal arms is seen, named with its numbers, and the run cannot pass for it."""
    equal = await drive(nodes["fast"], nodes["slow"])
    assert obstacles(equal)[0].startswith("the arms ran in parallel on different hardware")
    alone = Estimates(open_run(equal.path)).estimate(SPEEDUP)
    assert alone.high is not None
    assert alone.high < 1, "the nodes alone look like a loss"
    result = await drive(nodes["fast"], nodes["drafting"], aa_run=str(equal.path))
    assert result.verdict is not None
    (told,) = obstacles(result)
    assert told.startswith("the A/A run does not clear the nodes: speedup: value>=0.05 is 0.")
    assert f"[{alone.low:.4g}, {alone.high:.4g}] between equal arms" in told
    assert (result.verdict.thresholds[0].ok, result.verdict.verdict) == (True, "inconclusive")
    manifest = open_run(result.path).manifest
    assert manifest.comparison["aa_run"]["run_id"] == equal.path.name


async def test_an_aa_run_is_held_to_what_is_compared(nodes: dict[str, str], drive: Callable[..., Any]) -> None:
    """On one node nothing is found but chance, and where nothing is compared nothing is asked. Also the defaults are
    held to it; too few requests for their P99 are no proof that nothing differs."""
    equal = await drive(nodes["slow"], nodes["slow"])
    found = Estimates(open_run(equal.path)).estimate(SPEEDUP)
    assert found.low is not None
    assert found.high is not None
    result = await drive(nodes["slow"], nodes["drafting"], aa_run=str(equal.path))
    assert (obstacles(result) == []) is (found.low <= 1 <= found.high)
    assert 0.5 < (found.value or 0) < 2
    absolute = judged_anew(result, ["ttft_s: max<60"])
    assert [text for text in absolute.obstacles if "nodes" in text or "A/A" in text] == []
    defaults = judged_anew(result, [])
    told = [text for text in defaults.obstacles if "cannot be told" in text]
    assert [text.split(": ")[1] for text in told] == ["ttft_s", "tpot_s", "total_time_s"]
    proves_nothing(equal, result)


def judged_anew(result: RunResult, thresholds: list[str]) -> Verdict:
    """The verdict of the recorded run, had these been its thresholds."""
    run = open_run(result.path)
    run.manifest.scenario["thresholds"] = thresholds
    verdict = judge_run(run).verdict
    assert verdict is not None
    return verdict


def proves_nothing(equal: RunResult, result: RunResult) -> None:
    """An A/A run that is not whole, of other hosts, of unequal arms, or gone: said, and no pass."""
    file = equal.path / "manifest.json"
    whole = json.loads(file.read_bytes())
    elsewhere = {"candidate": {**whole["arms"]["candidate"], "replicas": ["http://10.0.0.9:8000"]}}
    other = {"candidate": {**whole["arms"]["candidate"], "speculation": True}}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"state": "interrupted"}, "it is interrupted: what it shows is not whole"),
        (
            {"arms": {**whole["arms"], **elsewhere}},
            "it was made on other hosts: 10.0.0.9, 127.0.0.1; this run is of 127.0.0.1",
        ),
        ({"arms": {**whole["arms"], **other}}, "its arms are not equal: speculation is False and True"),
        ({"run_id": "another"}, "it is not there any more"),
    ]
    for changes, words in cases:
        file.write_text(json.dumps({**whole, **changes}))
        again = judge_run(open_run(result.path)).verdict
        assert again is not None
        assert any(words in text for text in again.obstacles), again.obstacles
        assert again.verdict == "inconclusive"


async def test_exchanged_nodes_do_not_look_like_a_speedup(nodes: dict[str, str], drive: Callable[..., Any]) -> None:
    """Half of the blocks on each node, one ten times as fast: blocks before and after the exchange are paired.
    The limits are far from ten, and leave room for a machine that is busy in one half of the run."""
    result = await drive(nodes["fast"], nodes["slow"], swap=True)
    assert obstacles(result) == []
    run = open_run(result.path)
    found = Estimates(run).estimate(SPEEDUP)
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert 0.5 < found.value < 2
    assert 0.25 < found.low < found.high < 4
    assert found.n == 8
    replicas = {(row["arm"], row["replica"]) for row in run.requests.to_pylist() if row["phase"] == "measure"}
    assert replicas == {(arm, nodes[node]) for arm in ("baseline", "candidate") for node in ("fast", "slow")}
