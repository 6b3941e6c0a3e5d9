"""The scenario: what to ask for. Every key a user may write is a field here or in a part of it, described.

Unknown keys are errors. Units are in the names. Defaults are what a careful SRE would
choose against a production server. docs/scenario.md lists every key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from loadgen.errors import ScenarioError
from loadgen.scenario.access import AccessKeys, without_load
from loadgen.scenario.anomalies import AnomalyKeys, anomaly_problems
from loadgen.scenario.arms import Arm
from loadgen.scenario.base import (
    MAX_REQUESTS,
    MAX_SECONDS,
    Environment,
    Loc,
    Model,
    Seconds,
    SomeSeconds,
    refuse,
)
from loadgen.scenario.canary import CanaryKeys
from loadgen.scenario.canary_checks import canary_problems
from loadgen.scenario.comparison import (
    MAX_REPEATS,
    REPEATS,
    ArmName,
    Comparison,
    chosen_baseline,
    comparison_problems,
)
from loadgen.scenario.disruption_checks import disruption_problems
from loadgen.scenario.drill import Drill, drill_problems
from loadgen.scenario.limits import Limits, Safety, combine
from loadgen.scenario.quality import QualityKeys
from loadgen.scenario.quality_checks import quality_problems
from loadgen.scenario.soak_checks import soak_problems
from loadgen.scenario.stages import ArrivalStage, ConcurrencyStage, Ramp, Stage, named
from loadgen.scenario.sweep import Sweep
from loadgen.scenario.sweep_checks import sweep_problems
from loadgen.scenario.threshold_checks import Surroundings, threshold_problems
from loadgen.scenario.thresholds import Threshold, ThresholdItem, read_thresholds
from loadgen.scenario.workload import SamplingKeys, Workload

#: Windows of warm-up, where the scenario does not say how much is enough.
WARM_UP_WINDOWS = 6


class Warmup(Model):
    """Before each stage's measured part, with the same shapes: until both are reached, and then again, window after
    window with the same requests, until three windows in a row agree."""

    warmup_requests: Annotated[int, Field(ge=0, le=MAX_REQUESTS)] | None = Field(
        None, description="a count, not a share; default: max(3, 2 × concurrency); 0 = none"
    )
    warmup_seconds: SomeSeconds = Field(0.0, description="at least so long")
    agree_within: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="share by which the time per token of three windows may differ"
    )
    max_windows: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None,
        description="so many windows at most; default: 6, or 1 where warmup_requests or warmup_seconds says how much",
    )

    @property
    def windows(self) -> int:
        """Most windows of one warm-up."""
        if self.max_windows is not None:
            return self.max_windows
        return WARM_UP_WINDOWS if self.warmup_requests is None and self.warmup_seconds == 0 else 1


class DeadlineKeys(Model):
    """Limits of one request; each is separate and every hit is an outcome, not a retry."""

    connect_s: Seconds = Field(10.0, description="connection not made for so long: refused")
    byte_idle_s: Seconds | None = Field(60.0, description="no byte at all for so long: timeout")
    token_idle_s: Seconds | None = Field(60.0, description="bytes but no token for so long: stalled")
    total_s: Seconds | None = Field(None, description="whole request; off by default (long answers are healthy)")
    drain_s: SomeSeconds = Field(
        30.0,
        description="how long requests in flight may finish after a stage, and overdue arrivals be sent; the rest are "
        "cut or unsent, and counted",
    )


class Slos(Model):
    """Limits a request must meet to count as goodput."""

    ttft_s: Seconds | None = Field(None, description="time to first token; streaming requests only")
    tpot_s: Seconds | None = Field(None, description="time per output token")
    total_time_s: Seconds | None = Field(None, description="sent to last token")


class Scrape(Model):
    """Reading the servers' counters."""

    interval_s: Annotated[float, Field(ge=0.2, le=MAX_SECONDS)] = Field(
        5.0,
        description="seconds between scrapes of a metrics page; shorter stages scrape at a tenth of their length",
    )
    timeout_s: Seconds = Field(3.0, description="of one scrape")
    idle_wait_s: SomeSeconds = Field(
        30.0, description="how long to wait for an idle server before and after a measured part"
    )


