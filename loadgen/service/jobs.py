"""What the background process does (`background`): each a function of plain values."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from loadgen.errors import TargetUnusable
from loadgen.experiment import (
    canary_keys,
    check,
    compare_two,
    found_in,
    judge_run,
    preflight,
    save_found,
    save_judged,
    save_report,
    worst_word,
)
from loadgen.record import open_run
from loadgen.report import asked_in_all, caps_of, cost_of, planned_load
from loadgen.scenario import LoadedScenario, Scenario
from loadgen.service.compose import compose
from loadgen.service.runner.messages import Start
from loadgen.service.words import validity_of


def loaded_of(start: Start) -> LoadedScenario:
    overrides = {key: orjson.loads(value) for key, _, value in (o.partition("=") for o in start.overrides)}
    return compose(
        start.text.encode(), start.name, start.base, overrides=overrides, arms=start.arms,
        environment=start.environment, caps=start.caps, resolve=start.resolve, canary=start.watching is not None,
    )  # fmt: skip


def planned(start: Start) -> dict[str, Any]:
    """What a scenario will ask for, without a look at its targets. Raises ScenarioError."""
    found = asyncio.run(check(loaded_of(start), targets=False, time_budget_s=start.time_budget_s))
    return {
        "plan_hash": found.plan.hash,
        "totals": asdict(found.plan.totals),
        "estimate": asdict(found.estimate),
        "limits": asdict(found.limits),
        "stages": [asdict(stage) for stage in planned_load(found.plan)],
        "asked_in_all": asked_in_all(found.plan),
        "cost": cost_of(found.plan, found.limits),
        "caps": caps_of(found.limits),
        "notes": list(found.notes),
        "workers": found.workers,
        "warnings": list(found.warnings),
    }


def watched(start: Start) -> dict[str, Any]:
    """What a canary's monitor will do, without a look at its targets. Raises ScenarioError."""
    loaded = loaded_of(start)
    keys = canary_keys(loaded)
    return {
        "arms": [name for name in loaded.scenario.arms if name != loaded.scenario.baseline],
        "window_s": keys.window_s,
        "probes_per_s": None if keys.probes is None else keys.probes.requests_per_s,
        "webhooks": len(keys.webhooks),
        "on_fail": keys.on_fail,
        "dry_run": keys.dry_run,
    }


def recomputed(path: str) -> tuple[str | None, str | None]:
    """summary.json, verdict.json, what an experiment found, and report.html of a run from its records; verdict and
    validity (None: it does not apply). Raises StorageError."""
    run = open_run(path)
    judged, found = judge_run(run), found_in(run)
    save_judged(Path(path), judged)
    if found is not None:
        save_found(Path(path), found)
    save_report(Path(path), judged.summary, run.manifest, found)
    said = None if judged.verdict is None else judged.verdict.verdict
    kind, state = (None, None) if found is None else (found.kind, found.state)
    return worst_word(said, state), validity_of(kind, judged.summary.validity.state)


def compared(first: str, second: str) -> dict[str, Any]:
    """Raises ScenarioError where the runs have nothing in common, StorageError."""
    found = compare_two(open_run(first), open_run(second))
    return {"comparison": found.runs.model_dump(mode="json"), "verdict": found.verdict.model_dump(mode="json")}


def target_checked(name: str, keys: dict[str, Any]) -> dict[str, Any]:
    """The preflight of one target: one tiny request. Raises TargetUnusable, ScenarioError."""
    error: TargetUnusable | None = None
    for endpoint in ("chat", "completions"):
        try:
            return _target_checked(keys, endpoint)
        except TargetUnusable as found:
            error = error or found
    raise TargetUnusable(str(error).replace("target", name, 1))


def _target_checked(keys: dict[str, Any], endpoint: str) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": 32}, "output_len": {"kind": "fixed", "value": 4}}
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "name": "check",
            "arms": {"target": keys},
            "workload": {"endpoint": endpoint, "tasks": [{"task_type": "short_qa", **lengths}]},
            "load": [{"kind": "concurrency", "concurrency": 1, "cases": 1}],
        }
    )
    ready = asyncio.run(preflight(scenario))
    arm = ready.arms["target"]
    return {
        "model": arm.model,
        "adapter": arm.adapter.name,
        "version": arm.capabilities.version,
        "speculation": arm.capabilities.speculation,
        "k": arm.capabilities.k,
        "environment": {key: asdict(fact) for key, fact in arm.facts.environment.items()},
    }
