"""A finished run as OpenMetrics with exact timestamps, for `promtool tsdb create-blocks-from openmetrics`.

The records are replayed through the same counting as a live run, and looked at on a grid of whole seconds of wall
time, as a scraper would that missed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import Metric

from loadgen.analyze import Summary
from loadgen.clock import Anchor
from loadgen.drive import UNKNOWN_TOKENS, Accounting, LoopHealth
from loadgen.errors import StorageError
from loadgen.export.live import RunMetrics
from loadgen.export.store import Metrics
from loadgen.export.tally import Ended, RequestTally
from loadgen.observe import Scrape, TelemetrySample
from loadgen.plan import ClosedLoop, Segment
from loadgen.record import PhaseRecord, RunData
from loadgen.scenario import Scenario
from loadgen.verdict import Verdict
from server_adapters.base import SpecStats

#: Looks at most: a long run is looked at less often.
MOST_LOOKS = 900
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
_BATCH_ROWS = 500


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that happened: a request's end, a look at a page, a second of a worker, a segment's begin or end."""

    at_ns: int
    what: Ended | Scrape | TelemetrySample | LoopHealth | PhaseRecord
    ends: bool = False


def write_openmetrics(run: RunData, summary: Summary, verdict: Verdict | None, path: Path | str) -> int:
    """Write it whole or not at all; how many samples. Raises StorageError.

    A run without any record has no sample.
    """
    path = Path(path)
    special = path.exists() and not path.is_file()
    target = path if special else path.with_name(path.name + ".part")
    try:
        with target.open("w", encoding="utf-8") as file:
            written = 0
            for line in openmetrics_lines(run, summary, verdict):
                written += not line.startswith("#")
                file.write(line + "\n")
        if not special:
            target.replace(path)
    except OSError as error:
        if not special:
            target.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return written


def openmetrics_lines(run: RunData, summary: Summary, verdict: Verdict | None) -> Iterator[str]:
    """Family by family, of each series every sample in the order of time; the last line says the end."""
    found: dict[str, tuple[Metric, dict[tuple[Any, ...], list[str]]]] = {}
    for at_s, metrics in _looks(run, summary, verdict):
        for metric in metrics.collect():
            _, series = found.setdefault(metric.name, (metric, {}))
            for sample in metric.samples:
                labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in sample.labels.items())
                name = f"{sample.name}{{{labels}}}" if labels else sample.name
                series.setdefault((name,), []).append(f"{name} {_number(sample.value)} {_number(at_s)}")
    for name, (metric, series) in found.items():
        yield f"# HELP {name} {_escaped(metric.documentation)}"
        yield f"# TYPE {name} {metric.type}"
        for lines in series.values():
            yield from lines
    yield "# EOF"


def _looks(run: RunData, summary: Summary, verdict: Verdict | None) -> Iterator[tuple[float, Metrics]]:
    """(Unix time, everything as it was then): before the load, in steps, and at its end with the final numbers."""
    events = sorted(_events(run), key=lambda event: event.at_ns)
    if not events:
        return
    if not run.manifest.anchors:
        raise StorageError(f"{run.path}: the manifest does not tell the wall time of its clock")
    zero = run.manifest.anchors[0]
    begin_s, end_s = (_wall_s(events[i].at_ns, zero) for i in (0, -1))
    first, last = floor(begin_s) - 1, ceil(end_s)
    step = max(1, ceil((last - first) / MOST_LOOKS))
    metrics = Metrics()
    replay = _Replay(run, metrics, zero)
    rest = iter(events)
    waiting: _Event | None = next(rest, None)
    for at_s in range(first, last + step, step):
        while waiting is not None and _wall_s(waiting.at_ns, zero) <= at_s:
            replay.happened(waiting)
            waiting = next(rest, None)
        replay.look()
        if waiting is None:
            break
        yield float(at_s), metrics
    replay.metrics.over(events[-1].at_ns)
    replay.metrics.judged(summary, verdict)
    yield float(at_s), metrics


