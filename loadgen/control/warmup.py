"""Has the server settled? Asked after every window of warm-up (docs/comparison.md, "Warm-up")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: So many windows in a row must agree.
AGREEING = 3


@dataclass(frozen=True, slots=True)
class WarmUpWindow:
    """One window of warm-up: `ok` of its `requests` were answered, with `seconds_per_token` (time from sent to the end,
    summed over requests, by output tokens); None where no token came. All windows of a warm-up ask the same requests,
    so this number differs by the server's state and noise alone."""

    requests: int
    ok: int
    seconds_per_token: float | None


@dataclass(frozen=True, slots=True)
class Settling:
    """`over`: no further window. `settled`: the last three agreed; None where only one window was asked for, so that
    nothing could be seen. `spread`: (largest − smallest) ÷ smallest of the last three."""

    over: bool
    settled: bool | None
    spread: float | None
    reason: str


def settle(windows: Sequence[WarmUpWindow], agree_within: float, most: int) -> Settling:
    """Whether warm-up is over after these windows: when three in a row agree within `agree_within`, or after `most`."""
    if most == 1:
        return Settling(True, None, None, "as much warm-up as the scenario says")
    last = [w.seconds_per_token for w in windows[-AGREEING:]]
    known = [s for s in last if s is not None]
    spread = (max(known) - min(known)) / min(known) if len(known) == AGREEING and min(known) > 0 else None
    if spread is not None and spread <= agree_within:
        return Settling(True, True, spread, f"three windows agree within {spread:.1%}")
    if len(windows) < most:
        return Settling(False, False, spread, "not yet")
    seen = "the last three windows had no tokens" if len(known) < len(last) else "there were fewer than three windows"
    if spread is not None:
        seen = f"the last three differ by {spread:.1%}, and {agree_within:.0%} is asked for"
    return Settling(True, False, spread, f"not settled after {len(windows)} windows: {seen}")
