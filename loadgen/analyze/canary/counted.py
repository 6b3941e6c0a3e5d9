"""What both arms' counters tell of a canary, whoever sends the traffic: rates and means of the servers' own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.canary.combine import between, difference_of, nothing, ratio_of, share_of
from loadgen.analyze.counters import Counters, combine
from loadgen.analyze.statistics.ratios import ratio_of_sums_clustered
from loadgen.analyze.statistics.types import Estimate, Floats, Ints
from loadgen.analyze.values import COUNTERS
from loadgen.observe import CounterWindow
from server_adapters.rounds import from_positions

#: Ends of a request that are nobody's fault; those that clients chose count nowhere.
_FINE, _CLIENTS = frozenset({"stop", "length", "repetition"}), frozenset({"abort"})


@dataclass(frozen=True)
class CountedArm:
    """What an arm's counters did, by block of time. `artefact`: see `server_adapters.base.Capabilities`.
    `why_nothing`: why there is no block, where there is none."""

    blocks: Mapping[int, Counters]
    artefact: bool | None
    why_nothing: str

    @classmethod
    def of(cls, increases: Sequence[tuple[int, CounterWindow]], artefact: bool | None, why_nothing: str) -> CountedArm:
        """`increases`: between neighbouring looks at one page, each with the block that it ended in."""
        parts: dict[int, list[CounterWindow]] = {}
        for block, increase in increases:
            parts.setdefault(block, []).append(increase)
        return cls({block: combine(parts[block]) for block in sorted(parts)}, artefact, why_nothing)

    @property
    def restarts(self) -> int:
        return sum(counters.restarts for counters in self.blocks.values())

    @property
    def requests(self) -> float | None:
        """Answered or refused by the server's doing; None where it does not count them."""
        asked = _requests(self)
        return None if asked is None else float(asked[1].sum())

    def columns(self, *names: str) -> tuple[list[Floats], Ints] | str:
        """One number a block of each counter, and the blocks; a reason where one is not told."""
        if not self.blocks:
            return self.why_nothing
        for name in names:
            for counters in self.blocks.values():
                if name not in counters.deltas:
                    return f"{name}: {counters.why(name)}"
        blocks = np.array(list(self.blocks), dtype=np.int64)
        return [np.array([c.deltas[name] for c in self.blocks.values()]) for name in names], blocks


def counted_estimates(
    canary: CountedArm, baseline: CountedArm, wanted: Collection[str], *, least_requests: int, least_draft_tokens: int
) -> dict[str, Estimate]:
    """Each of `wanted`, names of `canary.limits`."""
    make: dict[str, Callable[[], Estimate]] = {
        "acceptance": lambda: _acceptance(canary, least_draft_tokens),
        "acceptance_ratio": lambda: ratio_of(
            _acceptance(canary, least_draft_tokens), _acceptance(baseline, least_draft_tokens)
        ),
        "rollback": lambda: _rollback(canary, least_draft_tokens),
        "tpot_mean_ratio": lambda: ratio_of(
            _mean(canary, "tpot", least_requests), _mean(baseline, "tpot", least_requests)
        ),
        "ttft_mean_ratio": lambda: ratio_of(
            _mean(canary, "ttft", least_requests), _mean(baseline, "ttft", least_requests)
        ),
        "error_share": lambda: difference_of(_errors(canary, least_requests), _errors(baseline, least_requests)),
        "restarts": lambda: _restarts(canary),
    }
    return {name: make[name]() for name in wanted}


def traffic_share(
    canary: CountedArm, baseline: CountedArm, probes: tuple[int, int], least_requests: int
) -> tuple[float | None, str | None]:
    """The canary's part of the requests that both arms ended, our own `probes` (canary's, baseline's) left out; None
    with the reason. Fewer than `least_requests` others may be probes that ended at the window's edges."""
    found = []
    for name, arm, own in (("canary", canary, probes[0]), ("baseline", baseline, probes[1])):
        requests = arm.requests
        if requests is None:
            return None, f"not known ({name}: {'its requests are not counted' if arm.blocks else arm.why_nothing})"
        found.append(max(requests - own, 0.0))
    if sum(found) < least_requests:
        ours = " but our own" if sum(probes) else ""
        return None, f"not known ({sum(found):.0f} requests{ours}; at least {least_requests} are needed)"
    return found[0] / sum(found), None


