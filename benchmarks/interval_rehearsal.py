"""Comparisons on the rehearsal engine, in virtual time: paired blocks of both arms; the long run is the truth."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from interval_checks import limits
from numpy.typing import NDArray

from loadgen.analyze import Estimate, log_ratio_t, ratio_of_sums_clustered
from server_adapters.rehearsal import (
    TASK_TYPES,
    EngineConfig,
    SamplingParams,
    Simulation,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    corpus_cases,
    load_models,
    simulate,
)

Floats = NDArray[np.float64]
ARMS = ("off", "draft")


@dataclass(frozen=True)
class Recovered:
    """Of one concurrency: the long-run speedup over all blocks, and the intervals of each run of 20 blocks of them."""

    concurrency: int
    long_run: float
    runs: list[Estimate]
    acceptance_long_run: float
    acceptance: list[Estimate]

    @property
    def covering(self) -> int:
        return sum(_covers(e, self.long_run) for e in self.runs)

    @property
    def acceptance_covering(self) -> int:
        return sum(_covers(e, self.acceptance_long_run) for e in self.acceptance)

    def row(self) -> str:
        first, alpha = self.runs[0], self.acceptance[0]
        return (
            f"| {self.concurrency} | {self.long_run:.3f} | {first.value:.3f} ({first.low:.3f} to {first.high:.3f}) "
            f"| {self.covering} of {len(self.runs)} | {self.acceptance_long_run:.3f} "
            f"| {alpha.value:.3f} ({alpha.low:.3f} to {alpha.high:.3f}) "
            f"| {self.acceptance_covering} of {len(self.acceptance)} |"
        )


HEADER = (
    "| concurrency | long-run speedup | first run | runs covering it | long-run α | first run | runs covering it |\n"
    "|---|---|---|---|---|---|---|"
)


def _covers(found: Estimate, truth: float) -> bool:
    low, high = limits(found)
    return low <= truth <= high


def recover(concurrency: int, runs: int, *, blocks: int = 20, cases: int = 16, max_tokens: int = 64) -> Recovered:
    """`runs` comparisons of `blocks` blocks of `cases` requests; a block is a closed-loop stage of both arms."""
    models = load_models()
    sampling = SamplingParams(temperature=0.7, max_tokens=max_tokens)
    per_task = -(-cases * blocks * runs // len(TASK_TYPES))
    drawn = corpus_cases(models, dict.fromkeys(TASK_TYPES, per_task), sampling, seed=concurrency)
    stages = tuple(
        Stage(tuple(drawn[at : at + cases]), concurrency=concurrency) for at in range(0, blocks * runs * cases, cases)
    )
    arms = {"off": EngineConfig(), "draft": EngineConfig(speculation=SpeculationConfig())}
    simulation = simulate(SimulationPlan(arms, stages), seed=concurrency, models=models)
    speed = {arm: _tokens_per_s(simulation, arm, len(stages)) for arm in ARMS}
    found = [
        log_ratio_t(speed["draft"][at : at + blocks], speed["off"][at : at + blocks])
        for at in range(0, blocks * runs, blocks)
    ]
    accepted, drafted = _acceptance(simulation, len(stages), cases)
    per_run = blocks * cases
    alphas = [
        ratio_of_sums_clustered(accepted[at : at + per_run], drafted[at : at + per_run], np.arange(per_run))
        for at in range(0, len(accepted), per_run)
    ]
    long_run = math.exp(float(np.mean(np.log(speed["draft"] / speed["off"]))))
    return Recovered(concurrency, long_run, found, float(accepted.sum() / drafted.sum()), alphas)


def _tokens_per_s(simulation: Simulation, arm: str, stages: int) -> Floats:
    tokens: dict[int, int] = defaultdict(int)
    seconds: dict[int, float] = defaultdict(float)
    for step in simulation.steps:
        if step.arm == arm:
            tokens[step.stage] += step.emitted_tokens
            seconds[step.stage] += step.duration_s
    return np.array([tokens[stage] / seconds[stage] for stage in range(stages)])


def _acceptance(simulation: Simulation, stages: int, cases: int) -> tuple[Floats, Floats]:
    """Accepted and drafted tokens of every request with speculation, by stage and, within it, order of arrival."""
    specs = [record.spec for record in simulation.records if record.arm == "draft"]
    assert len(specs) == stages * cases
    accepted = [0.0 if spec is None else float(spec.num_accepted_tokens) for spec in specs]
    drafted = [0.0 if spec is None else float(spec.num_draft_tokens) for spec in specs]
    return np.array(accepted), np.array(drafted)
