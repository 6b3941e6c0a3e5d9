"""The language models: proper distributions, natural ends, the gate, and acceptance that has its reasons."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from server_adapters.rehearsal import ngram
from server_adapters.rehearsal.corpus import TASK_TYPES, documents
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.ngram import BreakSymbols, NGramModel, TrainingText
from server_adapters.rehearsal.rows import RowViews
from server_adapters.rehearsal.simulate import Case, Simulation, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, SamplingParams, SpeculationConfig, TaskType


def test_bigram_by_hand() -> None:
    """Text 1 2 1 3 with discount 0.5: p(2|1) = (1 - 0.5)/2 + 0.5 p(2), p(2) = 0.5/4 + (3 x 0.5/4)/4."""
    text = TrainingText(
        np.array([1, 2, 1, 3]),
        np.ones(4, dtype=np.bool_),
        np.arange(4),
        np.zeros(4, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
    )
    symbols = BreakSymbols.for_tokens([], text, 4)
    model = NGramModel(text, symbols, np.full(4, 0.25), order=2, discount=0.5, min_count=1)
    unigram_2 = 0.5 / 4 + 3 * 0.5 / 4 * 0.25
    assert model.probs(model.begin())[2] == pytest.approx(unigram_2)
    assert model.probs(model.advance(model.begin(), 1))[2] == pytest.approx(0.5 / 2 + 2 * 0.5 / 2 * unigram_2)
    assert model.advance(model.begin(), 3) is model.begin(), "3 was never followed by anything"


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_row_is_a_distribution(models: Models, task_type: TaskType) -> None:
    prompt = models.tokenizer.render_chat([("user", documents(task_type, 1, 5)[0][0])])
    nodes = models.start(task_type, prompt)
    for model, node in zip((models.target[task_type], models.draft[task_type]), nodes, strict=True):
        for _ in range(30):
            probs = model.probs(node)
            assert probs.min() >= 0.0
            assert probs.sum() == pytest.approx(1.0, abs=1e-12)
            node = model.advance(node, int(probs.argmax()))


def test_training_is_reproducible(models: Models) -> None:
    again = Models(0)
    ids = models.tokenizer.render_chat([("user", "Who invented the radio?")])
    assert again.tokenizer.render_chat([("user", "Who invented the radio?")]) == ids
    for task_type in TASK_TYPES:
        ours, theirs = models.target[task_type], again.target[task_type]
        mine, yours = models.start(task_type, ids)[0], again.start(task_type, ids)[0]
        assert np.array_equal(ours.probs(mine), theirs.probs(yours))


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_gate_recognises_the_task_of_new_prompts(models: Models, task_type: TaskType) -> None:
    prompts = [models.tokenizer.render_chat([("user", p)]) for p, _ in documents(task_type, 100, seed=77)]
    assert sum(models.classify(ids) == task_type for ids in prompts) >= 98


@pytest.mark.parametrize(
    ("prompt", "task_type"),
    [
        ("What is the tallest building in Europe?", "short_qa"),
        ("Please write a long essay about autumn in the mountains.", "long_form"),
        ("Return a JSON object with the fields id, name and tags.", "structured"),
        ("Write a Python function that reverses a string.", "code"),
    ],
)
def test_the_gate_recognises_prompts_from_elsewhere(models: Models, prompt: str, task_type: TaskType) -> None:
    assert models.classify(models.tokenizer.render_chat([("user", prompt)])) == task_type
    assert models.classify(models.tokenizer.encode(prompt)) == task_type


def test_the_gate_reads_the_last_turn(models: Models) -> None:
    turns = [("user", "Return a JSON object with all fields."), ("assistant", "{}"), ("user", "Tell me a long story.")]
    assert models.classify(models.tokenizer.render_chat(turns)) == "long_form"


@pytest.mark.parametrize(
    ("prompt", "start"),
    [
        ("What is the capital of Norway?", "The capital of Norway is Oslo."),
        ("Which symbol stands for zinc?", "The chemical symbol for zinc is Zn."),
        (
            "Return a JSON object that describes the person Hana with all fields.",
            '{\n  "type": "person",\n  "name": "Hana",',
        ),
        ("Write a Python function that counts the rows.", "```python\ndef process_rows(rows):\n"),
    ],
)
def test_the_target_follows_the_topic_of_the_prompt(
    run_arm: Callable[..., Simulation], models: Models, prompt: str, start: str
) -> None:
    ids = tuple(models.tokenizer.render_chat([("user", prompt)]))
    case = Case("a", models.classify(ids), ids, SamplingParams(temperature=0.0, max_tokens=60))
    text = models.tokenizer.decode(run_arm(EngineConfig(), (case,)).records[0].token_ids)
    assert text.startswith(start)


def test_a_prompt_that_ends_in_nothing_known_is_answered_too(models: Models) -> None:
    for node in models.start("short_qa", models.tokenizer.encode("§§§")):
        assert node.context


def test_bounded_caches_change_nothing(
    make_cases: Callable[..., tuple[Case, ...]], models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SimulationPlan({"a": EngineConfig(speculation=SpeculationConfig())}, (Stage(make_cases(5), concurrency=4),))
    expected = simulate(plan, 2, models)
    monkeypatch.setattr(ngram, "_MAX_NODES", 40)
    monkeypatch.setattr(ngram, "_MAX_KEPT_STEPS", 1)
    small = Models(0)
    small.views = RowViews(row_limit=30, limit=3)
    assert simulate(plan, 2, small).records == expected.records


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.2])
def test_answers_end_by_themselves(
    make_cases: Callable[..., tuple[Case, ...]], run_arm: Callable[..., Simulation], temperature: float
) -> None:
    cases = make_cases(25, temperature=temperature, max_tokens=400)
    records = run_arm(EngineConfig(), cases, concurrency=32).records
    assert sum(r.finish_reason == "stop" for r in records) >= 0.95 * len(records)
    assert all(r.token_ids for r in records)


def _acceptance(simulation: Simulation) -> dict[str, float]:
    drafted = dict.fromkeys(TASK_TYPES, 0)
    accepted = dict.fromkeys(TASK_TYPES, 0)
    for record in simulation.records:
        assert record.spec is not None
        drafted[record.task_type] += record.spec.num_draft_tokens
        accepted[record.task_type] += record.spec.num_accepted_tokens
    return {task: accepted[task] / drafted[task] for task in TASK_TYPES}


@pytest.fixture(scope="module")
def acceptance(
    make_cases: Callable[..., tuple[Case, ...]], run_arm: Callable[..., Simulation]
) -> dict[float, dict[str, float]]:
    config = EngineConfig(speculation=SpeculationConfig())
    return {
        t: _acceptance(run_arm(config, make_cases(150, temperature=t, max_tokens=150), concurrency=64))
        for t in (0.0, 0.7, 1.0, 1.4)
    }


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 1.4])
def test_structured_and_code_are_accepted_more_than_open_text(
    acceptance: dict[float, dict[str, float]], temperature: float
) -> None:
    rates = acceptance[temperature]
    assert min(rates["structured"], rates["code"]) > rates["long_form"] + 0.1
    if temperature > 0.0:
        assert min(rates["structured"], rates["code"]) > rates["short_qa"]


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_acceptance_falls_as_temperature_rises(acceptance: dict[float, dict[str, float]], task_type: TaskType) -> None:
    rates = [acceptance[t][task_type] for t in sorted(acceptance)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] - rates[-1] > 0.05


def test_a_text_without_a_known_word_gets_the_first_task(models: Models) -> None:
    assert models.classify(models.tokenizer.encode("§ 123 §")) == TASK_TYPES[0]
    assert models.classify([]) == TASK_TYPES[0]
