"""How the arms of a comparison share the time: the design, its blocks, and what fits together with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from loadgen.errors import ScenarioError
from loadgen.scenario.base import FilePath, Loc, Model
from loadgen.scenario.stages import ConcurrencyStage, Stage

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

DesignName = Literal["interleaved", "parallel", "sequential", "restart"]
ArmName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
#: Passes over the plan, where a comparison does not say (docs/comparison.md, "Blocks").
REPEATS = 5
#: Rounds of requests that a block of a closed loop has at least: with one it would have no steady part.
ROUNDS = 2
MAX_BLOCKS = 10_000
MAX_REPEATS = 1000
#: Measured segments of a plan: repeats × blocks × stages × arms.
MAX_SEGMENTS = 100_000
BASELINE = "baseline"


class Comparison(Model):
    """Only matters with two arms or more."""

    design: DesignName = Field(
        "interleaved",
        description="interleaved: blocks in balanced random order; parallel: both arms at once, on disjoint hardware; "
        "sequential: arm after arm, marked; restart: one node, arms started and stopped by their hooks",
    )
    baseline: ArmName | None = Field(
        None,
        description="the arm that the others are compared with; default: the one named baseline, else the only one "
        "without speculation, else the first",
    )
    blocks: Annotated[int, Field(ge=1, le=MAX_BLOCKS)] | None = Field(
        None, description="design blocks of each stage and repeat; default: 20 or more over all repeats"
    )
    unpaired: list[str] = Field(
        default_factory=list,
        description="concurrency stages that may end by time alone: one block, arms may answer different mixes, marked",
    )
    swap: bool = Field(False, description="parallel: the arms exchange their URLs for the second half of the blocks")
    aa_run: FilePath | None = Field(
        None, description="parallel: run directory of the same design with two equal arms, instead of swap"
    )


def chosen_baseline(named: str | None, arms: Sequence[str], without: Collection[str]) -> str:
    """The arm that the others are compared with, of at least one: `named`, else the one called baseline, else the only
    one of those `without` speculation, else the first."""
    plain = [name for name in arms if name in without]
    if named in arms:
        return str(named)
    if BASELINE in arms:
        return BASELINE
    return plain[0] if len(plain) == 1 else arms[0]


def ends_by_time(stage: Stage) -> bool:
    """A closed loop that has no number of requests to end by, or a ramp, which its time ends."""
    return isinstance(stage, ConcurrencyStage) and (stage.cases is None or not isinstance(stage.concurrency, int))


def comparison_problems(scenario: Scenario) -> list[tuple[Loc, str]]:
    """What of the comparison does not fit to the arms and stages."""
    named = scenario.comparison.baseline
    problems: list[tuple[Loc, str]] = []
    if named is not None and named not in scenario.arms:
        problems.append((("comparison", "baseline"), f'"{named}" is no arm; there are {", ".join(scenario.arms)}'))
    problems += _of_size(scenario)
    problems += _of_unpaired(scenario)
    problems += _of_parallel(scenario)
    problems += _of_restart(scenario)
    if len(scenario.arms) > 1:
        for i, stage in enumerate(scenario.load):
            problems += _of_stage(i, stage, scenario.comparison)
    return problems


def _of_size(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """Where the plan chooses the blocks, it looks again (`refuse_segments`)."""
    factors = (scenario.passes, scenario.comparison.blocks or 1, len(scenario.load), len(scenario.arms))
    if prod(factors) > MAX_SEGMENTS:
        repeats, blocks, stages, arms = factors
        yield (
            ("repeats",),
            f"{repeats} repeats × {blocks} blocks × {stages} stages × {arms} arms are {prod(factors):,} segments, and "
            f"{MAX_SEGMENTS:,} are allowed: ask for fewer repeats or comparison.blocks",
        )


def refuse_segments(repeats: int, blocks: int, arms: int) -> None:
    """`blocks`: of one repeat, all stages together. Raises ScenarioError where a plan would have too many segments."""
    if repeats * blocks * arms > MAX_SEGMENTS:
        raise ScenarioError(
            [
                f"repeats: {repeats} repeats × {blocks} blocks of all stages × {arms} arms are "
                f"{repeats * blocks * arms:,} segments, and {MAX_SEGMENTS:,} are allowed: ask for fewer repeats, "
                "or for fewer comparison.blocks than the plan would choose"
            ]
        )


def _of_unpaired(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    timed = [stage.name for stage in scenario.load if ends_by_time(stage)]
    for i, name in enumerate(scenario.comparison.unpaired):
        if name not in timed:
            names = ", ".join(timed) or "none"
            yield ("comparison", "unpaired", i), f'"{name}" is no concurrency stage that ends by time (there: {names})'


def _of_stage(i: int, stage: Stage, comparison: Comparison) -> Iterator[tuple[Loc, str]]:
    if not isinstance(stage, ConcurrencyStage):
        return
    if ends_by_time(stage):
        if stage.name not in comparison.unpaired:
            ramp = not isinstance(stage.concurrency, int)
            key = "concurrency" if ramp else "cases"
            what = "a ramp ends by time" if ramp else "is missing: it would end by time"
            yield (
                ("load", i, key),
                f"{what}, so the arms of a comparison would answer different requests; give "
                f"{'steps that end by cases' if ramp else 'cases'}, or list {stage.name} in comparison.unpaired",
            )
        return
    least = (comparison.blocks or 1) * ROUNDS * stage.peak
    if comparison.blocks is not None and (stage.cases or 0) < least:
        yield (
            ("load", i, "cases"),
            f"must be at least {least} (comparison.blocks {comparison.blocks} × {ROUNDS} × concurrency {stage.peak}): "
            f"shorter blocks have no steady part (got {stage.cases})",
        )


def _of_parallel(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    comparison = scenario.comparison
    for key, given in (("swap", comparison.swap), ("aa_run", comparison.aa_run is not None)):
        if given and (comparison.design != "parallel" or len(scenario.arms) < 2):
            yield ("comparison", key), "belongs to design: parallel with two arms or more"
    if comparison.swap and len({len(arm.urls or [arm.url]) for arm in scenario.arms.values()}) > 1:
        yield ("comparison", "swap"), "arms can only exchange their URLs where each has as many as the others"


def _of_restart(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    if scenario.comparison.design != "restart":
        return
    for name, arm in scenario.arms.items():
        if arm.start is None:
            yield ("arms", name, "start"), "is missing: design: restart starts and stops every arm by its commands"
