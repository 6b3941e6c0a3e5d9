"""Commands that read run directories."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer

from loadgen.analyze import Summary, found_schema
from loadgen.cli.arguments import run_path, thresholds_of
from loadgen.cli.base import (
    LAST_PASS,
    RUNS,
    Json,
    Out,
    RunDir,
    ThresholdTexts,
    app,
    line,
    out,
    print_json,
)
from loadgen.cli.results import has_load, has_speed, show, there, worst
from loadgen.cli.sweeping import show_sweep
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment import (
    compare_two,
    found_in,
    is_sweep,
    judge_run,
    last_pass,
    list_canaries,
    list_judged,
    list_sweeps,
    sweep_report,
)
from loadgen.export import write_openmetrics, write_sweep_openmetrics
from loadgen.record import RunData, open_run, record_schema, write_export
from loadgen.report import (
    render_experiment,
    render_html,
    render_junit,
    render_markdown,
    render_runs,
    render_runs_compared,
    render_sweep_html,
    render_verdict,
)
from loadgen.scenario import (
    scenario_schema,
)
from loadgen.verdict import checklist_schema, verdict_schema

ExportTo = Literal["jsonl", "csv", "parquet", "openmetrics"]


@app.command()
def runs(out_dir: Out = RUNS, json: Json = False) -> None:
    """The history: every run, sweep and canary, newest first."""
    found = [*list_judged(out_dir), *list_sweeps(out_dir), *list_canaries(out_dir)]
    rows = sorted(found, key=lambda e: (e.started or "", e.run_id), reverse=True)
    if json:
        told = ("run_id", "kind", "path", "started", "state", "verdict", "problem")
        return print_json([{k: getattr(r, k) for k in told} for r in rows])
    if not rows:
        return line(f"no runs in the folder {out_dir}")
    return render_runs(rows, out)


@app.command()
def report(
    run_dir: RunDir,
    out_dir: Out = RUNS,
    format_: Annotated[
        Literal["text", "json", "html", "junit", "markdown"],
        typer.Option("--format", help="text; json: the summary; html: one page; junit, markdown: the verdict"),
    ] = "text",
    file: Annotated[
        Path | None,
        typer.Option("--file", help="of --format html; default: RUN/report.html, of a sweep sweep.html; - is stdout"),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="every table, also of a comparison")] = False,
    json: Json = False,
) -> None:
    """Recompute every number from a run directory, finished or not, and print it."""
    path = run_path(run_dir, out_dir)
    if is_sweep(path):
        return _sweep(path, format_, file, json)
    recorded = open_run(path)
    judged = judge_run(recorded)
    if format_ == "html" and not json:
        return _page(render_html(judged.summary, recorded.manifest, found_in(recorded)), file or path / "report.html")
    if json or format_ in ("text", "json"):
        return _shown(recorded, judged.summary, json or format_ == "json", details)
    verdict = there(judged.verdict, run_dir)
    resources = judged.summary.resources
    sys.stdout.write(render_junit(verdict) if format_ == "junit" else render_markdown(verdict, resources))
    return None


def _shown(recorded: RunData, summary: Summary, json: bool, details: bool) -> None:
    """The summary, and what an experiment found; as JSON both in one object where there is more than the summary."""
    found = found_in(recorded)
    if found is None:
        return show(summary, json, details)
    if json:
        return print_json({"summary": summary.model_dump(mode="json"), "found": found.model_dump(mode="json")})
    if has_load(found) and (details or has_speed(found)):
        show(summary, json, details)
    return render_experiment(found, out)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="the run to compare with: directory, id, or last-pass")],
    second: Annotated[str, typer.Argument(help="the run that is judged; with last-pass as second, the first is")],
    threshold: ThresholdTexts = [],  # noqa: B006
    out_dir: Out = RUNS,
    json: Json = False,
) -> None:
    """Two runs made apart, the second judged against the first; marked, since they were not made in one window."""
    one, other = (second, first) if second == LAST_PASS else (first, second)
    judged = open_run(run_path(Path(other), out_dir))
    base = last_pass(out_dir, judged) if one == LAST_PASS else run_path(Path(one), out_dir)
    found = compare_two(open_run(base), judged, thresholds_of(threshold))
    if json:
        parts = {"comparison": found.runs, "verdict": found.verdict}
        print_json({name: part.model_dump(mode="json") for name, part in parts.items()})
    else:
        render_verdict(found.verdict, out)
        render_runs_compared(found.runs, out)
    raise typer.Exit(worst([found.verdict]))


@app.command()
def export(
    run_dir: RunDir,
    to: Annotated[ExportTo, typer.Option("--to", help="file format")],
    file: Annotated[Path | None, typer.Option("--file", help="default: RUN/export.FORMAT; - is stdout")] = None,
    out_dir: Out = RUNS,
    json: Json = False,
) -> None:
    """One row per request, the columns of docs/records.md; openmetrics: metrics to backfill Prometheus with."""
    path = run_path(run_dir, out_dir)
    if str(file) == "-":
        with TemporaryDirectory(prefix="specload-export-") as folder:
            _exported(path, to, Path(folder) / "export")
            sys.stdout.buffer.write((Path(folder) / "export").read_bytes())
            sys.stdout.buffer.flush()
        return
    target = file or path / f"export.{to}"
    n, what = _exported(path, to, target)
    if json:
        print_json({what: n, "path": str(target)})
    else:
        line(f"{n} {what} to {target}")
    return


def _exported(path: Path, to: ExportTo, target: Path) -> tuple[int, str]:
    """How many of what were written."""
    if is_sweep(path):
        if to != "openmetrics":
            raise ScenarioError([f"--to {to}: a sweep has openmetrics; the requests are in the runs of its points"])
        return write_sweep_openmetrics(sweep_report(path), target), "samples"
    recorded = open_run(path)
    if to != "openmetrics":
        return write_export(recorded, to, target), "rows"
    judged = judge_run(recorded)
    return write_openmetrics(recorded, judged.summary, judged.verdict, target), "samples"


@app.command()
def schema(
    what: Annotated[
        Literal["scenario", "record", "summary", "verdict", "found", "checklist"], typer.Argument(help="which contract")
    ],
) -> None:
    """Print a contract as JSON Schema."""
    schemas: dict[str, Callable[[], dict[str, Any]]] = {
        "scenario": scenario_schema,
        "record": record_schema,
        "summary": lambda: Summary.model_json_schema(mode="serialization"),
        "verdict": verdict_schema,
        "found": found_schema,
        "checklist": checklist_schema,
    }
    print_json(schemas[what]())


def _sweep(path: Path, format_: str, file: Path | None, json: bool) -> None:
    """Of a sweep's directory: from the runs of its points."""
    if format_ not in ("text", "json", "html"):
        formats = "text, json and html"
        raise ScenarioError([f"--format {format_}: a sweep has {formats}; each of its points is a run of its own"])
    summary = sweep_report(path)
    if format_ == "html" and not json:
        return _page(render_sweep_html(summary), file or path / "sweep.html")
    return show_sweep(summary, json or format_ == "json")


def _page(html: str, file: Path) -> None:
    if str(file) == "-":
        sys.stdout.write(html)
        return
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from None
    line(f"wrote {file}")
