"""p-values from permutations drawn one after the other until enough is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loadgen.analyze.statistics.types import Floats

#: Permutations at most: the smallest p is 1 / 10,000, with which the strictest of 20 tests at 0.2 % can still alarm.
_BLOCKS = (200, 800, 3000, 5999)
MOST_DRAWS = sum(_BLOCKS)
#: Permutations as extreme as the data after which drawing ends: p is then at least 10 / 9,999.
ENOUGH = 10


def permutation_p(
    draw: Callable[[np.random.Generator, int], Floats], observed: float, seed: int, scale: float = 1.0
) -> tuple[float, int, Floats]:
    """(p, permutations drawn, the first block of drawn statistics); large statistics are extreme.

    Sequential Monte Carlo (Besag and Clifford 1991): p = 10 / l where the l-th permutation is the tenth that reaches
    `observed`; where all 9,999 are drawn first, p = (1 + reached) / 10,000. Valid at any level, and a healthy pair
    costs a fiftieth of what a broken one does. `draw(rng, n)`: n statistics under exchanged labels;
    `scale`: size of the numbers they are sums of, below which differences are rounding.
    """
    rng = np.random.default_rng(seed)
    # sums in another order round otherwise: equal statistics count as reached
    at_least = observed - 1e-9 * max(abs(observed), scale)
    reached, drawn = 0, 0
    first: Floats | None = None
    for size in _BLOCKS:
        block = draw(rng, size)
        first = block if first is None else first
        at = np.flatnonzero(block >= at_least)
        if reached + len(at) >= ENOUGH:
            needed = drawn + int(at[ENOUGH - reached - 1]) + 1
            return ENOUGH / needed, needed, first
        reached, drawn = reached + len(at), drawn + size
    assert first is not None
    return (1 + reached) / (1 + drawn), drawn, first