class _Replay:
    def __init__(self, run: RunData, metrics: Metrics, zero: Anchor) -> None:
        scenario = Scenario.model_validate(run.manifest.scenario)
        self._segments = {n: _segment(phase) for n, phase in _newest(run.phases).items()}
        named = [task.task_type for task in scenario.workload.tasks]
        tasks = dict.fromkeys((*named, *map(str, run.requests.column("task_type").unique().to_pylist())))
        self.metrics = RunMetrics(
            metrics,
            scenario,
            list(self._segments.values()),
            tasks,
            run.manifest,
            zero,
        )
        self._tally = RequestTally(self.metrics.tally)
        self._sent: dict[int, int] = dict.fromkeys(self._segments, 0)
        self._zero = zero
        self._in_progress: dict[int, PhaseRecord] = {}

    def happened(self, event: _Event) -> None:
        what = event.what
        if isinstance(what, Ended):
            self._tally.add(what, _wall_s(event.at_ns, self._zero))
        elif isinstance(what, Scrape):
            self.metrics.scraped(what)
        elif isinstance(what, TelemetrySample):
            self.metrics.sampled(what)
        elif isinstance(what, LoopHealth):
            self._tally.health(what)
            self.look()  # another worker's would take its place
        elif not event.ends:
            self.metrics.began(self._segments[what.segment], what.started_ns)
        else:
            self.look()
            books = what.accounting or Accounting()
            self.metrics.drained(self._segments[what.segment], books, what.load_end_ns or event.at_ns)

    def look(self) -> None:
        self.metrics.told(self._tally.take())


def _events(run: RunData) -> Iterator[_Event]:
    for phase in _newest(run.phases).values():
        yield _Event(phase.started_ns, phase)
        if phase.ended_ns is not None:
            yield _Event(phase.ended_ns, phase, ends=True)
    for row in run.health.select([field.name for field in fields(LoopHealth)]).to_pylist():
        yield _Event(row["at_ns"], LoopHealth(**row))
    for scrape in run.scrapes:
        yield _Event(scrape.answered_ns, scrape)
    for sample in run.telemetry:
        yield _Event(sample.answered_ns, sample)
    for batch in run.requests.select(_COLUMNS).to_batches(max_chunksize=_BATCH_ROWS):
        for row in batch.to_pylist():
            if row["arm"] in run.manifest.arms and row["phase"] is not None:
                yield _Event(row["end_ns"], _ended(row))


_COLUMNS = [
    "segment", "arm", "phase", "task_type", "stream", "outcome", "request_id", "sent_ns", "due_ns", "end_ns", "ttft_s",
    "total_time_s", "tpot_s", "chunk_times_s", "chunk_tokens", "input_len", "output_len", "first_tokens",
    "verify_rounds", "accepted_tokens", "drafted_tokens", "accepted_histogram", "rollback_low",
]  # fmt: skip


def _ended(row: dict[str, Any]) -> Ended:
    lag = None if row["sent_ns"] is None or row["due_ns"] is None else (row["sent_ns"] - row["due_ns"]) / 1e9
    gaps = np.diff(np.array(row["chunk_times_s"] or [], dtype=np.float64))
    tokens = [UNKNOWN_TOKENS if n is None else n for n in row["chunk_tokens"] or []]
    spec = None
    if row["verify_rounds"] is not None:
        histogram = None if row["accepted_histogram"] is None else tuple(row["accepted_histogram"])
        spec = SpecStats(row["verify_rounds"], row["accepted_tokens"] or 0, row["drafted_tokens"], None, histogram)
    return Ended(
        row["segment"], row["arm"], row["phase"], row["task_type"], row["stream"], row["outcome"], row["request_id"],
        lag, row["ttft_s"], row["total_time_s"], row["tpot_s"], gaps[gaps > 0], np.array(tokens, dtype=np.int64),
        row["input_len"], row["output_len"], row["first_tokens"], spec, row["rollback_low"] or 0,
    )  # fmt: skip


def _newest(phases: Sequence[PhaseRecord]) -> dict[int, PhaseRecord]:
    """A segment is recorded at its start, and again at its end."""
    return {phase.segment: phase for phase in phases}


def _segment(phase: PhaseRecord) -> Segment:
    """With no load to drive: its books tell what was scheduled."""
    return Segment(
        phase.segment, phase.arm, "warmup" if phase.phase == "warmup" else "measure", phase.stage, phase.stage_index,
        phase.repeat_idx, phase.block, phase.segment, "concurrency", phase.concurrency, phase.rate_per_s, None,
        ClosedLoop(_NONE, _NONE, 0, 1, 0, "first"), phase.swapped,
    )  # fmt: skip


def _wall_s(at_ns: int, zero: Anchor) -> float:
    return (at_ns - zero.mono_ns + zero.wall_ns) / 1e9


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
