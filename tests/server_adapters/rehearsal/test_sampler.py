"""Speculative sampling has the target's distribution; without the correction step it has not, and the test sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from server_adapters.rehearsal.corpus import documents
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.proposer import NGramProposer
from server_adapters.rehearsal.rows import Row, RowShape
from server_adapters.rehearsal.sampler import SequenceSampler, residual_token
from server_adapters.rehearsal.simulate import Case, Simulation
from server_adapters.rehearsal.types import (
    TASK_TYPES,
    EngineConfig,
    SamplingParams,
    SpeculationConfig,
    Switches,
    TaskType,
)

SAMPLES = 100_000
DRAFT = SpeculationConfig()
LOOKUP = SpeculationConfig(method="ngram", prompt_lookup_min=1, prompt_lookup_max=3)


def _sampler(
    models: Models,
    task_type: TaskType,
    params: SamplingParams,
    seed: int,
    speculation: SpeculationConfig | None,
    switches: Switches,
) -> SequenceSampler:
    prompt = models.tokenizer.render_chat([("user", "Describe the harbour.")])
    return SequenceSampler(models, task_type, prompt, params, seed, speculation, switches)


def _tokens(sampler: SequenceSampler, count: int, k: int) -> list[int]:
    """`count` tokens and up to k more, EOS being a token like others."""
    tokens: list[int] = []
    while len(tokens) < count:
        emitted, _ = sampler.verify(*(sampler.propose(k) if k else ([], [])))
        tokens += emitted
    return tokens


def _p_value(groups: Iterable[tuple[Counter[int], np.ndarray]]) -> float:
    """Chi-square of counts against probabilities, summed over groups; cells below 5 expected are pooled per group."""
    statistic, freedom = 0.0, 0
    for counts, probs in groups:
        total = sum(counts.values())
        expected = probs * total
        big = np.flatnonzero(expected >= 5.0)
        observed = np.array([counts[int(i)] for i in big], dtype=float)
        cells = [*zip(observed, expected[big], strict=True)]
        rest = total - expected[big].sum()
        if rest >= 5.0:
            cells.append((total - observed.sum(), rest))
        if len(cells) > 1:
            statistic += sum((o - e) ** 2 / e for o, e in cells)
            freedom += len(cells) - 1
    assert freedom >= 20
    return float(chi2.sf(statistic, freedom))


def _next_token_p_value(
    models: Models,
    task_type: TaskType,
    params: SamplingParams,
    speculation: SpeculationConfig | None,
    switches: Switches,
) -> float:
    """Next tokens of 10^5 positions, grouped by their context, against the target's own row of that context."""
    model = models.target[task_type]
    shape = RowShape(params.temperature, params.top_p, params.top_k)
    node, _ = models.start(task_type, models.tokenizer.render_chat([("user", "Describe the harbour.")]))
    sampler = _sampler(models, task_type, params, 11, speculation, switches)
    groups: dict[object, Counter[int]] = {}
    breaks = 0
    for token in _tokens(sampler, SAMPLES, 4 if speculation else 0):
        groups.setdefault(node, Counter())[token] += 1
        breaks = 0 if token == models.tokenizer.eos_id else breaks + (model.symbols.tables[token] is not None)
        node = model.advance(node, model.symbols.symbol(token, breaks))
    often = [n for n, counts in groups.items() if sum(counts.values()) >= 200]
    return _p_value((groups[n], shape.apply(model.probs(n))) for n in often)


SETTINGS = [
    ("long_form", SamplingParams(temperature=1.0)),
    ("long_form", SamplingParams(temperature=0.6)),
    ("structured", SamplingParams(temperature=1.3)),
    ("code", SamplingParams(temperature=0.9, top_p=0.9, top_k=20)),
]


@pytest.mark.parametrize(("task_type", "params"), SETTINGS)
@pytest.mark.parametrize("speculation", [None, DRAFT, LOOKUP], ids=["plain", "draft", "ngram"])
def test_next_token_distribution(
    models: Models, task_type: TaskType, params: SamplingParams, speculation: SpeculationConfig | None
) -> None:
    assert _next_token_p_value(models, task_type, params, speculation, Switches()) > 0.001


