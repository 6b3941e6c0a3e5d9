"""The section `drill`: the kill switch pulled under load, and how the servers are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from loadgen.scenario.base import Loc, Model, PageUrl, Seconds
from loadgen.scenario.stages import ConcurrencyStage, Ramp
from loadgen.scenario.switch import Switch

if TYPE_CHECKING:
    from loadgen.scenario.arms import Arm
    from loadgen.scenario.model import Scenario

MOST_PULLS = 100
#: Between two scrapes of a drill.
DRILL_SCRAPE_S = 0.2


class DrillSide(Model):
    """The servers on one side of the switch."""

    metrics_urls: list[PageUrl] = Field(
        default_factory=list, description="their metrics pages; each stands in the arm's metrics_urls, too"
    )
    served_by: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="values of the arm's served_by_header that mean them"
    )


class DrillLimits(Model):
    """Seconds from the pull that must not be exceeded; what is not named is measured all the same."""

    last_routed_s: Seconds | None = Field(None, description="to the last request that went to a speculating server")
    last_token_s: Seconds | None = Field(None, description="to the last token that came from one")
    baseline_s: Seconds | None = Field(None, description="until latency is at the fallback's level and stays there")
    acceptance_s: Seconds | None = Field(None, description="of switching back: until accepted tokens are seen again")


class Drill(Model):
    """Before, off, after, on, back: so often as pulls says, under the load of the one stage."""

    switch: Switch = Field(description="what is pulled")
    speculating: DrillSide = Field(DrillSide(), description="the servers that users are taken away from")
    fallback: DrillSide = Field(
        DrillSide(), description="the servers that they are sent to; default: the same ones, speculating no longer"
    )
    before_s: Seconds = Field(20.0, description="load before the switch is pulled")
    after_s: Seconds = Field(30.0, description="load after it; the second half is the level to come back to")
    back_s: Seconds = Field(20.0, description="load after switching back, where the switch has a way back")
    pulls: Annotated[int, Field(ge=1, le=MOST_PULLS)] = Field(1, description="how often the whole is done")
    window_requests: Annotated[int, Field(ge=3, le=1000)] = Field(
        10, description="requests in a row whose median latency is compared with the fallback's"
    )
    limits: DrillLimits = Field(DrillLimits(), description="what is too slow; lost requests are never allowed")

    @property
    def cycle_s(self) -> float:
        """One time off and, where there is a way back, on again."""
        return self.before_s + self.after_s + (self.back_s if self.switch.on is not None else 0.0)

    @property
    def needed_s(self) -> float:
        """Load that all pulls need."""
        return self.pulls * self.cycle_s


def drill_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top."""
    drill = scenario.drill
    if scenario.experiment != "drill":
        if drill is not None:
            yield ("drill",), f"is for experiment: drill, and this is experiment: {scenario.experiment}"
        return
    if drill is None:
        yield ("drill",), "is missing: experiment: drill needs a switch to pull (docs/drill.md)"
        return
    yield from _load(scenario, drill)
    if drill.pulls > 1 and drill.switch.on is None:
        yield ("drill", "pulls"), "must be 1: without switch.on it cannot be pulled twice"
    if len(scenario.arms) != 1:
        yield ("arms",), f"experiment: drill takes one arm, the gateway that users ask (got {len(scenario.arms)})"
        return
    yield from _sides(drill, *scenario.arms.items())


def _load(scenario: Scenario, drill: Drill) -> Iterator[tuple[Loc, str]]:
    if len(scenario.load) != 1 or scenario.passes != 1:
        yield ("load",), "experiment: drill takes one stage and one repeat: drill.pulls says how often it is pulled"
    stage = scenario.load[0]
    key = "concurrency" if isinstance(stage, ConcurrencyStage) else "rate_per_s"
    if isinstance(getattr(stage, key), Ramp):
        yield ("load", 0, key), "experiment: drill needs a load that stands: a number, not a ramp"
    if stage.duration_s is None:
        yield ("load", 0, "duration_s"), f"is missing: the drill needs {drill.needed_s:g} s"
    elif stage.duration_s < drill.needed_s:
        yield (
            ("load", 0, "duration_s"),
            f"{stage.duration_s:g} s is too short: the drill needs {drill.needed_s:g} s (pulls × (before_s + after_s"
            f"{' + back_s' if drill.switch.on is not None else ''}))",
        )
    if isinstance(stage, ConcurrencyStage) and stage.cases is not None:
        yield ("load", 0, "cases"), "experiment: drill ends by time: leave cases out"


def _sides(drill: Drill, named: tuple[str, Arm]) -> Iterator[tuple[Loc, str]]:
    name, arm = named
    pages = arm.metrics_urls
    if pages is None:
        pages = [f"{url}/metrics" for url in (arm.urls or [arm.url or ""])]
    for side in ("speculating", "fallback"):
        keys: DrillSide = getattr(drill, side)
        for i, page in enumerate(keys.metrics_urls):
            if page not in pages:
                yield ("drill", side, "metrics_urls", i), f"is not among arms.{name}.metrics_urls: name it there, too"
        if keys.served_by and arm.served_by_header is None:
            yield ("drill", side, "served_by"), f"needs arms.{name}.served_by_header: the header that has these values"
    if drill.fallback.served_by and not drill.speculating.served_by:
        yield ("drill", "speculating", "served_by"), "is missing beside drill.fallback.served_by"
    for key in ("metrics_urls", "served_by"):
        ours = getattr(drill.speculating, key)
        for i, value in enumerate(getattr(drill.fallback, key)):
            if value in ours:
                yield ("drill", "fallback", key, i), f"is in drill.speculating.{key}, too: it cannot be both"
