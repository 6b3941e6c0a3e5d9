"""The section `sweep`: which settings are tried, in which order, and on which servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from loadgen.scenario.base import MAX_USERS, Loc, Model, NotNegative, Positive, PositiveInt, Seconds, refuse
from loadgen.scenario.comparison import ArmName
from loadgen.scenario.launchers import DraftLength, Launcher
from loadgen.scenario.thresholds import ThresholdError, parse_threshold
from loadgen.scenario.workload import TaskType

AxisValue = int | float | str
_Level = Annotated[int, Field(ge=1, le=MAX_USERS)]
_Temperature = Annotated[float, Field(ge=0, le=2)]


class SweepAxes(Model):
    """The grid: every combination is a point."""

    concurrency: list[_Level] = Field(default_factory=list, description="levels of the closed loop of the one stage")
    rate: list[Positive] = Field(default_factory=list, description="arrivals/s of the open loop of the one stage")
    input_len: list[PositiveInt] = Field(default_factory=list, description="prompt tokens, of every task")
    output_len: list[PositiveInt] = Field(default_factory=list, description="max_tokens, of every task")
    k: list[DraftLength] = Field(
        default_factory=list, description="draft lengths; 0 = speculation off; needs launch or arms_by_k"
    )
    temperature: list[_Temperature] = Field(default_factory=list, description="of every request")
    task_type: list[TaskType] = Field(default_factory=list, description="one task of the workload at a time")

    @model_validator(mode="after")
    def _some(self) -> SweepAxes:
        problems: list[tuple[Loc, str]] = [
            ((name, i), f"{value} is in the list twice")
            for name, values in self.named().items()
            for i, value in enumerate(values)
            if value in values[:i]
        ]
        if not self.named():
            problems.append(((), f"needs at least one axis: {', '.join(type(self).model_fields)}"))
        if self.concurrency and self.rate:
            problems.append((("rate",), "contradicts concurrency: a stage is a closed or an open loop"))
        refuse(problems)
        return self

    def named(self) -> dict[str, list[AxisValue]]:
        """The axes that have values, in the order of the fields."""
        return {name: list(getattr(self, name)) for name in type(self).model_fields if getattr(self, name)}


class SweepSetting(Model):
    """One value of some axes."""

    concurrency: _Level | None = Field(None, description="default: the smallest of the axis")
    rate: Positive | None = Field(None, description="default: the smallest of the axis")
    input_len: PositiveInt | None = Field(None, description="default: the smallest of the axis")
    output_len: PositiveInt | None = Field(None, description="default: the smallest of the axis")
    k: DraftLength | None = Field(None, description="default: 0, which is added to the axis where it is missing")
    temperature: _Temperature | None = Field(None, description="default: the smallest of the axis")
    task_type: TaskType | None = Field(None, description="default: the first of the axis")


class MaxRate(Model):
    """A search for the highest arrival rate at which every SLO holds, by a bracket that is halved."""

    low: Positive = Field(description="arrivals/s that are expected to hold")
    high: Positive = Field(description="arrivals/s that are expected not to")
    slo: list[str] = Field(min_length=1, description="thresholds that must hold, like ttft_s: p(95)<0.5")
    resolution: Annotated[float, Field(ge=0.005, le=0.5)] = Field(
        0.05, description="share of the rate to which the bracket is closed"
    )
    repeats: Annotated[int, Field(ge=1, le=25)] = Field(3, description="runs at a rate before it is believed")
    duration_s: Seconds = Field(30.0, description="measured time of one run")

    @model_validator(mode="after")
    def _consistent(self) -> MaxRate:
        problems: list[tuple[Loc, str]] = []
        if self.low >= self.high:
            problems.append((("low",), f"must be below high ({self.low:g} ≥ {self.high:g})"))
        for i, text in enumerate(self.slo):
            try:
                parse_threshold(text)
            except ThresholdError as error:
                problems.append((("slo", i), str(error)))
        refuse(problems)
        return self


class Sweep(Model):
    """What `specload sweep` does with the scenario; `run` and `check` leave it aside."""

    over: SweepAxes = Field(description="the axes and their values")
    repeats: Annotated[int, Field(ge=1, le=100)] = Field(
        3, description="passes over the grid: so often each point is visited"
    )
    baseline_every: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="the baseline point comes again after so many others, to show drift"
    )
    baseline: SweepSetting = Field(SweepSetting(), description="the baseline point, where it is not the default")
    rounds: Annotated[int, Field(ge=2, le=100_000)] = Field(
        10, description="requests of each user at least: cases of the stage grow with the level"
    )
    arms_by_k: list[ArmName] = Field(
        default_factory=list, description="running servers: the arm of each value of over.k, in its order"
    )
    launch: Launcher | None = Field(None, description="what starts and stops the server of every point")
    max_rate: MaxRate | None = Field(None, description="search for the highest rate within SLOs, after the grid")
    settle_s: NotNegative = Field(0.0, description="pause before each point")

    @model_validator(mode="after")
    def _consistent(self) -> Sweep:
        problems: list[tuple[Loc, str]] = []
        if self.arms_by_k and self.launch is not None:
            problems.append((("arms_by_k",), "contradicts launch: the servers run already, or are started"))
        if self.arms_by_k and len(self.arms_by_k) != len(self.over.k):
            problems.append((("arms_by_k",), f"needs one arm for each of the {len(self.over.k)} values of over.k"))
        if self.over.k and not self.arms_by_k and self.launch is None:
            problems.append((("over", "k"), "needs launch (servers are started with each k) or arms_by_k"))
        refuse(problems + list(_of_baseline(self)))
        return self

    @property
    def axes(self) -> dict[str, list[AxisValue]]:
        """Every axis with its values; the baseline's k is among them."""
        found = self.over.named()
        if "k" in found and self.baseline.k is None and 0 not in found["k"] and not self.arms_by_k:
            found["k"] = [0, *found["k"]]
        return found

    @property
    def baseline_values(self) -> dict[str, AxisValue]:
        """The baseline point: what is given, else k = 0, the first task type, the smallest of everything else."""
        values: dict[str, AxisValue] = {}
        for name, on_axis in self.axes.items():
            given = getattr(self.baseline, name)
            if given is not None:
                values[name] = given
            elif name == "task_type":
                values[name] = on_axis[0]
            else:
                values[name] = min(float(v) if isinstance(v, float) else v for v in on_axis)
        return values


def _of_baseline(sweep: Sweep) -> Iterator[tuple[Loc, str]]:
    for name in type(sweep.baseline).model_fields:
        given = getattr(sweep.baseline, name)
        if given is not None and given not in getattr(sweep.over, name):
            yield ("baseline", name), f"{given} is not in over.{name}"
