"""The verdict for a pull request: the word first, one table, how to do it again."""

from __future__ import annotations

import re

from loadgen.analyze import Resources
from loadgen.redact import printable
from loadgen.report.resources import markdown_lines
from loadgen.verdict import Result, Verdict

_MARKS = {True: "✅ pass", False: "❌ fail", None: "❔ inconclusive"}
_HEAD = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}


def render_markdown(verdict: Verdict, resources: Resources | None = None) -> str:
    """GitHub's Markdown; below the thresholds what the arms used and cost, where any of it is known. Names of servers
    and scenarios are shown as they are, never as markup."""
    lines = [f"## specload: {_HEAD[verdict.verdict]}", "", *(f"- {plain(reason)}" for reason in _reasons(verdict))]
    lines += [
        "",
        "| threshold | result | measured | 95 % interval | limit | n |",
        "|---|---|---|---|---|---|",
        *map(_row, verdict.thresholds),
    ]
    if resources is not None:
        lines += markdown_lines(resources, code, plain)
    if verdict.notes:
        lines += ["", *(f"> {plain(note)}<br>" for note in verdict.notes)]
    lines += ["", f"Run {code(verdict.run_id)}", "", "```sh", *map(_shell, verdict.reproduce), "```"]
    return "\n".join(lines) + "\n"


def _reasons(verdict: Verdict) -> list[str]:
    """The table says what each threshold came to: of a pass one sentence is enough."""
    return verdict.reasons[:1] if verdict.verdict == "pass" else verdict.reasons


def _row(result: Result) -> str:
    low, high = result.interval or (None, None)
    interval = "–" if result.interval is None else f"[{_number(low, '-∞')}, {_number(high, '∞')}]"
    unit = f" {result.unit}" if result.unit not in ("", "×") else result.unit
    than = {"ratio": " × baseline", "difference": f"{unit} above baseline", None: unit}[result.relative]
    cells = [
        code(result.name),
        _MARKS[result.ok],
        "–" if result.value is None else f"{_number(result.value, '–')}{unit}",
        interval,
        f"{result.op} {_number(result.limit, '–')}{than}",
        f"{result.n:,} {result.n_unit}",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(value: float | None, absent: str) -> str:
    return absent if value is None else f"{value:.4g}"


def plain(text: str) -> str:
    """Markup characters escaped, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(printable(text).split()))


def code(text: str) -> str:
    return f"`{' '.join(printable(text).replace('`', chr(39)).split())}`"


def _shell(line: str) -> str:
    return printable(line).replace("```", "'''").replace("\n", " ")
