"""What must hold before anything is sent."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Plan
from loadgen.scenario import Limits, LoadedScenario, chosen_baseline


def refuse_beyond(plan: Plan, limits: Limits) -> None:
    """Refuse a plan that certainly exceeds the environment's caps: no load is sent."""
    asked = plan.totals
    pairs: list[tuple[str, float | None, float | None]] = [
        ("max_requests", asked.requests, limits.max_requests),
        ("max_output_tokens", asked.output_tokens, limits.max_output_tokens),
        ("max_concurrency", asked.peak_concurrency, limits.max_concurrency),
        ("max_requests_per_second", asked.peak_rate_per_s, limits.max_requests_per_second),
    ]
    problems = [
        f"the plan asks for {key} = {value:,.10g}, and {cap:,.10g} is allowed "
        f"(safety.{key}, or its default for environment: {limits.environment}); ask for less, or raise safety.{key}"
        for key, value, cap in pairs
        if value is not None and cap is not None and value > cap
    ]
    if problems:
        raise ScenarioError(problems)


def with_baseline(loaded: LoadedScenario, ready: Preflight) -> tuple[LoadedScenario, tuple[str, ...]]:
    """Decide which arm the others are compared with, now that the servers have told whether they speculate; and what
    is to be said about it. Raises ScenarioError where a threshold compares that arm with itself."""
    scenario = loaded.scenario
    without = [name for name, arm in ready.arms.items() if arm.capabilities.speculation is False]
    chosen = chosen_baseline(scenario.comparison.baseline, list(scenario.arms), without)
    if chosen == scenario.baseline:
        return loaded, ()
    note = f"{chosen} is the baseline: it is the only arm found without speculation"
    return replace(loaded, scenario=scenario.against(chosen)), (note,)


def refuse_unwritable(out: Path) -> None:
    """Refuse a folder that takes no records: after the load it would be too late."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out, prefix=".specload-write-test-") as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        raise StorageError(f"{out}: cannot write there: {error.strerror}; choose another folder with --out") from None
