"""Speculation window by window from the server's counters, where responses tell nothing of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from loadgen.analyze.arms import ArmData
from loadgen.analyze.columns import Floats
from loadgen.analyze.soak.family import Series
from loadgen.analyze.soak.windows import Windows
from loadgen.analyze.values import COUNTERS
from loadgen.observe import window
from loadgen.record import RunData

_NEEDED = ("drafts", "draft_tokens", "accepted_tokens")
#: Scrapes looked at before and after a window: the last before its start and the first after its end are its edges
_BESIDE_NS = 120 * 10**9
_NO_ROLLBACK = "counters do not tell which rounds were rolled back"


class Make(Protocol):
    def __call__(self, windows: Windows, name: str, values: Floats, source: str, why: str) -> Series: ...


def counted(
    run: RunData, data: ArmData, windows: Windows, names: Sequence[str], make: Make, fewest_rounds: int
) -> list[Series]:
    """α, rollback rate and E under `names`; foreign traffic is in them. Windows in which the counters were reset, or
    whose edges no scrape is near, have none."""
    rounds, drafted, accepted = _increases(run, data, windows)
    enough = rounds >= fewest_rounds
    nothing = np.full(windows.n, np.nan)
    alpha = np.divide(accepted, drafted, out=nothing.copy(), where=enough & (drafted > 0))
    emitted = 1 + np.divide(accepted, rounds, out=nothing.copy(), where=enough)
    why = f"neither responses nor counters tell of {fewest_rounds} rounds in a window"
    return [
        make(windows, names[0], alpha, COUNTERS, why),
        make(windows, names[1], nothing, COUNTERS, _NO_ROLLBACK),
        make(windows, names[2], emitted, COUNTERS, why),
    ]


def _increases(run: RunData, data: ArmData, windows: Windows) -> Floats:
    """(3, n) increases of `_NEEDED`; NaN where not whole."""
    arm, model = data.frame.arm, data.setting.facts.model
    scrapes = sorted((s for s in run.scrapes if s.arm == arm), key=lambda s: s.answered_ns)
    stamps = [s.answered_ns for s in scrapes]
    found = np.zeros((len(_NEEDED), windows.n))
    for of, (start, end) in zip(windows.of.tolist(), windows.spans, strict=True):
        near = scrapes[bisect_left(stamps, start - _BESIDE_NS) : bisect_right(stamps, end + _BESIDE_NS)]
        seen = window(near, arm, model, start, end)
        whole = not seen.restarts and not seen.incomplete
        found[:, of] += [seen.deltas.get(name, np.nan) if whole else np.nan for name in _NEEDED]
    return found
