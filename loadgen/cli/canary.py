"""The command `canary`: windows as they end, and the canary's verdict as exit code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli.arguments import arms_of, loaded_of, seconds_of
from loadgen.cli.base import RUNS, ArmUrl, Exit, Json, Out, ScenarioFile, Set, app, err, line, print_json
from loadgen.cli.serving import LOCAL, Linger, MetricsHost, MetricsPort, Textfile, served
from loadgen.control import CanaryStanding, CanaryVerdict
from loadgen.experiment import (
    CanaryOptions,
    Checks,
    begun_lines,
    canary_keys,
    end_lines,
    read_canary,
    run_canary,
    window_lines,
)
from loadgen.redact import printable

_CODES: dict[CanaryVerdict, Exit] = {"pass": Exit.PASS, "fail": Exit.FAIL, "inconclusive": Exit.INCONCLUSIVE}


@app.command()
def canary(
    scenario: ScenarioFile,
    arm: ArmUrl = [],  # noqa: B006
    out_dir: Out = RUNS,
    set_: Set = [],  # noqa: B006
    for_: Annotated[
        str | None, typer.Option("--for", help="end by itself after so long: 30m, 2h; default: when interrupted")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="call no webhook and pull no switch, say what would be done")
    ] = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOCAL,
    linger: Linger = 0.0,
    textfile: Textfile = None,
    json: Json = False,
) -> None:
    """Watch a canary beside its baseline, window after window; the section canary of the scenario says how."""
    arms = arms_of(arm)
    loaded = loaded_of(scenario, set_, arms)
    canary_keys(loaded)
    for_s = seconds_of(for_, "--for")
    with served(metrics_port, metrics_host, linger, textfile) as metrics:
        options = CanaryOptions(out_dir, for_s, dry_run, metrics, arms)
        folder, result = asyncio.run(run_canary(loaded, options, _Shown(to_stderr=json)))
    if json:
        print_json(result.model_dump(mode="json", by_alias=True))
    else:
        for text in end_lines(result):
            line(text, soft_wrap=True)
        line(f"records: {folder}", soft_wrap=True)
    raise typer.Exit(_CODES[result.verdict])


class _Shown:
    """Lines on stdout, or on stderr where stdout is for JSON."""

    def __init__(self, *, to_stderr: bool) -> None:
        self._to_stderr = to_stderr

    def begun(self, folder: Path, checks: Checks) -> None:
        for text in begun_lines(read_canary(folder), checks):
            self._line(text)

    def window(self, standing: CanaryStanding) -> None:
        for text in window_lines(standing):
            self._line(text)

    def say(self, text: str) -> None:
        err.print(printable(text), markup=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        if self._to_stderr:
            self.say(text)
        else:
            line(text, soft_wrap=True)
