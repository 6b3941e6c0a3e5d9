"""Was it the client? Its own lag, load and losses over the measured windows (docs/method.md, "Self-check")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from loadgen.analyze.columns import Floats, floats, ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.percentiles import SMALLEST_N, nearest_rank
from loadgen.analyze.summary import N, Validity
from loadgen.analyze.values import CLIENT, absent, exact, ratio
from loadgen.analyze.windows import SegmentWindow

NOT_JUDGED = "not judged yet: the limits of a valid measurement are not set in this version"
OPEN = "arrival_rate"


def validity(health: pa.Table, frames: Sequence[Frame], windows: Sequence[SegmentWindow]) -> Validity:
    return Validity(
        state=None,
        reasons=[NOT_JUDGED],
        client={**_loop(health, windows), **_sending(frames, windows), **_accounted(windows), **_stamps(frames)},
    )


def _loop(health: pa.Table, windows: Sequence[SegmentWindow]) -> dict[str, N]:
    """Of one-second samples inside the measured windows: P99 is over the seconds' worst lags."""
    at = ints(health, "at_ns")[0]
    inside = np.zeros(len(at), dtype=np.bool_)
    for window in windows:
        inside |= (at > window.whole[0]) & (at <= window.whole[1])
    why = "no health sample inside a measured window"
    lag, cpu = floats(health, "lag_max_s")[inside], floats(health, "cpu_share")[inside]
    return {
        "loop_lag_p99_s": _percentile(lag, "p99", 99, why),
        "loop_lag_max_s": _largest(lag, why),
        "cpu_share_max": _largest(cpu, why),
    }


def _percentile(values: Floats, name: str, percent: int, why: str) -> N:
    n = len(values)
    if n < SMALLEST_N[name]:
        return absent(why if not n else f"needs at least {SMALLEST_N[name]} samples, there are {n}", n, CLIENT)
    return exact(nearest_rank(np.sort(values), percent), n, CLIENT)


def _largest(values: Floats, why: str) -> N:
    return exact(float(values.max()), len(values), CLIENT) if len(values) else absent(why, source=CLIENT)


def _sending(frames: Sequence[Frame], windows: Sequence[SegmentWindow]) -> dict[str, N]:
    """Send lag = sent − due: open loops by the plan's times, closed ones by when the slot became free."""
    timed = [np.where(f.sent[1] & f.due[1], (f.sent[0] - f.due[0]) / 1e9, np.nan) for f in frames]
    lag = np.concatenate([np.zeros(0), *timed])
    lag = lag[~np.isnan(lag)]
    why = "no request was sent that had a due time"
    return {
        "send_lag_p50_s": _percentile(lag, "p50", 50, why),
        "send_lag_p99_s": _percentile(lag, "p99", 99, why),
        "send_lag_max_s": _largest(lag, why),
        "delivered_rate_share": _delivered_rate(frames, windows),
        "delivered_concurrency_share": _delivered_concurrency(frames, windows),
    }


def _delivered_rate(frames: Sequence[Frame], windows: Sequence[SegmentWindow]) -> N:
    """Open loops: requests sent while load was due ÷ arrivals the plan had."""
    asked = sent = 0
    for window in windows:
        account = window.phase.accounting
        if window.phase.executor != OPEN or account is None or window.steady is None:
            continue
        asked += account.scheduled
        for frame in frames:
            mine = (frame.segment == window.phase.segment) & frame.sent[1]
            sent += int((frame.sent[0][mine] <= window.steady[1]).sum())
    return ratio(sent, asked, CLIENT, "no open-loop segment was completed")


def _delivered_concurrency(frames: Sequence[Frame], windows: Sequence[SegmentWindow]) -> N:
    """Closed loops with a plateau: request time in flight inside the steady windows ÷ what the slots could hold."""
    asked = held = 0.0
    n = 0
    for window in windows:
        plateau = window.phase.concurrency
        if plateau is None or window.phase.executor == OPEN or window.steady is None:
            continue
        start, end = window.steady
        asked += plateau * (end - start)
        for frame in frames:
            mine = (frame.segment == window.phase.segment) & frame.sent[1] & frame.end[1]
            inside = np.minimum(frame.end[0][mine], end) - np.maximum(frame.sent[0][mine], start)
            held += float(np.maximum(inside, 0).sum())
            n += int(mine.sum())
    return ratio(held, asked, CLIENT, "no closed-loop segment had a steady window", n=n)


def _accounted(windows: Sequence[SegmentWindow]) -> dict[str, N]:
    accounts = [w.phase.accounting for w in windows if w.phase.accounting is not None]
    scheduled = sum(a.scheduled for a in accounts)
    why = "no measured segment was completed"
    return {
        "late_share": ratio(sum(a.late for a in accounts), scheduled, CLIENT, why),
        "dropped_share": ratio(sum(a.dropped for a in accounts), scheduled, CLIENT, why),
        "unsent_share": ratio(sum(a.unsent for a in accounts), scheduled, CLIENT, why),
        "capped_in_flight_share": ratio(sum(a.capped_in_flight for a in accounts), scheduled, CLIENT, why),
        "capped_rate_share": ratio(sum(a.capped_rate for a in accounts), scheduled, CLIENT, why),
    }


def _stamps(frames: Sequence[Frame]) -> dict[str, N]:
    """Coalesced: chunks that came with another and have no time of their own. Missing: ok streams without
    a sent, first or last token stamp, or with a duration that is not positive."""
    chunks = sum(int(f.ledgers.chunks.sum()) for f in frames)
    coalesced = sum(int(f.ledgers.coalesced.sum()) for f in frames)
    streams = sum(int((f.ok & f.stream).sum()) for f in frames)
    unstamped = sum(int((f.ok & f.stream & (np.isnan(f.ttft_s) | np.isnan(f.total_time_s))).sum()) for f in frames)
    faults = sum(int((f.outcome == "client_fault").sum()) for f in frames)
    return {
        "coalesced_share": ratio(coalesced, chunks, CLIENT, "no chunk came"),
        "missing_stamps_share": ratio(unstamped, streams, CLIENT, "no streaming request succeeded"),
        "client_fault_share": ratio(faults, sum(f.n for f in frames), CLIENT, "no request was sent"),
    }
