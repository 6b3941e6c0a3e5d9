"""The plan of a quality run: the passes of all arms take turns, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from loadgen.plan.blocks import arm_orders, cut
from loadgen.plan.design import CutStage, Turn, compared_with_itself, segment_of, stage_blocks
from loadgen.plan.quality_cases import PassCases, QualityCases
from loadgen.plan.schedule import Plan, add_segments, canonical, decisive
from loadgen.plan.stages import StagePlan, plan_stages
from loadgen.plan.totals import total
from loadgen.plan.types import ClosedLoop, Design, PlanTotals, Segment
from loadgen.scenario import ROUNDS, LoadedScenario, QualityPass, Scenario, limits_of, refuse_segments

MARK = "quality run: passes at different loads, to compare answers; its speeds are no performance result"


def quality_plan(loaded: LoadedScenario) -> Plan:
    """Of a scenario whose passes are laid out. Every pass of every arm is a repeat of its stage; in each block all
    passes take turns in a random, balanced order. `design: restart`: visit by visit of an arm, all its stages."""
    scenario, cases = loaded.scenario, QualityCases(loaded)
    stages = [
        CutStage(i, stage, cut(stage, _block_count(stage.load, asked.blocks)))
        for i, (stage, asked) in enumerate(zip(_without_later_warmups(scenario), loaded.passes, strict=True))
    ]
    refuse_segments(
        max(p.baseline_passes for p in loaded.passes), sum(len(s.blocks) for s in stages), len(scenario.arms)
    )
    restart = scenario.comparison.design == "restart"
    turns = list(_visits(loaded, stages) if restart else _interleaved(loaded, stages))
    segments = tuple(
        _shifted(segment_of(number, number, turn.arms[0], turn, 0), loaded) for number, turn in enumerate(turns)
    )
    digest = sha256(canonical(decisive(loaded)))
    for one in cases.passes:
        digest.update(canonical([[c.case_id, c.output_len_requested, c.sampling_seed] for c in one.prompts]))
    add_segments(segments, digest)
    plan_stage = [stage.plan for stage in stages]
    return Plan(
        segments=segments,
        hash=digest.hexdigest(),
        totals=_totals(total(plan_stage, segments, {}, limits_of(scenario)), segments, cases.passes),
        reused=0,
        design=_design(scenario, stages, segments),
        workload=scenario.workload,
        seed=scenario.seed,
        _table=cases,
    )


def _without_later_warmups(scenario: Scenario) -> Iterator[StagePlan]:
    """Warm-up stands before the first stage alone: afterwards the servers are warm."""
    for i, stage in enumerate(plan_stages(scenario)):
        yield stage if i == 0 else replace(stage, warmup=None)


def _block_count(load: object, asked: int) -> int:
    assert isinstance(load, ClosedLoop)
    return max(1, min(asked, (load.cases or 0) // (ROUNDS * len(load.start_ns))))


def _entries(asked: QualityPass, scenario: Scenario) -> list[tuple[str, int]]:
    """(arm, repeat) of every pass over a stage."""
    counts = dict.fromkeys(scenario.arms, asked.candidate_passes) | {scenario.baseline: asked.baseline_passes}
    return [(arm, repeat) for arm, n in counts.items() if arm not in asked.left_out for repeat in range(n)]


def _interleaved(loaded: LoadedScenario, stages: Sequence[CutStage]) -> Iterator[Turn]:
    scenario = loaded.scenario
    for stage, asked in zip(stages, loaded.passes, strict=True):
        entries = _entries(asked, scenario)
        if stage.plan.warmup is not None:
            yield from (Turn(stage, 0, None, (arm,)) for arm in dict(entries))
        names = [str(i) for i in range(len(entries))]
        for block, order in enumerate(arm_orders(names, len(stage.blocks), scenario.seed, "quality", stage.index)):
            for name in order:
                arm, repeat = entries[int(name)]
                yield Turn(stage, repeat, block, (arm,))


def _visits(loaded: LoadedScenario, stages: Sequence[CutStage]) -> Iterator[Turn]:
    """One server at a time: in each round every arm once, forwards and backwards in turn."""
    scenario = loaded.scenario
    arms = list(scenario.arms)
    for repeat in range(max(p.baseline_passes for p in loaded.passes)):
        for arm in arms if repeat % 2 == 0 else arms[::-1]:
            for stage, asked in zip(stages, loaded.passes, strict=True):
                if (arm, repeat) not in _entries(asked, scenario):
                    continue
                if stage.plan.warmup is not None:
                    yield Turn(stage, repeat, None, (arm,))
                yield from (Turn(stage, repeat, block, (arm,)) for block in range(len(stage.blocks)))


def _shifted(segment: Segment, loaded: LoadedScenario) -> Segment:
    """Where arms have seeds of their own, an arm takes cases of its own."""
    asked = loaded.passes[segment.stage_index]
    if segment.phase == "warmup" or not asked.own_seeds or not isinstance(segment.load, ClosedLoop):
        return segment
    first = list(loaded.scenario.arms).index(segment.arm) * asked.requests
    return replace(segment, load=replace(segment.load, first_index=segment.load.first_index + first))


def _totals(found: PlanTotals, segments: Sequence[Segment], passes: Sequence[PassCases]) -> PlanTotals:
    """Tokens of the measured parts; warm-up's few are not known before they are drawn."""
    output = 0
    inputs: list[float | None] = []
    for segment in segments:
        if segment.phase == "measure" and isinstance(segment.load, ClosedLoop):
            prompts = passes[segment.stage_index].prompts
            share = (segment.load.cases or 0) / len(prompts)
            output += round(share * sum(case.output_len_requested for case in prompts))
            lengths = [case.input_len_requested for case in prompts]
            known = [n for n in lengths if n is not None]
            inputs.append(share * sum(known) if len(known) == len(lengths) else None)
    asked = None if None in inputs else round(sum(n for n in inputs if n is not None))
    return replace(found, input_tokens=asked, output_tokens=output)


def _design(scenario: Scenario, stages: Sequence[CutStage], segments: Sequence[Segment]) -> Design:
    blocks = tuple(stage_blocks(stage, segments) for stage in stages)
    return Design(
        name=scenario.comparison.design,
        baseline=scenario.baseline,
        arms=tuple(scenario.arms),
        repeats=max(s.repeat_idx for s in segments) + 1,
        stages=blocks,
        marks=(MARK, *compared_with_itself(scenario)),
    )
