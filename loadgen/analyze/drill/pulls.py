"""One pull of the switch: what moved, what was lost, when it had settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from loadgen.analyze.columns import Bools
from loadgen.analyze.drill.routing import resumed, routed, stopped
from loadgen.analyze.drill.seen import CLIENT, Pull, Seen, count
from loadgen.analyze.drill.settling import settled
from loadgen.analyze.found.drill import DrillPull, Losses
from loadgen.analyze.summary import N
from loadgen.drive import Outcome

EXAMPLES = 3


def pull_found(seen: Seen, pull: Pull) -> DrillPull:
    rows = seen.rows
    sent = (rows.begin_ns >= pull.at_ns) & (rows.begin_ns < pull.until_ns)
    answered = sent & rows.ok
    off, span_ns = pull.direction == "off", (pull.at_ns, pull.until_ns)
    limit_s = seen.baseline_s if off else None
    return DrillPull(
        number=pull.number,
        direction=pull.direction,
        at_s=(pull.at_ns - seen.begin_ns) / 1e9,
        until_s=(pull.until_ns - pull.at_ns) / 1e9,
        took_s=pull.took_s,
        ok=pull.ok,
        said=pull.said,
        routed=routed(seen, sent),
        **(stopped(seen, pull, sent) if off else resumed(seen, pull, sent)),
        settled=[
            settled(metric, rows.begin_ns[answered], getattr(rows, metric)[answered], span_ns, seen.window, limit_s)
            for metric in ("ttft_s", "tpot_s")
        ],
        longest_ttft_s=_longest(seen, answered),
        losses=_losses(seen, pull),
    )


def _longest(seen: Seen, answered: Bools) -> N:
    values = seen.rows.ttft_s[answered]
    known = values[~np.isnan(values)]
    if not len(known):
        return N(value=None, n=0, source=CLIENT, reason="no streamed request was answered")
    return N(value=float(known.max()), n=len(known), source=CLIENT)


def _losses(seen: Seen, pull: Pull) -> Losses:
    rows = seen.rows
    first_of_all = rows.end_ns < seen.first_pull_ns
    ended = np.flatnonzero((rows.end_ns >= pull.at_ns) & (pull.last | (rows.end_ns < pull.until_ns)))
    lost = ended[rows.lost[ended]]
    times = sorted(pull.since(int(ns)) for ns in rows.end_ns[lost])
    outcomes = Counter(str(o) for o in rows.outcome[ended])
    aborted, faults = outcomes[Outcome.ABORTED.value], outcomes[Outcome.CLIENT_FAULT.value]
    return Losses(
        ended=len(ended),
        in_flight=count(rows.begin_ns[ended] < pull.at_ns),
        ok=outcomes[Outcome.OK.value],
        lost=len(lost),
        lost_most=len(lost) + aborted + faults,
        by_outcome=dict(Counter(str(o) for o in rows.outcome[lost]).most_common()),
        by_status=dict(Counter(str(s) for s in rows.status[lost] if s is not None).most_common()),
        cut=count(rows.has_last[lost]),
        aborted=aborted,
        client_faults=faults,
        first_s=times[0] if times else None,
        last_s=times[-1] if times else None,
        before=count(first_of_all),
        lost_before=count(first_of_all & rows.lost),
        examples=_examples([rows.message[i] for i in lost]),
    )


def _examples(messages: Sequence[str | None]) -> list[str]:
    return [text for text, _ in Counter(m for m in messages if m).most_common(EXAMPLES)]
