"""From a price per GPU hour to the cost of tokens and requests, and the arms' resources beside each other. Pure.

GPUs are paid for whether they work or not: cost per second is GPUs × price ÷ 3600, and the cost of a token that ÷ net
throughput (docs/resources.md, "Cost").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadgen.analyze.comparison import shown
from loadgen.analyze.comparison_text import times
from loadgen.analyze.estimates import Estimates, Query, Where
from loadgen.analyze.pairs import Pair, ratio_of_blocks, unknown
from loadgen.analyze.resources import (
    TELEMETRY,
    ArmUse,
    background_power,
    difference,
    kv_capacity,
    quotient,
    uses_of,
    window_use,
)
from loadgen.analyze.statistics import LEVEL, Estimate
from loadgen.analyze.summary import ArmResources, N, ResourceDelta, Resources, ResourceUse
from loadgen.analyze.values import absent, exact
from loadgen.record import ArmFacts, RunData

DECLARED = "scenario"
#: Names of a user's fact of it (docs/environment.md)
_COUNTS = ("gpus", "gpu_count", "gpu.count")
_NO_PRICE = "no price: the arm's telemetry has no price_per_gpu_hour"
_NO_GPUS = "the number of GPUs is not known: the arm's telemetry has no gpus and no GPU source that answered"
_SWAPPED = "the arms exchanged their places, and these have different prices or numbers of GPUs"


def resources_of(run: RunData, estimates: Estimates) -> Resources:
    """Of every arm, and of every candidate beside the baseline."""
    uses = uses_of(run, estimates.sides)
    arms = {name: _arm(run, estimates, use) for name, use in uses.items()}
    base = estimates.baseline
    rows = [] if base is None else [
        _beside(estimates, uses, arms, name, base, stage)
        for stage in estimates.stages() for name in estimates.arms if name != base
    ]  # fmt: skip
    return Resources(arms=arms, comparison=rows)


def _arm(run: RunData, estimates: Estimates, use: ArmUse) -> ArmResources:
    name, tracks = use.side.name, use.tracks
    keys = _keys(run.manifest.scenario, name)
    facts = run.manifest.arms[name]
    gpus, price = gpus_of(keys, facts, _most_devices(use)), price_of(keys, facts)
    rate = _rate(gpus, price)
    if use.part is not None:
        rate = absent(use.part)
    elif use.side.swapped.any() and not _same_price(run.manifest.scenario):
        rate = absent(_SWAPPED)
    stages = [stage for stage in estimates.stages() if any(w.phase.stage == stage for w in use.windows)]
    return ArmResources(
        sources=list(tracks.sources),
        devices=list(tracks.devices),
        gpus=gpus,
        price_per_gpu_hour=price,
        kv_capacity_tokens=kv_capacity(run, use.side),
        background_power_watts=background_power(run, tracks),
        overall=_use(estimates, use, rate, None),
        stages=[_use(estimates, use, rate, stage) for stage in stages],
        windows=[window_use(use, [w], w.phase.stage, one=True) for w in use.windows] if tracks.sources else [],
        notes=_notes(use),
    )


def _keys(scenario: Mapping[str, Any], arm: str) -> Mapping[str, Any]:
    """The arm's `telemetry` as the scenario has it; empty in runs of versions without it."""
    arms: Mapping[str, Any] = scenario.get("arms") or {}
    return (arms.get(arm) or {}).get("telemetry") or {}


def _same_price(scenario: Mapping[str, Any]) -> bool:
    keys = [_keys(scenario, arm) for arm in scenario.get("arms") or {}]
    return len({(one.get("gpus"), one.get("price_per_gpu_hour")) for one in keys}) == 1


def _most_devices(use: ArmUse) -> int:
    """GPUs seen at work in one window."""
    return max((len(use.tracks.devices_in(*w.whole)) for w in use.windows), default=0)


def gpus_of(keys: Mapping[str, Any], facts: ArmFacts, seen: int) -> N:
    """Paid for: as the scenario says, else those telemetry sees, else the user's own fact. What a server tells is not
    taken: it may be all GPUs of its machine."""
    if keys.get("gpus") is not None:
        return exact(float(keys["gpus"]), 1, DECLARED)
    if seen:
        return exact(seen, seen, TELEMETRY)
    told = next((facts.facts[name] for name in _COUNTS if name in facts.facts), None)
    return exact(told, 1, DECLARED) if isinstance(told, int | float) and told > 0 else absent(_NO_GPUS)


def price_of(keys: Mapping[str, Any], facts: ArmFacts) -> N:
    price = keys.get("price_per_gpu_hour")
    if price is None:
        price = facts.facts.get("price_per_gpu_hour")
    return exact(price, 1, DECLARED) if isinstance(price, int | float) and price > 0 else absent(_NO_PRICE)


def _rate(gpus: N, price: N) -> N:
    """Cost of a second."""
    if gpus.value is None or price.value is None:
        return absent((price.reason if price.value is None else gpus.reason) or _NO_PRICE)
    return exact(gpus.value * price.value / 3600, 1, DECLARED)


