"""Runs to an exit code: by their thresholds and what their experiments found, or by the go-live checklist."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadgen.cli.arguments import run_path, thresholds_of
from loadgen.cli.base import RUNS, Exit, Json, Out, ThresholdTexts, app, out, print_json
from loadgen.cli.results import there, worst_of
from loadgen.experiment import checklist_from, found_in, judge_run
from loadgen.record import open_run
from loadgen.report import (
    checklist_markdown,
    render_checklist,
    render_experiment,
    render_markdown,
    render_verdict,
)
from loadgen.scenario import Threshold

Format = Literal["text", "json", "markdown"]
_CHECKLIST = {"pass": Exit.PASS, "fail": Exit.FAIL, "not_shown": Exit.INCONCLUSIVE}


@app.command()
def gate(
    run_dirs: Annotated[
        list[Path],
        typer.Argument(
            help="run directories, or run ids under --out; with --checklist also canary.json, audit.json",
            metavar="RUN...",
        ),
    ],
    threshold: ThresholdTexts = [],  # noqa: B006
    checklist: Annotated[
        bool, typer.Option("--checklist", help="the go-live checklist, with these runs as its evidence")
    ] = False,
    format_: Annotated[Format, typer.Option("--format", help="text; json; markdown, for a pull request")] = "text",
    out_dir: Out = RUNS,
    json: Json = False,
) -> None:
    """Thresholds, or the checklist, to an exit code: 0 all pass, 99 one fails, 98 otherwise."""
    chosen = thresholds_of(threshold)
    shown: Format = "json" if json else format_
    if checklist:
        _by_checklist([run if run.is_file() else run_path(run, out_dir) for run in run_dirs], chosen, shown)
    _by_verdicts([run_path(run, out_dir) for run in run_dirs], chosen, shown)


def _by_checklist(paths: Sequence[Path], chosen: Sequence[Threshold] | None, shown: Format) -> None:
    found = checklist_from(paths, chosen)
    if shown == "json":
        print_json(found.model_dump(mode="json"))
    elif shown == "markdown":
        sys.stdout.write(checklist_markdown(found))
    else:
        render_checklist(found, out)
    raise typer.Exit(_CHECKLIST[found.state])


def _by_verdicts(paths: Sequence[Path], chosen: Sequence[Threshold] | None, shown: Format) -> None:
    """A run of an experiment needs no thresholds: what it found is judged already."""
    words: list[str] = []
    told: list[dict[str, Any]] = []
    for path in paths:
        run = open_run(path)
        judged, found = judge_run(run, chosen), found_in(run)
        if found is None or judged.verdict is not None:
            verdict = there(judged.verdict, path)
            words.append(verdict.verdict)
            told.append(verdict.model_dump(mode="json"))
            if shown == "markdown":
                sys.stdout.write(render_markdown(verdict, judged.summary.resources))
            elif shown == "text":
                render_verdict(verdict, out)
        if found is not None:
            words.append(found.state)
            told.append(found.model_dump(mode="json"))
            if shown != "json":
                render_experiment(found, out)
    if shown == "json":
        print_json(told)
    raise typer.Exit(worst_of(words))
