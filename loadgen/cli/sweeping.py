"""The command `sweep`: its plan, its progress, its report and its exit code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from loadgen.cli.arguments import arms_of, loaded_of, run_path, seconds_of
from loadgen.cli.base import (
    RUNS,
    ArmUrl,
    Exit,
    Json,
    Out,
    ScenarioFile,
    Set,
    TimeBudget,
    Workers,
    app,
    complain,
    err,
    out,
    print_json,
)
from loadgen.cli.serving import LOCAL, Linger, MetricsHost, MetricsPort, Textfile, served
from loadgen.experiment import DEFAULT_TRANSPORT, SweepOptions, SweepPlanned, SweepResult, planned_sweep, run_sweep
from loadgen.redact import printable
from loadgen.report import RunProgress, render_sweep_plan, render_sweep_terminal

Resume = Annotated[
    Path | None, typer.Option("--resume", help="go on with this sweep's directory: what is measured stays measured")
]


@app.command()
def sweep(
    scenario: ScenarioFile,
    arm: ArmUrl = [],  # noqa: B006
    out_dir: Out = RUNS,
    resume: Resume = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show points, order, requests and time; send no load")
    ] = False,
    set_: Set = [],  # noqa: B006
    transport: Annotated[
        Literal["plain", "kernel"], typer.Option("--transport", help="stamps in user space, or the kernel's (Linux)")
    ] = DEFAULT_TRANSPORT,
    workers: Workers = None,
    time_budget: TimeBudget = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOCAL,
    linger: Linger = 0.0,
    textfile: Textfile = None,
    json: Json = False,
) -> None:
    """Try the settings of the scenario's section sweep, one run each, and say where the gain is and where it ends."""
    arms = arms_of(arm)
    loaded = loaded_of(scenario, set_, arms)
    budget_s = seconds_of(time_budget)
    folder = None if resume is None else run_path(resume, out_dir)
    planned = planned_sweep(loaded, folder)
    if dry_run:
        return _show_plan(planned, budget_s, json)
    with served(metrics_port, metrics_host, linger, textfile) as metrics:
        options = SweepOptions(out_dir, folder, tuple(set_), arms, workers, transport, budget_s, metrics)
        watch = SweepProgress(err)
        if not json:
            render_sweep_plan(planned, budget_s, err, short=True)
        try:
            result = asyncio.run(run_sweep(loaded, options, watch))
        except KeyboardInterrupt:
            complain(f"interrupted; go on with: {_resume_command(scenario, watch.folder or out_dir)}")
            raise typer.Exit(Exit.INTERRUPTED) from None
        finally:
            watch.point_over()
        _finish(result, scenario, json)
    return None


class SweepProgress:
    """Lines of the sweep, and the progress display of each point's run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._run: RunProgress | None = None
        self.folder: Path | None = None

    def begun(self, folder: Path) -> None:
        self.folder = folder

    def say(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def point(self) -> RunProgress:
        self.point_over()
        self._run = RunProgress(self._console)
        return self._run

    def point_over(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


def _show_plan(planned: SweepPlanned, budget_s: float | None, json: bool) -> None:
    if json:
        return print_json(planned.as_dict(budget_s))
    render_sweep_plan(planned, budget_s, out)
    return None


def _finish(result: SweepResult, scenario: Path, json: bool) -> None:
    """Show it, and end with its code: 0 where everything that was to be visited was, 98 where a visit failed."""
    summary = result.summary
    if json:
        print_json(summary.model_dump(mode="json"))
    else:
        render_sweep_terminal(summary, out)
        out.print(f"page: {result.path / 'sweep.html'}", markup=False, soft_wrap=True)
        out.print(f"records: {result.path} · again: specload report {result.path}", markup=False, soft_wrap=True)
    if result.state == "interrupted":
        complain(f"interrupted; go on with: {_resume_command(scenario, result.path)}")
        raise typer.Exit(Exit.INTERRUPTED)
    if result.unreachable:
        complain(f"no visit was made: {summary.points[0].reason}")
        raise typer.Exit(Exit.TARGET)
    failed, done = summary.totals.get("failed", 0), summary.totals.get("done", 0)
    if failed or not done:
        what = f"{failed} of {len(summary.points)} visits failed" if failed else "no visit was made"
        complain(f"{what}; make them again with: {_resume_command(scenario, result.path)}")
        raise typer.Exit(Exit.INCONCLUSIVE)


def _resume_command(scenario: Path, folder: Path) -> str:
    return f"specload sweep {scenario} --resume {folder}"


def show_sweep(summary: Any, json: bool) -> None:
    """Of `specload report`."""
    if json:
        return print_json(summary.model_dump(mode="json"))
    render_sweep_terminal(summary, out)
    return None
