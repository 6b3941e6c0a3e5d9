"""What the hardware did while an arm was measured (docs/resources.md). Everything is of steady windows, the windows of
net throughput, so that energy and tokens are of the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.sides import Side
from loadgen.analyze.summary import N, WindowUse
from loadgen.analyze.values import COUNTERS, absent, exact
from loadgen.analyze.windows import SegmentWindow, Span
from loadgen.observe import GaugeTrack, Measured, Tracks, tracks_of
from loadgen.record import RunData

TELEMETRY = "telemetry"
LAST_NS = 2**63 - 2
BLIND = "engines reserve memory when they start: what speculation takes shows in the KV capacity, not here"
_NO_WINDOW = "no measured segment was begun"

Told = Measured | str


@dataclass(frozen=True)
class ArmUse:
    """One arm's samples beside its windows. `others`: phases of arms on the same GPUs, as spans with their arm. `part`:
    why the run's tokens are not all that the GPUs made for this load, None where they are."""

    side: Side
    tracks: Tracks
    others: tuple[tuple[str, Span], ...]
    part: str | None = None

    @property
    def windows(self) -> list[SegmentWindow]:
        return list(self.side.data.windows)

    @cached_property
    def tokens(self) -> Mapping[int, Told]:
        """Output tokens that arrived in the steady window of every segment."""
        frame, flow = self.side.frame, self.side.flow
        found: dict[int, Told] = {}
        for window in self.windows:
            mine = np.flatnonzero((frame.segment == window.phase.segment) & frame.net)
            uncounted = int(flow.uncounted[mine].sum())
            if self.part is not None:
                found[window.phase.segment] = self.part
            elif uncounted:
                found[window.phase.segment] = f"{uncounted} requests have output that nobody counted"
            else:
                found[window.phase.segment] = Measured(float(flow.steady[mine].sum()), len(mine))
        return found

    @cached_property
    def _energies(self) -> Mapping[int, Told]:
        return {w.phase.segment: self._energy(w) for w in self.windows}

    def energy(self, window: SegmentWindow) -> Told:
        """Joules of the steady window; not known where another arm worked on the same GPU meanwhile."""
        return self._energies[window.phase.segment]

    def _energy(self, window: SegmentWindow) -> Told:
        if window.steady is None:
            return window.steady_reason
        start, end = window.steady
        other = next((arm for arm, span in self.others if span[0] < end and start < span[1]), None)
        if other is not None:
            return f"{other} ran on the same GPU at the same time: its energy cannot be told apart"
        return self.tracks.energy(start, end)

    def knows(self, window: SegmentWindow) -> bool:
        """Both energy and tokens."""
        return not isinstance(self.energy(window), str) and not isinstance(self.tokens[window.phase.segment], str)

    def joules_per_token(self) -> Floats:
        """By design block; NaN where energy or tokens are not known."""
        joules, tokens = np.zeros(len(self.side.keys)), np.zeros(len(self.side.keys))
        for window in self.windows:
            at = self.side.keys.index((window.phase.stage_index, window.phase.repeat_idx, window.phase.block))
            energy, count = self.energy(window), self.tokens[window.phase.segment]
            joules[at] += energy.value if isinstance(energy, Measured) else np.nan
            tokens[at] += count.value if isinstance(count, Measured) else np.nan
        found: Floats = np.divide(joules, tokens, out=np.full(len(joules), np.nan), where=tokens > 0)
        return found


def uses_of(run: RunData, sides: Mapping[str, Side]) -> dict[str, ArmUse]:
    tracks = tracks_of(run.telemetry, sides)
    made = {}
    for name, side in sides.items():
        devices = set(tracks[name].devices)
        sharing = {arm for arm in sides if arm != name and devices & set(tracks[arm].devices)}
        spans = tuple((p.arm, (p.started_ns, p.ended_ns or p.started_ns)) for p in run.phases if p.arm in sharing)
        made[name] = ArmUse(side, tracks[name], spans, part_of(run))
    return made


def part_of(run: RunData) -> str | None:
    """Why energy and money of this run are not of its tokens alone: other machines ask the same servers."""
    share = run.manifest.shard
    return None if share is None else f"this run is share {share} of the load: others asked the same GPUs meanwhile"


