"""The verdict in a terminal: the word, why, each threshold in one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from loadgen.redact import printable
from loadgen.verdict import Result, Verdict

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
#: More thresholds than these share lines: the page must fit a terminal.
SHOWN_IN_FULL = 8


def render_verdict(verdict: Verdict, console: Console) -> None:
    """First the word, then what decided it. All of it stands in verdict.json."""
    head = Text(f"Verdict: {verdict.verdict}", style=STYLES[verdict.verdict])
    head.append(printable(f" · {verdict.run_id} · {_scope(verdict)}"), style="dim")
    console.print(head)
    for obstacle in verdict.obstacles:
        console.print(Text(printable(f"  ! {obstacle}"), style="yellow"))
    if len(verdict.thresholds) > SHOWN_IN_FULL:
        lines = _folded(verdict.thresholds)
    else:
        lines = [(result.ok, result.sentence) for result in verdict.thresholds]
    for ok, text in lines:
        mark, style = _MARKS[ok]
        console.print(Text(printable(f"  {mark} {text}"), style=style))
    for note in verdict.notes:
        console.print(Text(printable(f"  {note}"), style="dim"))


def _folded(results: Sequence[Result]) -> list[tuple[bool | None, str]]:
    """Each that failed; those that are undecided for the same reason in one line; those that are met in one."""
    lines: list[tuple[bool | None, str]] = [(False, r.sentence) for r in results if r.ok is False]
    undecided: dict[str | None, list[Result]] = {}
    for result in results:
        if result.ok is None:
            undecided.setdefault(result.reason, []).append(result)
    for reason, alike in undecided.items():
        more = f" and {len(alike) - 1} more: inconclusive: {reason}" if len(alike) > 1 else ""
        lines.append((None, f"{alike[0].name}{more}" if more else alike[0].sentence))
    met = sum(result.ok is True for result in results)
    return [*lines, (True, f"{met} of {len(results)} thresholds are met (all: --json)")] if met else lines


_FROM = {
    "scenario": "thresholds of the scenario",
    "command_line": "thresholds of the command line",
    "defaults": "default thresholds",
}


def _scope(verdict: Verdict) -> str:
    """By what it was judged."""
    told = _FROM[verdict.thresholds_from]
    if verdict.baseline is None:
        return told
    paired = {True: ", paired", False: ", unpaired", None: ""}[verdict.paired]
    return f"{told} · against {verdict.baseline}, {verdict.design}{paired}"
