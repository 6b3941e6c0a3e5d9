"""Warm-up as it went: which windows are still wanted, and what the manifest says of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from loadgen.control import Settling, WarmUpWindow, settle
from loadgen.drive import Warmed
from loadgen.plan import Segment
from loadgen.scenario import Warmup

_Visit = tuple[int, str, int, bool]


class WarmUps:
    """Every warm-up of a run: of a stage and arm, each visit apart."""

    def __init__(self, keys: Warmup) -> None:
        self._keys = keys
        self._windows: dict[_Visit, list[WarmUpWindow]] = {}
        self._found: dict[_Visit, Settling] = {}
        self._stages: dict[_Visit, str] = {}

    def wanted(self, segment: Segment) -> bool:
        """Whether the segment is still to be driven: a further window only where the server has not settled."""
        found = self._found.get(_visit(segment)) if segment.phase == "warmup" else None
        return found is None or not found.over

    def note(self, segment: Segment, seen: Warmed) -> str | None:
        """A window has been driven. What is to be said: that warm-up has ended and the server has not settled."""
        visit = _visit(segment)
        pace = seen.busy_ns / 1e9 / seen.tokens if seen.tokens else None
        windows = self._windows.setdefault(visit, [])
        windows.append(WarmUpWindow(seen.requests, seen.ok, pace))
        self._stages[visit] = segment.stage
        found = self._found[visit] = settle(windows, self._keys.agree_within, self._keys.windows)
        if not found.over or found.settled is not False:
            return None
        return f"warm-up of {segment.arm} at {segment.stage}: {found.reason}"

    def facts(self) -> list[dict[str, Any]]:
        """For the manifest, in the order driven. `settled` None: too little was driven to tell."""
        return [
            {
                "stage": self._stages[visit],
                "arm": visit[1],
                "repeat": visit[2],
                "swapped": visit[3],
                "settled": found.settled if found.over else None,
                "spread": found.spread,
                "reason": found.reason,
                "windows": [asdict(window) for window in self._windows[visit]],
            }
            for visit, found in self._found.items()
        ]


def _visit(segment: Segment) -> _Visit:
    return segment.stage_index, segment.arm, segment.repeat_idx, segment.swapped
