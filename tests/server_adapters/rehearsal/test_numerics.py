"""Noise of the target's logits: near ties flip from run to run on any arm, and nothing else changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.numerics import Numerics
from server_adapters.rehearsal.sampler import SequenceSampler
from server_adapters.rehearsal.simulate import Case, Record, Simulation, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, SamplingParams, SpeculationConfig, Switches

SIGMA = 0.01
Start = Callable[..., Awaitable[Any]]
MakeCases = Callable[..., tuple[Case, ...]]


def test_noise_is_that_of_seed_and_step() -> None:
    def noise(sigma: float, seed: int, step: int) -> list[float]:
        numerics = Numerics(sigma, seed)
        numerics.begin(step)
        return np.log(numerics.perturb(np.full(4000, 1 / 4000)) * 4000).tolist()

    assert noise(0.1, 3, 7) == noise(0.1, 3, 7) != noise(0.1, 3, 8) != noise(0.1, 4, 8)
    assert np.std(noise(0.1, -3, 7)) == pytest.approx(0.1, rel=0.1)
    numerics = Numerics(0.1, 3)
    numerics.begin(7)
    first = numerics.perturb(np.array([0.5, 0.5, 0.0]))
    assert first.sum() == pytest.approx(1.0)
    assert first[2] == 0.0, "what cannot be said stays so"
    assert numerics.perturb(np.array([0.5, 0.5, 0.0])).tolist() != first.tolist(), "each position has its own"


def twice(models: Models, cases: tuple[Case, ...], sigma: float = SIGMA, seed: int = 1) -> Simulation:
    """Every case two times on a plain arm and on one that speculates."""
    arms = {
        "plain": EngineConfig(numerics=sigma),
        "draft": EngineConfig(numerics=sigma, speculation=SpeculationConfig()),
    }
    return simulate(SimulationPlan(arms, (Stage(cases, 8), Stage(cases, 8))), seed, models)


def flips(played: Simulation, one: tuple[str, int], other: tuple[str, int]) -> list[tuple[Record, Record]]:
    """Pairs of answers to the same case that differ. An arm and its stage name a pass."""
    found = {(r.arm, r.stage, r.case_id): r for r in played.records}
    pairs = [(found[*one, name], found[*other, name]) for arm, stage, name in found if (arm, stage) == one]
    return [(a, b) for a, b in pairs if a.token_ids != b.token_ids]


PASSES = [("plain", 0), ("plain", 1), ("draft", 0), ("draft", 1)]


def test_greedy_answers_flip_at_near_ties_on_any_arm(models: Models, make_cases: MakeCases) -> None:
    """H1, H5, H6: about as often within an arm as between the arms, and only where two tokens are nearly tied."""
    cases = make_cases(14, temperature=0.0, max_tokens=96, logprobs=5)
    played = twice(models, cases)
    counts = []
    for one, other in [(PASSES[0], PASSES[1]), (PASSES[2], PASSES[3]), (PASSES[0], PASSES[2])]:
        differ = flips(played, one, other)
        counts.append(len(differ))
        for a, b in differ:
            at = next(i for i, (x, y) in enumerate(zip(a.token_ids, b.token_ids, strict=False)) if x != y)
            told = (a.logprobs or [])[at]
            margin = told.logprob - dict(told.top)[b.token_ids[at]]
            assert 0 <= margin < 10 * SIGMA
    assert all(3 <= n <= 18 for n in counts), counts
    few = cases[:8]
    assert twice(models, few) == twice(models, few), "the same steps, the same noise"
    assert flips(twice(models, few, 0.0), PASSES[0], PASSES[1]) == []


@pytest.mark.parametrize("speculation", [None, SpeculationConfig(), SpeculationConfig(method="ngram")])
def test_told_log_probabilities_have_the_noise(models: Models, speculation: SpeculationConfig | None) -> None:
    """What is said is the best of what is told, also at ties."""
    prompt = models.tokenizer.render_chat([("user", "Describe the harbour.")])
    params = SamplingParams(temperature=0.0, logprobs=2)
    noisy = SequenceSampler(models, "long_form", prompt, params, 3, speculation, Switches(), Numerics(0.1, 5))
    quiet = SequenceSampler(models, "long_form", prompt, params, 3, None, Switches())
    quiet.verify([], [])
    first = None
    for _ in range(60):
        noisy.verify(*(noisy.propose(4) if speculation else ([], [])))
        first = first or noisy.logprobs[0]
        assert all(t.top[0] == (t.token_id, t.logprob) for t in noisy.logprobs)
    assert first is not None
    assert 0 < abs(first.logprob - quiet.logprobs[0].logprob) < 0.5


def test_speculation_stays_sound_under_noise(models: Models) -> None:
    """Second tokens of 3000 short answers with large noise, plain against speculating (fixed seeds)."""
    prompt = models.tokenizer.render_chat([("user", "Describe the harbour.")])
    counts: list[Counter[int]] = []
    for number, speculation in enumerate((None, SpeculationConfig())):
        numerics, seen = Numerics(0.5, number), Counter[int]()
        for seed in range(3000):
            args = (models, "long_form", prompt, SamplingParams(), number * 3000 + seed, speculation, Switches())
            sampler = SequenceSampler(*args, numerics)  # type: ignore[arg-type]
            said, _ = sampler.verify([], [])
            said += sampler.verify(*(sampler.propose(1) if speculation else ([], [])))[0]
            seen[said[1]] += 1
        counts.append(seen)
    often = [t for t in counts[0] | counts[1] if counts[0][t] + counts[1][t] >= 20]
    table = [[*(c[t] for t in often), 3000 - sum(c[t] for t in often) + 1] for c in counts]
    assert len(often) > 8
    assert chi2_contingency(np.array(table)).pvalue > 0.01


@pytest.mark.parametrize("sigma", [-0.1, math.inf, math.nan])
def test_impossible_noise(models: Models, sigma: float) -> None:
    with pytest.raises(ValueError, match="numerics must be finite and not negative"):
        Engine(EngineConfig(numerics=sigma), models)


async def test_a_server_answers_otherwise_when_it_is_asked_again(start_server: Start) -> None:
    live = await start_server(numerics=0.05)
    body = {"prompt": "Describe the harbour.", "temperature": 0, "max_tokens": 120, "ignore_eos": True}
    texts = {(await live.post("/v1/completions", body)).json()["choices"][0]["text"] for _ in range(8)}
    assert len(texts) > 1
    info = (await live.http.get("/server_info", params={"config_format": "json"})).json()
    assert info["vllm_config"]["rehearsal_config"]["numerics"] == 0.05
