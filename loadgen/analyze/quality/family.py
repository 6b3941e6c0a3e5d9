"""All tests of one run together: a healthy pair of arms raises a false alarm in at most one run of a hundred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.statistics.multiple import holm

#: Chance of one or more false alarms in a run that is promised, and the level the family is tested at: a fifth of it,
#: so that some hundreds of healthy runs can show the promise (docs/quality.md, "False alarms").
PROMISED = 0.01
FAMILY_LEVEL = 0.002


@dataclass(frozen=True, slots=True)
class Family:
    """`adjusted`: p of every test made, corrected for all of them; an alarm is one at or below `level`.

    `not_made`: tests without a p.
    """

    level: float
    adjusted: dict[str, float]
    alarms: tuple[str, ...]
    not_made: tuple[str, ...]


def family(pvalues: Mapping[str, float | None], level: float = FAMILY_LEVEL) -> Family:
    """Holm's correction (1979): whatever the dependence between tests, P(any false alarm) <= `level`."""
    if not 0 < level < 1:
        raise ValueError(f"0 < level < 1 expected, not {level}")
    made = {name: p for name, p in pvalues.items() if p is not None}
    adjusted = dict(zip(made, holm(np.array(list(made.values()))).tolist(), strict=True))
    alarms = tuple(name for name, p in adjusted.items() if p <= level)
    return Family(level, adjusted, alarms, tuple(name for name in pvalues if name not in made))


def per_test_level(tests: int, level: float = FAMILY_LEVEL) -> float:
    """Level of the strictest of `tests` tests: what power is stated at."""
    return level / tests
