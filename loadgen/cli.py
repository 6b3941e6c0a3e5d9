"""The command line. Exit codes live only here."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer
from rich.console import Console

from loadgen import __version__
from loadgen.analyze import Summary
from loadgen.errors import ScenarioError, SpecloadError, StorageError, TargetUnusable
from loadgen.experiment import (
    Ceiling,
    RunOptions,
    RunResult,
    check,
    compare_two,
    demo_rehearsal,
    demo_vllm,
    describe_server,
    doctor,
    judge_run,
    last_pass,
    render_doctor,
    run_scenario,
    save_doctor,
)
from loadgen.record import list_runs, open_run, record_schema, write_export
from loadgen.redact import Redactor, printable
from loadgen.report import (
    RunProgress,
    planned_load,
    render_environment,
    render_html,
    render_junit,
    render_markdown,
    render_plan,
    render_runs,
    render_runs_compared,
    render_terminal,
    render_verdict,
)
from loadgen.scenario import (
    SecretSource,
    Threshold,
    ThresholdError,
    load_scenario,
    parse_threshold,
    scenario_schema,
)
from loadgen.verdict import Verdict, verdict_schema


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
#: stdout takes no more. Files have their own errors (StorageError) for these.
_STDOUT_ERRORS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EIO})
NEXT = """
What to try next:
  specload init http://YOUR-SERVER:8000      look at a server of your own and write a scenario for it
  specload rehearse --spec draft:k=4         the engine of this demo, to rehearse against
  specload demo --vllm                       the same on a real vLLM on this CPU (make demo-vllm sets it up)"""


@app.callback(invoke_without_command=True)
def specload(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Load testing of LLM inference servers whose subject is speculative decoding."""
    if version:
        out.print(__version__)
        raise typer.Exit(Exit.PASS)


@app.command()
def demo(
    out_dir: Out = RUNS,
    vllm: Annotated[bool, typer.Option("--vllm", help="two real vLLM servers on this CPU instead")] = False,
    json: Json = False,
) -> None:
    """Two rehearsal engines, speculation off and on, a ramp over concurrency, the report."""
    work = demo_vllm if vllm else demo_rehearsal
    result = _watched(lambda progress: work(out_dir, progress))
    _finish(result, json, judged=False)
    if not json:
        out.print(NEXT)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def rehearse(context: typer.Context) -> None:
    """An OpenAI-compatible server with real speculative sampling, on named hardware; options: docs/rehearsal.md."""
    from server_adapters.rehearsal.__main__ import main as rehearsal_main

    raise typer.Exit(rehearsal_main(context.args))


@app.command()
def init(
    url: Annotated[str, typer.Argument(help="base URL of a running server")],
    file: Annotated[Path, typer.Option("--file", help="where to write the scenario")] = Path("scenario.yaml"),
    api_key_env: Annotated[str | None, typer.Option("--api-key-env", help="environment variable with the key")] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite the file")] = False,
    json: Json = False,
) -> None:
    """Look at a server, write a scenario for it, name the flags that would give better numbers."""
    if file.exists() and not force:
        raise ScenarioError([f"{file} exists; choose another with --file, or --force to overwrite it"])
    key = SecretSource(env=api_key_env) if api_key_env else None
    found = asyncio.run(describe_server(url, file.name, key))
    try:
        file.write_text(found.scenario)
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from None
    if json:
        return _print_json({"url": found.url, "adapter": found.adapter, "capabilities": asdict(found.capabilities)})
    c = found.capabilities
    speculation = {True: f"on, k = {c.k}", False: "off", None: "cannot be seen"}[c.speculation]
    _line(
        f"{found.adapter} {c.version or '(version unknown)'} · models {', '.join(c.models)} · speculation {speculation}"
    )
    for note in c.notes:
        _line(f"• {note}")
    _line(f"wrote {file}; next: specload check {file}")
    return None


