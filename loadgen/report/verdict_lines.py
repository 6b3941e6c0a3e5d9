"""The verdict in a terminal: the word, why, each threshold in one line."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from loadgen.redact import printable
from loadgen.verdict import Verdict

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
#: Of more thresholds than these, those that are met share one line: the page must fit a terminal.
SHOWN_IN_FULL = 8


def render_verdict(verdict: Verdict, console: Console) -> None:
    """First the word, then what decided it. All of it stands in verdict.json."""
    head = Text(f"Verdict: {verdict.verdict}", style=STYLES[verdict.verdict])
    head.append(printable(f" · {verdict.run_id} · {_scope(verdict)}"), style="dim")
    console.print(head)
    for obstacle in verdict.obstacles:
        console.print(Text(printable(f"  ! {obstacle}"), style="yellow"))
    folded = len(verdict.thresholds) > SHOWN_IN_FULL
    for result in verdict.thresholds:
        if result.ok and folded:
            continue
        mark, style = _MARKS[result.ok]
        console.print(Text(printable(f"  {mark} {result.sentence}"), style=style))
    met = sum(result.ok is True for result in verdict.thresholds)
    if folded and met:
        console.print(Text(f"  ✓ {met} of {len(verdict.thresholds)} thresholds are met (verdict.json)", style="green"))
    for note in verdict.notes:
        console.print(Text(printable(f"  {note}"), style="dim"))


def _scope(verdict: Verdict) -> str:
    """By what it was judged."""
    told = "thresholds of the scenario" if verdict.thresholds_from == "scenario" else "default thresholds"
    if verdict.baseline is None:
        return told
    paired = {True: ", paired", False: ", unpaired", None: ""}[verdict.paired]
    return f"{told} · against {verdict.baseline}, {verdict.design}{paired}"
