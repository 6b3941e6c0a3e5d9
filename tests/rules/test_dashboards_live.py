"""Every query of every dashboard on a real Prometheus that has scraped a real run, its servers and `specload watch`."""

import asyncio
import contextlib
import json
import math
import os
import re
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.dashboards_src.interpolate import Dashboard, built_in, chosen, interpolated, panels, variables
from loadgen.export import Limits, Windows
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import RehearsalServer

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
#: The names of the budgets' series hold their windows, so these stay as they are; a short history is enough for data.
SHORT = Windows(
    rate="10s", run_rate="5s", hold="1s", run_hold="1s", scrape_hold="2s", baseline="2m", baseline_ago="6s",
    memory="2m", drift="2m", drift_hold="1m", interval="1s", run_interval="1s",
)  # fmt: skip
LIMITS = Limits(requests_per_s=1e-9)
ARMS = ("baseline", "candidate")
LENGTHS = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "uniform", "low": 8, "high": 16}}


def scenario(baseline: str, candidate: str) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "dashboards",
        "environment": "disposable",
        "repeats": 1,
        "arms": {"baseline": {"url": baseline, "speculation": "off"}, "candidate": {"url": candidate}},
        "comparison": {"blocks": 3},
        "workload": {
            "endpoint": "completions",
            "stream_fraction": 0.7,
            "tasks": [{"task_type": task, **LENGTHS} for task in ("short_qa", "code")],
        },
        "load": [
            {"kind": "concurrency", "concurrency": 2, "cases": 12},
            {"kind": "concurrency", "concurrency": 4, "cases": 24},
        ],
        "slos": {"ttft_s": 1.0, "tpot_s": 0.1},
        "warmup": {"warmup_requests": 2},
        "scrape": {"interval_s": 0.5},
    }


def watched(baseline: str, candidate: str) -> dict[str, Any]:
    """The same servers as a canary: slow probes, and checks of the counters that need no time."""
    named = (
        "acceptance",
        "acceptance_ratio",
        "rollback",
        "error_share",
        "speedup",
        "tpot_p50_ratio",
        "tpot_p95_ratio",
        "ttft_p95_ratio",
    )
    canary = {
        "window_s": 5.0, "grace_windows": 0, "probes": {"requests_per_s": 2.0}, "least_requests": 5,
        "limits": dict.fromkeys(named),
    }  # fmt: skip
    return {**scenario(baseline, candidate), "scrape": {"interval_s": 0.2}, "canary": canary}


@dataclass
class Scraped:
    """`begin_s`, `end_s`: Unix time around the run."""

    prometheus: Any
    begin_s: float
    end_s: float
    summary: dict[str, Any]
    verdict: dict[str, Any]

    async def got(self, path: str, **params: str) -> Any:
        answer = (await self.prometheus.client.get(f"/api/v1/{path}", params=params)).json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    async def values(self, expr: str, instant: bool) -> list[tuple[dict[str, str], list[float]]]:
        """(labels, numbers) of each series that has a number; NaN is none."""
        if instant:
            found = (await self.got("query", query=expr, time=str(self.end_s)))["result"]
        else:
            span = {"start": str(self.begin_s), "end": str(self.end_s), "step": "1"}
            found = (await self.got("query_range", query=expr, **span))["result"]
        told = [(one["metric"], [float(v) for _, v in one.get("values", [one.get("value")])]) for one in found]
        return [(labels, finite) for labels, all_ in told if (finite := [v for v in all_ if math.isfinite(v)])]

    async def label_values(self, query: str) -> list[str]:
        found = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", query)
        assert found is not None, query
        span = {"start": str(self.begin_s), "end": str(self.end_s)}
        return sorted(await self.got(f"label/{found[2]}/values", **{"match[]": found[1]}, **span))

    async def chosen(self, dashboard: Dashboard) -> dict[str, str]:
        """What each variable stands for when the dashboard is opened: its first value, or all."""
        values = built_in(1, math.ceil(self.end_s - self.begin_s), 1)
        for variable in variables(dashboard):
            if variable["type"] == "query":
                found = await self.label_values(interpolated(str(variable["query"]), values))
                assert found, (dashboard["uid"], variable["name"])
                first = found[-1] if variable["sort"] == 2 else found[0]
                values[variable["name"]] = chosen(variable, [] if variable.get("includeAll") else [first])
        return values


def target(address: str, arm: str | None = None) -> dict[str, Any]:
    return {"targets": [address], "labels": {} if arm is None else {"arm": arm}}


