"""Whether a number goes one way over time (docs/findings.md, "acceptance_drifting_down")."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from loadgen.analyze.columns import Floats


@dataclass(frozen=True, slots=True)
class Trend:
    """`tau` in [-1, 1]: below 0 = falling. `p`: two-sided, of no trend (normal approximation, ties counted)."""

    tau: float
    p: float


def kendall(values: Floats) -> Trend:
    """Mann–Kendall (Mann 1945, Kendall 1975) of values in order of time; at least 3."""
    n = len(values)
    signs = np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)]
    score = float(signs.sum())
    _, counts = np.unique(values, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((counts * (counts - 1) * (2 * counts + 5)).sum())) / 18
    if variance <= 0:
        return Trend(0.0, 1.0)
    z = (score - np.sign(score)) / sqrt(variance)
    return Trend(score / (n * (n - 1) / 2), erfc(abs(float(z)) / sqrt(2)))
