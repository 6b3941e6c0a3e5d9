"""What all commands share: the application, its options, its exit codes, its two outputs."""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from loadgen import __version__
from loadgen.redact import printable


class Exit(IntEnum):
    """Contract: docs/cli.md."""

    PASS = 0
    INTERNAL = 1
    USAGE = 2
    TARGET = 3
    INCONCLUSIVE = 98
    FAIL = 99
    INTERRUPTED = 130


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: A pipe has no width: wide enough for every table.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)

ScenarioFile = Annotated[Path, typer.Argument(help="scenario file (YAML); keys: docs/scenario.md")]
RunDir = Annotated[Path, typer.Argument(help="run directory, or a run id under --out")]
Out = Annotated[Path, typer.Option("--out", help="folder of run directories")]
Set = Annotated[list[str], typer.Option("--set", help="override a scenario key: dotted.key=value (repeatable)")]
ArmUrl = Annotated[list[str], typer.Option("--arm", help="URL of an arm: name=URL (repeatable)")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=256, help="processes that drive the load; default: as needed")
]
Json = Annotated[bool, typer.Option("--json", help="print JSON on stdout, nothing else")]

TimeBudget = Annotated[
    str | None, typer.Option("--time-budget", help="fit the scenario into so much time: 90s, 10m, 1h, 1h30m")
]

ThresholdTexts = Annotated[
    list[str], typer.Option("--threshold", help="judge by this instead of the scenario's thresholds (repeatable)")
]
RUNS = Path("runs")
LAST_PASS = "last-pass"


def complain(text: str) -> None:
    """On stderr, in red. The text may hold what a server said."""
    err.print(f"specload: {printable(text)}", style="red", markup=False, soft_wrap=True)


def line(text: str, soft_wrap: bool = False) -> None:
    """On stdout, as it is: names that servers chose are no markup. `soft_wrap`: one line, however long."""
    out.print(printable(text), markup=False, soft_wrap=soft_wrap)


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n")
    sys.stdout.buffer.flush()


@app.callback(invoke_without_command=True)
def specload(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Load testing of LLM inference servers whose subject is speculative decoding."""
    if version:
        out.print(__version__)
        raise typer.Exit(Exit.PASS)
