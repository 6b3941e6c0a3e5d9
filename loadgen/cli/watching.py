"""Commands for those who watch servers: live counters, and alert rules from a run."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer
from pydantic import SecretStr
from rich.live import Live

from loadgen.cli.arguments import run_path
from loadgen.cli.base import RUNS, Json, Out, app, complain, err, line, out
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment import Reading, WatchMetrics, judge_run, readings_line, readings_table, watch
from loadgen.export import as_prometheus_rule, as_yaml, rules_of_run
from loadgen.observe import ScrapeArm
from loadgen.processes import signals_held
from loadgen.record import open_run
from loadgen.redact import Redactor
from server_adapters import ADAPTERS

_NAMED = re.compile(r"([A-Za-z0-9_-]{1,40})=(https?://.+)")


@app.command("watch")
def watch_command(
    urls: Annotated[list[str], typer.Argument(help="one server, or two: baseline and candidate; name=URL names it")],
    adapter: Annotated[str, typer.Option("--adapter", help="server family of the metrics page")] = "vllm",
    model: Annotated[str, typer.Option("--model", help="served model, where a page shows several")] = "",
    interval: Annotated[float, typer.Option("--interval", min=0.2, max=60, help="seconds between looks")] = 1.0,
    window: Annotated[float, typer.Option("--window", min=1, max=3600, help="seconds that a rate is of")] = 10.0,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="serve /metrics there; 0: a free port")
    ] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="address of --metrics-port")] = "127.0.0.1",
    api_key_env: Annotated[str | None, typer.Option("--api-key-env", help="variable that holds the API key")] = None,
    json: Json = False,
) -> None:
    """A running server's draft and accept counters, live; sends no load. Ends with Ctrl-C."""
    arms = _arms(urls, adapter, model, api_key_env)
    with signals_held():  # until `watch` has its handlers: an interrupt in between would end it anywhere
        metrics = None if metrics_port is None else WatchMetrics()
        if metrics is not None and metrics_port is not None:
            port = metrics.serve(metrics_host, metrics_port)
            err.print(f"metrics: http://{metrics_host}:{port}/metrics", markup=False)
        if json or not out.is_terminal:
            return _watch(watch(arms, interval, window, _print_json if json else _print_lines, metrics))
        with Live(console=out, auto_refresh=False) as live:

            def show(readings: list[Reading]) -> None:
                live.update(readings_table(readings), refresh=True)

            _watch(watch(arms, interval, window, show, metrics))
    return None


def _watch(watching: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(watching)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@app.command()
def alerts(
    run_dir: Annotated[Path, typer.Option("--from", help="a run that passed: directory, or run id under --out")],
    format_: Annotated[
        Literal["prometheus", "prometheusrule"],
        typer.Option("--format", help="a rule file, or an object for the Prometheus operator"),
    ] = "prometheus",
    file: Annotated[Path, typer.Option("--file", help="where to write; - is stdout")] = Path("-"),
    out_dir: Out = RUNS,
) -> None:
    """Alert rules for later runs and soaks, their limits taken from a run that passed, per task type."""
    judged = judge_run(open_run(run_path(run_dir, out_dir)))
    verdict = judged.verdict
    if verdict is None or verdict.verdict != "pass":
        found = "nothing was judged" if verdict is None else f"its verdict is {verdict.verdict}"
        raise ScenarioError([f"{run_dir}: {found}: limits are taken from runs that passed"])
    rules = rules_of_run(judged.summary)
    for sentence in rules.left_out:
        complain(sentence)
    if not any(group["rules"] for group in rules.groups):
        raise ScenarioError([f"{run_dir}: no limit can be taken from it"])
    name = re.sub(r"[^a-z0-9]+", "-", f"specload-{judged.summary.run_id}".lower()).strip("-")[:63]
    text = as_yaml({"groups": rules.groups}) if format_ == "prometheus" else as_prometheus_rule(rules.groups, name)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from None
    line(f"wrote {file}")


def _arms(urls: list[str], adapter: str, model: str, api_key_env: str | None) -> list[ScrapeArm]:
    if adapter not in ADAPTERS:
        raise ScenarioError([f"--adapter {adapter!r}: one of {', '.join(sorted(ADAPTERS))}"])
    if len(urls) > 2:
        raise ScenarioError([f"{len(urls)} servers: one or two can be watched"])
    headers = {}
    if api_key_env is not None:
        if not os.environ.get(api_key_env):
            raise ScenarioError([f"--api-key-env {api_key_env}: the variable is not set"])
        headers["Authorization"] = SecretStr(f"Bearer {os.environ[api_key_env]}")
    names = ("server",) if len(urls) == 1 else ("baseline", "candidate")
    arms = []
    for default, url in zip(names, urls, strict=True):
        named = _NAMED.fullmatch(url)
        name, place = (named[1], named[2]) if named else (default, url)
        if not re.match("https?://", place):
            raise ScenarioError([f"{Redactor()(place)!r}: write it with its scheme, like http://127.0.0.1:8000"])
        place = place.rstrip("/").removesuffix("/v1")
        page = place if place.endswith("/metrics") else f"{place}/metrics"
        arms.append(ScrapeArm(name, adapter, model, (page,), headers))
    if len({arm.name for arm in arms}) < len(arms):
        raise ScenarioError(["both servers have the same name"])
    return arms


def _print_json(readings: list[Reading]) -> None:
    sys.stdout.buffer.write(orjson.dumps([asdict(reading) for reading in readings]) + b"\n")
    sys.stdout.buffer.flush()


def _print_lines(readings: list[Reading]) -> None:
    for reading in readings:
        line(readings_line(reading), soft_wrap=True)
    sys.stdout.flush()
