"""Near ties: how far apart the two tokens at a divergence are, and how far apart numerics alone can be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.percentiles import nearest_rank

#: No near tie is narrower than this (docs/method.md, "Quality"), in nat.
MARGIN_FLOOR_NAT = 0.1


@dataclass(frozen=True, slots=True)
class Margin:
    """Distance in nat between the log probabilities of the two arms' tokens at a divergence: the larger of both arms'.

    `at_least`: a token was not among the top ones told, so the margin is this or more. `unlikely`: the candidate's is
    among the top ones of neither arm.
    """

    nat: float
    at_least: bool = False
    unlikely: bool = False


@dataclass(frozen=True, slots=True)
class NearTieLimit:
    """Margins up to `nat` are numerics. `n`: baseline-against-baseline margins it was taken from."""

    nat: float = MARGIN_FLOOR_NAT
    n: int = 0


def margin(
    baseline: Mapping[Hashable, float], candidate: Mapping[Hashable, float], ours: Hashable, theirs: Hashable
) -> Margin:
    """Margin at a divergence where the baseline's token is `ours` and the candidate's `theirs`.

    `baseline`, `candidate`: top log probabilities (nat) each arm gave when asked again with the common prefix for one
    token. Raises ValueError where an arm told none, or the same token is given twice.
    """
    if ours == theirs or not baseline or not candidate:
        raise ValueError("two tokens and the top log probabilities of both arms expected")
    gaps = [_gap(top, ours, theirs) for top in (baseline, candidate)]
    widest = max(gap.nat for gap in gaps)
    unlikely = theirs not in baseline and theirs not in candidate
    return Margin(widest, any(gap.at_least for gap in gaps), unlikely)


def _gap(top: Mapping[Hashable, float], ours: Hashable, theirs: Hashable) -> Margin:
    if ours in top and theirs in top:
        return Margin(abs(top[ours] - top[theirs]))
    least = min(top.values())
    known = [top[token] for token in (ours, theirs) if token in top]
    # a token that is not told lies at or below the least that is
    return Margin(known[0] - least if known else 0.0, at_least=True)


def near_tie_limit(floor_margins: Sequence[Margin]) -> NearTieLimit:
    """P99 (nearest rank) of the margins at baseline-against-baseline divergences, at least `MARGIN_FLOOR_NAT`.

    A margin that is only known to be "at least" so much counts as that much.
    """
    if not floor_margins:
        return NearTieLimit()
    p99 = float(nearest_rank(np.sort(np.array([m.nat for m in floor_margins])), 99))
    return NearTieLimit(max(p99, MARGIN_FLOOR_NAT), len(floor_margins))


def near_tie(found: Margin | None, limit: NearTieLimit) -> bool | None:
    """Whether a divergence is numerics; None: not known (not asked, or the tokens told do not reach far enough)."""
    if found is None:
        return None
    if found.at_least:
        return False if found.nat > limit.nat else None
    return found.nat <= limit.nat
