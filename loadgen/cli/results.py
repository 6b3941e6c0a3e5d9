"""Driving with a progress display, showing what came out, and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from loadgen.analyze import ExperimentResult, Summary
from loadgen.cli.base import (
    Exit,
    complain,
    err,
    out,
    print_json,
)
from loadgen.errors import ScenarioError
from loadgen.experiment import (
    Ending,
    RunResult,
    ending_of,
)
from loadgen.report import (
    RunProgress,
    render_experiment,
    render_terminal,
)
from loadgen.verdict import Verdict

_CODES: Mapping[Ending, Exit] = {
    "pass": Exit.PASS,
    "fail": Exit.FAIL,
    "inconclusive": Exit.INCONCLUSIVE,
    "internal": Exit.INTERNAL,
    "interrupted": Exit.INTERRUPTED,
}


def watched(work: Callable[[RunProgress], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """Run `work(progress)` with a progress display that is always closed."""
    progress = RunProgress(err)

    async def inner() -> RunResult:
        return await work(progress)

    try:
        return asyncio.run(inner())
    finally:
        progress.close()


def finish(result: RunResult, json: bool, *, judged: bool) -> None:
    """Show the result, and end with its exit code. `judged`: an invalid measurement is no success. An access check
    sends no load: it has nothing to measure."""
    measured = has_load(result.found) and (json or has_speed(result.found))
    if json and result.found is not None:
        print_json({"summary": result.summary.model_dump(mode="json"), "found": result.found.model_dump(mode="json")})
    elif measured:
        show(result.summary, json)
    if result.found is not None and not json:
        render_experiment(result.found, out)
    if not json:
        out.print(f"records: {result.path} · again: specload report {result.path}", markup=False, soft_wrap=True)
        if (page := result.path / "report.html").exists():
            out.print(f"report: {page}", markup=False, soft_wrap=True)
    word, why = ending_of(result, judged=judged)
    if why is not None and word != "interrupted":
        complain(why)
    if word != "pass":
        raise typer.Exit(_CODES[word])


def has_load(found: ExperimentResult | None) -> bool:
    """Whether there is a summary to show."""
    return found is None or found.kind != "access"


def has_speed(found: ExperimentResult | None) -> bool:
    """Whether the summary's numbers are a result: those of passes that were made to compare answers are none."""
    return found is None or found.kind != "quality"


def worst(verdicts: Sequence[Verdict]) -> Exit:
    return worst_of([verdict.verdict for verdict in verdicts])


def worst_of(words: Sequence[str]) -> Exit:
    """Of pass, fail and inconclusive."""
    if "fail" in words:
        return Exit.FAIL
    return Exit.PASS if set(words) == {"pass"} else Exit.INCONCLUSIVE


def there(verdict: Verdict | None, run: Path) -> Verdict:
    if verdict is None:
        raise ScenarioError([f"{run}: nothing to judge: it has one arm and its scenario names no thresholds"])
    return verdict


def show(summary: Summary, json: bool, details: bool = False) -> None:
    if json:
        return print_json(summary.model_dump(mode="json"))
    render_terminal(summary, out, details)
    return None
