"""The draft length with the highest net throughput, and which others cannot be told from it (docs/sweeps.md).

Multiple comparisons with the best (Hsu 1984): a length is as good as the best one as far as anybody can tell unless a
one-sided t interval, Bonferroni over the others, puts it below. Visits of one repeat are one block: the level of the
repeat is taken out (randomised blocks), so drift between repeats does not widen the comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.curves.observed import Observed, joined, observe
from loadgen.analyze.statistics.distributions import t_quantile

_ERROR = 0.05


@dataclass(frozen=True, slots=True)
class BestK:
    """`k` with the highest mean net throughput; 0: speculation off. None: nothing was measured.

    `candidates`: every tested k that cannot be told from the best, itself among them; `low` and `high` the smallest and
    largest. None where no noise is known. `value`: geometric mean of the net throughput at `k`, `over_off` its ratio
    to k = 0 (None where that was not tested). `paired`: repeats were compared within themselves. `n`: observations.
    """

    k: int | None
    low: int | None
    high: int | None
    candidates: tuple[int, ...] | None
    value: float | None
    over_off: float | None
    paired: bool
    n: int
    method: str
    reason: str | None


def best_k(ks: Ints, net: Floats, *, paired: bool = True) -> BestK:
    """`ks` (K,) draft lengths, `net` (K, R) net throughput (or speedup) of each visit, NaN absent.

    `paired`: column r holds visits of the same repeat; with an absent one among them repeats are not compared within
    themselves, so that nothing measured is left out. Raises ValueError for shapes that do not match or a k given twice.
    """
    seen = observe(np.asarray(ks, dtype=np.float64), net, positive=True)
    seen = Observed(seen.levels, np.log(seen.values), seen.note)
    whole = bool(np.isfinite(seen.values).all())
    blocks = paired and whole and seen.values.shape[1] > 1 and len(seen.levels) > 1
    method = f"highest mean of logarithms; {'repeats as blocks' if blocks else 'unpaired'}; comparison with the best"
    if not len(seen.levels):
        return BestK(None, None, None, None, None, None, False, 0, method, joined("nothing was measured", seen.note))
    tested, means = [int(k) for k in seen.levels], seen.means
    best = int(means.argmax())
    variance, dof = _noise(seen, blocks)
    over_off = math.exp(means[best] - means[tested.index(0)]) if 0 in tested else None
    found: tuple[int, ...] | None = None
    why = "only one draft length was measured" if len(tested) == 1 else None
    if dof and len(tested) > 1:
        near = _as_good(means, seen.counts, best, variance, dof)
        found = tuple(k for k, kept in zip(tested, near, strict=True) if kept)
    elif len(tested) > 1:
        why = "not enough data for a comparison: every draft length was visited once"
    low, high = (found[0], found[-1]) if found else (None, None)
    value = math.exp(means[best])
    why = joined(why, _words(tested[best], found), _broken(paired, whole), seen.note)
    return BestK(tested[best], low, high, found, value, over_off, blocks, seen.n, method, why)


def _noise(seen: Observed, blocks: bool) -> tuple[float, int]:
    """Variance of one observation, and its degrees of freedom."""
    if not blocks:
        return seen.variance, seen.dof
    y = seen.values
    left = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    dof = (y.shape[0] - 1) * (y.shape[1] - 1)
    return float(np.square(left).sum()) / dof, dof


def _as_good(means: Floats, counts: Floats, best: int, variance: float, dof: int) -> Bools:
    t = t_quantile(1 - _ERROR / (len(means) - 1), dof)
    reach = t * np.sqrt(variance * (1 / counts + 1 / counts[best]))
    near = means[best] - means <= reach
    near[best] = True
    return cast("Bools", near)


def _words(best: int, found: tuple[int, ...] | None) -> str | None:
    if best == 0:
        told = found is None or len(found) == 1
        return "off is best" if told else f"off is best, but not told from {_others(found or (), 0)}"
    if found and 0 in found:
        return "not told from off"
    return None


def _others(found: tuple[int, ...], best: int) -> str:
    return "k = " + ", ".join(str(k) for k in found if k != best)


def _broken(paired: bool, whole: bool) -> str | None:
    return "repeats are incomplete: not compared within themselves" if paired and not whole else None