@app.command("check")
def check_command(
    scenario: ScenarioFile,
    arm: ArmUrl = [],  # noqa: B006  (typer reads the default, never mutates it)
    set_: Set = [],  # noqa: B006
    time_budget: TimeBudget = None,
    offline: Annotated[bool, typer.Option("--offline", help="do not look at the targets")] = False,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Validate a scenario, draw its load, count requests, tokens, minutes and cost, look at the targets."""
    loaded = load_scenario(scenario, set_, _arms(arm))
    found = asyncio.run(check(loaded, targets=not offline, workers=workers, time_budget_s=_seconds(time_budget)))
    if json:
        return _print_json(
            {
                "plan_hash": found.plan.hash,
                "design": asdict(found.plan.design),
                "totals": asdict(found.plan.totals),
                "estimate": asdict(found.estimate),
                "limits": asdict(found.limits),
                "stages": [asdict(s) for s in planned_load(found.plan)],
                "arms": {n: a.facts.model_dump() for n, a in found.ready.arms.items()} if found.ready else None,
                "environment": [d.model_dump() for d in found.environment],
                "notes": list(found.notes),
                "workers": found.workers,
                "ceiling": _ceiling(found.ceiling),
                "warnings": list(found.warnings),
            }
        )
    render_plan(found.plan, found.loaded.scenario.load, found.limits, out)
    for warning in found.warnings:
        out.print(f"! {warning}", style="yellow", markup=False)
    if found.ready:
        for name, ready in found.ready.arms.items():
            c = ready.capabilities
            speculation = {True: f"on (k = {c.k})", False: "off", None: "not visible"}[c.speculation]
            _line(f"{name}: {ready.model} on {ready.adapter.name} {c.version or ''}, speculation {speculation}: ready")
    for note in found.notes:
        _line(f"• {note}")
    if found.ready:
        render_environment(found.environment, out)
    return None


@app.command()
def run(
    scenario: ScenarioFile,
    arm: ArmUrl = [],  # noqa: B006
    out_dir: Out = RUNS,
    set_: Set = [],  # noqa: B006
    shard: Annotated[str | None, typer.Option("--shard", help="I/N: drive share I (from 0) of N of the plan")] = None,
    transport: Annotated[
        Literal["plain", "kernel"], typer.Option("--transport", help="stamps in user space, or the kernel's (Linux)")
    ] = "plain",
    workers: Workers = None,
    time_budget: TimeBudget = None,
    json: Json = False,
) -> None:
    """Replay a scenario against its arms, record everything, print the report."""
    loaded = load_scenario(scenario, set_, _arms(arm))
    options = RunOptions(out_dir, tuple(set_), _shard(shard), workers, transport, _seconds(time_budget))
    _finish(_watched(lambda progress: run_scenario(loaded, options, progress)), json, judged=True)


@app.command("doctor")
def doctor_command(json: Json = False) -> None:
    """This machine's own ceiling, measured in seconds against a built-in server that does nothing but stream."""
    found = asyncio.run(doctor(say=lambda text: err.print(f"measuring {text}", style="dim")))
    if json:
        _print_json(found.model_dump(mode="json"))
    else:
        render_doctor(found, out)
    kept = save_doctor(found)
    if not json:
        _line(f"kept for specload check in {kept}")


@app.command()
def runs(out_dir: Out = RUNS, json: Json = False) -> None:
    """The history: every run directory, newest first."""
    rows = list_runs(out_dir)
    if json:
        return _print_json(
            [{k: getattr(r, k) for k in ("run_id", "path", "started", "state", "problem")} for r in rows]
        )
    if not rows:
        _line(f"no runs in {out_dir}")
    render_runs(rows, out)
    return None


@app.command()
def report(
    run_dir: RunDir,
    out_dir: Out = RUNS,
    format_: Annotated[
        Literal["text", "json", "html", "junit", "markdown"],
        typer.Option("--format", help="text; json: the summary; html: one page; junit, markdown: the verdict"),
    ] = "text",
    file: Annotated[
        Path | None, typer.Option("--file", help="of --format html; default: RUN/report.html; - is stdout")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="every table, also of a comparison")] = False,
    json: Json = False,
) -> None:
    """Recompute every number from a run directory, finished or not, and print it."""
    path = _run_path(run_dir, out_dir)
    recorded = open_run(path)
    judged = judge_run(recorded)
    if format_ == "html" and not json:
        return _page(render_html(judged.summary, recorded.manifest), file or path / "report.html")
    if json or format_ in ("text", "json"):
        return _show(judged.summary, json or format_ == "json", details)
    verdict = _there(judged.verdict, run_dir)
    sys.stdout.write(render_junit(verdict) if format_ == "junit" else render_markdown(verdict))
    return None


