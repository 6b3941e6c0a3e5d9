"""Is a canary well, by windows one after the other. Pure; time is told (docs/canary.md, "States").

Two questions with two answers. The *state* follows single windows, for alarms: it turns to fail on the third failing
window in a row. The *verdict* is what the last hour or so of windows, taken together, has shown: fail while the state
is, pass only where every check is shown to keep its limit, else inconclusive. What is missing is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, NamedTuple

from loadgen.control.live import IN_A_ROW

CanaryState = Literal["ok", "doubtful", "fail", "no_data"]
CanaryVerdict = Literal["pass", "fail", "inconclusive"]
#: `skipped`: not judged at all, the server has just started.
CanaryResult = Literal["pass", "fail", "unclear", "no_data", "skipped"]
CheckSource = Literal["probes", "counters"]

CANARY_STATES: tuple[CanaryState, ...] = ("ok", "doubtful", "fail", "no_data")
#: Windows in a row that end a fail: within the limit, or without any data (then nothing is known any more).
GOOD_IN_A_ROW = BLIND_IN_A_ROW = 3
_WORST: tuple[CanaryState, ...] = ("fail", "doubtful", "no_data", "ok")


class CheckId(NamedTuple):
    """One number that is watched, by where it comes from: both sources of one number are two checks."""

    name: str
    source: CheckSource


@dataclass(frozen=True, slots=True)
class CheckReading:
    """A number with its 95 % interval and the limit that it must keep. `bad`: on which side of the limit is failing.

    None, or NaN: not known, `reason` says why. +inf is a value (a percentile among failed requests). `skipped`: the
    number is there, and is not judged, for `reason`.
    """

    check: CheckId
    limit: float
    bad: Literal["above", "below"]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: str = ""
    reason: str | None = None
    skipped: bool = False

    @property
    def result(self) -> CanaryResult:
        """pass: the whole interval keeps the limit; fail: none of it does; a number without an interval is no data."""
        if self.skipped:
            return "skipped"
        if any(number is None or isnan(number) for number in (self.value, self.low, self.high)):
            return "no_data"
        assert self.low is not None
        assert self.high is not None
        if self.bad == "above":
            return "pass" if self.high <= self.limit else "fail" if self.low > self.limit else "unclear"
        return "pass" if self.low >= self.limit else "fail" if self.high < self.limit else "unclear"

    @property
    def within(self) -> bool:
        """Whether the number itself keeps the limit; False where it is not known."""
        if self.value is None or isnan(self.value):
            return False
        return self.value <= self.limit if self.bad == "above" else self.value >= self.limit


@dataclass(frozen=True, slots=True)
class CanaryWindow:
    """One window, times in Unix seconds. `pooled`: the same checks over the last windows together, this one included.

    `share`: of the traffic that both arms answered, the canary's part; None: not known, for `share_reason`.
    """

    number: int
    begin_s: float
    end_s: float
    readings: tuple[CheckReading, ...]
    pooled: tuple[CheckReading, ...]
    share: float | None = None
    share_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CheckStanding:
    """How one check stands after a window. `failing`: failing windows in a row."""

    check: CheckId
    state: CanaryState
    failing: int
    reading: CheckReading
    pooled: CheckReading


@dataclass(frozen=True, slots=True)
class CanaryStanding:
    """How the canary stands after a window. `before`: the state until then; `since_s`: Unix time since which this one
    holds. `reasons`: why the verdict is no pass, worst first; empty where it is one."""

    window: CanaryWindow
    state: CanaryState
    before: CanaryState
    since_s: float
    verdict: CanaryVerdict
    reasons: tuple[str, ...]
    checks: tuple[CheckStanding, ...]

    @property
    def changed(self) -> bool:
        return self.state != self.before


class Canary:
    """The checks of one canary, window after window; its memory does not grow. `least_share`: of the traffic, below
    which nothing can pass; None: any will do. Before the first window the state is no_data."""

    def __init__(self, checks: Sequence[CheckId], least_share: float | None = None) -> None:
        if not checks or len(set(checks)) < len(checks):
            raise ValueError("at least one check, each of them once")
        self._watches = {check: _Watch() for check in checks}
        self._least_share = least_share
        self._state: CanaryState = "no_data"
        self._since_s: float | None = None

    def take(self, window: CanaryWindow) -> CanaryStanding:
        """A check that the window does not tell of has no data."""
        readings, pooled = _by_check(window.readings), _by_check(window.pooled)
        checks = []
        for check, watch in self._watches.items():
            reading = readings.get(check, _untold(check))
            watch.take(reading)
            checks.append(CheckStanding(check, watch.state, watch.failing, reading, pooled.get(check, _untold(check))))
        before, self._state = self._state, _worst(c.state for c in checks)
        if self._since_s is None:
            self._since_s = window.begin_s
        if self._state != before:
            self._since_s = window.end_s
        reasons = tuple(self._reasons(window, checks))
        verdict: CanaryVerdict = "fail" if self._state == "fail" else "inconclusive" if reasons else "pass"
        return CanaryStanding(window, self._state, before, self._since_s, verdict, reasons, tuple(checks))

    def _reasons(self, window: CanaryWindow, checks: Sequence[CheckStanding]) -> Iterable[str]:
        for state in _WORST[:-1]:
            for standing in checks:
                if standing.state == state:
                    yield f"{_named(standing.check)} {_why(standing)}"
        for standing in checks:
            if standing.state == "ok" and standing.pooled.result != "pass":
                shown = reading_text(standing.pooled)
                yield f"{_named(standing.check)} keeps its limit, but that is not shown yet: {shown}"
        if self._least_share is not None and (window.share is None or window.share < self._least_share):
            seen = window.share_reason or "not known" if window.share is None else f"{window.share:.3%}"
            yield f"the canary's share of the traffic is {seen}; at least {self._least_share:.3%} must be seen"


class _Watch:
    """One check: how many windows of a kind came in a row, and what follows."""

    def __init__(self) -> None:
        self.state: CanaryState = "no_data"
        self.failing = self._good = self._blind = 0

    def take(self, reading: CheckReading) -> None:
        result = reading.result
        self.failing = self.failing + 1 if result == "fail" else 0
        self._blind = self._blind + 1 if result == "no_data" else 0
        self._good = self._good + 1 if result in ("pass", "unclear") and reading.within else 0
        if result == "skipped":
            return
        if self.failing >= IN_A_ROW:
            self.state = "fail"
        elif self.state == "fail":
            self.state = "ok" if self._good >= GOOD_IN_A_ROW else "no_data" if self._blind >= BLIND_IN_A_ROW else "fail"
        elif result == "no_data":
            self.state = "no_data"
        else:
            self.state = "ok" if self._good else "doubtful"


def reading_text(reading: CheckReading) -> str:
    """The number as a reader needs it: with interval, limit and n; or why it is not known."""
    if reading.value is None or isnan(reading.value):
        return reading.reason or "no reason given"
    known = reading.low is not None and reading.high is not None
    interval = f" [{reading.low:.4g}, {reading.high:.4g}]" if known else ""
    if reading.skipped:
        return f"{reading.value:.4g}{interval}; {reading.reason}"
    interval = interval or f" ({reading.reason or 'no interval'})"
    side = "at most" if reading.bad == "above" else "at least"
    return f"{reading.value:.4g}{interval}, limit {side} {reading.limit:.4g}, n = {reading.n} {reading.unit}".rstrip()


def _why(standing: CheckStanding) -> str:
    if standing.state == "no_data":
        return f"has no data: {reading_text(standing.reading)}"
    if standing.state == "doubtful":
        return f"is in doubt ({standing.failing} of {IN_A_ROW} failing windows): {reading_text(standing.reading)}"
    if standing.failing >= IN_A_ROW:
        return f"failed in {standing.failing} windows in a row: {reading_text(standing.reading)}"
    return f"has failed and has not recovered: {reading_text(standing.reading)}"


def _named(check: CheckId) -> str:
    return f"{check.name} ({check.source})"


def _by_check(readings: Iterable[CheckReading]) -> dict[CheckId, CheckReading]:
    return {reading.check: reading for reading in readings}


def _untold(check: CheckId) -> CheckReading:
    return CheckReading(check, limit=0.0, bad="above", reason="the window does not tell it")


def _worst(states: Iterable[CanaryState]) -> CanaryState:
    return min(states, key=_WORST.index)
