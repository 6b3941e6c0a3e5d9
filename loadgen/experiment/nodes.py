"""What the nodes of a parallel run add by themselves, as an A/A run on them shows it (docs/comparison.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadgen.analyze import LEVEL, Estimates, Query, bonferroni
from loadgen.errors import StorageError
from loadgen.record import Manifest, RunData, open_run
from loadgen.scenario import METRICS, Threshold

NEUTRAL = {"ratio": 1.0, "difference": 0.0}


def node_effects(run: RunData, thresholds: Sequence[Threshold]) -> tuple[str, ...] | None:
    """Why the nodes may be behind what `thresholds` compare; empty: the A/A run shows no difference. None: the scenario
    names no A/A run."""
    named: dict[str, Any] | None = run.manifest.comparison.get("aa_run")
    if named is None:
        return None
    beside = Path(run.path).parent / str(named["path"])
    written = (run.manifest.scenario.get("comparison") or {}).get("aa_run")
    for path in (beside, Path(str(written))):
        with suppress(StorageError):
            found = open_run(path)
            if found.manifest.run_id == named["run_id"]:
                return (*_unlike(found.manifest, run.manifest), *_effects(Estimates(found), thresholds))
    return (f"it is not there any more ({named['run_id']}), so nothing tells",)


def _unlike(there: Manifest, here: Manifest) -> Iterator[str]:
    """Whether it is an A/A run at all, whole, and of these nodes."""
    if there.state != "finished":
        yield f"it is {there.state}: what it shows is not whole"
    for key in ("model", "speculation", "k", "spec_method"):
        values = {str(getattr(arm, key)) for arm in there.arms.values()}
        if len(values) > 1:
            yield f"its arms are not equal: {key} is {' and '.join(sorted(values))}"
    hosts = [sorted(_hosts(manifest)) for manifest in (there, here)]
    if hosts[0] != hosts[1]:
        yield f"it was made on other hosts: {', '.join(hosts[0])}; this run is of {', '.join(hosts[1])}"


def _hosts(manifest: Manifest) -> set[str]:
    return {urlsplit(url).hostname or url for arm in manifest.arms.values() for url in arm.replicas}


def _effects(estimates: Estimates, thresholds: Sequence[Threshold]) -> Iterator[str]:
    """Each comparison of the thresholds whose interval in the A/A run leaves out "no difference", at a level corrected
    for their number (Bonferroni)."""
    compared = [
        (t, c, arm)
        for t in thresholds
        for c in t.conditions
        for arm in estimates.arms
        if arm != estimates.baseline and (c.relative is not None or METRICS[t.metric].versus_baseline)
    ]
    level = bonferroni(LEVEL, max(len(compared), 1))
    for threshold, condition, arm in compared:
        where = (*(pair for pair in threshold.where if pair[0] != "arm"), ("arm", arm))
        found = estimates.estimate(Query(threshold.metric, condition.aggregate, where, condition.relative), level)
        name = threshold.named(condition)
        if found.low is None or found.high is None:
            yield f"{name} cannot be told: {found.reason or 'not enough data'}"
        elif not found.low <= NEUTRAL[condition.relative or "ratio"] <= found.high:
            yield f"{name} is {found.value:.4g} [{found.low:.4g}, {found.high:.4g}] between equal arms"
