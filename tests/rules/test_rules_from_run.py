"""`specload alerts --from RUN`: limits from a real run on the rehearsal engine, proven by promtool."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import Summary
from loadgen.cli import watching
from loadgen.control import Live
from loadgen.errors import ScenarioError
from loadgen.experiment import Judged, RunOptions, RunResult, judge_run, run_scenario
from loadgen.export.rules import RunRules, rules_of_run
from loadgen.plan import Plan, Segment
from loadgen.record import RunData, open_run
from loadgen.scenario import load_scenario
from server_adapters.rehearsal.config import RehearsalConfig

TASKS = ("code", "short_qa")


class Quiet:
    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None: ...


@pytest.fixture
async def result(tmp_path: Path, rehearsal: Callable[[RehearsalConfig], Any]) -> AsyncIterator[RunResult]:
    """40 requests of two task types against one drafting engine. Its threshold cannot pass."""
    lengths = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 24}}
    with rehearsal(RehearsalConfig(spec="draft:k=4", speed=20.0)) as url:
        content = {
            "version": 1,
            "name": "limits",
            "environment": "disposable",
            "arms": {"candidate": {"url": url}},
            "workload": {"endpoint": "completions", "tasks": [{"task_type": task, **lengths} for task in TASKS]},
            "load": [{"kind": "concurrency", "concurrency": 4, "cases": 40}],
            "warmup": {"warmup_requests": 2},
            "thresholds": ["error_share: rate>=0.5"],
        }
        file = tmp_path / "limits.yaml"
        file.write_text(yaml.safe_dump(content))
        yield await run_scenario(load_scenario(file), RunOptions(tmp_path / "runs", workers=1), Quiet())


def series(task: str, acceptance: float, per_s: float = 400) -> dict[str, str]:
    """Ten minutes, a sample each 15 s; rollback as acceptance would have it at a fixed 0.1 of the rounds."""
    cell = f'{{job="specload",instance="r",arm="candidate",task_type="{task}",source="per_request"}}'
    return {
        f"specload_draft_tokens_total{cell}": f"0+{per_s * 15:g}x40",
        f"specload_accepted_tokens_total{cell}": f"0+{per_s * 15 * acceptance:g}x40",
        f"specload_verify_rounds_total{cell}": f"0+{per_s * 15 / 4:g}x40",
        f"specload_rollback_rounds_total{cell}": f"0+{per_s * 15 / 40:g}x40",
    }


def first_tokens(late: float, per_s: float = 5) -> dict[str, str]:
    """Ten minutes; a share `late` of them within 0.36 to 0.5 s, the others within 0.1 s."""
    base = 'job="specload",instance="r",arm="candidate",task_type="code",stream="true"'
    name = "specload_ttft_seconds"
    edges = {"0.1": 1 - late, "0.36": 1 - late, "0.5": 1.0, "+Inf": 1.0}
    found = {f'{name}_bucket{{{base},le="{edge}"}}': f"0+{per_s * 15 * part:g}x40" for edge, part in edges.items()}
    return found | {f"{name}_count{{{base}}}": f"0+{per_s * 15:g}x40"}


def test_ttft_limits_of_a_run(holds: Callable[..., None], tmp_path: Path) -> None:
    """G9: 1.5 × the run's P99 of 0.2 s; a limit that no bucket can show is said, and is no rule."""
    recorded = judge_run(open_run(Path(__file__).resolve().parents[1] / "data" / "runs" / "small")).summary.model_dump()

    def rules(p99_s: float) -> RunRules:
        """Of one cell of the recorded run, as if it had requests enough for a P99."""
        (arm,) = list(recorded["arms"].values())[:1]
        cell = {**arm["overall"], "task_type": "code"}
        cell["stream"] = {**cell["stream"], "ttft_s": {**cell["stream"]["ttft_s"], "p99": p99_s}}
        return rules_of_run(Summary.model_validate({**recorded, "arms": {"candidate": {**arm, "by": [cell]}}}))

    made = rules(0.2)
    assert not [one for one in made.left_out if "TTFT" in one]
    file = tmp_path / "ttft.yml"
    file.write_text(yaml.safe_dump({"groups": made.groups}))
    holds(first_tokens(0.05), "10m", {("SpecloadTTFTHigh", "from_run"): 1}, 60, (file,))
    holds(first_tokens(0.001), "10m", {}, 60, (file,))
    holds(first_tokens(0.05, per_s=0.05), "10m", {}, 60, (file,))
    reset = {name: f"{v.split('x')[0]}x20 {v.split('x')[0]}x20" for name, v in first_tokens(0.001).items()}
    holds(reset, "6m", {}, 60, (file,))
    far = rules(500)
    assert [one for one in far.left_out if "beyond the last bucket" in one]
    assert "SpecloadTTFTHigh" not in str(far.groups)


async def test_limits_of_a_run(
    result: RunResult,
    holds: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """G26: each task type has its own floor. A run that did not pass gives none."""
    file = tmp_path / "own.yml"
    with pytest.raises(ScenarioError, match="limits are taken from runs that passed"):
        watching.alerts(result.path, "prometheus", file)
    assert not file.exists()

    def passed(run: RunData) -> Judged:
        judged = judge_run(run)
        assert judged.verdict is not None
        return Judged(judged.summary, judged.verdict.model_copy(update={"verdict": "pass"}))

    monkeypatch.setattr(watching, "judge_run", passed)
    watching.alerts(result.path, "prometheus", file)
    assert "no TTFT limit" in capsys.readouterr().err  # 20 requests a task type have no P99
    groups = yaml.safe_load(file.read_text())["groups"]
    names = [rule["alert"] for rule in groups[0]["rules"]]
    assert names.count("SpecloadAcceptanceRateLow") == names.count("SpecloadRollbackRateHigh") == len(TASKS)
    low = {("SpecloadAcceptanceRateLow", "from_run"): 1}
    for cell in result.summary.arms["candidate"].by:
        if cell.task_type and not (cell.stage or cell.input_segment or cell.output_segment):
            usual = cell.speculation.acceptance_rate.value
            assert usual
            holds(series(cell.task_type, usual), "10m", {}, 60, (file,))
            holds(series(cell.task_type, 0.7 * usual), "10m", low, 60, (file,))
            holds(series(cell.task_type, 0.7 * usual, per_s=4), "10m", {}, 60, (file,))
    holds({}, "10m", {}, 60, (file,))

    watching.alerts(result.path, "prometheusrule")
    operator = yaml.safe_load(capsys.readouterr().out)
    assert (operator["kind"], operator["spec"]["groups"]) == ("PrometheusRule", groups)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", operator["metadata"]["name"])