def _use(estimates: Estimates, use: ArmUse, rate: N, stage: str | None) -> ResourceUse:
    windows = [w for w in use.windows if stage is None or w.phase.stage == stage]
    where: Where = (("arm", use.side.name),) if stage is None else (("arm", use.side.name), ("stage", stage))
    found = window_use(use, windows, stage)
    return ResourceUse(
        **{name: getattr(found, name) for name in type(found).model_fields},
        cost_per_million_output_tokens=cost_of(
            rate, estimates.estimate(Query("net_tokens_per_s", "value", where)), 1e6
        ),
        cost_per_request=cost_of(rate, estimates.estimate(Query("requests_per_s", "value", where)), 1),
    )


def cost_of(rate: N, per_second: Estimate, units: float) -> N:
    """Cost of `units` of what is delivered `per_second`. Its interval is that of the rate of delivery, turned over."""
    if rate.value is None:
        return absent(rate.reason or _NO_PRICE)
    found = per_second.published()
    if not found.value:
        return absent(found.reason or "nothing was delivered")
    low, high = (None if not end else rate.value * units / end for end in (found.high, found.low))
    return N(
        value=rate.value * units / found.value, low=low, high=high, n=found.n, source=found.source, reason=found.reason
    )


def _beside(
    estimates: Estimates,
    uses: Mapping[str, ArmUse],
    arms: Mapping[str, ArmResources],
    candidate: str,
    baseline: str,
    stage: str,
) -> ResourceDelta:
    mine, theirs = arms[candidate], arms[baseline]
    pair = estimates.pair(candidate, {"stage": stage})
    speedup = estimates.estimate(Query("speedup_net", "value", (("arm", candidate), ("stage", stage))))
    row = ResourceDelta(
        stage=stage,
        candidate=candidate,
        baseline=baseline,
        kv_capacity_difference_tokens=difference(mine.kv_capacity_tokens, theirs.kv_capacity_tokens),
        kv_capacity_ratio=quotient(mine.kv_capacity_tokens, theirs.kv_capacity_tokens),
        memory_peak_difference_bytes=difference(_peak(mine.stages, stage), _peak(theirs.stages, stage)),
        joules_ratio=shown(_joules(pair, uses[candidate], uses[baseline])),
        cost_ratio=shown(_cost_ratio(_rate_of(mine, uses[candidate]), _rate_of(theirs, uses[baseline]), speedup)),
        sentence="",
    )
    return row.model_copy(update={"sentence": sentence(row)})


def _peak(stages: Sequence[ResourceUse], stage: str) -> N:
    return next((use.memory_peak_bytes for use in stages if use.stage == stage), absent("the stage was not measured"))


def _rate_of(arm: ArmResources, use: ArmUse) -> N:
    if arm.overall.cost_per_million_output_tokens.reason == _SWAPPED:
        return absent(_SWAPPED)
    return _rate(arm.gpus, arm.price_per_gpu_hour) if use.part is None else absent(use.part)


def _joules(pair: Pair | str, candidate: ArmUse, baseline: ArmUse) -> Estimate:
    if isinstance(pair, str):
        return unknown(pair)
    for use in (candidate, baseline):
        whys = [why for w in use.windows if isinstance(why := use.energy(w), str)]
        if whys and len(whys) == len(use.windows):
            return unknown(f"{use.side.name}: {whys[0]}")
    return ratio_of_blocks(pair, candidate.joules_per_token(), baseline.joules_per_token(), LEVEL, TELEMETRY)


def _cost_ratio(mine: N, theirs: N, speedup: Estimate) -> Estimate:
    """Cost per output token, candidate ÷ baseline: the ratio of what a second costs ÷ that of net throughput."""
    if mine.value is None or theirs.value is None:
        return unknown((mine.reason if mine.value is None else theirs.reason) or _NO_PRICE)
    if not speedup.value:
        return replace(speedup, value=None, low=None, high=None)
    per_second = mine.value / theirs.value
    low, high = (None if not end else per_second / end for end in (speedup.high, speedup.low))
    return replace(
        speedup, value=per_second / speedup.value, low=low, high=high, method=f"cost of a second ÷ {speedup.method}"
    )


def sentence(row: ResourceDelta) -> str:
    """Only what is known; empty where nothing is."""
    parts = []
    if row.kv_capacity_ratio.value is not None and row.kv_capacity_difference_tokens.value is not None:
        parts.append(
            f"KV capacity {row.kv_capacity_difference_tokens.value:+,.0f} tokens ({row.kv_capacity_ratio.value:.2f}×)"
        )
    if row.cost_ratio.value is not None:
        parts.append(f"cost per output token {times(row.cost_ratio)}")
    if row.joules_ratio.value is not None:
        parts.append(f"energy per output token {times(row.joules_ratio)}")
    return f"{row.candidate} beside {row.baseline}: {', '.join(parts)}." if parts else ""


def _notes(use: ArmUse) -> list[str]:
    """What is to be known of all of the arm's numbers."""
    arms = sorted({arm for arm, _ in use.others})
    notes = []
    if arms:
        notes.append(
            f"its GPUs are also those of {', '.join(arms)}: memory is of all their servers, power includes what "
            "these draw while they wait"
        )
    return notes