def window_use(use: ArmUse, windows: Sequence[SegmentWindow], stage: str | None, one: bool = False) -> WindowUse:
    """Over the steady windows of `windows` together; `one`: there is one, and it is named."""
    mean = use.tracks.mean
    known = [w for w in windows if use.knows(w)]
    energy, tokens = _energy(use, windows), _tokens(use, known, windows)
    of_known = _energy(use, known) if known else energy
    return WindowUse(
        stage=stage,
        segment=windows[0].phase.segment if one else None,
        repeat_idx=windows[0].phase.repeat_idx if one else None,
        window_s=sum((w.steady[1] - w.steady[0]) / 1e9 for w in windows if w.steady is not None),
        memory_peak_bytes=_peak(use, windows, "memory_used_bytes", BLIND),
        memory_total_bytes=_peak(use, windows, "memory_total_bytes", None),
        utilization=_mean(windows, "utilization_ratio", mean),
        dram_active=_mean(windows, "dram_active_ratio", mean),
        memory_busy=_mean(windows, "memory_busy_ratio", mean),
        power_watts=_mean(windows, "power_watts", mean),
        energy_joules=energy,
        output_tokens=tokens,
        joules_per_output_token=_per_token(of_known, tokens),
        process_rss_peak_bytes=_peak(use, windows, "process_rss_bytes", None),
        process_cpu_cores=_mean(windows, "process_cpu_seconds", _rate(use.tracks)),
    )  # fmt: skip


def _rate(tracks: Tracks) -> Callable[[str, int, int], Told]:
    """Increase of a counter per second."""

    def of(name: str, start_ns: int, end_ns: int) -> Told:
        found = tracks.increase(name, start_ns, end_ns)
        if isinstance(found, str):
            return found
        return Measured(found.value / ((end_ns - start_ns) / 1e9), found.n)

    return of


def _asked(
    windows: Sequence[SegmentWindow], ask: Callable[[int, int], Told]
) -> tuple[list[tuple[Measured, float]], list[str]]:
    """(number, seconds) of the windows that have it, and the reasons of the others."""
    found: list[tuple[Measured, float]] = []
    failed: list[str] = []
    for window in windows:
        told: Told = window.steady_reason
        if window.steady is not None:
            told = ask(*window.steady)
        if isinstance(told, Measured) and window.steady is not None:
            found.append((told, (window.steady[1] - window.steady[0]) / 1e9))
        else:
            failed.append(str(told))
    return found, failed


def _note(failed: Sequence[str], of: int, more: str | None = None) -> str | None:
    """What is missing from a number, and what is to be known of it."""
    missing = f"{len(failed)} of {of} windows left out: {failed[0]}" if failed else None
    return "; ".join(part for part in (more, missing) if part) or None


def _mean(windows: Sequence[SegmentWindow], name: str, ask: Callable[[str, int, int], Told]) -> N:
    found, failed = _asked(windows, lambda start, end: ask(name, start, end))
    if not found:
        return absent(failed[0] if failed else _NO_WINDOW)
    seconds = sum(length for _, length in found)
    value = sum(told.value * length for told, length in found) / seconds
    return exact(value, sum(told.n for told, _ in found), TELEMETRY, _note(failed, len(windows)))


def _peak(use: ArmUse, windows: Sequence[SegmentWindow], name: str, note: str | None) -> N:
    found, failed = _asked(windows, lambda start, end: use.tracks.peak(name, start, end))
    if not found:
        return absent(failed[0] if failed else _NO_WINDOW)
    best = max(told.value for told, _ in found)
    return exact(best, sum(told.n for told, _ in found), TELEMETRY, _note(failed, len(windows), note))


def _energy(use: ArmUse, windows: Sequence[SegmentWindow]) -> N:
    by_segment = {w.steady: w for w in windows}
    found, failed = _asked(windows, lambda start, end: use.energy(by_segment[start, end]))
    if not found:
        return absent(failed[0] if failed else _NO_WINDOW)
    told = [one for one, _ in found]
    lows, highs = [one.low for one in told], [one.high for one in told]
    how = "; ".join(dict.fromkeys(one.how for one in told if one.how != "counter")) or None
    return N(
        value=sum(one.value for one in told),
        low=None if None in lows else sum(low for low in lows if low is not None),
        high=None if None in highs else sum(high for high in highs if high is not None),
        n=sum(one.n for one in told),
        source=TELEMETRY,
        reason=_note(failed, len(windows), how),
    )


