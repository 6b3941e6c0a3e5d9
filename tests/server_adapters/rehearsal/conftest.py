"""Shared pieces of the rehearsal tests: trained models, cases, and one run of an arm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from server_adapters.rehearsal.models import Models, load_models
from server_adapters.rehearsal.simulate import (
    Case,
    Simulation,
    SimulationPlan,
    Stage,
    corpus_cases,
    simulate,
)
from server_adapters.rehearsal.types import TASK_TYPES, EngineConfig, SamplingParams

MakeCases = Callable[..., tuple[Case, ...]]
RunArm = Callable[..., Simulation]


@pytest.fixture(scope="session")
def models() -> Models:
    return load_models()


@pytest.fixture(scope="session")
def make_cases(models: Models) -> MakeCases:
    def make(per_task: int, *, seed: int = 0, **sampling: object) -> tuple[Case, ...]:
        params = SamplingParams(**{"temperature": 0.8, "max_tokens": 64, **sampling})
        return tuple(corpus_cases(models, dict.fromkeys(TASK_TYPES, per_task), params, seed))

    return make


@pytest.fixture(scope="session")
def run_arm(models: Models) -> RunArm:
    def run(config: EngineConfig, cases: tuple[Case, ...], *, concurrency: int = 8, seed: int = 5) -> Simulation:
        return simulate(SimulationPlan({"arm": config}, (Stage(cases, concurrency=concurrency),)), seed, models)

    return run
