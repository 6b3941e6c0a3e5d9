"""Rollback from counts: exact where the counts determine it, else the tight interval.

With D rounds, T drafted tokens, a_j rounds that accepted position j (0-based) and the
greatest draft length k, the number of rounds with a rejection is known only if every
draft was full (T = kD). Otherwise it lies in [low, high]; both ends are attained by some
history, so no better bound exists from these counts (docs/method.md, "Rollback").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Rounds with at least one rejected draft token: low <= truth <= high."""

    low: int
    high: int

    @property
    def determined(self) -> bool:
        """The counts allow one value only; published as exact where they are no artefact of the method."""
        return self.low == self.high


def from_steps(accepted: Sequence[int], drafted: Sequence[int]) -> Rollbacks:
    """Per-round arrays: exact."""
    if len(accepted) != len(drafted):
        raise ValueError(f"{len(accepted)} accepted entries for {len(drafted)} rounds")
    n = sum(a < d for a, d in zip(accepted, drafted, strict=True))
    return Rollbacks(n, n)


def from_positions(
    rounds: int, drafted: int, accepted_at: Sequence[int], *, zero_length_rounds: bool = False
) -> Rollbacks:
    """Bounds from D, T and per-position accepted counts (k = len(accepted_at)).

    `zero_length_rounds`: rounds with no draft left are possible (structured output under
    async scheduling). Counts that contradict each other raise ValueError.
    """
    k = len(accepted_at)
    missing = k * rounds - drafted
    rejected = drafted - sum(accepted_at)
    counts = (rounds, *accepted_at)
    if missing < 0 or rejected < 0 or any(b > a for a, b in pairwise(counts)):
        raise ValueError(f"impossible counts: rounds {rounds}, drafted {drafted}, accepted_at {list(accepted_at)}")
    full = accepted_at[-1] if k else rounds
    high = min(rounds - full, rejected)
    low = max(rounds - full - _short_but_full(counts, k, missing, 0 if zero_length_rounds else 1), 0)
    if low > high:
        raise ValueError(f"impossible counts: rounds {rounds}, drafted {drafted}, accepted_at {list(accepted_at)}")
    return Rollbacks(low, high)


def from_histogram(histogram: Sequence[int], drafted: int, *, zero_length_rounds: bool = False) -> Rollbacks:
    """Bounds from rounds by accepted count (length k + 1) and drafted tokens."""
    rounds = sum(histogram)
    accepted_at = [sum(histogram[j + 1 :]) for j in range(len(histogram) - 1)]
    return from_positions(rounds, drafted, accepted_at, zero_length_rounds=zero_length_rounds)


def _short_but_full(counts: Sequence[int], k: int, missing: int, shortest: int) -> int:
    """Most rounds that can have been shorter than k and wholly accepted, with `missing` empty slots."""
    total = 0
    for j in range(k - 1, shortest - 1, -1):
        exactly_j = counts[j] - counts[j + 1]
        n = min(exactly_j, missing // (k - j))
        total += n
        missing -= n * (k - j)
    return total
