"""The go-live checklist on a terminal and for a pull request. Nothing is computed."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.redact import printable
from loadgen.report.markdown import code, plain
from loadgen.verdict import Checklist

STYLES = {"pass": "bold green", "fail": "bold red", "not_shown": "bold yellow"}
_WORDS = {"pass": "pass", "fail": "FAIL", "not_shown": "not shown"}
_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "not_shown": "❔ not shown"}


def render_checklist(found: Checklist, console: Console) -> None:
    console.print(Text(f"Go-live checklist: {_WORDS[found.state]}", style=STYLES[found.state]))
    if found.target is not None:
        console.print(Text(printable(_target(found)), style="dim"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("item", "state", "why", "evidence"):
        table.add_column(name, overflow="fold", no_wrap=name == "state")
    for item in found.items:
        evidence = Text(printable("\n".join(item.evidence) or "–"))
        state = Text(_WORDS[item.state], style=STYLES[item.state])
        table.add_row(Text(item.title), state, Text(printable(item.why)), evidence)
    console.print(table)
    for aside in found.set_aside:
        console.print(Text(printable(f"set aside: {aside.run_id}: {aside.why}"), style="yellow"))


def checklist_markdown(found: Checklist) -> str:
    """GitHub's Markdown. Names of servers and scenarios are shown as they are, never as markup."""
    lines = [f"## Go-live checklist: {_MARKS[found.state]}", ""]
    if found.target is not None:
        lines += [plain(_target(found)), ""]
    lines += ["| item | state | why | evidence |", "|---|---|---|---|"]
    for item in found.items:
        evidence = "<br>".join(map(code, item.evidence)) or "–"
        lines.append(f"| {plain(item.title)} | {_MARKS[item.state]} | {plain(item.why)} | {evidence} |")
    if found.set_aside:
        lines += ["", *(f"- set aside: {code(aside.run_id)}: {plain(aside.why)}" for aside in found.set_aside)]
    return "\n".join([*lines, "", f"Made {found.at}."]) + "\n"


def _target(found: Checklist) -> str:
    assert found.target is not None
    facts = ", ".join(f"{key} {value}" for key, value in found.target.facts.items())
    arms = " against ".join(filter(None, (found.target.candidate, found.target.baseline)))
    unknown = f"; not known: {', '.join(found.target.unknown)}" if found.target.unknown else ""
    return f"{arms} of {found.target.run_id}: {facts}{unknown}"
