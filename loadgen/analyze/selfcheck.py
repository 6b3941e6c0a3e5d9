"""Was it the client? Its own lag, load and losses over the measured windows (docs/method.md, "Self-check")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from loadgen.analyze.columns import Bools, Floats, Ints, floats, ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.percentiles import SMALLEST_N, nearest_rank
from loadgen.analyze.summary import N
from loadgen.analyze.values import CLIENT, absent, exact, ratio
from loadgen.analyze.windows import SegmentWindow
from loadgen.clock import Anchor
from loadgen.drive import Outcome
from loadgen.observe import Scrape

OPEN = "arrival_rate"
KERNEL, KERNEL_PARTIAL = "kernel", "kernel_partial"
_NO_HEALTH = "no health sample inside a measured window"


@dataclass(frozen=True)
class Part:
    """What is looked at: some windows, and the rows of each frame that belong to them."""

    health: pa.Table
    scrapes: Sequence[Scrape]
    rows: Sequence[tuple[Frame, Ints]]
    windows: Sequence[SegmentWindow]


def self_check(part: Part) -> dict[str, N]:
    """Every number of the client about itself; null with its reason where it could not be had."""
    return {
        **_loop(part.health, part.windows),
        **_sending(part),
        **_accounted(part.windows),
        **_connections(part),
        **_stamps(part),
        **_endings(part),
    }


def clock_step(anchors: Sequence[Anchor], health: pa.Table) -> N:
    """How far the wall clock was set against the monotonic one while the run went on, beyond what the readings
    cannot tell: between the run's anchors, or in one step that a worker saw. n = anchors and workers' seconds."""
    steps = _known([floats(health, "clock_step_s")])
    if len(anchors) < 2 and not len(steps):
        return absent("the clocks were compared less than twice", len(anchors), CLIENT)
    lows = [a.wall_ns - a.mono_ns - a.uncertainty_ns for a in anchors]
    highs = [a.wall_ns - a.mono_ns + a.uncertainty_ns for a in anchors]
    apart = max(0, max(lows) - min(highs)) / 1e9 if anchors else 0.0
    return exact(max(apart, steps.max(initial=0.0)), len(anchors) + len(steps), CLIENT)


def _loop(health: pa.Table, windows: Sequence[SegmentWindow]) -> dict[str, N]:
    """Of one-second samples inside the measured windows: P99 is over the seconds' worst lags."""
    at, inside = ints(health, "at_ns")[0], np.zeros(health.num_rows, dtype=np.bool_)
    for window in windows:
        inside |= (at > window.whole[0]) & (at <= window.whole[1])
    workers = ints(health, "worker")[0]
    length, of = _lengths(at, workers, windows)[inside], workers[inside]
    lag, cpu = floats(health, "lag_max_s")[inside], floats(health, "cpu_share")[inside]
    return {
        "loop_lag_p50_s": _worst_worker(of, _medians(floats(health, "lag_p50_s")[inside])),
        "loop_lag_p99_s": _percentile(lag, "p99", 99, _NO_HEALTH),
        "loop_lag_max_s": _largest(lag, _NO_HEALTH),
        "loop_stall_share": _worst_worker(of, _shares(np.minimum(lag, length), length)),
        "cpu_share_mean": _worst_worker(of, _shares(cpu * length, length)),
        "cpu_share_max": _largest(cpu, _NO_HEALTH),
    }


def _medians(values: Floats) -> Callable[[Bools], float | None]:
    return lambda mine: nearest_rank(np.sort(values[mine]), 50)


def _shares(part: Floats, whole: Floats) -> Callable[[Bools], float | None]:
    return lambda mine: float(part[mine].sum() / whole[mine].sum()) if whole[mine].sum() > 0 else None


def _worst_worker(workers: Ints, number: Callable[[Bools], float | None]) -> N:
    """The largest over the worker processes: idle ones do not hide a busy one. n = samples of all."""
    numbers = [number(workers == worker) for worker in np.unique(workers)]
    known = [value for value in numbers if value is not None]
    return exact(max(known), len(workers), CLIENT) if known else absent(_NO_HEALTH, source=CLIENT)


