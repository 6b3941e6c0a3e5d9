"""The order of everything: stages, repeats, blocks and arms, as the comparison's design has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from loadgen.plan.blocks import ENOUGH_BLOCKS, Block, arm_orders
from loadgen.plan.stages import StagePlan
from loadgen.plan.types import ClosedLoop, Design, OpenLoop, PhaseName, Segment, StageBlocks
from loadgen.scenario import Arm, Scenario


@dataclass(frozen=True, slots=True)
class CutStage:
    """A stage and its blocks, the same for every arm and repeat. `index`: its place in the scenario."""

    index: int
    plan: StagePlan
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """Arms that are driven at once: one after the other have turns of their own. `block` None: warm-up."""

    stage: CutStage
    repeat: int
    block: int | None
    arms: tuple[str, ...]
    swapped: bool = False


def segments_of(scenario: Scenario, stages: Sequence[CutStage]) -> tuple[Segment, ...]:
    """Every segment in the order driven. Warm-up stands before an arm's first block of a visit: of a stage, and in the
    designs that leave a server for the other arm's whole stage (sequential, restart) of a stage and repeat."""
    segments: list[Segment] = []
    group = 0
    for turn in _turns(scenario, stages):
        windows = scenario.warmup.windows if turn.block is None else 1
        for window in range(windows):
            for arm in turn.arms:
                segments.append(segment_of(len(segments), group, arm, turn, window))
            group += 1
    return tuple(segments)


def _turns(scenario: Scenario, stages: Sequence[CutStage]) -> Iterator[Turn]:
    arms, repeats, design = tuple(scenario.arms), scenario.passes, scenario.comparison.design
    if design == "restart":
        yield from _restarting(arms, stages, repeats)
    elif len(arms) == 1:
        yield from _alone(arms, stages, repeats)
    elif design == "parallel":
        yield from _parallel(arms, stages, repeats, swap=scenario.comparison.swap)
    elif design == "sequential":
        yield from _sequential(arms, stages, repeats)
    else:
        for stage in stages:
            yield from _interleaved(arms, stage, repeats, scenario.seed)


def _warm(stage: CutStage, repeat: int, arms: tuple[str, ...], *, swapped: bool = False) -> Iterator[Turn]:
    if stage.plan.warmup is not None:
        yield Turn(stage, repeat, None, arms, swapped)


def _alone(arms: tuple[str, ...], stages: Sequence[CutStage], repeats: int) -> Iterator[Turn]:
    for stage in stages:
        yield from _warm(stage, 0, arms)
        for repeat in range(repeats):
            for block in range(len(stage.blocks)):
                yield Turn(stage, repeat, block, arms)


