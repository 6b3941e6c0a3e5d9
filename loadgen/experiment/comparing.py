"""Two runs made apart, side by side, and the verdict on the second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from loadgen.analyze import (
    Estimates,
    RunsCompared,
    SpeedupOf,
    Summary,
    Where,
    analyze,
    arms_in_common,
    compare_runs,
    differences,
    estimates_apart,
)
from loadgen.errors import ScenarioError
from loadgen.experiment.judging import difference_text, pooled_stages, refuse_other_arms
from loadgen.record import RunData, list_runs
from loadgen.scenario import Threshold
from loadgen.verdict import Evidence, Facts, Paired, Unpaired, Verdict, default_thresholds, judge

ONE_WINDOW = "the runs were not made in one window: what changed between them is in the difference"

ITSELF = "this is one run, compared with itself: it shows no difference, whatever the servers do"


@dataclass(frozen=True)
class Compared:
    runs: RunsCompared
    verdict: Verdict


def compare_two(first: RunData, second: RunData, thresholds: Sequence[Threshold] | None = None) -> Compared:
    """`second` judged against `first`, arm by arm of equal name. `thresholds`: default those of a comparison.

    Raises ScenarioError where the runs have no arm in common, or a threshold names another arm."""
    runs, common = compare_runs(first, second), arms_in_common(first, second)
    if not common:
        raise ScenarioError([runs.why])
    own = [pooled_stages(Estimates(run)) for run in (first, second)]
    stages = tuple(stage for stage in own[1] if stage in own[0])
    several = max(map(len, own)) > 1
    chosen = tuple(thresholds) if thresholds else default_thresholds(2, stages if several else ())
    refuse_other_arms(chosen, tuple(common), "of both runs")
    evidence: Evidence
    if runs.paired:
        sides = estimates_apart(first, second)
        evidence, mixed = Paired(sides), any(estimates.mixed() for _, estimates in sides.values())
    else:
        one, other = Estimates(first), Estimates(second)
        kind = _kind_of(one, other, common)
        evidence, mixed = Unpaired(one, other, common, kind), any(kind((("arm", arm),)) is None for arm in common)
    verdict = judge(chosen, evidence, replace(_facts(first, second, runs, common), stages=stages, mixed=mixed))
    assert verdict is not None
    verdict = verdict.model_copy(update={"thresholds_from": "command_line" if thresholds else "defaults"})
    return Compared(runs, verdict)


def _kind_of(first: Estimates, second: Estimates, arms: Mapping[str, str]) -> Callable[[Where], SpeedupOf | None]:
    """Of what a speedup is taken under a selection of the second run; None where the runs' loads are not alike."""

    def kind(where: Where) -> SpeedupOf | None:
        there = tuple((key, arms[value] if key == "arm" else value) for key, value in where)
        mine, theirs = second.kind_alone(where), first.kind_alone(there)
        return mine if mine == theirs else None

    return kind


def _facts(first: RunData, second: RunData, runs: RunsCompared, common: dict[str, str]) -> Facts:
    summaries = (analyze(first), analyze(second))
    worst = max((s.validity for s in summaries), key=lambda v: ("valid", "doubtful", "invalid").index(v.state))
    unfinished = [run.manifest for run, s in zip((first, second), summaries, strict=True) if not s.finished]
    unlike = [text for arm, other in common.items() for text in _unlike(first, second, other, arm)]
    return Facts(
        run_id=second.manifest.run_id,
        arms=(first.manifest.run_id, *common),
        baseline=first.manifest.run_id,
        design="apart",
        paired=runs.paired,
        finished=not unfinished,
        stop_reason="; ".join(f"{m.run_id} is {m.state}" for m in unfinished) or None,
        validity=worst.state,
        validity_reasons=tuple(_reasons((first, second), summaries)),
        differences=tuple(unlike),
        noted=(ITSELF if second.manifest.run_id == first.manifest.run_id else ONE_WINDOW, runs.why),
        reproduce=(f"specload compare {first.manifest.run_id} {second.manifest.run_id}",),
    )


def _reasons(runs: tuple[RunData, RunData], summaries: tuple[Summary, Summary]) -> list[str]:
    """Each with the run it is of."""
    found = []
    for run, summary in zip(runs, summaries, strict=True):
        for reason in summary.validity.reasons:
            weight, _, text = reason.partition(": ")
            found.append(f"{weight}: {run.manifest.run_id}: {text}")
    return found


def _unlike(first: RunData, second: RunData, one: str, other: str) -> list[str]:
    """What keeps the same arm of two runs from being the same, unless the second run's scenario declares it."""
    names = (first.manifest.run_id, second.manifest.run_id)
    declared = ((second.manifest.scenario.get("arms") or {}).get(other) or {}).get("declared_differences") or []
    scenario = {"comparison": {"baseline": names[0]}, "arms": {names[1]: {"declared_differences": declared}}}
    arms = {names[0]: first.manifest.arms[one], names[1]: second.manifest.arms[other]}
    return [difference_text(d) for d in differences(arms, scenario) if d.rule == "inconclusive"]


def last_pass(root: Path, run: RunData) -> Path:
    """The newest other run of the same scenario name whose verdict is a pass. Raises ScenarioError: there is none."""
    name = run.manifest.scenario.get("name")
    for entry in list_runs(root):
        if entry.manifest is None or entry.run_id == run.manifest.run_id or entry.manifest.scenario.get("name") != name:
            continue
        if _passed(Path(entry.path) / "verdict.json"):
            return Path(entry.path)
    raise ScenarioError([f"last-pass: no run of {name} in {root} has passed; name a run instead"])


def _passed(file: Path) -> bool:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(found, dict) and found.get("verdict") == "pass"
