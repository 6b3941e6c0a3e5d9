"""A drift as a sentence with its numbers."""

from __future__ import annotations

from loadgen.analyze.soak.dating import Drift

_HOW = {
    "jump": "at once",
    "ramp": "slowly",
    "either": "at once or slowly, which cannot be told",
}
_MEGA = 1e6


def sentence(name: str, unit: str, drift: Drift) -> str:
    """Size with its interval, first level, when."""
    low, high = sorted((abs(drift.size_low), abs(drift.size_high)))
    if drift.size_low * drift.size_high < 0:
        low = 0.0
    word = "rose" if drift.size > 0 else "fell"
    text = (
        f"{name} {word} by {_size(abs(drift.size), unit)} ({_size(low, unit)} to {_size(high, unit)}) from "
        f"{_size(drift.before, unit)}, {_HOW[drift.shape]}, beginning at minute {drift.start_s / 60:.1f} "
        f"({max(drift.start_low_s, 0) / 60:.1f} to {drift.start_high_s / 60:.1f})"
    )
    return text if drift.shape == "jump" else f"{text}, up to minute {drift.end_s / 60:.1f}"


def _size(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value * 100:.2f} %"
    if unit == "bytes":
        return f"{value / _MEGA:.1f} MB"
    if unit == "s":
        return f"{value * 1e3:.4g} ms"
    return f"{value:.4g}"