def _lengths(at: Ints, workers: Ints, windows: Sequence[SegmentWindow]) -> Floats:
    """Seconds that each sample stands for: since the same worker's one before, or the start of its window."""
    length = np.zeros(len(at))
    for window in windows:
        inside = (at > window.whole[0]) & (at <= window.whole[1])
        for worker in np.unique(workers[inside]):
            mine = np.flatnonzero(inside & (workers == worker))
            mine = mine[np.argsort(at[mine], kind="stable")]
            length[mine] = np.diff(at[mine], prepend=window.whole[0]) / 1e9
    return length


def _percentile(values: Floats, name: str, percent: int, why: str) -> N:
    n = len(values)
    if n < SMALLEST_N[name]:
        return absent(why if not n else f"needs at least {SMALLEST_N[name]} samples, there are {n}", n, CLIENT)
    return exact(nearest_rank(np.sort(values), percent), n, CLIENT)


def _largest(values: Floats, why: str) -> N:
    return exact(float(values.max()), len(values), CLIENT) if len(values) else absent(why, source=CLIENT)


def _known(parts: Sequence[Floats]) -> Floats:
    """All values together, without NaN."""
    values: Floats = np.concatenate([np.zeros(0), *parts])
    return np.asarray(values[~np.isnan(values)], dtype=np.float64)


def _sending(part: Part) -> dict[str, N]:
    """Send lag = sent − due: open loops by the plan's times, closed ones by when the slot became free."""
    lag = _known(
        [np.where(f.sent[1][r] & f.due[1][r], (f.sent[0][r] - f.due[0][r]) / 1e9, np.nan) for f, r in part.rows]
    )
    why = "no request was sent that had a due time"
    return {
        "send_lag_p50_s": _percentile(lag, "p50", 50, why),
        "send_lag_p99_s": _percentile(lag, "p99", 99, why),
        "send_lag_max_s": _largest(lag, why),
        "delivered_rate_share": _delivered_rate(part),
        "delivered_concurrency_share": _delivered_concurrency(part),
    }


def _of_segment(frame: Frame, rows: Ints, window: SegmentWindow) -> Ints:
    mine = (frame.segment[rows] == window.phase.segment) & frame.sent[1][rows]
    return np.asarray(rows[mine], dtype=np.int64)


def _delivered_rate(part: Part) -> N:
    """Open loops: requests sent while load was due ÷ arrivals the plan had."""
    asked = sent = 0
    for window in part.windows:
        account = window.phase.accounting
        if window.phase.executor != OPEN or account is None or window.steady is None:
            continue
        asked += account.scheduled
        for frame, rows in part.rows:
            sent += int((frame.sent[0][_of_segment(frame, rows, window)] <= window.steady[1]).sum())
    return ratio(sent, asked, CLIENT, "no open-loop segment was completed")


def _delivered_concurrency(part: Part) -> N:
    """Closed loops with a plateau: request time in flight inside the steady windows ÷ what the slots could hold."""
    asked = held = 0.0
    n = 0
    for window in part.windows:
        plateau = window.phase.concurrency
        if plateau is None or window.phase.executor == OPEN or window.steady is None:
            continue
        start, end = window.steady
        asked += plateau * (end - start)
        for frame, rows in part.rows:
            mine = _of_segment(frame, rows, window)
            mine = mine[frame.end[1][mine]]
            inside = np.minimum(frame.end[0][mine], end) - np.maximum(frame.sent[0][mine], start)
            held += float(np.maximum(inside, 0).sum())
            n += len(mine)
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


