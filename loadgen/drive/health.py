"""The client watches itself: a late client blames the server (C21, C23)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import httpx
import psutil

from loadgen.clock import now_ns
from loadgen.drive.kernel.clock_offset import ClockStep, WallOffset
from loadgen.drive.segment_run import SegmentRun
from loadgen.drive.types import LoopHealth, Sink

_SAMPLE_S = 0.01
_REPORT_NS = 1_000_000_000
#: generation-0 threshold during a segment: collections stay rare, and cycles still do not pile up
_GC_THRESHOLDS = (50_000, 20, 100)


def steps_of(transport: httpx.AsyncBaseTransport) -> Sequence[ClockStep] | None:
    """The list into which a transport writes the steps of the wall clock that it sees; None: it does not look."""
    offset = getattr(transport, "offset", None)
    return offset.steps if isinstance(offset, WallOffset) else None


async def watch_loop(
    run: SegmentRun,
    worker: int,
    sink: Sink,
    fault: Callable[[Exception], None],
    steps: Sequence[ClockStep] | None = None,
) -> None:
    """Sample the event loop's lag every 10 ms, report each second, until cancelled; the rest is reported then.

    Lag is how much later than asked a sleep ended; the timers' own grain of 1 ms is in it. `steps`: of the wall
    clock, growing.
    """
    meter = _Meter(run, worker, steps)
    try:
        while True:
            asked_ns = now_ns()
            await asyncio.sleep(_SAMPLE_S)
            meter.lags_ns.append(now_ns() - asked_ns - int(_SAMPLE_S * 1e9))
            if now_ns() - meter.since_ns >= _REPORT_NS:
                _report(meter, sink, fault)
    finally:
        if meter.lags_ns:
            _report(meter, sink, fault)


def _report(meter: _Meter, sink: Sink, fault: Callable[[Exception], None]) -> None:
    try:
        sink.health(meter.read())
    except Exception as error:
        fault(error)


class _Meter:
    def __init__(self, run: SegmentRun, worker: int, steps: Sequence[ClockStep] | None) -> None:
        self._run = run
        self._worker = worker
        self._process = psutil.Process()
        self._cpu_s = time.process_time()
        self.since_ns = now_ns()
        self.lags_ns: list[int] = []
        self._steps = steps
        self._steps_told = 0

    def read(self) -> LoopHealth:
        """The state since the last reading."""
        at_ns, cpu_s, lags = now_ns(), time.process_time(), sorted(self.lags_ns)
        health = LoopHealth(
            at_ns=at_ns,
            worker=self._worker,
            lag_p50_s=max(0, lags[(len(lags) - 1) // 2]) / 1e9,
            lag_max_s=max(0, lags[-1]) / 1e9,
            cpu_share=(cpu_s - self._cpu_s) / max(1e-9, (at_ns - self.since_ns) / 1e9),
            in_flight=len(self._run.flights),
            send_lag_max_s=self._run.send_lag_max_ns / 1e9,
            rss_bytes=self._process.memory_info().rss,
            clock_step_s=self._clock_step_s(),
        )
        self._run.send_lag_max_ns = 0
        self._cpu_s, self.since_ns = cpu_s, at_ns
        self.lags_ns.clear()
        return health

    def _clock_step_s(self) -> float | None:
        if self._steps is None:
            return None
        new, self._steps_told = self._steps[self._steps_told :], len(self._steps)
        return max((abs(step.delta_ns) for step in new), default=0) / 1e9


_quiet = 0
_thresholds = (0, 0, 0)
_frozen_before = False


@contextmanager
def quiet_gc() -> Iterator[None]:
    """Freeze what exists and collect rarely, so that no full collection stops the loop. Nests. Who has frozen objects
    before keeps them so."""
    global _quiet, _thresholds, _frozen_before
    if _quiet == 0:
        _frozen_before = gc.get_freeze_count() > 0
        gc.collect()
        gc.freeze()
        _thresholds = gc.get_threshold()
        gc.set_threshold(*_GC_THRESHOLDS)
    _quiet += 1
    try:
        yield
    finally:
        _quiet -= 1
        if _quiet == 0:
            gc.set_threshold(*_thresholds)
            if not _frozen_before:
                gc.unfreeze()
