"""A canary in words, a few lines for each window. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from loadgen.control import CanaryStanding, CheckStanding, reading_text
from loadgen.experiment.canary.checks import Checks
from loadgen.experiment.canary.records import CanaryResult

_MARKS = {"ok": "·", "doubtful": "?", "fail": "!", "no_data": "–"}


def begun_lines(result: CanaryResult, checks: Checks) -> Iterator[str]:
    names = ", ".join(f"{c.name} ({c.source})" for c in checks.ids)
    yield f"watching {result.arm} beside {result.baseline} in windows of {result.window_s:g} s: {names}"
    for check, why in checks.left_out.items():
        yield f"not checked: {check.name} ({check.source}): {why}"
    if result.dry_run:
        yield "dry run: no webhook is called and no switch is pulled"


def window_lines(standing: CanaryStanding) -> Iterator[str]:
    """The state, and every check that is not simply ok."""
    window = standing.window
    at = datetime.fromtimestamp(window.end_s, UTC).strftime("%H:%M:%S")
    change = f" (was {standing.before})" if standing.changed else ""
    seen = window.share_reason or "not known" if window.share is None else f"{window.share:.1%}"
    yield f"{at} window {window.number}: {standing.state}{change}, verdict {standing.verdict}, traffic share {seen}"
    for check in standing.checks:
        if check.state != "ok" or standing.changed:
            yield f"  {_MARKS[check.state]} {_of_check(check)}"


def _of_check(standing: CheckStanding) -> str:
    row = f", {standing.failing} failing in a row" if standing.failing else ""
    return f"{standing.check.name} ({standing.check.source}) {standing.state}{row}: {reading_text(standing.reading)}"


def end_lines(result: CanaryResult) -> Iterator[str]:
    states = ", ".join(f"{n} {state}" for state, n in result.windows_by_state.items()) or "none"
    yield f"{result.windows} windows ({states}); state {result.state}, verdict {result.verdict}"
    yield from (f"  {reason}" for reason in result.reasons)