class Scenario(Model):
    """One scenario file."""

    version: Literal[1] = Field(description="version of this format: 1")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(
        description="part of the run's id"
    )
    description: str = Field("", description="free text, shown in reports")
    objective: Literal["latency", "throughput", "cost", "quality"] = Field(
        "latency", description="what matters most; findings are ordered by it"
    )
    environment: Environment = Field(
        "production", description="what may be done to the targets: sets the caps of safety"
    )
    experiment: Literal["run", "soak", "quality", "anomalies", "drill", "access"] = Field(
        "run",
        description="shape of the work; soak: a long steady load, judged for drifts (docs/soak.md); quality: the arms' "
        "answers compared (docs/quality.md), as `specload quality` does with any run; anomalies: bad requests under "
        "normal load (docs/anomalies.md); drill: the kill switch pulled under load (docs/drill.md); access: who is let "
        "in (docs/access.md)",
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        0, description="same seed, same plan: cases, prompts, due times"
    )
    arms: dict[ArmName, Arm] = Field(
        min_length=1, description="the servers by name; baseline and candidate where two are compared"
    )
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] | None = Field(
        None, validate_default=True, description="passes over the same plan; default: 5 with two arms or more, else 1"
    )
    comparison: Comparison = Field(Comparison(), description="how two arms or more are compared")
    workload: Workload = Field(description="what is asked")
    sampling: SamplingKeys = Field(SamplingKeys(), description="sent with every request, stored with every record")
    safety: Safety = Field(Safety(), description="caps in front of the targets")
    load: list[Stage] = Field(min_length=1, description="stages, in the order they are driven")
    warmup: Warmup = Field(Warmup(), description="before each stage's measured part")
    deadlines: DeadlineKeys = Field(DeadlineKeys(), description="limits of one request")
    slos: Slos = Field(Slos(), description="limits a request must meet to count as goodput")
    scrape: Scrape = Field(Scrape(), description="reading the servers' counters")
    thresholds: list[ThresholdItem] = Field(
        default_factory=list,
        description="what decides pass or fail; default: with two arms or more, those of docs/verdict.md",
    )

    access: AccessKeys = Field(AccessKeys(), description="what experiment: access looks at")
    anomalies: AnomalyKeys = Field(AnomalyKeys(), description="what experiment: anomalies sends beside the load")
    drill: Drill | None = Field(None, description="of experiment: drill: the kill switch, and when it is pulled")
    sweep: Sweep | None = Field(None, description="settings that `specload sweep` tries, one run each")
    quality: QualityKeys = Field(QualityKeys(), description="how `specload quality` compares the arms' answers")
    canary: CanaryKeys | None = Field(None, description="what `specload canary` watches, for as long as it runs")

    @property
    def parsed_thresholds(self) -> tuple[Threshold, ...]:
        return read_thresholds(self.thresholds)

    @model_validator(mode="before")
    @classmethod
    def _access_alone(cls, data: Any) -> Any:
        return without_load(data)

    @field_validator("repeats")
    @classmethod
    def _resolved(cls, repeats: int | None, info: ValidationInfo) -> int:
        return repeats or (REPEATS if len(info.data.get("arms", ())) > 1 else 1)

    @property
    def passes(self) -> int:
        """`repeats`, which a checked scenario always has."""
        return self.repeats or 1

    @property
    def baseline(self) -> str:
        """The arm that the others are compared with, as far as the scenario alone tells."""
        off = [name for name, arm in self.arms.items() if arm.speculation == "off"]
        return chosen_baseline(self.comparison.baseline, list(self.arms), off)

    def against(self, baseline: str) -> Scenario:
        """The same scenario with `comparison.baseline` named. Raises ScenarioError where a threshold then compares an
        arm with itself."""
        named = self.model_copy(update={"comparison": self.comparison.model_copy(update={"baseline": baseline})})
        problems = threshold_problems(named.thresholds, _surroundings(named))
        if problems:
            raise ScenarioError([f"{'.'.join(map(str, loc))}: {text}" for loc, text in problems])
        return named

    @field_validator("load")
    @classmethod
    def _named_and_capped(cls, stages: list[Stage], info: ValidationInfo) -> list[Stage]:
        """Fill in generated names; an unset max_in_flight is the environment's cap where that is lower."""
        stages = named(stages)
        if "environment" not in info.data or "safety" not in info.data:
            return stages
        cap = combine(info.data["environment"], info.data["safety"]).max_concurrency
        return [
            stage
            if cap is None or isinstance(stage, ConcurrencyStage) or "max_in_flight" in stage.model_fields_set
            else stage.model_copy(update={"max_in_flight": min(stage.max_in_flight, cap)})
            for stage in stages
        ]

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        limits = combine(self.environment, self.safety)
        problems = [p for i, stage in enumerate(self.load) for p in _above_caps(i, stage, limits)]
        problems += comparison_problems(self)
        problems += soak_problems(self)
        problems += disruption_problems(self)
        problems += quality_problems(self)
        problems += anomaly_problems(self)
        problems += drill_problems(self)
        problems += sweep_problems(self, limits)
        problems += canary_problems(self)
        if not problems:
            problems += threshold_problems(self.thresholds, _surroundings(self))
        refuse(problems + _too_many(self, limits) + _min_tokens(self))
        return self


