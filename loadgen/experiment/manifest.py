"""What a run's manifest says of it from the start."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from loadgen import __version__
from loadgen.clock import anchor
from loadgen.drive import reader_name
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment.driving import TransportName, transport_used
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Fitted, LengthModel, Plan
from loadgen.record import Manifest, open_run
from loadgen.scenario import LoadedScenario


def manifest_of(
    run_id: str,
    loaded: LoadedScenario,
    plan: Plan,
    lengths: LengthModel,
    ready: Preflight,
    *,
    overrides: tuple[str, ...],
    arm_urls: Mapping[str, str],
    shard: tuple[int, int] | None,
    workers: int,
    transport: TransportName,
    budget: Fitted | None,
) -> Manifest:
    scenario = loaded.scenario
    return Manifest(
        run_id=run_id,
        specload_version=__version__,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        scenario=scenario.model_dump(mode="json"),
        scenario_path=loaded.path.name if loaded.path else None,
        scenario_sha256=loaded.text_sha256,
        overrides=list(overrides),
        arm_urls=dict(arm_urls),
        plan_hash=plan.hash,
        shard=f"{shard[0]}/{shard[1]}" if shard else None,
        workers=workers,
        design=plan.design.name or "one arm",
        comparison=comparison_facts(loaded, plan, ready, budget),
        experiment=quality_facts(loaded),
        length_model=asdict(lengths),
        arms={name: arm.facts for name, arm in ready.arms.items()},
        client={
            **client_facts(transport),
            "transports": {name: transport_used(arm.reach, transport) for name, arm in ready.arms.items()},
        },
        anchors=[anchor()],
        notes=list(ready.notes),
    )


def quality_facts(loaded: LoadedScenario) -> dict[str, Any]:
    """What must be known to compare the answers of a quality run; nothing for others."""
    if not loaded.passes:
        return {}
    own = [prompt for one in loaded.prompts.values() for prompt in one.prompts]
    return {
        "passes": [asdict(one) | {"prompts": one.prompts, "requests": one.requests} for one in loaded.passes],
        "known": {one.case_id: [one.expected, one.match] for one in loaded.known},
        "schemas": {one.case_id: one.json_schema for one in own if one.json_schema is not None},
    }


def comparison_facts(loaded: LoadedScenario, plan: Plan, ready: Preflight, budget: Fitted | None) -> dict[str, Any]:
    """The design in full. `warmups` and `hooks` are filled in while the run goes on."""
    keys = loaded.scenario.comparison
    return {
        **asdict(plan.design),
        "swap": keys.swap,
        "aa_run": None if keys.aa_run is None else aa_run_facts(keys.aa_run),
        "time_budget": None if budget is None else budget_facts(budget, ready),
        "warmups": [],
        "hooks": [],
    }


def aa_run_facts(path: Path) -> dict[str, Any]:
    """Which run judges the effects of the nodes. Raises ScenarioError where there is none."""
    try:
        manifest = open_run(path).manifest
    except StorageError as error:
        raise ScenarioError([f"comparison.aa_run: {error}"]) from None
    if manifest.design != "parallel":
        raise ScenarioError([f"comparison.aa_run: {manifest.run_id} is no parallel run (design: {manifest.design})"])
    return {"run_id": manifest.run_id, "path": path.name, "replicas": {n: a.replicas for n, a in manifest.arms.items()}}


def budget_facts(budget: Fitted, ready: Preflight) -> dict[str, Any]:
    """What was asked, what fits, and what that costs."""
    facts = {key: getattr(budget, key) for key in Fitted.__slots__ if key != "loaded"}
    return {**facts, "sentence": ready.redact(budget.sentence())}


def client_facts(transport: TransportName) -> dict[str, Any]:
    """This machine and what drives the load."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "transport": transport,
        "reader": reader_name() if transport == "kernel" else None,
    }