@contextlib.asynccontextmanager
async def running(*command: str, cwd: Path) -> AsyncIterator[Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=environment, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.fixture
async def scraped(
    tmp_path: Path, prometheus_over: Callable[..., Any], free_port: Callable[[], int], until: Callable[..., Any]
) -> AsyncIterator[Scraped]:
    """A run of two arms and two stages that has ended, with its metrics still there."""
    specload = (sys.executable, "-m", "loadgen")
    run_port, watch_port, canary_port = free_port(), free_port(), free_port()
    (tmp_path / "prometheus").mkdir()
    async with contextlib.AsyncExitStack() as on:
        engines = [RehearsalServer(RehearsalConfig(spec=spec, speed=2)) for spec in ("off", "draft:k=4")]
        for engine in engines:
            await engine.start()
            on.push_async_callback(engine.stop)
        urls = [engine.url for engine in engines]
        inference = [target(url.removeprefix("http://"), arm) for url, arm in zip(urls, ARMS, strict=True)]
        targets = {
            "inference": inference,
            "specload": [target(f"127.0.0.1:{run_port}")],
            "specload-watch": [target(f"127.0.0.1:{port}") for port in (watch_port, canary_port)],
        }
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario(*urls)))
        prometheus = await on.enter_async_context(prometheus_over(tmp_path / "prometheus", targets, SHORT, LIMITS))
        begin_s = time.time()
        watching = (*specload, "watch", *urls, "--metrics-port", str(watch_port), "--json")
        await on.enter_async_context(running(*watching, cwd=tmp_path))
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(watched(*urls)))
        canary = (*specload, "canary", "c.yaml", "--out", "canaries", "--metrics-port", str(canary_port))
        await on.enter_async_context(running(*canary, cwd=tmp_path))
        run = (*specload, "run", "s.yaml", "--metrics-port", str(run_port), "--linger", "60")
        await on.enter_async_context(running(*run, cwd=tmp_path))
        verdict = 'specload_run_verdict and on () specload_run_phase_timestamp_seconds{phase="end"}'
        await until(lambda: prometheus.asked(verdict), "the run has ended", limit_s=180)
        judged = "specload_canary_check_value and on (canary) specload_canary_traffic_ratio"
        await until(lambda: prometheus.asked(f"last_over_time(({judged})[3m:1s])"), "a window of the run is judged")
        await asyncio.sleep(2)
        (folder,) = (tmp_path / "runs").iterdir()
        told = [json.loads((folder / name).read_text()) for name in ("summary.json", "verdict.json")]
        yield Scraped(prometheus, begin_s, time.time(), *told)


async def without_data(scraped: Scraped, dashboard: Dashboard, values: dict[str, str]) -> list[tuple[str, str, str]]:
    """(dashboard, panel, legend) of each query that finds nothing."""
    nothing = []
    for panel in panels(dashboard):
        for target in panel["targets"]:
            expr = interpolated(target["expr"], values)
            if not await scraped.values(expr, bool(target.get("instant"))):
                nothing.append((dashboard["uid"], panel["title"], target["legendFormat"]))
    return nothing


async def shown(scraped: Scraped, title: str, number: int = 0) -> list[tuple[dict[str, str], list[float]]]:
    """What one query of the panel of this title shows."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for panel in panels(dashboard):
            if panel["title"] == title:
                expr = interpolated(panel["targets"][number]["expr"], await scraped.chosen(dashboard))
                return await scraped.values(expr, bool(panel["targets"][number].get("instant")))
    raise LookupError(title)


async def within_the_run(scraped: Scraped, dashboard: Dashboard, values: dict[str, str]) -> Sequence[str]:
    """Names of annotations that are not instants of the run, in milliseconds."""
    wrong = []
    for annotation in dashboard["annotations"]["list"]:
        marks = await scraped.values(interpolated(annotation["expr"], values), instant=False)
        times_s = [value / 1000 for _, found in marks for value in found]
        if not times_s or not scraped.begin_s < min(times_s) <= max(times_s) < scraped.end_s:
            wrong.append(annotation["name"])
    return wrong


@pytest.mark.slow
async def test_every_query_of_every_dashboard_finds_the_run(scraped: Scraped) -> None:
    """G1, G2, G4: with the variables that Grafana would choose, every panel has data and every mark its time; the
    numbers of the finished run are those of its files."""
    assert len(DASHBOARDS) == 4
    nothing, wrong = [], []
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        values = await scraped.chosen(dashboard)
        nothing += await without_data(scraped, dashboard, values)
        wrong += await within_the_run(scraped, dashboard, values)
    assert nothing == []
    assert wrong == []
    codes = {"fail": 0.0, "pass": 1.0, "inconclusive": -1.0}
    assert [found for _, found in await shown(scraped, "Verdict")] == [[codes[scraped.verdict["verdict"]]]]
    speedups = {row["stage"]: [row["speedup"]["value"]["value"]] for row in overall(scraped.summary)}
    told = await shown(scraped, "Speedup against the baseline")
    assert {labels["stage"]: found for labels, found in told} == speedups


def overall(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of whole stages."""
    keys = ("task_type", "input_segment", "output_segment")
    return [row for row in summary["comparison"] if all(row[key] is None for key in keys)]
