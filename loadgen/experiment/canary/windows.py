"""What came in of a canary, cut into windows, and each window's numbers. Nothing here waits or reads a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadgen.analyze import CountedArm, Estimate, Probe, counted_estimates, probed_estimates, traffic_share
from loadgen.control import CanaryWindow, CheckId, CheckReading
from loadgen.experiment.canary.checks import Checks, reading
from loadgen.observe import CounterWindow, Scrape, window
from loadgen.scenario import WINDOW_BLOCKS, CanaryKeys

#: Pairs of which one half is still awaited; an older one is given up.
AWAITED = 10_000
_NO_LOOK = "not one look at the metrics page in this time"


@dataclass
class WindowData:
    """Of one window, by arm. `pairs`: probes that both arms have ended; `sent`: probes that ended, of each arm."""

    probes: dict[str, list[Probe]] = field(default_factory=dict)
    increases: dict[str, list[tuple[int, CounterWindow]]] = field(default_factory=dict)
    failed_looks: dict[str, str] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def restarted(self) -> list[str]:
        return [name for name, some in self.increases.items() if any(one.restarts for _, one in some)]


class Looks:
    """Increases between neighbouring usable looks at each page. What a page did while it could not be read is told by
    the first look after."""

    def __init__(self, models: dict[str, str]) -> None:
        self._models = models
        self._last: dict[tuple[str, str], Scrape] = {}

    def increase(self, look: Scrape) -> CounterWindow | str | None:
        """None: the first look; a reason: an unusable one."""
        model, key = self._models[look.arm], (look.arm, look.source)
        if look.page is None:
            return f"{look.source}: {look.reason or look.status}"
        if look.page.model_names and model not in look.page.model_names:
            return f"{look.source}: shows {', '.join(look.page.model_names)}, not {model}"
        last = self._last.get(key)
        if last is not None and look.asked_ns < last.answered_ns:
            return None
        self._last[key] = look
        return None if last is None else window([last, look], look.arm, model, last.answered_ns, look.asked_ns)


class CanaryWindows:
    """Takes probes and looks as they come; `cut` ends a window, `judge` makes its numbers. Memory is bounded by
    `pooled_windows`. Times are seconds since the monitor's start."""

    def __init__(self, keys: CanaryKeys, checks: Checks, canary: str, baseline: str, artefacts: dict[str, bool | None],
                 models: dict[str, str], seed: int) -> None:  # fmt: skip
        self._keys, self._checks, self._seed = keys, checks, seed
        self._names = canary, baseline
        self._artefacts = artefacts
        self._looks = Looks(models)
        self._open = WindowData()
        self._awaited: dict[str, dict[int, Probe]] = {name: {} for name in self._names}
        self._kept: deque[WindowData] = deque(maxlen=keys.pooled_windows)
        self._number = 0
        self._grace = keys.grace_windows

    def block_at(self, at_s: float) -> int:
        return int(at_s / (self._keys.window_s / WINDOW_BLOCKS))

    def probe(self, arm: str, probe: Probe) -> None:
        """Both halves of a pair count in the window in which the second one ended."""
        self._open.sent[arm] = self._open.sent.get(arm, 0) + 1
        other = self._names[1] if arm == self._names[0] else self._names[0]
        theirs = self._awaited[other].pop(probe.pair, None)
        if theirs is None:
            mine = self._awaited[arm]
            mine[probe.pair] = probe
            while len(mine) > AWAITED:
                del mine[next(iter(mine))]
            return
        for name, one in ((arm, probe), (other, theirs)):
            self._open.probes.setdefault(name, []).append(one)

    def look(self, look: Scrape, at_s: float) -> CounterWindow | None:
        """What the counters did since the last usable look, where that can be told."""
        found = self._looks.increase(look)
        if isinstance(found, str):
            self._open.failed_looks[look.arm] = found
        elif found is not None:
            self._open.increases.setdefault(look.arm, []).append((self.block_at(at_s), found))
            return found
        return None

    def cut(self) -> WindowData:
        """What came since the last cut."""
        data, self._open = self._open, WindowData()
        return data

    def judge(self, data: WindowData, begin_s: float, end_s: float) -> CanaryWindow:
        """`begin_s`, `end_s`: Unix time. Takes a while: not for the event loop. Windows must come in order."""
        self._number += 1
        skipped = self._skipped(data)
        # a window that is not judged takes its place all the same: else the last good ones would stay for ever
        self._kept.append(data if skipped is None else WindowData(failed_looks=dict.fromkeys(self._names, skipped)))
        share, why = self._share(data)
        return CanaryWindow(
            self._number,
            begin_s,
            end_s,
            self._readings([data], skipped),
            self._readings(list(self._kept), None),
            share,
            why,
        )

    def _skipped(self, data: WindowData) -> str | None:
        restarted = data.restarted()
        if restarted and self._keys.grace_windows:
            self._grace = self._keys.grace_windows - 1
            return f"not judged: {' and '.join(restarted)} restarted"
        if self._grace:
            self._grace -= 1
            return "not judged: the first window after a start"
        return None

    def _share(self, data: WindowData) -> tuple[float | None, str | None]:
        if not self._keys.counters:
            return None, "not known (canary.counters is false)"
        canary, baseline = (self._counted([data], name) for name in self._names)
        own = data.sent.get(self._names[0], 0), data.sent.get(self._names[1], 0)
        return traffic_share(canary, baseline, own, self._keys.least_requests)

    def _counted(self, some: Sequence[WindowData], name: str) -> CountedArm:
        increases = [one for data in some for one in data.increases.get(name, [])]
        reasons = [data.failed_looks[name] for data in some if name in data.failed_looks]
        return CountedArm.of(increases, self._artefacts[name], reasons[-1] if reasons else _NO_LOOK)

    def _readings(self, some: Sequence[WindowData], skipped: str | None) -> tuple[CheckReading, ...]:
        found: list[CheckReading] = []
        for source, estimates in (("probes", self._probed(some)), ("counters", self._counters(some))):
            for name, estimate in estimates.items():
                found.append(reading(CheckId(name, source), self._keys, estimate, skipped))  # type: ignore[arg-type]
        return tuple(found)

    def _probed(self, some: Sequence[WindowData]) -> dict[str, Estimate]:
        canary, baseline = ([p for data in some for p in data.probes.get(name, [])] for name in self._names)
        return probed_estimates(
            canary,
            baseline,
            self._checks.of("probes"),
            least_requests=self._keys.least_requests,
            least_draft_tokens=self._keys.least_draft_tokens,
            seed=self._seed + self._number,
        )

    def _counters(self, some: Sequence[WindowData]) -> dict[str, Estimate]:
        canary, baseline = (self._counted(some, name) for name in self._names)
        return counted_estimates(
            canary,
            baseline,
            self._checks.of("counters"),
            least_requests=self._keys.least_requests,
            least_draft_tokens=self._keys.least_draft_tokens,
        )
