"""Mann-Whitney, Hodges-Lehmann and the common-language effect size for unpaired windows."""

from __future__ import annotations

from loadgen.analyze.statistics.types import LEVEL, Floats, MannWhitney


def mann_whitney(a: Floats, b: Floats, *, level: float = LEVEL, source: str = "client") -> MannWhitney:
    """Two independent samples of finite values."""
    raise NotImplementedError