def _acceptance(arm: CountedArm, least: int) -> Estimate:
    columns = arm.columns("accepted_tokens", "draft_tokens")
    if isinstance(columns, str):
        return nothing(columns, COUNTERS, unit="blocks")
    (accepted, drafted), blocks = columns
    if drafted.sum() < least:
        return nothing(f"{drafted.sum():.0f} drafted tokens; at least {least} are needed", COUNTERS, unit="blocks")
    return ratio_of_sums_clustered(accepted, drafted, blocks, unit="blocks", source=COUNTERS)


def _rollback(arm: CountedArm, least: int) -> Estimate:
    columns = arm.columns("drafts", "draft_tokens")
    if isinstance(columns, str):
        return nothing(columns, COUNTERS, unit="blocks")
    (rounds, drafted), blocks = columns
    if drafted.sum() < least:
        return nothing(f"{drafted.sum():.0f} drafted tokens; at least {least} are needed", COUNTERS, unit="blocks")
    bounds = np.array([_bounds(counters, arm.artefact) for counters in arm.blocks.values()])
    if np.isnan(bounds).any():
        return nothing("the counters do not tell positions", COUNTERS, unit="blocks")
    low, high = (
        ratio_of_sums_clustered(np.minimum(bounds[:, i], rounds), rounds, blocks, unit="blocks", source=COUNTERS,
                                share=True)
        for i in (0, 1)
    )  # fmt: skip
    return between(low, high)


def _bounds(counters: Counters, artefact: bool | None) -> tuple[float, float]:
    """Rounds with a rejection, at least and at most. Looks between two steps may contradict themselves at a block's
    edges, and then say nothing."""
    rounds, drafted = round(counters.deltas["drafts"]), round(counters.deltas["draft_tokens"])
    if not rounds:
        return 0.0, 0.0
    at = counters.by_position.get("accepted_at")
    if at is None:
        return np.nan, np.nan
    try:
        bounds = from_positions(rounds, drafted, [round(a) for a in at], zero_length_rounds=True)
    except ValueError:
        return 0.0, float(rounds)
    suspect = artefact or (artefact is None and drafted == len(at) * rounds)
    return 0.0 if suspect else float(bounds.low), float(bounds.high)


def _mean(arm: CountedArm, name: str, least: int) -> Estimate:
    columns = arm.columns(f"{name}_sum", f"{name}_count")
    if isinstance(columns, str):
        return nothing(columns, COUNTERS, unit="blocks")
    (seconds, n), blocks = columns
    if n.sum() < least:
        return nothing(f"{n.sum():.0f} requests; at least {least} are needed", COUNTERS, unit="blocks")
    return ratio_of_sums_clustered(seconds, n, blocks, unit="blocks", source=COUNTERS, share=False)


def _requests(arm: CountedArm) -> tuple[Floats, Floats, Ints] | None:
    """Failed and asked, by block: without what clients gave up."""
    failed, asked = [], []
    for counters in arm.blocks.values():
        ends = counters.by_detail.get("requests_finished")
        if ends is None:
            return None
        refused = sum(counters.by_detail.get("requests_rejected", {}).values())
        counted = {end: n for end, n in ends.items() if end not in _CLIENTS}
        asked.append(sum(counted.values()) + refused)
        failed.append(sum(n for end, n in counted.items() if end not in _FINE) + refused)
    if not arm.blocks:
        return None
    return np.array(failed), np.array(asked), np.array(list(arm.blocks), dtype=np.int64)


def _errors(arm: CountedArm, least: int) -> Estimate:
    found = _requests(arm)
    if found is None:
        return nothing(arm.why_nothing if not arm.blocks else "the server does not count its requests", COUNTERS)
    failed, asked, blocks = found
    if asked.sum() < least:
        return nothing(f"{asked.sum():.0f} requests; at least {least} are needed", COUNTERS, round(asked.sum()))
    return share_of(failed, asked, blocks, "blocks", COUNTERS)


def _restarts(arm: CountedArm) -> Estimate:
    """Counted, so it is its own interval."""
    if not arm.blocks:
        return nothing(arm.why_nothing, COUNTERS, unit="looks")
    n = float(arm.restarts)
    return Estimate(n, n, n, len(arm.blocks), "blocks", "counted", COUNTERS)
