"""Do the thresholds fit the scenario they stand in: its arms, tasks, stages, slos?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.scenario.base import Loc
from loadgen.scenario.metrics import METRICS
from loadgen.scenario.thresholds import Threshold, read_thresholds

_SEGMENT = re.compile(r"[0-9]+-[0-9]+|[0-9]+\+")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a threshold may name. `baseline`: the arm that others are compared with. `slos`: any limit is set."""

    arms: Sequence[str]
    baseline: str
    task_types: Sequence[str]
    stages: Sequence[str]
    concurrencies: Sequence[str]
    rates: Sequence[str]
    slos: bool


def threshold_problems(items: Sequence[Any], around: Surroundings) -> list[tuple[Loc, str]]:
    """What is wrong with each threshold, by its key path in the scenario."""
    return [
        (("thresholds", i), text)
        for i, threshold in enumerate(read_thresholds(items))
        for text in (*_names(threshold, around), *_baseline(threshold, around))
    ]


def _names(threshold: Threshold, around: Surroundings) -> Iterator[str]:
    allowed: Mapping[str, Sequence[str]] = {
        "arm": around.arms,
        "task_type": around.task_types,
        "stage": around.stages,
        "concurrency": around.concurrencies,
        "rate_per_s": around.rates,
    }
    for key, value in threshold.where:
        if key in allowed and value not in allowed[key]:
            close = difflib.get_close_matches(value, allowed[key], n=1)
            guess = f"; did you mean {close[0]}?" if close else ";"
            yield f"{key}:{value} is not in this scenario{guess} allowed: {', '.join(allowed[key]) or 'none'}"
        elif key not in allowed and not _SEGMENT.fullmatch(value):
            yield f"{key}:{value} is no segment of lengths: write it as in reports, like {key}:128-511 or {key}:2048+"
    if threshold.metric.startswith("goodput_") and not around.slos:
        yield f"{threshold.metric} needs slos: without them nothing says which requests are good"


def _baseline(threshold: Threshold, around: Surroundings) -> Iterator[str]:
    compares = METRICS[threshold.metric].versus_baseline or any(c.relative for c in threshold.conditions)
    if compares and len(around.arms) < 2:
        yield f'"{threshold}" needs a baseline to compare with: this scenario has one arm'
    elif compares and threshold.selector("arm") == around.baseline:
        yield f'"{threshold}" compares {around.baseline} with itself: it is the baseline'
