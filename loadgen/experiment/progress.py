"""Who watches a run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from loadgen.control import Live
from loadgen.plan import Plan, Segment


class Progress(Protocol):
    """Who watches a run. Called on the coordinator's loop: must be cheap."""

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None:
        """So many more requests have ended, of which so many were neither ok nor cut by ourselves."""

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None: ...
