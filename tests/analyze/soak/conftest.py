"""Half an hour on the rehearsal engine in virtual time, as the run directory of a soak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadgen.analyze import Stability
from loadgen.analyze.arms import arm_data
from loadgen.analyze.soak import stability_of
from loadgen.observe import TelemetrySample
from loadgen.record import RunData
from server_adapters.rehearsal import (
    EngineConfig,
    Record,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    Switches,
    corpus_cases,
    simulate,
)
from server_adapters.telemetry import Reading

ORIGIN_NS = 1_000_000_000_000
MINUTES = 40.0
#: An engine so slow that a request takes some seconds of virtual time; requests it answers per request in flight
SLOW, MAX_TOKENS, EACH = 0.038, 48, 520

Soak = Callable[..., Stability]


@pytest.fixture(scope="session")
def soaked(simulated: Any, fresh: Any) -> Soak:
    """soaked(switching=…, leak_mb_per_s=…, seed=…, users=…): one arm under constant load for 40 virtual minutes. The
    server's memory grows as under the fault `memory_growth`, from minute 10 on, with a noise of 2 MB."""

    def play(switching: Callable[[float, Switches], None] | None, seed: int, users: int) -> list[Record]:
        mix = dict.fromkeys(("code", "structured"), users * EACH // 2)
        params = SamplingParams(temperature=0.7, max_tokens=MAX_TOKENS)
        cases = tuple(corpus_cases(simulated.models, mix, params, seed))
        engine = EngineConfig(speculation=SpeculationConfig(), speed=SLOW)
        plan = SimulationPlan({"candidate": engine}, (Stage(cases, concurrency=users),), switching)
        return simulate(plan, seed, simulated.models).records

    def soak(
        *,
        switching: Callable[[float, Switches], None] | None = None,
        leak_mb_per_s: float = 0.0,
        seed: int = 1,
        users: int = 10,
    ) -> Stability:
        made = fresh()
        made.scenario["experiment"] = "soak"
        end = MINUTES * 60
        made.segment(0, start=0.0, full=0.0, load_end=end, end=end, concurrency=users)
        records = play(switching, seed, users)
        assert max(r.end_s or 0 for r in records) > end, "the load must last"
        for record in records:
            _book(made, record)
        for at in np.arange(0.5, end, 5.0):
            made.second(float(at), rss_bytes=90_000_000)
        chance = np.random.default_rng(seed)
        return _of(made.data(), tuple(_memory(t, leak_mb_per_s, chance) for t in np.arange(0.5, end, 5.0)))

    return soak


def _of(data: RunData, telemetry: tuple[TelemetrySample, ...]) -> Stability:
    whole = replace(data, telemetry=telemetry)
    found = stability_of(whole, {"candidate": arm_data(whole, "candidate")})
    assert isinstance(found, list)
    (only,) = found
    return only


@pytest.fixture(scope="session")
def booked() -> Callable[..., None]:
    """booked(run, record, **columns): a simulated request as a row of the run."""
    return _book


def _book(made: Any, record: Record, **columns: Any) -> None:
    spec = record.spec
    assert spec is not None
    chunks = [(at - record.arrival_s, n) for at, n in zip(record.chunk_times_s, record.chunk_tokens, strict=True)]
    made.request(
        chunks, sent=record.arrival_s, task_type=record.task_type,
        spec_source="per_request", verify_rounds=spec.num_spec_steps, drafted_tokens=spec.num_draft_tokens,
        accepted_tokens=spec.num_accepted_tokens, accepted_histogram=spec.acceptance_histogram,
        rollback_count=spec.rollback_count, rollback_low=spec.rollback_count, rollback_high=spec.rollback_count,
        per_step_accepted=spec.per_step_accepted, per_step_drafted=spec.per_step_drafted,
        **columns,
    )  # fmt: skip


def _memory(at_s: float, leak_mb_per_s: float, chance: np.random.Generator) -> TelemetrySample:
    at_ns = ORIGIN_NS + round(at_s * 1e9)
    grown = leak_mb_per_s * max(at_s - 600, 0.0)
    value = 1e6 * (4000 + grown + 2 * float(chance.standard_normal()))
    reading = Reading("process_rss_bytes", "server", value)
    return TelemetrySample("candidate", "pid 1", at_ns, at_ns + 1000, None, (reading,))
