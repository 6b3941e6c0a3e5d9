"""When the users of a closed loop come and go: plateaus, and ramps linear in time.

A slot is one user: it sends its next request when its last one has ended.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.types import NEVER

#: The first requests of a plateau are spread over this share of its duration, at most `_SPREAD_NS`.
_SPREAD_SHARE = 0.02
_SPREAD_NS = 1_000_000_000
#: … and where the duration is not known, over this, or over a millisecond for each slot: more starts a second than that
#: are late on one core, and a thousand connects at once overflow a server's listen queue.
_SPREAD_UNTIMED_NS = 100_000_000
_SPREAD_SLOT_NS = 1_000_000

Times = NDArray[np.int64]


def plateau(concurrency: int, duration_ns: int | None) -> tuple[Times, Times]:
    """Starts and stops of `concurrency` slots, (slots,) int64 ns.

    The starts are spread evenly over min(1 s, 2 % of the duration), or, where the plateau ends by number of requests,
    over 0.1 s or 1 ms for each slot, whichever is longer: users that start as one stay one where answers are equally
    long, and then a wave is measured, not a level (vllm#13412). The full level is reached at the last start; the
    time-mean of the slots over the whole of a timed plateau is at least 99 % of it.
    """
    if duration_ns is None:
        spread = max(_SPREAD_UNTIMED_NS, concurrency * _SPREAD_SLOT_NS)
    else:
        spread = min(_SPREAD_NS, int(duration_ns * _SPREAD_SHARE))
    start = np.arange(concurrency, dtype=np.int64) * spread // concurrency
    return start, np.full(concurrency, NEVER if duration_ns is None else duration_ns, dtype=np.int64)


def ramp(start: float, end: float, duration_ns: int) -> tuple[Times, Times]:
    """Starts and stops of the slots of a level that goes linearly in time from `start` to `end`.

    Slot j (from 0) runs while the level is at least j + ½: the number of slots is the level rounded to
    the nearest whole, so its time-mean is the ramp's (exactly, between whole levels). Up-ramps
    start slots, down-ramps stop them, the last started first. Slots of the first level start at once:
    spreading them would bend the ramp. Empty where the level never reaches ½.
    """
    slots = int(np.floor(max(start, end) + 0.5))
    level = np.arange(slots, dtype=np.float64) + 0.5
    begins = np.zeros(slots, dtype=np.int64)
    stops = np.full(slots, duration_ns, dtype=np.int64)
    if start != end:
        reached = np.clip((level - start) / (end - start), 0.0, 1.0)
        crossing = np.rint(reached * duration_ns).astype(np.int64)
        if end > start:
            begins = crossing
        else:
            stops = crossing
    lived = begins < stops
    return begins[lived], stops[lived]
