"""Every number that a soak follows, window by window (docs/soak.md, "What is followed")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.arms import ArmData
from loadgen.analyze.columns import Bools, Floats, Ints, floats, ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.percentiles import SMALLEST_N, rank
from loadgen.analyze.soak.counted import counted
from loadgen.analyze.soak.family import Series
from loadgen.analyze.soak.windows import Windows
from loadgen.analyze.values import CHUNK, CLIENT, COUNTERS, PER_REQUEST
from loadgen.observe import GaugeTrack, Measured, Tracks, tracks_of
from loadgen.record import RunData

TELEMETRY = "telemetry"
#: Requests that a median of a window needs, and rounds that a ratio of speculation needs
FEWEST_REQUESTS, FEWEST_ROUNDS = 3, 20


@dataclass(frozen=True, slots=True)
class Kind:
    """`worse`: sign of a change for the worse, 0 = neither. A drift `matters` from this size on: in the unit, or as a
    share of the first level where `relative`."""

    unit: str
    worse: int
    matters: float
    relative: bool


KINDS: Mapping[str, Kind] = {
    "acceptance_rate": Kind("share", -1, 0.01, False),
    "rollback_rate": Kind("share", 1, 0.01, False),
    "e_verified": Kind("tokens", -1, 0.02, True),
    "tpot_s": Kind("s", 1, 0.02, True),
    "ttft_s": Kind("s", 1, 0.05, True),
    "jitter": Kind("ratio", 1, 0.10, True),
    "error_share": Kind("share", 1, 0.005, False),
    "kv_usage": Kind("share", 0, 0.02, False),
    "gpu_memory_bytes": Kind("bytes", 1, 0.01, True),
    "server_memory_bytes": Kind("bytes", 1, 0.02, True),
    "client_memory_bytes": Kind("bytes", 1, 0.05, True),
}


def series_of(run: RunData, data: ArmData, stage: str, windows: Windows) -> list[Series]:
    """One for each of `KINDS`, also of those that are not known."""
    frame = data.frame
    mine = np.flatnonzero(np.isin(frame.segment, _segments(data, stage)) & frame.end[1])
    at = windows.at(frame.end[0][mine])
    rows = _Rows(frame, windows, mine[at >= 0], at[at >= 0])
    tracks = tracks_of(run.telemetry, [frame.arm])[frame.arm]
    return [
        *_speculation(run, data, rows),
        *_latency(rows),
        _errors(rows),
        _kv(run, data, windows),
        _tracked(tracks, windows, "gpu_memory_bytes", "memory_used_bytes"),
        _tracked(tracks, windows, "server_memory_bytes", "process_rss_bytes"),
        _client_memory(run, windows),
    ]


def _segments(data: ArmData, stage: str) -> list[int]:
    return [w.phase.segment for w in data.windows if w.phase.stage == stage]


@dataclass(frozen=True)
class _Rows:
    """Requests that ended within the windows, by window."""

    frame: Frame
    windows: Windows
    rows: Ints
    at: Ints

    def sums(self, numbers: Floats, chosen: Bools) -> Floats:
        return summed(self.at[chosen], numbers[self.rows[chosen]], self.windows.n)

    def counts(self, chosen: Bools) -> Floats:
        return summed(self.at[chosen], np.ones(int(chosen.sum())), self.windows.n)

    def medians(self, numbers: Floats) -> Floats:
        chosen = self.frame.ok[self.rows] & ~np.isnan(numbers[self.rows])
        values, at = numbers[self.rows[chosen]], self.at[chosen]
        found = np.full(self.windows.n, np.nan)
        for window in np.flatnonzero(np.bincount(at, minlength=self.windows.n) >= FEWEST_REQUESTS):
            found[window] = np.median(values[at == window])
        return found


def made(windows: Windows, name: str, values: Floats, source: str, why: str) -> Series:
    """`values` (n,), NaN where a window has none; `why` where no window has any."""
    kind, has = KINDS[name], np.isfinite(values)
    missing = int((~has).sum())
    reason = None if not missing else why if not has.any() else f"{missing} of {windows.n} windows have none"
    return Series(name, kind.unit, kind.worse, windows.times_s[has], values[has], source, reason)


def summed(at: Ints, weights: Floats, n: int) -> Floats:
    return np.asarray(np.bincount(at, weights=weights, minlength=n), dtype=np.float64)


def _ratio(part: Floats, whole: Floats, fewest: float) -> Floats:
    enough = whole >= max(fewest, 1)
    found: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=enough)
    return found


def _speculation(run: RunData, data: ArmData, rows: _Rows) -> list[Series]:
    """By the responses' statistics, else by the server's counters."""
    stats, windows = rows.frame.stats, rows.windows
    told = rows.frame.ok[rows.rows] & stats.told[rows.rows]
    names = ("acceptance_rate", "rollback_rate", "e_verified")
    if not told.any():
        return counted(run, data, windows, names, made, FEWEST_ROUNDS)
    rounds, drafted = rows.sums(stats.rounds, told), rows.sums(stats.drafted, told)
    accepted = rows.sums(stats.accepted, told)
    exact = told & (stats.bound_low == stats.bound_high)[rows.rows]
    rollback, why = rows.sums(stats.bound_low, exact), "the responses tell rollbacks as bounds only"
    rollback[rows.counts(told & ~exact) > 0] = np.nan  # the exact ones are often those without any: no sample of all
    if data.setting.artefact:
        rollback, why = np.full(windows.n, np.nan), "the method's drafted counts are k × rounds by construction"
    few = f"no window has {FEWEST_ROUNDS} rounds"
    return [
        made(windows, names[0], _ratio(accepted, drafted, FEWEST_ROUNDS), PER_REQUEST, few),
        made(windows, names[1], _ratio(rollback, rows.sums(stats.rounds, exact), FEWEST_ROUNDS), PER_REQUEST, why),
        made(windows, names[2], 1 + _ratio(accepted, rounds, FEWEST_ROUNDS), PER_REQUEST, few),
    ]


def _latency(rows: _Rows) -> list[Series]:
    frame, windows = rows.frame, rows.windows
    few = f"no window has {FEWEST_REQUESTS} successful streams"
    gaps = np.full(windows.n, np.nan)
    streams = frame.ok[rows.rows] & frame.stream[rows.rows]
    for window in np.unique(rows.at[streams]):
        found = frame.ledgers.arrivals.gap_s.of(np.sort(rows.rows[streams & (rows.at == window)]))
        if found.n >= SMALLEST_N["p99"] and (middle := found.sample(rank(found.n, 50))) > 0:
            gaps[window] = found.sample(rank(found.n, 99)) / middle
    return [
        made(windows, "tpot_s", rows.medians(frame.tpot_s), CLIENT, few),
        made(windows, "ttft_s", rows.medians(frame.ttft_s), CLIENT, few),
        made(windows, "jitter", gaps, CHUNK, f"no window has {SMALLEST_N['p99']} gaps between arrivals"),
    ]


def _errors(rows: _Rows) -> Series:
    """Failed ÷ ended; what our own drain cut is neither."""
    ended = rows.counts(np.ones(len(rows.rows), dtype=np.bool_))
    failed = rows.counts(~rows.frame.net[rows.rows])
    return made(rows.windows, "error_share", _ratio(failed, ended, 1), CLIENT, "no request ended")


def _kv(run: RunData, data: ArmData, windows: Windows) -> Series:
    arm = data.frame.arm
    track = GaugeTrack((s for s in run.scrapes if s.arm == arm), arm, "kv_usage", data.setting.facts.model)

    def mean(start_ns: int, end_ns: int) -> float | None:
        found = track.mean(start_ns, end_ns)
        return None if found is None else found[0]

    return made(windows, "kv_usage", windows.mean(mean), COUNTERS, "no scrape tells the use of the KV cache")


def _tracked(tracks: Tracks, windows: Windows, name: str, quantity: str) -> Series:
    def mean(start_ns: int, end_ns: int) -> float | None:
        found = tracks.mean(quantity, start_ns, end_ns)
        return found.value if isinstance(found, Measured) else None

    return made(windows, name, windows.mean(mean), TELEMETRY, tracks.why_not(quantity))


def _client_memory(run: RunData, windows: Windows) -> Series:
    """Resident memory of our own workers, summed; a window needs a sample of each."""
    stamps, workers = ints(run.health, "at_ns")[0], ints(run.health, "worker")[0]
    memory, at = floats(run.health, "rss_bytes"), windows.at(stamps)
    total = np.zeros(windows.n)
    for worker in np.unique(workers):
        own = (workers == worker) & (at >= 0)
        sums, count = (summed(at[own], weights, windows.n) for weights in (memory[own], np.ones(int(own.sum()))))
        total += _ratio(sums, count, 1)
    why = "the workers' memory was not sampled"
    return made(windows, "client_memory_bytes", total if len(workers) else total * np.nan, CLIENT, why)
