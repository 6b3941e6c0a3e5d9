"""The command `quality`: the arms' answers compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from loadgen.cli.arguments import arms_of, loaded_of, run_path
from loadgen.cli.base import RUNS, ArmUrl, Json, Out, ScenarioFile, Set, Workers, app
from loadgen.cli.results import finish, watched
from loadgen.experiment import DEFAULT_TRANSPORT, RunOptions, run_quality


@app.command()
def quality(
    scenario: ScenarioFile,
    arm: ArmUrl = [],  # noqa: B006
    out_dir: Out = RUNS,
    set_: Set = [],  # noqa: B006
    reference: Annotated[
        Path | None, typer.Option("--reference", help="an earlier quality run, whose acceptance is the reference")
    ] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="drop prompts, answers and token ids at the end; the numbers stay")
    ] = False,
    transport: Annotated[
        Literal["plain", "kernel"], typer.Option("--transport", help="stamps in user space, or the kernel's (Linux)")
    ] = DEFAULT_TRANSPORT,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Are the candidate's answers still the baseline's? Greedy, sampled, known ones, judged against noise."""
    arms = arms_of(arm)
    settings = [*set_, *(["quality.keep_text=false"] if no_text else [])]
    loaded = loaded_of(scenario, settings, arms)
    earlier = None if reference is None else run_path(reference, out_dir)
    options = RunOptions(
        out_dir, tuple(settings), workers=workers, transport=transport, arm_urls=arms, reference=earlier
    )
    finish(watched(lambda progress: run_quality(loaded, options, progress)), json, judged=True)
