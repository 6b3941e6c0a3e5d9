"""Load stages: how many users, or how many arrivals a second, and for how long."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from loadgen.scenario.base import (
    MAX_REQUESTS,
    MAX_USERS,
    Loc,
    Model,
    NotNegative,
    Positive,
    PositiveInt,
    Seconds,
    refuse,
)


class Ramp(Model):
    """Linear in time."""

    start: NotNegative = Field(description="value at the stage's start")
    end: NotNegative = Field(description="value at the stage's end")

    @property
    def peak(self) -> float:
        return max(self.start, self.end)

    @model_validator(mode="after")
    def _some(self) -> Ramp:
        if self.peak == 0:
            refuse([((), "a ramp from 0 to 0 sends nothing: start or end must be above 0")])
        return self


def _shape(value: Any) -> str:
    """One branch is validated, so that a wrong value gets one message."""
    return "ramp" if isinstance(value, dict | Ramp) else "number"


Users = Annotated[
    Annotated[int, Field(ge=1, le=MAX_USERS), Tag("number")] | Annotated[Ramp, Tag("ramp")], Discriminator(_shape)
]
Rate = Annotated[Annotated[Positive, Tag("number")] | Annotated[Ramp, Tag("ramp")], Discriminator(_shape)]
#: the empty default stands for the generated name, which `Scenario` fills in
StageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")]


class ConcurrencyStage(Model):
    """Closed loop: each of `concurrency` users sends its next request when its last one ended."""

    kind: Literal["concurrency"] = Field(description="closed loop: every user waits for its answer")
    name: StageName = Field("", description="label of the stage; default: made from its load (c4, c1-8)")
    concurrency: Users = Field(description="users, or a ramp of them {start, end}")
    duration_s: Seconds | None = Field(None, description="end by time; a ramp needs it")
    cases: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        None, description="end by number of requests (fair between arms); with duration_s, whichever comes first"
    )

    @property
    def peak(self) -> int:
        """Most users at once."""
        return int(self.concurrency.peak) if isinstance(self.concurrency, Ramp) else self.concurrency

    @model_validator(mode="after")
    def _consistent(self) -> ConcurrencyStage:
        problems: list[tuple[Loc, str]] = []
        if isinstance(self.concurrency, Ramp):
            problems += _whole_ends(self.concurrency)
            if self.duration_s is None:
                problems.append((("duration_s",), "is missing: a ramp needs it"))
        elif self.duration_s is None and self.cases is None:
            problems.append(((), "needs cases (end by number of requests) or duration_s (end by time)"))
        if not problems and self.cases is not None and self.cases < self.peak:
            problems.append(
                (
                    ("cases",),
                    f"must be at least concurrency ({self.peak}), which is never reached otherwise (got {self.cases})",
                )
            )
        refuse(problems)
        return self


class ArrivalStage(Model):
    """Open loop: requests start when they are due, whatever the server does."""

    kind: Literal["arrival_rate"] = Field(description="open loop: requests start when they are due")
    name: StageName = Field("", description="label of the stage; default: made from its load (r2.5, r1-10)")
    rate_per_s: Rate = Field(description="requests per second, or a ramp of it {start, end}")
    arrivals: Literal["uniform", "poisson", "gamma"] = Field("poisson", description="law of the gaps between arrivals")
    burstiness: Positive = Field(
        1.0, description="gamma only: shape of the gaps; 1 = Poisson, below 1 = bursts, above 1 = more even"
    )
    duration_s: Seconds = Field(description="length of the stage")
    max_in_flight: PositiveInt = Field(
        1000, description="cap; arrivals that meet it are counted; default: not above safety.max_concurrency"
    )
    when_full: Literal["drop", "wait"] = Field(
        "drop", description="what happens to an arrival that meets max_in_flight"
    )

    @property
    def peak(self) -> float:
        """Highest rate, requests per second."""
        return self.rate_per_s.peak if isinstance(self.rate_per_s, Ramp) else self.rate_per_s

    @property
    def expected(self) -> float:
        """Mean number of arrivals."""
        rate = self.rate_per_s
        mean = (rate.start + rate.end) / 2 if isinstance(rate, Ramp) else rate
        return mean * self.duration_s

    @model_validator(mode="after")
    def _consistent(self) -> ArrivalStage:
        problems: list[tuple[Loc, str]] = []
        if self.burstiness != 1.0 and self.arrivals != "gamma":
            problems.append((("burstiness",), f"contradicts arrivals: {self.arrivals}; only gamma has a burstiness"))
        if self.expected > MAX_REQUESTS:
            what = f"{self.expected:.3g} requests are expected at this rate, at most {MAX_REQUESTS:,} are allowed"
            problems.append((("duration_s",), f"is too long: {what}"))
        if self.expected < 1:
            problems.append(
                (
                    ("duration_s",),
                    f"is too short: {self.expected:.3g} requests are expected at this rate, at least 1 is needed",
                )
            )
        refuse(problems)
        return self


Stage = Annotated[ConcurrencyStage | ArrivalStage, Field(discriminator="kind")]


def _whole_ends(ramp: Ramp) -> list[tuple[Loc, str]]:
    return [
        (("concurrency", key), f"must be a whole number of users, at most {MAX_USERS:,} (got {value:g})")
        for key, value in (("start", ramp.start), ("end", ramp.end))
        if value != int(value) or value > MAX_USERS
    ]


def named(stages: list[Stage]) -> list[Stage]:
    """The same stages, each with a unique name. Names that were given stay.

    Raises ValidationError where two stages were given the same name."""
    refuse(
        ((i, "name"), f'"{stage.name}" is the name of an earlier stage too: names must be unique')
        for i, stage in enumerate(stages)
        if stage.name and stage.name in [s.name for s in stages[:i]]
    )
    taken = {stage.name for stage in stages}
    done: list[Stage] = []
    for stage in stages:
        if not stage.name:
            stage = stage.model_copy(update={"name": _free(_label(stage), taken)})
            taken.add(stage.name)
        done.append(stage)
    return done


def _label(stage: Stage) -> str:
    letter, load = ("c", stage.concurrency) if isinstance(stage, ConcurrencyStage) else ("r", stage.rate_per_s)
    return f"{letter}{load.start:g}-{load.end:g}" if isinstance(load, Ramp) else f"{letter}{load:g}"


def _free(label: str, taken: set[str]) -> str:
    name, number = label, 1
    while name in taken:
        number += 1
        name = f"{label}_{number}"
    return name
