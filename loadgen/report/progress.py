"""Watching a run: bars on a terminal, plain lines elsewhere. On stderr, so that stdout stays data."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from loadgen.control import Live
from loadgen.plan import ClosedLoop, Plan, Segment
from loadgen.redact import printable
from loadgen.report.planned import asked_in_all

#: Width of a bar's label, so that the bars stand still.
LABEL = 36


class RunProgress:
    """Counts what ends; shows the segment, its progress and the failures so far."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.failures = 0
        self.ended_here = 0
        self._blocks: dict[int, int] = {}
        self._repeats = 1
        self._bars: Progress | None = None
        self._whole: TaskID | None = None
        self._part: TaskID | None = None

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None:
        self._blocks = {i: len(stage.requests) for i, stage in enumerate(plan.design.stages)}
        self._repeats = plan.design.repeats
        self.say(f"recording to {path}")
        self.say(f"asked in all: {asked_in_all(plan)}")
        for note in notes:
            self.say(f"note: {note}")
        if self.console.is_terminal:
            self._bars = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("elapsed"),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
                refresh_per_second=2,  # redrawing costs the process that measures
            )
            groups = len({s.group for s in plan.segments})
            self._whole = self._bars.add_task(f"{'segments':<{LABEL}}", total=groups)
            self._part = self._bars.add_task(f"{'requests':<{LABEL}}", total=None)
            self._bars.start()

    def segment(self, segment: Segment, number: int, total: int) -> None:
        self.ended_here = 0
        text = f"{segment.stage} {segment.arm} {self._part_of(segment)}"
        if self._bars is None:
            self.console.print(f"[{number + 1}/{total}] {text}", highlight=False, markup=False)
            return
        assert self._whole is not None
        assert self._part is not None
        self._bars.update(self._whole, completed=number)
        self._bars.reset(self._part, description=f"{text:<{LABEL}}", total=_expected(segment))

    def _part_of(self, segment: Segment) -> str:
        """What of a stage it is: which window of warm-up, or which block of all repeats."""
        if segment.phase == "warmup":
            return f"warm-up window {segment.block + 1}" if segment.block else "warm-up"
        blocks = self._blocks.get(segment.stage_index, 1)
        total = blocks * self._repeats
        return f"block {segment.repeat_idx * blocks + segment.block + 1}/{total}" if total > 1 else "measure"

    def ended(self, requests: int, failed: int) -> None:
        self.ended_here += requests
        self.failures += failed

    def live(self, segment: Segment, live: Live) -> None:
        if self._bars is not None and self._part is not None:
            failures = f" [red]{self.failures} failed[/red]" if self.failures else ""
            queue = f" · {live.server_waiting[-1]:.0f} queued" if live.server_waiting else ""
            text = f"{segment.stage} {segment.arm} {self._part_of(segment)}{queue}"
            self._bars.update(self._part, completed=self.ended_here, description=f"{text:<{LABEL}}{failures}")

    def say(self, text: str) -> None:
        self.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def _expected(segment: Segment) -> int | None:
    if isinstance(segment.load, ClosedLoop):
        return segment.load.cases
    return int(segment.load.due_ns.size)