def _connections(part: Part) -> dict[str, N]:
    """Waits before a request went out, and how many went out while the arm's metrics page was being read."""
    cap = _known([f.wait_s[r] for f, r in part.rows])
    turn = _known([f.connect_wait_s[r] for f, r in part.rows])
    life = sum(
        float(np.nansum(np.where(f.sent[1][r] & f.end[1][r], (f.end[0][r] - f.sent[0][r]) / 1e9, 0.0)))
        for f, r in part.rows
    )
    sent = sum(int(f.sent[1][r].sum()) for f, r in part.rows)
    during = sum(_during_scrapes(f, r, part.scrapes) for f, r in part.rows)
    why = "no request was sent"
    return {
        "connect_p99_s": _percentile(_known([f.connect_s[r] for f, r in part.rows]), "p99", 99, "no new connection"),
        "connect_wait_p99_s": _percentile(turn, "p99", 99, "no connection waited for its turn, or connects not paced"),
        "wait_share": ratio(float(cap.sum()), float(cap.sum()) + life, CLIENT, why, n=sent),
        "connect_wait_share": ratio(float(turn.sum()), float(turn.sum()) + life, CLIENT, why, n=sent),
        "scrape_overlap_share": ratio(during, sent, CLIENT, why),
    }


def _during_scrapes(frame: Frame, rows: Ints, scrapes: Sequence[Scrape]) -> int:
    sent = np.sort(frame.sent[0][rows][frame.sent[1][rows]])
    covered = np.zeros(len(sent), dtype=np.bool_)
    for scrape in scrapes:
        if scrape.arm == frame.arm:
            first = np.searchsorted(sent, scrape.asked_ns, side="left")
            covered[first : np.searchsorted(sent, scrape.answered_ns, side="right")] = True
    return int(covered.sum())


def _stamps(part: Part) -> dict[str, N]:
    """Coalesced: chunks that came with another and have no time of their own. Missing: ok streams without
    a sent, first or last token stamp, or with a duration that is not positive. Unstamped: reads (of the head, too,
    so the share is cut at 1) whose stamp the kernel owed."""
    chunks = sum(int(f.ledgers.chunks[r].sum()) for f, r in part.rows)
    coalesced = sum(int(f.ledgers.coalesced[r].sum()) for f, r in part.rows)
    streams = [(f, r[(f.ok & f.stream)[r]]) for f, r in part.rows]
    unstamped = sum(int((np.isnan(f.ttft_s[r]) | np.isnan(f.total_time_s[r])).sum()) for f, r in streams)
    sources = np.concatenate([np.zeros(0, dtype=object), *(f.timestamp_source[r] for f, r in streams)])
    wholly = int((sources == KERNEL).sum())
    asked = [(f, r[~np.isnan(f.missing_stamps[r])]) for f, r in streams]
    owed = sum(int((f.ledgers.chunks[r] - f.ledgers.coalesced[r]).sum()) for f, r in asked)
    unpaid = sum(int(f.missing_stamps[r].sum()) for f, r in asked)
    known = len(sources) if wholly or (sources == KERNEL_PARTIAL).any() else 0
    return {
        "coalesced_share": ratio(coalesced, chunks, CLIENT, "no chunk came"),
        "missing_stamps_share": ratio(
            unstamped, sum(len(r) for _, r in streams), CLIENT, "no streaming request succeeded"
        ),
        "user_stamps_share": ratio(known - wholly, known, CLIENT, "every stamp was taken in user space"),
        "unstamped_read_share": ratio(min(unpaid, owed), owed, CLIENT, "the kernel's stamps were not asked for"),
    }


def _endings(part: Part) -> dict[str, N]:
    """Requests that our own drain or stop cut neither succeeded nor failed."""
    outcomes = [f.outcome[r] for f, r in part.rows]
    faults = sum(int((o == Outcome.CLIENT_FAULT.value).sum()) for o in outcomes)
    cut = sum(int((o == Outcome.ABORTED.value).sum()) for o in outcomes)
    good = sum(int((o == Outcome.OK.value).sum()) for o in outcomes)
    sent = sum(len(o) for o in outcomes)
    return {
        "client_fault_share": ratio(faults, sent, CLIENT, "no request was sent"),
        "success_share": ratio(good, sent - cut, CLIENT, "no request ended by itself"),
    }