def _interleaved(arms: tuple[str, ...], stage: CutStage, repeats: int, seed: int) -> Iterator[Turn]:
    n = len(stage.blocks)
    orders = arm_orders(arms, repeats * n, seed, "order", stage.index)
    for arm in orders[0]:
        yield from _warm(stage, 0, (arm,))
    for number, order in enumerate(orders):
        for arm in order:
            yield Turn(stage, number // n, number % n, (arm,))


def _sequential(arms: tuple[str, ...], stages: Sequence[CutStage], repeats: int) -> Iterator[Turn]:
    """In each stage and repeat the arms take turns, reversed where their sum is odd (ABBA)."""
    for stage in stages:
        for repeat in range(repeats):
            for arm in arms if (stage.index + repeat) % 2 == 0 else arms[::-1]:
                yield from _visit(stage, repeat, arm)


def _restarting(arms: tuple[str, ...], stages: Sequence[CutStage], repeats: int) -> Iterator[Turn]:
    """A repeat is one visit of every arm with all stages; every other repeat goes backwards (ABBA), so that the arm
    that ends one repeat begins the next without a restart."""
    for repeat in range(repeats):
        for arm in arms if repeat % 2 == 0 else arms[::-1]:
            for stage in stages:
                yield from _visit(stage, repeat, arm)


def _visit(stage: CutStage, repeat: int, arm: str) -> Iterator[Turn]:
    yield from _warm(stage, repeat, (arm,))
    for block in range(len(stage.blocks)):
        yield Turn(stage, repeat, block, (arm,))


def _parallel(arms: tuple[str, ...], stages: Sequence[CutStage], repeats: int, *, swap: bool) -> Iterator[Turn]:
    """With `swap` all stages are driven twice, with the first and with the second half of their blocks, so
    that no stage is tied to one assignment of the nodes."""
    for half in (0, 1) if swap else (None,):
        for stage in stages:
            n = len(stage.blocks)
            numbers = range(repeats * n)
            middle = (len(numbers) + 1) // 2
            taken = numbers if half is None else numbers[middle:] if half else numbers[:middle]
            for place, number in enumerate(taken):
                if place == 0:
                    yield from _warm(stage, number // n, arms, swapped=half == 1)
                yield Turn(stage, number // n, number % n, arms, half == 1)


def segment_of(number: int, group: int, arm: str, turn: Turn, window: int) -> Segment:
    """The segment of one arm in a turn. `window`: of warm-up."""
    stage = turn.stage.plan
    load: OpenLoop | ClosedLoop
    phase: PhaseName
    if turn.block is None:
        assert stage.warmup is not None
        phase, load, duration_ns, executor = "warmup", stage.warmup, stage.warmup_ns, "concurrency"
    else:
        part = turn.stage.blocks[turn.block]
        phase, load, duration_ns, executor = "measure", part.load, part.duration_ns, stage.executor
    return Segment(
        number=number,
        arm=arm,
        phase=phase,
        stage=stage.name,
        stage_index=turn.stage.index,
        repeat_idx=turn.repeat,
        block=window if turn.block is None else turn.block,
        group=group,
        executor="concurrency" if executor == "concurrency" else "arrival_rate",
        concurrency=stage.concurrency,
        rate_per_s=stage.rate_per_s,
        duration_ns=duration_ns,
        load=load,
        swapped=turn.swapped,
    )


def design_of(scenario: Scenario, stages: Sequence[CutStage], segments: Sequence[Segment]) -> Design:
    """The design of a plan, for the manifest and for readers."""
    return Design(
        name=scenario.comparison.design if len(scenario.arms) > 1 else None,
        baseline=scenario.baseline,
        arms=tuple(scenario.arms),
        repeats=scenario.passes,
        stages=tuple(stage_blocks(stage, segments) for stage in stages),
        marks=tuple(_marks(scenario, stages)) if len(scenario.arms) > 1 else (),
    )


def stage_blocks(stage: CutStage, segments: Sequence[Segment]) -> StageBlocks:
    """How the stage was cut, and in which order its parts are driven."""
    order: dict[tuple[int, int], list[str]] = {}
    for s in segments:
        if s.stage_index == stage.index and s.phase == "measure":
            order.setdefault((s.repeat_idx, s.block), []).append(s.arm)
    loads = [block.load for block in stage.blocks]
    return StageBlocks(
        stage=stage.plan.name,
        requests=tuple(len(load.due_ns) if isinstance(load, OpenLoop) else load.cases for load in loads),
        duration_ns=stage.blocks[0].duration_ns,
        paired=stage.plan.paired,
        order=tuple((repeat, block, tuple(arms)) for (repeat, block), arms in order.items()),
    )


def _marks(scenario: Scenario, stages: Sequence[CutStage]) -> Iterator[str]:
    comparison = scenario.comparison
    if comparison.design == "sequential":
        yield "sequential: the arms did not share a window of time, so a drift of the server looks like a difference"
    if comparison.design == "restart":
        yield "restart: the arms ran one after the other on one node (ABBA over the repeats), each freshly started"
    if comparison.design == "parallel":
        yield from _parallel_marks(scenario)
    yield from compared_with_itself(scenario)
    for stage in stages:
        n = len(stage.blocks) * scenario.passes
        if not stage.plan.paired:
            yield f"{stage.plan.name} ends by time: the arms may have answered different requests; not paired"
        elif n < ENOUGH_BLOCKS:
            yield f"{stage.plan.name} has {n} blocks over all repeats; intervals of quantiles need {ENOUGH_BLOCKS}"
        load = stage.plan.load
        if stage.plan.paired and isinstance(load, ClosedLoop) and stage.plan.duration_ns is not None:
            yield f"{stage.plan.name} has a time limit: a block that meets it holds fewer cases than in another arm"


def compared_with_itself(scenario: Scenario) -> Iterator[str]:
    """A sentence for each pair of arms that are one server."""
    for one, other in combinations(scenario.arms, 2):
        if _asks_of(scenario.arms[one]) == _asks_of(scenario.arms[other]):
            yield f"{one} and {other} have the same address and model: a server is compared with itself"


def _asks_of(arm: Arm) -> tuple[object, ...]:
    """What tells an arm's server from another's; a header may choose, too, and its own command starts another."""
    return (*(arm.urls or (arm.url,)), arm.model, arm.headers, arm.start)


def _parallel_marks(scenario: Scenario) -> Iterator[str]:
    comparison = scenario.comparison
    hosts = [url for arm in scenario.arms.values() for url in (arm.urls or [arm.url or ""])]
    if len(set(hosts)) < len(hosts):
        yield "parallel: arms share an address, so each was measured under the other's load"
    if comparison.swap:
        yield "parallel: the arms exchanged their addresses for the second half of the blocks"
    elif comparison.aa_run is not None:
        yield "parallel: effects of the nodes are judged by an A/A run"
    else:
        yield "parallel without swap or A/A run: no interval sees an effect of the nodes"