@pytest.mark.parametrize(("task_type", "params"), SETTINGS)
@pytest.mark.parametrize("speculation", [DRAFT, LOOKUP], ids=["draft", "ngram"])
def test_next_token_distribution_without_correction_is_rejected(
    models: Models, task_type: TaskType, params: SamplingParams, speculation: SpeculationConfig
) -> None:
    assert _next_token_p_value(models, task_type, params, speculation, Switches(correction=False)) < 1e-9


@pytest.mark.parametrize("switches", [Switches(draft_bias=0.5), Switches(stale_draft=True)], ids=["drift", "stale"])
def test_a_bad_drafter_does_not_change_the_distribution(models: Models, switches: Switches) -> None:
    params = SamplingParams(temperature=1.0)
    assert _next_token_p_value(models, "long_form", params, DRAFT, switches) > 0.001


def _sequences(
    models: Models, temperature: float, speculation: SpeculationConfig | None, switches: Switches
) -> Counter:
    """First three tokens of 20,000 answers, by seed."""
    params = SamplingParams(temperature=temperature)
    seeds = range(20_000) if speculation else range(20_000, 40_000)
    k = 4 if speculation else 0
    return Counter(
        tuple(_tokens(_sampler(models, "long_form", params, seed, speculation, switches), 3, k)[:3]) for seed in seeds
    )


def _homogeneity_p_value(one: Counter, other: Counter) -> float:
    """Two-sample chi-square over whole sequences, rare ones pooled."""
    n, m = sum(one.values()), sum(other.values())
    cells = [(one[s], other[s]) for s in one.keys() | other.keys() if one[s] + other[s] >= 20]
    cells.append((n - sum(a for a, _ in cells), m - sum(b for _, b in cells)))
    statistic = 0.0
    for a, b in cells:
        for observed, size in ((a, n), (b, m)):
            expected = (a + b) * size / (n + m)
            statistic += (observed - expected) ** 2 / expected
    assert len(cells) >= 20
    return float(chi2.sf(statistic, len(cells) - 1))


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_whole_short_sequences(models: Models, temperature: float) -> None:
    plain = _sequences(models, temperature, None, Switches())
    assert _homogeneity_p_value(_sequences(models, temperature, DRAFT, Switches()), plain) > 0.001
    wrong = _sequences(models, temperature, DRAFT, Switches(correction=False))
    assert _homogeneity_p_value(wrong, plain) < 1e-9


def test_residual_is_the_normalised_positive_part() -> None:
    p, q = Row(np.array([0.5, 0.3, 0.2])), Row(np.array([0.2, 0.7, 0.1]))
    draws = np.linspace(0.0, 1.0, 4000, endpoint=False)
    counts = Counter(residual_token(p, q, 1, float(u)) for u in draws)
    assert counts == {0: 3000, 2: 1000}
    certain = Counter(residual_token(p, None, 0, float(u)) for u in draws)
    assert certain == {1: 2400, 2: 1600}


def test_residual_of_equal_rows_falls_back_to_p() -> None:
    p = Row(np.array([0.25, 0.75]))
    assert [residual_token(p, p, 0, u) for u in (0.1, 0.3)] == [0, 1]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (RowShape(0.0, 1.0, 0), [0, 1, 0, 0]),
        (RowShape(1.0, 1.0, 2), [0, 0.5, 0.5, 0]),
        (RowShape(1.0, 0.75, 0), [0, 0.5, 0.5, 0]),
        (RowShape(1.0, 0.81, 0), [0.2, 0.4, 0.4, 0]),
        (RowShape(0.5, 1.0, 0), [0.04 / 0.36, 0.16 / 0.36, 0.16 / 0.36, 0]),
        (RowShape(1.0, 1.0, 0, (1,)), [1 / 3, 0, 2 / 3, 0]),
    ],
    ids=["greedy-lowest-id", "top-k", "top-p", "top-p-more", "temperature", "mask"],
)
def test_shapes(shape: RowShape, expected: list[float]) -> None:
    assert shape.apply(np.array([0.2, 0.4, 0.4, 0.0])) == pytest.approx(expected)


