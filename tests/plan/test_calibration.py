"""Characters to tokens, with a real byte-pair tokenizer."""

from __future__ import annotations

import argparse
import decimal
import email.message
import inspect
import typing
from collections.abc import Callable
from statistics import median

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from loadgen.plan import ESTIMATE, LengthModel, Plan, correct_lengths, fit_lengths, probe_texts, render
from loadgen.plan.calibration import chars_for

TASKS = ("short_qa", "long_form", "structured", "code")


@pytest.fixture(scope="module")
def count() -> Callable[[str], int]:
    """Tokens of a byte-level BPE, trained on library sources; 12 more, as a chat template would add."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    texts = [inspect.getsource(module) for module in (argparse, decimal, email.message, typing, inspect)]
    tokenizer.train_from_iterator(texts, trainer)
    return lambda text: len(tokenizer.encode(text).ids) + 12


def mixed(plan: Callable[..., Plan]) -> Plan:
    length = {"kind": "uniform", "low": 300, "high": 1500}
    tasks = [{"task_type": t, "input_len": length, "output_len": {"kind": "fixed", "value": 9}} for t in TASKS]
    return plan(workload={"tasks": tasks})


def errors(plan: Plan, lengths: LengthModel, count: Callable[[str], int], n: int = 120) -> dict[str, list[float]]:
    """Relative errors of the real prompt lengths, by task."""
    found: dict[str, list[float]] = {}
    for i in range(n):
        case = plan.case(0, "measure", i)
        tokens = count(str(render(plan, case, lengths).prompt))
        found.setdefault(case.task_type, []).append(tokens / (case.input_len_requested or 1) - 1)
    return found


def test_probes_and_fit_give_the_asked_length(plan: Callable[..., Plan], count: Callable[[str], int]) -> None:
    """B18: prompt lengths must not drift from what is asked (10000 asked, 5827 real elsewhere)."""
    counts = {t: [(len(s), count(s)) for seed in range(4) for s in probe_texts(t, seed)] for t in TASKS}
    lengths = fit_lengths(counts, "tokenizers")
    assert lengths.source == "tokenizers"
    for found in errors(mixed(plan), lengths, count).values():
        assert len(found) >= 25
        assert abs(median(found)) < 0.03
        assert max(map(abs, found)) < 0.15


def test_usage_corrects_the_estimate(plan: Callable[..., Plan], count: Callable[[str], int]) -> None:
    made = mixed(plan)
    observed: dict[str, list[tuple[int, int]]] = {}
    for i in range(64):
        case = made.case(0, "warmup", i)
        assert case.input_len_requested is not None
        tokens = count(str(render(made, case, ESTIMATE).prompt))
        observed.setdefault(case.task_type, []).append((case.input_len_requested, tokens))
    corrected = correct_lengths(ESTIMATE, observed)
    assert corrected.source == "estimate+usage"
    before, after = errors(made, ESTIMATE, count), errors(made, corrected, count)
    for task in TASKS:
        assert abs(median(before[task])) > 0.08, "this vocabulary is far from the estimate"
        assert abs(median(after[task])) < 0.03


def test_fit_is_a_line() -> None:
    fitted = fit_lengths({"code": [(c, 20 + c // 4) for c in (400, 800, 4000)]}, "server_tokenize")
    assert fitted.base["code"] == pytest.approx(20)
    assert fitted.per_char["code"] == pytest.approx(0.25)
    assert chars_for(fitted, "code", 120) == 400
    assert chars_for(fitted, "code", 100, whole=False) == 400
    assert chars_for(fitted, "code", 3) == 0
    assert chars_for(fitted, "long_form", 230) == 1000, "a task that was not fitted has the estimate's slope"


@pytest.mark.parametrize(
    ("pairs", "slope"),
    [
        ([(400, 100)], 0.25),
        ([(400, 100), (410, 90), (405, 110)], 300 / 1215),
        ([(400, 300), (800, 310)], 610 / 1200),
        ([(400, 10), (4000, 3000)], 3010 / 4400),
        ([(400, 1), (800, 1)], 0.05),
        ([(10, 1000)], 1.5),
    ],
)
def test_fit_guards_against_counts_that_make_no_line(pairs: list[tuple[int, int]], slope: float) -> None:
    fitted = fit_lengths({"code": pairs}, "tokenizers")
    assert fitted.base["code"] == 0.0
    assert fitted.per_char["code"] == pytest.approx(slope)


def test_nothing_counted_is_an_error_and_nothing_observed_is_no_correction() -> None:
    with pytest.raises(ValueError, match="no token counts for code"):
        fit_lengths({"code": [(100, 0)]}, "tokenizers")
    assert correct_lengths(ESTIMATE, {"code": []}) is ESTIMATE
    assert correct_lengths(ESTIMATE, {}) is ESTIMATE
    partly = correct_lengths(ESTIMATE, {"code": [(310, 500), (5, 40)], "structured": [(10, 130)]})
    assert partly.per_char == {**ESTIMATE.per_char, "code": 0.5}, "5 and 10 tokens are less than any prompt has"
    assert partly.source == "estimate+usage"


def test_probes_are_of_several_sizes_and_seeded() -> None:
    for task in TASKS:
        sizes = [len(text) for text in probe_texts(task, 1)]
        assert sizes[0] < 700
        assert sizes[-1] > 5900
        assert sizes == sorted(sizes)
        assert not set(probe_texts(task, 1)) & set(probe_texts(task, 2))
