"""What paired probes tell of a canary: the same case asked of both arms, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.analyze.canary.combine import between, nothing, ratio_of
from loadgen.analyze.statistics.means import share_difference
from loadgen.analyze.statistics.quantiles import quantile_ratio_bootstrap
from loadgen.analyze.statistics.ratios import log_ratio_t, ratio_of_sums_clustered
from loadgen.analyze.statistics.types import Estimate, Floats, Ints

CLIENT, PER_REQUEST = "client", "per_request"


@dataclass(frozen=True, slots=True)
class Probe:
    """One ended request. `pair`: the number that both arms' requests of a case share; `block`: the block of time that
    it was due in. `failed` None: by no fault of the server's. Times in seconds, None where there is no such time.
    `accepted` … None: the answer did not tell; `rolled_back`: bounds of the rounds with a rejection."""

    pair: int
    block: int
    failed: bool | None
    ttft_s: float | None = None
    tpot_s: float | None = None
    accepted: int | None = None
    drafted: int | None = None
    rounds: int | None = None
    rolled_back: tuple[int, int] | None = None


Pairs = Sequence[tuple[Probe, Probe]]  # canary, baseline


def probed_estimates(
    canary: Collection[Probe],
    baseline: Collection[Probe],
    wanted: Collection[str],
    *,
    least_requests: int,
    least_draft_tokens: int,
    seed: int,
) -> dict[str, Estimate]:
    """Each of `wanted` (names of `canary.limits`), from pairs that both arms have answered or failed. Failed requests
    count as +inf in percentiles."""
    theirs = {probe.pair: probe for probe in baseline if probe.failed is not None}
    # the halves of a pair may be due on both sides of a block's edge: the pair is in the canary's
    pairs = [(p, replace(theirs[p.pair], block=p.block)) for p in canary if p.failed is not None and p.pair in theirs]
    pairs.sort(key=lambda pair: pair[0].pair)
    if len(pairs) < least_requests:
        why = f"{len(pairs)} pairs of probes ended in this time; at least {least_requests} are needed"
        return {name: nothing(why, CLIENT, len(pairs), "pairs") for name in wanted}
    make: dict[str, Callable[[], Estimate]] = {
        "acceptance": lambda: _acceptance([p for p, _ in pairs], least_draft_tokens),
        "acceptance_ratio": lambda: ratio_of(
            _acceptance([c for c, _ in pairs], least_draft_tokens),
            _acceptance([b for _, b in pairs], least_draft_tokens),
        ),
        "rollback": lambda: _rollback([p for p, _ in pairs], least_draft_tokens),
        "speedup": lambda: _speedup(pairs),
        "tpot_p50_ratio": lambda: _quantile_ratio(pairs, "tpot_s", 0.5, seed),
        "tpot_p95_ratio": lambda: _quantile_ratio(pairs, "tpot_s", 0.95, seed),
        "ttft_p95_ratio": lambda: _quantile_ratio(pairs, "ttft_s", 0.95, seed),
        "error_share": lambda: _errors(pairs, seed),
    }
    return {name: make[name]() for name in wanted}


def _acceptance(probes: Sequence[Probe], least: int) -> Estimate:
    told = [p for p in probes if p.accepted is not None and p.drafted is not None]
    drafted = sum(p.drafted or 0 for p in told)
    if drafted < least:
        return nothing(_too_few_drafts(probes, told, drafted, least), PER_REQUEST, len(told))
    top, bottom = (_floats(getattr(p, name) for p in told) for name in ("accepted", "drafted"))
    return ratio_of_sums_clustered(top, bottom, _ints(p.pair for p in told), unit="requests")


def _too_few_drafts(asked: Sequence[Probe], told: Sequence[Probe], drafted: int, least: int) -> str:
    silent = sum(p.failed is False for p in asked) - len(told)
    note = f" ({silent} answers had no statistics)" if silent > 0 else ""
    return f"{drafted} drafted tokens{note}; at least {least} are needed"


def _rollback(probes: Sequence[Probe], least: int) -> Estimate:
    told = [p for p in probes if p.rolled_back is not None and p.rounds]
    drafted = sum(p.drafted or 0 for p in told)
    if drafted < least:
        return nothing(_too_few_drafts(probes, told, drafted, least), PER_REQUEST, len(told))
    rounds, clusters = _floats(p.rounds or 0 for p in told), _ints(p.pair for p in told)
    bounds = [
        ratio_of_sums_clustered(
            _floats((p.rolled_back or (0, 0))[i] for p in told), rounds, clusters, unit="requests", share=True
        )
        for i in (0, 1)
    ]
    return between(*bounds)


def _speedup(pairs: Pairs) -> Estimate:
    """Of the pairs that both arms answered; what failed is told by error_share."""
    both = [(c, b) for c, b in pairs if c.tpot_s is not None and b.tpot_s is not None]
    if not both:
        return nothing("no pair has a time per token in both arms", CLIENT, 0, "pairs")
    means = [_by_block([pair[side] for pair in both], "tpot_s") for side in (0, 1)]
    blocks = sorted(means[0])
    canary, baseline = (_floats(mean[block] for block in blocks) for mean in means)
    return log_ratio_t(baseline, canary, source=CLIENT)


def _by_block(probes: Sequence[Probe], name: str) -> dict[int, float]:
    """The mean in each block that has one."""
    values: dict[int, list[float]] = {}
    for probe in probes:
        values.setdefault(probe.block, []).append(getattr(probe, name))
    return {block: sum(some) / len(some) for block, some in values.items()}


def _quantile_ratio(pairs: Pairs, name: str, q: float, seed: int) -> Estimate:
    values: list[list[float]] = [[], []]
    blocks: list[list[int]] = [[], []]
    for pair in pairs:
        for side, probe in enumerate(pair):
            value = math.inf if probe.failed else getattr(probe, name)
            if value is not None:
                values[side].append(value)
                blocks[side].append(probe.block)
    if not (values[0] and values[1]):
        return nothing("no request has this time in both arms", CLIENT)
    return quantile_ratio_bootstrap(
        np.array(values[0]), np.array(blocks[0]), np.array(values[1]), np.array(blocks[1]), q, seed=seed
    )


def _errors(pairs: Pairs, seed: int) -> Estimate:
    block = _ints(c.block for c, _ in pairs)
    canary, baseline = (_floats(float(bool(pair[side].failed)) for pair in pairs) for side in (0, 1))
    return share_difference((canary, block), (baseline, block), seed=seed)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
