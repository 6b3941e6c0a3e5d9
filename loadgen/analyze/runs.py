"""Runs of consecutive rollbacks, and whether they go with the tail (docs/method.md, "Runs of rollbacks")."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.percentiles import SMALLEST_N, nearest_rank
from loadgen.analyze.rollback import doubt
from loadgen.analyze.spec_counts import Drafts
from loadgen.analyze.summary import N, RollbackRuns
from loadgen.analyze.values import PER_REQUEST, absent, exact, ratio

#: Consecutive rollbacks that make a run worth counting
RUN = 3


def rollback_runs(frame: Frame, rows: Ints, drafts: Drafts | None, why: str, artefact: bool | None) -> RollbackRuns:
    """`why`: no draft statistics. `artefact`: see `rollback`; runs of rounds that were no drafts mean nothing."""
    if drafts is None:
        return _nothing(why)
    told = rows[frame.ok[rows] & frame.stats.told[rows]]
    rounds = frame.stats.by_round
    mine = told[rounds.told[told]]
    if not len(mine):
        return _nothing("the server tells no rounds one by one")
    reason = doubt(frame, mine, artefact)
    if reason is not None:
        return _nothing(reason)
    without = int((frame.stats.rounds[told] > 0).sum()) - len(mine)
    note = f"{without} requests tell no rounds one by one" if without > 0 else None
    runs, longest = int(rounds.runs[mine].sum()), int(rounds.longest_run[mine].max())
    return RollbackRuns(
        longest=exact(longest, len(mine), PER_REQUEST, note),
        mean=ratio(float(rounds.rejected[mine].sum()), runs, PER_REQUEST, "no round was rolled back", note=note),
        share=_share(frame, mine, note),
        share_in_tpot_tail=_in_tail(frame, mine, frame.tpot_s, "TPOT"),
        share_in_total_time_tail=_in_tail(frame, mine, frame.total_time_s, "total time"),
    )


def _nothing(why: str) -> RollbackRuns:
    none = absent(why)
    return RollbackRuns(longest=none, mean=none, share=none, share_in_tpot_tail=none, share_in_total_time_tail=none)


def _share(frame: Frame, mine: Ints, note: str | None) -> N:
    hit = int((frame.stats.by_round.longest_run[mine] >= RUN).sum())
    return ratio(hit, len(mine), PER_REQUEST, "no request", note=note)


def _in_tail(frame: Frame, mine: Ints, numbers: Floats, name: str) -> N:
    """Streams above the P95 of all of them that tell their rounds."""
    timed = mine[frame.stream[mine] & ~np.isnan(numbers[mine])]
    if len(timed) < SMALLEST_N["p95"]:
        why = f"P95 of {name} needs at least {SMALLEST_N['p95']} streams that tell their rounds, there are {len(timed)}"
        return absent(why, len(timed), PER_REQUEST)
    tail = timed[numbers[timed] > nearest_rank(np.sort(numbers[timed]), 95)]
    if not len(tail):
        return absent(f"no stream is above the P95 of {name}", 0, PER_REQUEST)
    return _share(frame, tail, None)