def _tokens(use: ArmUse, known: Sequence[SegmentWindow], windows: Sequence[SegmentWindow]) -> N:
    if not known:
        whys = [why for w in windows if isinstance(why := use.tokens[w.phase.segment], str)]
        energies = [why for w in windows if isinstance(why := use.energy(w), str)]
        return absent(next(iter([*whys, *energies]), _NO_WINDOW))
    told = [one for w in known if isinstance(one := use.tokens[w.phase.segment], Measured)]
    asked = [(use.energy(w), use.tokens[w.phase.segment]) for w in windows if not use.knows(w)]
    failed = [next(why for why in pair if isinstance(why, str)) for pair in asked]
    return exact(sum(one.value for one in told), sum(one.n for one in told), "chunk", _note(failed, len(windows)))


def _per_token(energy: N, tokens: N) -> N:
    """Energy ÷ tokens of the same windows."""
    if energy.value is None or tokens.value is None:
        return absent(energy.reason if energy.value is None and energy.reason else tokens.reason or _NO_WINDOW)
    if tokens.value <= 0:
        return absent("no output token came in the windows")
    low, high = (None if end is None else end / tokens.value for end in (energy.low, energy.high))
    value, why = energy.value / tokens.value, both(energy, tokens)
    return N(value=value, low=low, high=high, n=int(tokens.value), source=TELEMETRY, reason=why)


def background_power(run: RunData, tracks: Tracks) -> N:
    """Mean power while no segment of any arm ran."""
    spans = sorted((p.started_ns, p.ended_ns or p.started_ns) for p in run.phases)
    if not spans or not tracks.sources:
        return absent(tracks.why_not("power_watts"))
    first, last = spans[0][0], max(end for _, end in spans)
    gaps = [(0, first), *_between(spans), (last, LAST_NS)]
    found = [told for gap in gaps if isinstance(told := tracks.mean("power_watts", *gap), Measured)]
    if not found:
        why = tracks.mean("power_watts", 0, LAST_NS)
        return absent(why if isinstance(why, str) else "no sample fell between the segments")
    n = sum(told.n for told in found)
    return exact(sum(told.value * told.n for told in found) / n, n, TELEMETRY)


def _between(spans: Iterable[Span]) -> list[Span]:
    """Gaps of sorted spans that may overlap."""
    gaps: list[Span] = []
    reached = None
    for start, end in spans:
        if reached is not None and start > reached:
            gaps.append((reached, start))
        reached = end if reached is None else max(reached, end)
    return gaps


def kv_capacity(run: RunData, side: Side) -> N:
    """Tokens that the KV caches of all engines of the arm hold, as the servers told while they were measured."""
    track = GaugeTrack(run.scrapes, side.name, "kv_capacity_tokens", side.data.setting.facts.model)
    told = [mean for w in side.data.windows if (mean := track.mean(*w.whole)) is not None]
    if not told and track.mean(0, LAST_NS) is not None:
        return absent("no look at every metrics page of the arm fell into a measured window")
    if not told:
        return absent("the server's metrics do not tell its KV capacity in any window (vLLM: cache_config_info)")
    values, n = [value for value, _ in told], sum(count for _, count in told)
    if min(values) == max(values):
        return exact(values[0], n, COUNTERS)
    middle = sum(value * count for value, count in told) / n
    note = "it differed between windows: the servers were started again"
    return N(value=middle, low=min(values), high=max(values), n=n, source=COUNTERS, reason=note)


def difference(candidate: N, baseline: N) -> N:
    """candidate − baseline, with the bounds of both."""
    if candidate.value is None or baseline.value is None:
        return absent((candidate.reason if candidate.value is None else baseline.reason) or "not known")
    ends = (candidate.low, candidate.high, baseline.low, baseline.high)
    low = None if ends[0] is None or ends[3] is None else ends[0] - ends[3]
    high = None if ends[1] is None or ends[2] is None else ends[1] - ends[2]
    value = candidate.value - baseline.value
    return N(value=value, low=low, high=high, n=min(candidate.n, baseline.n), source=candidate.source,
             reason=both(candidate, baseline))  # fmt: skip


def quotient(candidate: N, baseline: N) -> N:
    """candidate ÷ baseline of numbers above 0, with the bounds of both."""
    if candidate.value is None or not baseline.value:
        return absent((candidate.reason if candidate.value is None else baseline.reason) or "the baseline's is 0")
    low = None if candidate.low is None or not baseline.high else candidate.low / baseline.high
    high = None if candidate.high is None or not baseline.low else candidate.high / baseline.low
    value = candidate.value / baseline.value
    return N(value=value, low=low, high=high, n=min(candidate.n, baseline.n), source=candidate.source,
             reason=both(candidate, baseline))  # fmt: skip


def both(one: N, other: N) -> str | None:
    """What is to be known of either."""
    return "; ".join(dict.fromkeys(n.reason for n in (one, other) if n.reason)) or None
