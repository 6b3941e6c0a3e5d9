"""What a sweep takes from the records themselves: rounds for the advisor, KV use along the input length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.analyze.columns import Ints, Ragged, floats, int_lists, strings
from loadgen.analyze.curves import RoundLists
from loadgen.analyze.frames import MEASURE, frame_of
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.numbers import absent
from loadgen.analyze.windows import windows_of
from loadgen.drive import Outcome
from loadgen.observe import GaugeTrack
from loadgen.record import RunData


def rounds_of_runs(runs: Sequence[tuple[RunData, str]]) -> RoundLists:
    """Per-round data of the successful requests of (run, arm) pairs. The same case of different runs is one case."""
    accepted, drafted, emitted, cases = [], [], [], []
    for run, arm in runs:
        table = run.requests
        wanted = (strings(table, "arm") == arm) & (strings(table, "phase") == MEASURE)
        wanted &= strings(table, "outcome") == Outcome.OK.value
        rows = table.filter(np.asarray(wanted, dtype=np.bool_))
        accepted.append(int_lists(rows, "per_step_accepted"))
        drafted.append(int_lists(rows, "per_step_drafted"))
        told = floats(rows, "output_len") - np.nan_to_num(floats(rows, "first_tokens"), nan=1.0)
        emitted.append(np.nan_to_num(told).astype(np.int64))
        cases += [str(case) for case in strings(rows, "case_id")]
    _, numbers = np.unique(np.array(cases, dtype=str), return_inverse=True)
    return RoundLists(_joined(accepted), _joined(drafted), _flat(emitted), numbers.astype(np.int64))


def _joined(parts: Sequence[Ragged[np.int64]]) -> Ragged[np.int64]:
    counts = _flat([part.counts for part in parts])
    return Ragged(_flat([part.values for part in parts]), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def _flat(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def kv_usage(run: RunData, arm: str) -> Interval:
    """Mean share of the KV cache in use over the measured windows, from the servers' gauge."""
    windows = windows_of(run, frame_of(run.requests, arm))
    scrapes = [scrape for scrape in run.scrapes if scrape.arm == arm]
    track = GaugeTrack(scrapes, arm, "kv_usage", run.manifest.arms[arm].model)
    spans = [window.steady or window.whole for window in windows]
    seen = [(found, end - start) for start, end in spans if (found := track.mean(start, end)) is not None]
    if not seen:
        return absent("no scrape with a KV gauge fell inside the measured windows", "scrapes")
    whole = sum(length for _, length in seen)
    mean = sum(found[0] * length for found, length in seen) / whole
    return Interval(
        value=mean, n=sum(found[1] for found, _ in seen), source="gauge", unit="scrapes", method="mean over time",
        reason="no interval is claimed for one run",
    )  # fmt: skip