@app.command()
def gate(
    run_dirs: Annotated[list[Path], typer.Argument(help="run directories, or run ids under --out", metavar="RUN...")],
    threshold: ThresholdTexts = [],  # noqa: B006
    out_dir: Out = RUNS,
    json: Json = False,
) -> None:
    """Thresholds to an exit code: 0 all runs pass, 99 one fails, 98 otherwise."""
    chosen = _thresholds(threshold)
    judged = [(run, judge_run(open_run(_run_path(run, out_dir)), chosen)) for run in run_dirs]
    verdicts = [_there(found.verdict, run) for run, found in judged]
    if json:
        _print_json([verdict.model_dump(mode="json") for verdict in verdicts])
    else:
        for verdict in verdicts:
            render_verdict(verdict, out)
    raise typer.Exit(_worst(verdicts))


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
    judged = open_run(_run_path(Path(other), out_dir))
    base = last_pass(out_dir, judged) if one == LAST_PASS else _run_path(Path(one), out_dir)
    found = compare_two(open_run(base), judged, _thresholds(threshold))
    if json:
        parts = {"comparison": found.runs, "verdict": found.verdict}
        _print_json({name: part.model_dump(mode="json") for name, part in parts.items()})
    else:
        render_verdict(found.verdict, out)
        render_runs_compared(found.runs, out)
    raise typer.Exit(_worst([found.verdict]))


@app.command()
def export(
    run_dir: RunDir,
    to: Annotated[Literal["jsonl", "csv", "parquet"], typer.Option("--to", help="file format")],
    file: Annotated[Path | None, typer.Option("--file", help="default: RUN/export.FORMAT; - is stdout")] = None,
    out_dir: Out = RUNS,
    json: Json = False,
) -> None:
    """One row per request, the columns of docs/records.md."""
    path = _run_path(run_dir, out_dir)
    target = file or path / f"export.{to}"
    rows = write_export(open_run(path), to, target)
    if json:
        _print_json({"rows": rows, "path": str(target)})
    elif str(target) != "-":
        _line(f"{rows} rows to {target}")


@app.command()
def schema(
    what: Annotated[Literal["scenario", "record", "summary", "verdict"], typer.Argument(help="which contract")],
) -> None:
    """Print a contract as JSON Schema."""
    schemas: dict[str, Callable[[], dict[str, Any]]] = {
        "scenario": scenario_schema,
        "record": record_schema,
        "summary": lambda: Summary.model_json_schema(mode="serialization"),
        "verdict": verdict_schema,
    }
    _print_json(schemas[what]())


def main() -> None:
    """Entry point: errors become one message and an exit code."""
    try:
        code = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted")
        code = Exit.INTERRUPTED
    except (ScenarioError, TargetUnusable, StorageError) as error:
        _complain(str(error))
        code = Exit.TARGET if isinstance(error, TargetUnusable) else Exit.USAGE
    except SpecloadError as error:
        _complain(str(error))
        code = Exit.INTERNAL
    except OSError as error:
        code = _output_ended(error) if error.errno in _STDOUT_ERRORS else _usage_or_internal(error)
    except Exception as error:
        code = _usage_or_internal(error)
    sys.exit(int(code or 0))


def _usage_or_internal(error: Exception) -> Exit:
    """typer's own usage errors know how to show themselves; anything else is ours."""
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return Exit.USAGE
    trace = Redactor()("".join(traceback.format_exception(error)))
    err.print(printable(trace), markup=False, soft_wrap=True)
    _complain("internal error; what was measured is kept. Please report the lines above.")
    return Exit.INTERNAL


def _complain(text: str) -> None:
    """On stderr, in red. The text may hold what a server said."""
    err.print(f"specload: {printable(text)}", style="red", markup=False, soft_wrap=True)


