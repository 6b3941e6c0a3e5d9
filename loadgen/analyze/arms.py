"""What the analysis knows of one arm, and which arm the others are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.analyze.frames import Frame, frame_of
from loadgen.analyze.speculation import Setting
from loadgen.analyze.windows import SegmentWindow, windows_of
from loadgen.record import ArmFacts, RunData
from loadgen.scenario import chosen_baseline


@dataclass(frozen=True)
class ArmData:
    """What the analysis knows of one arm."""

    frame: Frame
    windows: tuple[SegmentWindow, ...]
    setting: Setting


def baseline_of(run: RunData) -> str | None:
    """The arm that the run decided for when it began; None with fewer than two arms."""
    decided = run.manifest.comparison.get("baseline")
    if decided in run.manifest.arms and len(run.manifest.arms) > 1:
        return str(decided)
    return baseline_among(run.manifest.arms, run.manifest.scenario)


def baseline_among(arms: Mapping[str, ArmFacts], scenario: Mapping[str, Any]) -> str | None:
    """By the rule of a scenario (`chosen_baseline`), with what was found of the servers; None with fewer than two
    arms."""
    if len(arms) < 2:
        return None
    without = [name for name, facts in arms.items() if facts.speculation is False]
    return chosen_baseline((scenario.get("comparison") or {}).get("baseline"), list(arms), without)


def reference_of(run: RunData) -> str:
    """The arm that the others are held against; the only one, where there is one, and "" without any."""
    return baseline_of(run) or next(iter(run.manifest.arms), "")


def arm_data(run: RunData, name: str) -> ArmData:
    frame = frame_of(run.requests, name)
    return ArmData(frame, windows_of(run, frame), _setting(run.manifest.arms[name], frame, run.manifest.scenario))


def _setting(facts: ArmFacts, frame: Frame, scenario: Mapping[str, Any]) -> Setting:
    tasks = (scenario.get("workload") or {}).get("tasks") or []
    limit = facts.capabilities.get("max_model_len")
    return Setting(
        facts=facts,
        k=_longest_draft(facts, frame),
        artefact=facts.capabilities.get("counts_artefact"),
        structured=any(task.get("json_schema") for task in tasks),
        max_model_len=int(limit) if limit is not None else None,
    )


def _longest_draft(facts: ArmFacts, frame: Frame) -> int | None:
    """As the server's configuration tells, else the longest any response told."""
    if facts.speculation is False:
        return 0
    told = frame.stats.k[~np.isnan(frame.stats.k)]
    return facts.k if facts.k is not None or not len(told) else int(told.max())
