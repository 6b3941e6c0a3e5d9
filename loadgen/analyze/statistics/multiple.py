"""Multiple comparisons."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.statistics.types import Floats


def bonferroni(level: float, m: int) -> float:
    """Level of each of `m` intervals that hold together with at least `level`: 1 - (1 - level) / m."""
    if not 0 < level < 1 or m < 1:
        raise ValueError(f"0 < level < 1 and m >= 1 expected, not {level} and {m}")
    return 1 - (1 - level) / m


def holm(pvalues: Floats) -> Floats:
    """Adjusted p-values in the order given (Holm 1979): reject where adjusted <= alpha."""
    p = np.asarray(pvalues, dtype=np.float64)
    if np.any(~((p >= 0) & (p <= 1))):
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
