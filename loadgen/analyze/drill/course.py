"""The drill's load piece by piece: who answered, what was lost, how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from loadgen.analyze.columns import Bools, Floats
from loadgen.analyze.drill.counters import Rise, counter
from loadgen.analyze.drill.rows import FALLBACK, SPECULATING
from loadgen.analyze.drill.seen import Seen, count
from loadgen.analyze.found.drill import CourseBin

MOST_BINS = 60
_WIDTHS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)


def course_of(seen: Seen, end_ns: int) -> list[CourseBin]:
    """Pieces of equal length from the begin of the load to `end_ns`, at most 60."""
    total_s = (end_ns - seen.begin_ns) / 1e9
    if total_s <= 0:
        return []
    width = next((w for w in _WIDTHS_S if total_s / w <= MOST_BINS), total_s / MOST_BINS)
    edges = [i * width for i in range(math.ceil(total_s / width) + 1)]
    begun, ended = ((ns - seen.begin_ns) / 1e9 for ns in (seen.rows.begin_ns, seen.rows.end_ns))
    rises = seen.speculating.rises(counter("accepted_tokens")) if seen.speculating.any else None
    return [
        _bin(seen, low, high, (begun >= low) & (begun < high), (ended >= low) & (ended < high), rises)
        for low, high in pairwise(edges)
    ]


def _bin(
    seen: Seen, low: float, high: float, begun: Bools, ended: Bools, rises: Sequence[Rise] | None
) -> CourseBin:  # fmt: skip
    rows, side = seen.rows, seen.sides.side
    answered = begun & rows.ok
    return CourseBin(
        from_s=low,
        to_s=high,
        speculating=count(begun & (side == SPECULATING)),
        fallback=count(begun & (side == FALLBACK)),
        unknown=count(begun & (side < FALLBACK)),
        lost=count(ended & rows.lost),
        ttft_s=_median(rows.ttft_s[answered]),
        tpot_s=_median(rows.tpot_s[answered]),
        accepted_per_s=None if rises is None else _accepted(seen, rises, low, high),
    )


def _accepted(seen: Seen, rises: Sequence[Rise], low: float, high: float) -> float:
    """A rise counts where its second scrape was answered."""
    at = [((rise.high_ns - seen.begin_ns) / 1e9, rise.by) for rise in rises]
    return sum(by for s, by in at if low <= s < high) / (high - low)


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
