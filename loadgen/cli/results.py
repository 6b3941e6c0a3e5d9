"""Driving with a progress display, showing what came out, and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
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
    RunResult,
)
from loadgen.report import (
    RunProgress,
    render_experiment,
    render_terminal,
)
from loadgen.verdict import Verdict

_STATES = {"pass": Exit.PASS, "fail": Exit.FAIL, "inconclusive": Exit.INCONCLUSIVE}


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
    """Show the result, and end with its exit code. `judged`: an invalid measurement is no success."""
    if json and result.found is not None:
        print_json({"summary": result.summary.model_dump(mode="json"), "found": result.found.model_dump(mode="json")})
    elif json or not judged_by_itself(result.found):
        show(result.summary, json)
    if result.found is not None and not json:
        render_experiment(result.found, out)
    if not json:
        out.print(f"records: {result.path} · again: specload report {result.path}", markup=False, soft_wrap=True)
        if (page := result.path / "report.html").exists():
            out.print(f"report: {page}", markup=False, soft_wrap=True)
    if result.state == "interrupted":
        raise typer.Exit(Exit.INTERRUPTED)
    if result.state in ("failed", "inconclusive"):
        complain(f"the run was ended early: {result.reason}")
        raise typer.Exit(Exit.INCONCLUSIVE if result.state == "inconclusive" else Exit.INTERNAL)
    if empty := _without_success(result.summary):
        complain(f"no request of {', '.join(empty)} succeeded: why is in {result.path / 'anomalies.log'}")
        raise typer.Exit(Exit.INTERNAL)
    if judged and result.summary.validity.state == "invalid" and not judged_by_itself(result.found):
        complain(f"the measurement is invalid: {result.summary.validity.reasons[0].removeprefix('invalid: ')}")
        raise typer.Exit(Exit.FAIL if result.verdict and result.verdict.verdict == "fail" else Exit.INCONCLUSIVE)
    if judged and (result.verdict is not None or result.found is not None):
        raise typer.Exit(_code(result))


def judged_by_itself(found: ExperimentResult | None) -> bool:
    """Answers are not made wrong by late stamps: what of the measurement bears on them is in the result; and the speeds
    of passes that were made to compare answers are not shown."""
    return found is not None and found.kind == "quality"


def _code(result: RunResult) -> Exit:
    """Of the verdict and of what an experiment found, the worse."""
    codes = [] if result.verdict is None else [worst([result.verdict])]
    if result.found is not None:
        codes.append(_STATES[result.found.state])
    return next((code for code in (Exit.FAIL, Exit.INCONCLUSIVE) if code in codes), Exit.PASS)


def worst(verdicts: Sequence[Verdict]) -> Exit:
    words = {verdict.verdict for verdict in verdicts}
    if "fail" in words:
        return Exit.FAIL
    return Exit.PASS if words == {"pass"} else Exit.INCONCLUSIVE


def there(verdict: Verdict | None, run: Path) -> Verdict:
    if verdict is None:
        raise ScenarioError([f"{run}: nothing to judge: it has one arm and its scenario names no thresholds"])
    return verdict


def _without_success(summary: Summary) -> list[str]:
    """Arms that were asked and of which nothing was measured: such a run is no pass."""
    asked = {name: arm.overall.requests for name, arm in summary.arms.items()}
    return [name for name, requests in asked.items() if requests.sent and not requests.outcomes.get("ok")]


def show(summary: Summary, json: bool, details: bool = False) -> None:
    if json:
        return print_json(summary.model_dump(mode="json"))
    render_terminal(summary, out, details)
    return None