def _cut_somewhere(models: Models, task_type: TaskType, number: int) -> Case:
    """A greedy continuation of an answer that was cut at a place of its own."""
    prompt, answer = documents(task_type, number + 1, seed=3)[number]
    ids = models.tokenizer.encode(answer)
    begin = models.tokenizer.render_chat([("user", prompt)]) + ids[: len(ids) * number // 15]
    return Case(f"{task_type}-{number}", task_type, tuple(begin), SamplingParams(temperature=0.0, max_tokens=120))


@pytest.mark.parametrize(
    "speculation",
    [
        DRAFT,
        SpeculationConfig(num_speculative_tokens=7),
        LOOKUP,
        SpeculationConfig(schedule=((1, 5, 4), (6, 7, 0), (8, 99, 2))),
    ],
    ids=["draft-4", "draft-7", "ngram", "schedule"],
)
def test_greedy_output_is_identical(
    models: Models,
    run_arm: Callable[..., Simulation],
    speculation: SpeculationConfig,
) -> None:
    cases = tuple(_cut_somewhere(models, task_type, i) for task_type in TASK_TYPES for i in range(15))
    plain, fast = run_arm(EngineConfig(), cases), run_arm(EngineConfig(speculation=speculation), cases)
    tokens = {r.case_id: r.token_ids for r in plain.records}
    assert len({tuple(t) for t in tokens.values()}) > 40
    assert {r.case_id: r.token_ids for r in fast.records} == tokens
    assert fast.counters["arm"].num_accepted_tokens > 100
    assert len(fast.steps) < len(plain.steps)


def test_an_output_does_not_depend_on_the_batch(
    make_cases: Callable[..., tuple[Case, ...]], run_arm: Callable[..., Simulation]
) -> None:
    cases = make_cases(10)
    config = EngineConfig(speculation=DRAFT)
    alone, crowded = run_arm(config, cases, concurrency=1), run_arm(config, cases, concurrency=40)
    assert {r.case_id: r.token_ids for r in alone.records} == {r.case_id: r.token_ids for r in crowded.records}


def test_faults_lower_acceptance(make_cases: Callable[..., tuple[Case, ...]], models: Models) -> None:
    def alpha(switches: Switches) -> float:
        sampler = _sampler(models, "code", SamplingParams(temperature=0.7), 3, DRAFT, switches)
        accepted = 0
        for _ in range(2000):
            accepted += sampler.verify(*sampler.propose(4))[1]
        return accepted / 8000

    healthy = alpha(Switches())
    assert alpha(Switches(draft_bias=0.5)) < 0.6 * healthy
    assert alpha(Switches(stale_draft=True)) < 0.6 * healthy


def _lookup_by_hand(tokens: list[int], k: int, lookup_min: int, lookup_max: int) -> list[int]:
    for size in range(lookup_max, lookup_min - 1, -1):
        if size <= len(tokens):
            for at in range(len(tokens) - size):
                if tokens[at : at + size] == tokens[len(tokens) - size :]:
                    return tokens[at + size : at + size + k]
    return []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40), st.integers(1, 6))
def test_lookup_equals_a_search_by_hand(tokens: list[int], split: int, k: int) -> None:
    proposer = NGramProposer(tokens[:split], 2, 4)
    proposer.extend(tokens[split:])
    assert proposer.propose(k) == _lookup_by_hand(tokens, k, 2, 4)


def test_min_tokens_masks_the_end(models: Models) -> None:
    switches = Switches()
    params = SamplingParams(temperature=1.0, min_tokens=50)
    for seed in range(40):
        sampler = _sampler(models, "short_qa", params, seed, DRAFT, switches)
        assert models.tokenizer.eos_id not in _tokens(sampler, 50, 4)[:50]
