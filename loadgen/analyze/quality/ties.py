"""Near ties: how far apart the two tokens at a divergence are, and how far apart numerics alone can be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.analyze.percentiles import nearest_rank

#: No near tie is narrower than this (docs/quality.md, "Limit"), in nat.
MARGIN_FLOOR_NAT = 0.1
#: A margin has the numerics of both arms twice: where they parted and where they were asked again.
NUMERICS_TIMES = 2
#: Numerics of an arm are known from so many positions on; what they leave open is never wider than this, in nat.
FEWEST_POSITIONS, WIDEST_NAT = 20, 1.0


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
    """Margins up to `nat` are near ties (METHOD, Quality), those beyond `sure_nat` are none, and nobody knows of those
    between: the candidate's own numerics may have made them. `n`: baseline-against-baseline margins that `nat` is of.
    `positions`: places where the arms' numerics were compared, and `numerics_nat`: the P99 of how far their log
    probabilities are apart there; None where there are too few."""

    nat: float = MARGIN_FLOOR_NAT
    n: int = 0
    sure_nat: float = 0.0
    positions: int = 0
    numerics_nat: float | None = None

    @property
    def too_wide(self) -> bool:
        """Whether the baseline parts from itself by more than rounding makes: then what is a near tie is not known."""
        return self.nat > WIDEST_NAT

    @property
    def too_far(self) -> bool:
        """Whether the arms' log probabilities are farther apart than rounding makes them."""
        return self.numerics_nat is not None and NUMERICS_TIMES * self.numerics_nat > WIDEST_NAT


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


def with_numerics(limit: NearTieLimit, differences: Sequence[float]) -> NearTieLimit:
    """The limit for one candidate. `differences`: by how much the gap between the two likeliest tokens differs between
    baseline and candidate (nat), where both say the same so far. Where steady rounding sets the arms apart, its size is
    seen there, too: a margin up to twice their P99 is no near tie and may be its work, so that nothing is proven. With
    few positions (fewer than `FEWEST_POSITIONS`) that holds up to `WIDEST_NAT`."""
    n = len(differences)
    if n < FEWEST_POSITIONS:
        return replace(limit, sure_nat=max(limit.nat, WIDEST_NAT), positions=n)
    p99 = float(nearest_rank(np.sort(np.abs(np.array(differences))), 99))
    sure_nat = max(limit.nat, min(NUMERICS_TIMES * p99, WIDEST_NAT))
    return replace(limit, sure_nat=sure_nat, positions=n, numerics_nat=p99)


def between(found: Margin | None, limit: NearTieLimit) -> bool:
    """Whether a margin is known to be no near tie, and may be the work of the candidate's own numerics."""
    return found is not None and limit.nat < found.nat <= limit.sure_nat


def near_tie(found: Margin | None, limit: NearTieLimit) -> bool | None:
    """Whether a divergence is numerics; None: not known (not asked, the tokens told do not reach far enough, or the
    margin is within what the arms' numerics may be)."""
    if found is None or (found.at_least and found.nat <= limit.nat):
        return None
    if found.nat <= limit.nat:
        return True
    return None if found.nat <= limit.sure_nat else False
