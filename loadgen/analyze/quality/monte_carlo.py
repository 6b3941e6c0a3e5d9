"""p-values from permutations drawn one after the other until enough is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from loadgen.analyze.statistics.types import Floats

#: Permutations, at most unless more are asked for: the smallest p is 1 / 10,000, with which the strictest of 20 tests
#: at 0.2 % can still alarm.
_BLOCKS = (200, 800, 3000, 5999)
MOST_DRAWS = sum(_BLOCKS)
#: Permutations as extreme as the data after which drawing ends: p is then at least 10 / 9,999.
ENOUGH = 10


def permutation_p(
    draw: Callable[[np.random.Generator, int], Floats],
    observed: float,
    seed: int,
    scale: float = 1.0,
    most: int = MOST_DRAWS,
) -> tuple[float, int, Floats]:
    """(p, permutations drawn, the first block of drawn statistics); large statistics are extreme.

    Sequential Monte Carlo (Besag and Clifford 1991): p = 10 / l where the l-th permutation is the tenth that reaches
    `observed`; where `most` are drawn first, p = (1 + reached) / (1 + `most`). Valid at any level, and a healthy pair
    costs a fiftieth of what a broken one does. `draw(rng, n)`: n statistics under exchanged labels;
    `scale`: size of the numbers they are sums of, below which differences are rounding.
    """
    rng = np.random.default_rng(seed)
    # sums in another order round otherwise: equal statistics count as reached
    at_least = observed - 1e-9 * max(abs(observed), scale)
    reached, drawn = 0, 0
    first: Floats | None = None
    for size in _sizes(most):
        block = draw(rng, size)
        first = block if first is None else first
        at = np.flatnonzero(block >= at_least)
        if reached + len(at) >= ENOUGH:
            needed = drawn + int(at[ENOUGH - reached - 1]) + 1
            return ENOUGH / needed, needed, first
        reached, drawn = reached + len(at), drawn + size
    assert first is not None
    return (1 + reached) / (1 + drawn), drawn, first


def draws_for(tests: int, level: float) -> int:
    """So many that the strictest of `tests` tests of a family at `level` can alarm, with a factor of 2 to spare."""
    return max(MOST_DRAWS, math.ceil(2 * tests / level))


def _sizes(most: int) -> Iterator[int]:
    """The first blocks are the same for any `most`, so that the moments of the first are."""
    left = most
    for size in _BLOCKS:
        yield min(size, left)
        left -= min(size, left)
    while left > 0:
        yield min(_BLOCKS[-1], left)
        left -= _BLOCKS[-1]
