"""Under what a group, and the run, was measured: every number stands under these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loadgen.analyze.columns import Floats, Ints, known
from loadgen.analyze.frames import Frame
from loadgen.analyze.groups import Group
from loadgen.analyze.percentiles import nearest_rank
from loadgen.analyze.summary import Conditions, N
from loadgen.analyze.values import CLIENT, COUNTERS, PER_REQUEST, absent, exact
from loadgen.analyze.windows import SegmentWindow
from loadgen.record import ArmFacts, RunData

GAUGE = "gauge"


def conditions(frame: Frame, group: Group) -> Conditions:
    rows = group.rows
    return Conditions(
        input_len=_lengths(frame.input_len[rows]),
        output_len=_lengths(frame.output_len[rows]),
        temperature=known(frame.temperature[rows]),
        top_p=known(frame.top_p[rows]),
        top_k=[int(k) for k in known(frame.top_k[rows])],
        batch_size_mean=running_mean(group.windows),
        concurrency_mean=in_flight_mean(frame, group.windows),
        cache_hit_share=cache_hits(frame, group),
    )


def _lengths(values: Floats) -> dict[str, float | int | None]:
    """Tokens; all null where no request told its length."""
    told = np.sort(values[~np.isnan(values)])
    if not len(told):
        return {"n": 0, "min": None, "p50": None, "mean": None, "max": None}
    return {
        "n": len(told), "min": int(told[0]), "p50": int(nearest_rank(told, 50)),
        "mean": float(told.mean()), "max": int(told[-1]),
    }  # fmt: skip


def running_mean(windows: Sequence[SegmentWindow]) -> N:
    """Mean of the server's running batch over the steady windows (whole ones where there is none), by length."""
    spans = [(w, w.steady or w.whole) for w in windows]
    seen = [(w.running, (span[1] - span[0]) / 1e9) for w, span in spans if w.running is not None]
    total = sum(seconds for _, seconds in seen)
    if not seen or total <= 0:
        return absent("no scrape with a running gauge fell inside the windows", source=GAUGE)
    mean = sum(running[0] * seconds for running, seconds in seen if running is not None) / total
    missing = len(spans) - len(seen)
    note = f"{missing} of {len(spans)} windows had no scrape inside" if missing else None
    return exact(mean, sum(running[1] for running, _ in seen if running is not None), GAUGE, note)


def in_flight_mean(frame: Frame, windows: Sequence[SegmentWindow]) -> N:
    """Time mean of the requests in flight at the client over the steady windows: all of them, whatever the group."""
    busy = total = 0.0
    n = 0
    for window in windows:
        if window.steady is None:
            continue
        start, end = window.steady
        rows = (frame.segment == window.phase.segment) & frame.sent[1] & frame.end[1]
        inside = np.minimum(frame.end[0][rows], end) - np.maximum(frame.sent[0][rows], start)
        busy += float(np.maximum(inside, 0).sum()) / 1e9
        total += (end - start) / 1e9
        n += int(rows.sum())
    if total <= 0:
        return absent("no steady window", source=CLIENT)
    return exact(busy / total, n, CLIENT)


def cache_hits(frame: Frame, group: Group) -> N:
    """Prompt tokens found in the prefix cache ÷ asked for: from counters, else from the responses."""
    counters = group.counters
    if counters is not None:
        asked, hit = counters.get("prefix_cache_queries"), counters.get("prefix_cache_hits")
        if asked and hit is not None:
            return exact(hit / asked, int(asked), COUNTERS)
    return _told_hits(frame, group.rows)


def _told_hits(frame: Frame, rows: Ints) -> N:
    told = rows[~np.isnan(frame.cached_tokens[rows]) & (frame.input_len[rows] > 0)]
    if not len(told):
        return absent("neither counters nor responses of this group tell cached tokens")
    asked = float(frame.input_len[told].sum())
    return exact(float(frame.cached_tokens[told].sum()) / asked, int(asked), PER_REQUEST)


def of_run(run: RunData) -> dict[str, Any]:
    """What a reader must know before the numbers: plain JSON."""
    manifest = run.manifest
    scenario = manifest.scenario
    workload = scenario.get("workload") or {}
    return {
        "scenario": scenario.get("name"),
        "objective": scenario.get("objective"),
        "design": manifest.design,
        "repeats": scenario.get("repeats"),
        "shard": manifest.shard,
        "seed": scenario.get("seed"),
        "plan_hash": manifest.plan_hash,
        "state": manifest.state,
        "stop_reason": manifest.stop_reason,
        "started": manifest.started,
        "finished": manifest.finished,
        "specload_version": manifest.specload_version,
        "prompts": _prompt_sources(workload.get("tasks") or []),
        "prefix_cache": workload.get("cache"),
        "input_lengths_from": manifest.length_model.get("source"),
        "slos": scenario.get("slos"),
        "arms": {name: _arm(facts) for name, facts in manifest.arms.items()},
        "client": manifest.client,
        "notes": list(manifest.notes),
        "problems": list(run.problems),
    }


def _prompt_sources(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """ "own", "generated", or "own+generated" by task type."""
    found: dict[str, set[str]] = {}
    for task in tasks:
        kind = "generated" if task.get("prompts") is None else "own"
        found.setdefault(str(task.get("task_type")), set()).add(kind)
    return {task: "+".join(sorted(kinds, reverse=True)) for task, kinds in found.items()}


def _arm(facts: ArmFacts) -> dict[str, Any]:
    return {
        "adapter": facts.adapter,
        "model": facts.model,
        "endpoint": facts.endpoint,
        "replicas": len(facts.replicas),
        "engine_version": facts.capabilities.get("version"),
        "speculation": facts.speculation,
        "spec_method": facts.spec_method,
        "k": facts.k,
        "environment": {key: fact.value for key, fact in facts.environment.items() if fact.value is not None},
        "facts": facts.facts,
    }
