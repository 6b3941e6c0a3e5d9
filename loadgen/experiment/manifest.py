"""What a run's manifest says of it from the start."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from loadgen import __version__
from loadgen.clock import anchor
from loadgen.experiment.driving import TransportName, transport_used
from loadgen.experiment.preflight import Preflight
from loadgen.plan import LengthModel, Plan
from loadgen.record import Manifest, new_run_id
from loadgen.scenario import LoadedScenario


def manifest_of(
    loaded: LoadedScenario,
    plan: Plan,
    lengths: LengthModel,
    ready: Preflight,
    *,
    overrides: tuple[str, ...],
    shard: tuple[int, int] | None,
    workers: int,
    transport: TransportName,
) -> Manifest:
    scenario = loaded.scenario
    return Manifest(
        run_id=new_run_id(scenario.name),
        specload_version=__version__,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        scenario=scenario.model_dump(mode="json"),
        scenario_path=loaded.path.name if loaded.path else None,
        scenario_sha256=loaded.text_sha256,
        overrides=list(overrides),
        plan_hash=plan.hash,
        shard=f"{shard[0]}/{shard[1]}" if shard else None,
        workers=workers,
        design="sequential: arms take turns stage by stage (ABBA); not interleaved, so no verdict",
        length_model=asdict(lengths),
        arms={name: arm.facts for name, arm in ready.arms.items()},
        client={
            **client_facts(transport),
            "transports": {name: transport_used(arm.reach, transport) for name, arm in ready.arms.items()},
        },
        anchors=[anchor()],
        notes=list(ready.notes),
    )


def client_facts(transport: TransportName) -> dict[str, Any]:
    """This machine and what drives the load."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "transport": transport,
    }
