"""Commands that look at servers or drive load."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadgen.cli.arguments import arms_of, loaded_of, seconds_of, shard_of
from loadgen.cli.base import (
    RUNS,
    ArmUrl,
    Json,
    Out,
    ScenarioFile,
    Set,
    TimeBudget,
    Workers,
    app,
    err,
    line,
    out,
    print_json,
)
from loadgen.cli.results import finish, watched
from loadgen.cli.serving import LOCAL, Linger, MetricsHost, MetricsPort, Textfile, served
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment import (
    DEFAULT_TRANSPORT,
    Ceiling,
    RunOptions,
    ServerReport,
    check,
    demo_rehearsal,
    demo_vllm,
    describe_server,
    doctor,
    render_doctor,
    run_experiment,
    save_doctor,
)
from loadgen.redact import printable
from loadgen.report import (
    planned_load,
    render_environment,
    render_plan,
)
from loadgen.scenario import (
    SecretSource,
)

NEXT = """
What to try next:
  specload init http://YOUR-SERVER:8000      look at a server of your own and write a scenario for it
  specload rehearse --spec draft:k=4         the engine of this demo, to rehearse against
  specload demo --vllm                       the same on a real vLLM on this CPU (make demo-vllm sets it up)"""


@app.command()
def demo(
    out_dir: Out = RUNS,
    vllm: Annotated[bool, typer.Option("--vllm", help="two real vLLM servers on this CPU instead")] = False,
    json: Json = False,
) -> None:
    """Two rehearsal engines, speculation off and on, a ramp over concurrency, the report."""
    work = demo_vllm if vllm else demo_rehearsal
    result = watched(lambda progress: work(out_dir, progress))
    finish(result, json, judged=False)
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
    to_stdout = str(file) == "-"
    if file.exists() and not force and not to_stdout:
        raise ScenarioError([f"{file} exists; choose another with --file, or --force to overwrite it"])
    key = SecretSource(env=api_key_env) if api_key_env else None
    found = asyncio.run(describe_server(url, "scenario.yaml" if to_stdout else file.name, key))
    if to_stdout:
        return _init_to_stdout(found, json)
    try:
        file.write_text(found.scenario)
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from None
    if json:
        return print_json({"url": found.url, "adapter": found.adapter, "capabilities": asdict(found.capabilities)})
    for said in _seen(found):
        line(said)
    line(f"wrote {file}; next: specload check {file}")
    return None


def _init_to_stdout(found: ServerReport, json: bool) -> None:
    """The scenario alone on stdout, what was seen on stderr."""
    if json:
        raise ScenarioError(["--json and --file - both ask for stdout"])
    for said in _seen(found):
        err.print(printable(said), markup=False, soft_wrap=True)
    sys.stdout.write(found.scenario)


def _seen(found: ServerReport) -> list[str]:
    c = found.capabilities
    speculation = {True: f"on, k = {c.k}", False: "off", None: "cannot be seen"}[c.speculation]
    head = f"{found.adapter} {c.version or '(version unknown)'} · models {', '.join(c.models)}"
    return [f"{head} · speculation {speculation}", *(f"• {note}" for note in c.notes)]


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
    loaded = loaded_of(scenario, set_, arms_of(arm))
    found = asyncio.run(check(loaded, targets=not offline, workers=workers, time_budget_s=seconds_of(time_budget)))
    if json:
        return print_json(
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
            line(f"{name}: {ready.model} on {ready.adapter.name} {c.version or ''}, speculation {speculation}: ready")
    for note in found.notes:
        line(f"• {note}")
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
    ] = DEFAULT_TRANSPORT,
    workers: Workers = None,
    time_budget: TimeBudget = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOCAL,
    linger: Linger = 0.0,
    textfile: Textfile = None,
    json: Json = False,
) -> None:
    """Replay a scenario against its arms, record everything, print the report."""
    arms = arms_of(arm)
    loaded = loaded_of(scenario, set_, arms)
    part, budget_s = shard_of(shard), seconds_of(time_budget)
    with served(metrics_port, metrics_host, linger, textfile) as metrics:
        options = RunOptions(out_dir, tuple(set_), part, workers, transport, budget_s, metrics, arms)
        finish(watched(lambda progress: run_experiment(loaded, options, progress)), json, judged=True)


@app.command("doctor")
def doctor_command(json: Json = False) -> None:
    """This machine's own ceiling, measured in seconds against a built-in server that does nothing but stream."""
    found = asyncio.run(doctor(say=lambda text: err.print(f"measuring {text}", style="dim")))
    if json:
        print_json(found.model_dump(mode="json"))
    else:
        render_doctor(found, out)
    kept = save_doctor(found)
    if not json:
        line(f"kept for specload check in {kept}")


def _ceiling(found: Ceiling) -> dict[str, Any]:
    return {**asdict(found), "system": found.system.model_dump(mode="json")}
