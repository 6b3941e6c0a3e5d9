"""Samples of an arm's hardware as series, and what they say of a window. Pure (docs/resources.md).

A GPU that two sources tell of is one GPU: of each number the first source in order (NVML, then pages by name) counts.
The time of a sample is the middle between asked and answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.observe.types import TelemetrySample
from server_adapters.telemetry import TELEMETRY

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: (device, MIG instance)
Unit = tuple[str, str | None]

#: Power between two samples further apart than this is not known.
LONGEST_GAP_S = 10.0
LAST_NS = 2**63 - 2
NO_SOURCE = "the arm names no telemetry source (telemetry: nvml, gpu_metrics_urls or pid)"
_NO_GPU = "the arm's telemetry names no GPU source (nvml or gpu_metrics_urls)"
_NO_PROCESS = "the arm's telemetry names no process (pid), and its server was not started here"


@dataclass(frozen=True)
class Series:
    """One number of one device. `at_ns` rises."""

    source: str
    at_ns: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a window. `low`, `high`: what it certainly lies between, where that is known; `n`: samples, on the
    device that has fewest."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    how: str = ""


class Tracks:
    """Of one arm, indexed for many windows. Every question is answered by a number or by why there is none."""

    def __init__(self, samples: Iterable[TelemetrySample], arm: str) -> None:
        mine = sorted((s for s in samples if s.arm == arm), key=lambda s: (_rank(s.source), s.source, s.asked_ns))
        self._absent: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._series: dict[str, dict[Unit, Series]] = {}
        values: dict[tuple[str, Unit, str], list[tuple[int, float]]] = {}
        for sample in mine:
            at = (sample.asked_ns + sample.answered_ns) // 2
            for reading in sample.readings:
                key = (reading.name, (reading.device, reading.instance), sample.source)
                values.setdefault(key, []).append((at, reading.value))
            self._absent |= {name: f"{sample.source}: {why}" for name, why in sample.absent.items()}
            if sample.reason is not None:
                self._failed[sample.source] = f"{sample.source}: {sample.reason}"
        for (name, unit, source), pairs in values.items():
            if TELEMETRY[name].level == "process":
                unit = (unit[0], source)  # started again it is another process, not another server
            at_ns, told = (np.array(column) for column in zip(*pairs, strict=True))
            series = Series(source, at_ns.astype(np.int64), told.astype(np.float64))
            self._series.setdefault(name, {}).setdefault(unit, series)
        self._sums: dict[str, list[Series]] = {}
        self.sources: tuple[str, ...] = tuple(dict.fromkeys(s.source for s in mine))

    @property
    def devices(self) -> tuple[str, ...]:
        """GPUs that any number is known of."""
        return self.devices_in(0, LAST_NS)

    def devices_in(self, start_ns: int, end_ns: int) -> tuple[str, ...]:
        """GPUs with a sample in [start, end]."""
        found = {
            unit[0]
            for name, units in self._series.items()
            for unit, series in units.items()
            if TELEMETRY[name].level != "process" and _inside(series, start_ns, end_ns).any()
        }
        return tuple(sorted(found))

    def why_not(self, name: str) -> str:
        """Why a number is not known of this arm at all."""
        if not self.sources:
            return NO_SOURCE
        process = TELEMETRY[name].level == "process"
        kind = {source for source in self.sources if source.startswith("pid ") == process}
        if not kind:
            return _NO_PROCESS if process else _NO_GPU
        if name in self._absent:
            return self._absent[name]
        return next((why for source, why in self._failed.items() if source in kind), "no source tells it")

    def peak(self, name: str, start_ns: int, end_ns: int) -> Measured | str:
        """Most at one time over [start, end]. Devices of one source are sampled together and summed; peaks of several
        sources are added up, which is not less than the peak of the sum."""
        total, fewest = 0.0, None
        for sums in _of_window(self._by_source(name), start_ns, end_ns):
            first, end = np.searchsorted(sums.at_ns, (start_ns, end_ns + 1))
            if end <= first:
                return f"{sums.source}: no sample of all its devices in the window"
            total += float(sums.values[first:end].max())
            fewest = int(end - first) if fewest is None else min(fewest, int(end - first))
        return self.why_not(name) if fewest is None else Measured(total, fewest)

    def _by_source(self, name: str) -> list[Series]:
        """Sums over the devices of each source."""
        if name not in self._sums:
            found: dict[str, list[Series]] = {}
            for series in self._series.get(name, {}).values():
                found.setdefault(series.source, []).append(series)
            self._sums[name] = [_summed(every) for every in found.values()]
        return self._sums[name]

    def mean(self, name: str, start_ns: int, end_ns: int) -> Measured | str:
        """Time mean: sampling is periodic, so it is the plain one. Summed over devices; ratios averaged."""
        means, fewest = [], None
        for series in _of_window(self._series.get(name, {}).values(), start_ns, end_ns):
            inside = series.values[_inside(series, start_ns, end_ns)]
            if not len(inside):
                return f"{series.source}: no sample in the window"
            means.append(float(inside.mean()))
            fewest = len(inside) if fewest is None else min(fewest, len(inside))
        if fewest is None:
            return self.why_not(name)
        return Measured(sum(means) / (len(means) if name.endswith("_ratio") else 1), fewest)

    def increase(self, name: str, start_ns: int, end_ns: int) -> Measured | str:
        """Increase of a counter over [start, end], summed over devices (see `counted`)."""
        every = _of_window(self._series.get(name, {}).values(), start_ns, end_ns)
        fresh = TELEMETRY[name].level == "process"
        found = [counted(series, start_ns, end_ns, fresh=fresh) for series in every]
        return _sum(found, "counter") if every else self.why_not(name)

    def energy(self, start_ns: int, end_ns: int) -> Measured | str:
        """Joules over [start, end]: by the GPUs' own counters; where one does not tell, all of them by their power,
        integrated. Both reasons where neither does."""
        counters = _of_window(self._series.get("energy_joules", {}).values(), start_ns, end_ns)
        first = _sum([_spent(series, start_ns, end_ns) for series in counters], "counter")
        if not counters:
            first = self.why_not("energy_joules")
        if isinstance(first, Measured):
            return first
        powers = _of_window(self._series.get("power_watts", {}).values(), start_ns, end_ns)
        second = _sum([integrated(s, start_ns, end_ns) for s in powers], "power, integrated")
        if not powers:
            second = self.why_not("power_watts")
        if isinstance(second, Measured):
            return Measured(second.value, second.n, how=f"power, integrated ({first})")
        return first if first == second else f"{first}; {second}"


def counted(series: Series, start_ns: int, end_ns: int, *, fresh: bool = False) -> Measured | str:
    """Increase of one counter. An exporter may show the same value for many samples: only the samples where it changed
    say when it was so, and between them it is taken to have risen evenly. `low` and `high` are the counts at the
    changes next inside and next outside the window. `fresh`: read from its origin by each sample, so that a last value
    that is there twice is a counter that stood still, not one that was not told anew."""
    at, values = series.at_ns, series.values
    kept = np.ones(len(values), dtype=np.bool_)
    kept[1:] = np.diff(values) != 0
    kept[-1] |= fresh
    told_until = at[-1]
    at, values = at[kept], values[kept]
    before, after = np.searchsorted(at, start_ns, side="right") - 1, np.searchsorted(at, end_ns)
    if before < 0 or told_until < end_ns:
        return f"{series.source}: not sampled before and after the window"
    if after >= len(at):
        return f"{series.source}: the counter did not change any more after the window: its count there is not known"
    if (np.diff(values[before : after + 1]) < 0).any():
        return f"{series.source}: the counter was reset in the window (driver or server restarted)"
    inner_first, inner_last = np.searchsorted(at, start_ns), np.searchsorted(at, end_ns, side="right") - 1
    low = float(values[inner_last] - values[inner_first]) if inner_last > inner_first else 0.0
    begin, end = np.interp((start_ns, end_ns), at, values)
    n = max(int(inner_last - inner_first + 1), 0)
    return Measured(float(end - begin), n, low, float(values[after] - values[before]))


def _spent(series: Series, start_ns: int, end_ns: int) -> Measured | str:
    """What an energy counter told. A GPU that runs draws power: a counter that stands still does not count."""
    told = counted(series, start_ns, end_ns)
    if isinstance(told, str) and len(series.values) > 1 and not np.diff(series.values).any():
        return f"{series.source}: the energy counter did not move"
    return told


def integrated(series: Series, start_ns: int, end_ns: int) -> Measured | str:
    """Integral of a gauge by the trapezoid rule, straight lines between samples; seconds are the unit of time."""
    at, values = series.at_ns, series.values
    before, after = np.searchsorted(at, start_ns, side="right") - 1, np.searchsorted(at, end_ns)
    if before < 0 or after >= len(at):
        return f"{series.source}: not sampled before and after the window"
    gap_s = float(np.diff(at[before : after + 1]).max(initial=0)) / 1e9
    if gap_s > LONGEST_GAP_S:
        return f"{series.source}: {gap_s:.3g} s without a sample of power in the window"
    inside = np.flatnonzero(_inside(series, start_ns, end_ns))
    times = np.concatenate(([start_ns], at[inside], [end_ns])).astype(np.float64)
    levels = np.interp(times, at, values)
    seconds = (times - start_ns) / 1e9
    return Measured(float(np.trapezoid(levels, seconds)), len(inside))


def _of_window(every: Iterable[Series], start_ns: int, end_ns: int) -> list[Series]:
    """What was there then: a GPU or a process that was sampled only before the window or only after it is one that the
    arm left, or came to. Where none was there, all: they say why nothing is known."""
    known = list(every)
    return [s for s in known if s.at_ns[0] <= end_ns and s.at_ns[-1] >= start_ns] or known


def _inside(series: Series, start_ns: int, end_ns: int) -> NDArray[np.bool_]:
    return np.asarray((series.at_ns >= start_ns) & (series.at_ns <= end_ns), dtype=np.bool_)


def _sum(found: list[Measured | str], how: str) -> Measured | str:
    failed = next((one for one in found if isinstance(one, str)), None)
    if failed is not None:
        return failed
    told = [one for one in found if isinstance(one, Measured)]
    lows, highs = [one.low for one in told], [one.high for one in told]
    return Measured(
        sum(one.value for one in told),
        min((one.n for one in told), default=0),
        None if None in lows else sum(low for low in lows if low is not None),
        None if None in highs else sum(high for high in highs if high is not None),
        how,
    )


def _summed(series: list[Series]) -> Series:
    """At the times at which all were sampled: one look tells them together."""
    common = series[0].at_ns
    for other in series[1:]:
        common = np.intersect1d(common, other.at_ns)
    total = np.zeros(len(common))
    for one in series:
        total += one.values[np.searchsorted(one.at_ns, common)]
    return Series(series[0].source, common, total)


def _rank(source: str) -> int:
    return 0 if source == "nvml" else 1


def tracks_of(samples: Iterable[TelemetrySample], arms: Iterable[str]) -> dict[str, Tracks]:
    """Of every arm, also of those without a sample."""
    by_arm: dict[str, list[TelemetrySample]] = {arm: [] for arm in arms}
    for sample in samples:
        by_arm.setdefault(sample.arm, []).append(sample)
    return {arm: Tracks(mine, arm) for arm, mine in by_arm.items()}
