"""Uneven choices: real text prefers a few of its options, by about the inverse of their rank."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
_EXPONENT = 1.3
_MAX_OPTIONS = 256
_CUMULATIVE = list(accumulate((rank + 1) ** -_EXPONENT for rank in range(_MAX_OPTIONS)))


def pick(rng: random.Random, options: Sequence[T]) -> T:
    """One option; option r (from 0) with a weight of (r + 1) ** -1.3 (Zipf)."""
    return rng.choices(options, cum_weights=_CUMULATIVE[: len(options)])[0]
