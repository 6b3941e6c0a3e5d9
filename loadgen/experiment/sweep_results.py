"""A sweep's directory to its summary: from the runs of its points, at any time."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from loadgen.analyze import PointRun, Summary, SweepSummary, analyze_sweep
from loadgen.errors import StorageError
from loadgen.experiment.judging import judge_run, save_json, save_page
from loadgen.experiment.sweep_search import max_rates
from loadgen.experiment.sweep_state import STATE, SweepState, VisitState, read_state
from loadgen.plan import SweepPlan, SweepPoint
from loadgen.record import RunData, RunEntry, open_run
from loadgen.report import render_sweep_html

SUMMARY, PAGE = "sweep_summary.json", "sweep.html"


def is_sweep(folder: Path) -> bool:
    return (folder / STATE).is_file()


def list_sweeps(root: Path) -> list[RunEntry]:
    """All sweeps under `root`, as the history of runs has them: how many visits are done, of how many."""
    found = []
    for path in sorted(root.glob(f"*/{STATE}")):
        folder = path.parent
        try:
            state = read_state(folder)
        except StorageError as error:
            found.append(RunEntry(str(folder), folder.name, None, "unreadable", None, str(error), kind="sweep"))
            continue
        done = sum(visit.state == "done" for visit in state.visits)
        whole = f"sweep over {', '.join(state.axes)}: {done} of {len(state.visits)} visits done"
        found.append(RunEntry(str(folder), state.sweep_id, state.started, "sweep", None, whole, kind="sweep"))
    return found


def sweep_report(folder: Path) -> SweepSummary:
    """Every number of a sweep, finished or not. Raises StorageError."""
    return summarise(folder, read_state(folder))


def save_sweep(folder: Path, summary: SweepSummary) -> None:
    """sweep_summary.json. Raises StorageError."""
    save_json(folder, SUMMARY, summary.model_dump(mode="json"))


def save_sweep_page(folder: Path, summary: SweepSummary) -> None:
    """sweep.html. Raises StorageError."""
    save_page(folder, PAGE, render_sweep_html(summary))


def summarise(folder: Path, state: SweepState) -> SweepSummary:
    plan = _plan(state)
    needs_runs = _needs_runs(state)
    made = [_made(folder, visit, visit.number in needs_runs) for visit in state.visits]
    summary = analyze_sweep(
        plan,
        made,
        sweep_id=state.sweep_id,
        name=state.name,
        objective=state.objective,
        seconds=state.elapsed_s,
        max_rate=list(max_rates(state)),
        no_search=_no_search(state),
    )
    return summary.model_copy(update={"conditions": {**summary.conditions, **_began_with(state)}})


def _began_with(state: SweepState) -> dict[str, object]:
    return {
        "scenario_path": state.scenario_path,
        "scenario_sha256": state.scenario_sha256,
        "overrides": list(state.overrides),
        "started": state.started,
    }


def _no_search(state: SweepState) -> str:
    asked = (state.scenario.get("sweep") or {}).get("max_rate") is not None
    return "the search has not begun" if asked else "the scenario has no sweep.max_rate"


def _plan(state: SweepState) -> SweepPlan:
    """As it was when the sweep began."""
    return SweepPlan(
        axes=state.axes,
        baseline=state.baseline,
        points=tuple(_point(visit) for visit in state.visits),
        order=tuple(range(len(state.visits))),
        hash=state.plan_hash,
    )


def _point(visit: VisitState) -> SweepPoint:
    return SweepPoint(visit.index, dict(visit.values), visit.baseline, visit.repeat, visit.visit)


def _needs_runs(state: SweepState) -> set[int]:
    """Visits of which more is needed than the summary tells: rounds at the largest k, KV use along the input length."""
    found = {visit.number for visit in state.visits if "input_len" in state.axes}
    if "k" in state.axes:
        most = max(int(k) for k in state.axes["k"])
        found |= {visit.number for visit in state.visits if most and visit.values["k"] == most}
    return found


def _made(folder: Path, visit: VisitState, with_run: bool) -> PointRun:
    last = visit.attempts[-1] if visit.attempts else None
    made = PointRun(visit.number, _point(visit), visit.arm, visit.state, visit.skipped)
    if last is None:
        return made
    summary: Summary | None = None
    run: RunData | None = None
    state, reason = visit.state, last.reason if visit.skipped is None else visit.skipped
    if state == "done" and last.directory is not None:
        try:
            summary, run = _read(folder / last.directory, with_run)
        except StorageError as error:
            state, reason = "failed", f"its records cannot be read: {error}"
    return PointRun(
        visit.number, _point(visit), visit.arm, state, reason, last.directory, last.run_id, last.at_s, last.took_s,
        summary, run,
    )  # fmt: skip


def _read(path: Path, with_run: bool) -> tuple[Summary, RunData | None]:
    """summary.json as the run left it, or made again where it is not there or of another version."""
    run = open_run(path) if with_run else None
    try:
        return Summary.model_validate_json((path / "summary.json").read_bytes()), run
    except (OSError, ValidationError):
        run = run or open_run(path)
        return judge_run(run).summary, run