def _output_ended(error: OSError) -> Exit:
    """Whoever closed the pipe has read what they wanted: no word about it. Nothing may be flushed at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        _complain(f"the output cannot be written: {error.strerror}")
    return Exit.INTERNAL


def _watched(work: Callable[[RunProgress], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """Run `work(progress)` with a progress display that is always closed."""
    progress = RunProgress(err)

    async def inner() -> RunResult:
        return await work(progress)

    try:
        return asyncio.run(inner())
    finally:
        progress.close()


def _finish(result: RunResult, json: bool, *, judged: bool) -> None:
    """Show the result, and end with its exit code. `judged`: an invalid measurement is no success."""
    _show(result.summary, json)
    if not json:
        out.print(f"records: {result.path} · again: specload report {result.path}", markup=False, soft_wrap=True)
    if result.state == "interrupted":
        raise typer.Exit(Exit.INTERRUPTED)
    if result.state in ("failed", "inconclusive"):
        _complain(f"the run was ended early: {result.reason}")
        raise typer.Exit(Exit.INCONCLUSIVE if result.state == "inconclusive" else Exit.INTERNAL)
    if empty := _without_success(result.summary):
        _complain(f"no request of {', '.join(empty)} succeeded: why is in {result.path / 'anomalies.log'}")
        raise typer.Exit(Exit.INTERNAL)
    if judged and result.summary.validity.state == "invalid":
        _complain(f"the measurement is invalid: {result.summary.validity.reasons[0].removeprefix('invalid: ')}")
        raise typer.Exit(Exit.FAIL if result.verdict and result.verdict.verdict == "fail" else Exit.INCONCLUSIVE)
    if judged and result.verdict is not None:
        raise typer.Exit(_worst([result.verdict]))


def _worst(verdicts: Sequence[Verdict]) -> Exit:
    words = {verdict.verdict for verdict in verdicts}
    if "fail" in words:
        return Exit.FAIL
    return Exit.PASS if words == {"pass"} else Exit.INCONCLUSIVE


def _there(verdict: Verdict | None, run: Path) -> Verdict:
    if verdict is None:
        raise ScenarioError([f"{run}: nothing to judge: it has one arm and its scenario names no thresholds"])
    return verdict


def _thresholds(texts: Sequence[str]) -> tuple[Threshold, ...] | None:
    """None where nothing is given: then the scenario's hold."""
    found, problems = [], []
    for text in texts:
        try:
            found.append(parse_threshold(text))
        except ThresholdError as error:
            problems.append(f"--threshold {text!r}: {error}")
    if problems:
        raise ScenarioError(problems)
    return tuple(found) or None


def _without_success(summary: Summary) -> list[str]:
    """Arms that were asked and of which nothing was measured: such a run is no pass."""
    asked = {name: arm.overall.requests for name, arm in summary.arms.items()}
    return [name for name, requests in asked.items() if requests.sent and not requests.outcomes.get("ok")]


def _show(summary: Summary, json: bool, details: bool = False) -> None:
    if json:
        return _print_json(summary.model_dump(mode="json"))
    render_terminal(summary, out, details)
    return None


def _page(html: str, file: Path) -> None:
    if str(file) == "-":
        sys.stdout.write(html)
        return
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from None
    _line(f"wrote {file}")


def _ceiling(found: Ceiling) -> dict[str, Any]:
    return {**asdict(found), "system": found.system.model_dump(mode="json")}


def _line(text: str) -> None:
    """On stdout, as it is: names that servers chose are no markup."""
    out.print(printable(text), markup=False)


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n")
    sys.stdout.buffer.flush()


def _arms(pairs: list[str]) -> dict[str, str]:
    arms = {}
    for pair in pairs:
        name, sign, url = pair.partition("=")
        if not sign or not name or not url:
            raise ScenarioError(
                [f"--arm {Redactor()(pair)!r}: write it as name=URL, like --arm baseline=http://127.0.0.1:8001"]
            )
        arms[name] = url
    return arms


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit() and int(i) < int(n)):
        raise ScenarioError([f"--shard {text!r}: write it as I/N with 0 <= I < N, like --shard 0/4"])
    return int(i), int(n)


def _seconds(text: str | None) -> float | None:
    """A duration like 90s, 10m or 1h30m; the unit must be there."""
    if text is None:
        return None
    parts = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts and text else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise ScenarioError([f"--time-budget {text!r}: write it with its unit, like 90s, 10m or 1h30m"])
    return float(total)


def _run_path(run_dir: Path, out_dir: Path) -> Path:
    return run_dir if run_dir.is_dir() or not (out_dir / run_dir).is_dir() else out_dir / run_dir