def _cap(key: str, limits: Limits) -> str:
    return f"safety.{key} ({getattr(limits, key):g}, environment: {limits.environment})"


def _above_caps(i: int, stage: Stage, limits: Limits) -> list[tuple[Loc, str]]:
    """A load the caps would cut is not the load that was asked for: refused, both keys named."""
    asked: list[tuple[str, float, str, float | None]]
    if isinstance(stage, ConcurrencyStage):
        asked = [("concurrency", stage.peak, "max_concurrency", limits.max_concurrency)]
    else:
        asked = [
            ("rate_per_s", stage.peak, "max_requests_per_second", limits.max_requests_per_second),
            ("max_in_flight", stage.max_in_flight, "max_concurrency", limits.max_concurrency),
        ]
    return [
        (("load", i, key), f"{value:g} is above {_cap(cap_key, limits)}: lower one, or raise the other")
        for key, value, cap_key, cap in asked
        if cap is not None and value > cap
    ]


def _too_many(scenario: Scenario, limits: Limits) -> list[tuple[Loc, str]]:
    """Requests that are certain (or, open loop, expected), measured parts alone, against the cap."""
    once = sum(
        stage.expected if isinstance(stage, ArrivalStage) else (stage.cases or 0) if stage.duration_s is None else 0
        for stage in scenario.load
    )
    total = once * scenario.passes * len(scenario.arms)
    if limits.max_requests is None or total <= limits.max_requests:
        return []
    return [
        (
            ("load",),
            f"{total:.0f} requests ({once:.0f} × {scenario.passes} repeats × {len(scenario.arms)} arms) are above "
            f"{_cap('max_requests', limits)}: lower one, or raise the other",
        )
    ]


def _min_tokens(scenario: Scenario) -> list[tuple[Loc, str]]:
    """Servers refuse a request whose min_tokens is above its max_tokens."""
    problems: list[tuple[Loc, str]] = []
    for i, task in enumerate(scenario.workload.tasks):
        least, shortest = (task.sampling or scenario.sampling).min_tokens, task.shortest_output
        if shortest is not None and least > shortest:
            where: Loc = ("sampling",) if task.sampling is None else ("workload", "tasks", i, "sampling")
            text = f"{least} is above the shortest output ({shortest}) of workload.tasks.{i}: set its low bound"
            problems.append(((*where, "min_tokens"), text))
    return problems


def _surroundings(scenario: Scenario) -> Surroundings:
    users = [stage.concurrency for stage in scenario.load if isinstance(stage, ConcurrencyStage)]
    rates = [stage.rate_per_s for stage in scenario.load if isinstance(stage, ArrivalStage)]
    return Surroundings(
        arms=list(scenario.arms),
        baseline=scenario.baseline,
        task_types=list(dict.fromkeys(task.task_type for task in scenario.workload.tasks)),
        stages=[stage.name for stage in scenario.load],
        concurrencies=[str(n) for n in sorted({n for n in users if isinstance(n, int)})],
        rates=[f"{rate:g}" for rate in sorted({rate for rate in rates if not isinstance(rate, Ramp)})],
        slos=any(
            limit is not None for limit in (scenario.slos.ttft_s, scenario.slos.tpot_s, scenario.slos.total_time_s)
        ),
    )
