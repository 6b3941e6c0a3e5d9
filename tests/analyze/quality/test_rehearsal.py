"""Broken servers are found and named: the rehearsal engine's own models, sampler and proposers, in virtual time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze import (
    POWER,
    Accepted,
    Format,
    Output,
    QualityTest,
    acceptance_anomaly,
    case_findings,
    chi_square_power,
    compare_outputs,
    diagnose,
    family,
    next_token_test,
    per_test_level,
    second_tokens,
    two_sample_distance,
    without_correction,
)
from server_adapters.rehearsal import (
    EngineConfig,
    Models,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    Switches,
    TaskType,
    corpus_cases,
    simulate,
)
from server_adapters.rehearsal.corpus import documents
from server_adapters.rehearsal.rows import Row, RowShape

DRAFT = SpeculationConfig()
LOOKUP = SpeculationConfig(method="ngram", prompt_lookup_min=1, prompt_lookup_max=3)
#: Stated sample size: two-token answers per arm, half of them to each of two prompts.
REPEATED = 2400
#: Tests of a run (docs/quality.md, "False alarms"): power is stated at the strictest level of so many.
TESTS = 10
RUNS = 30


def prompts(models: Models, per_task: int, task: TaskType | None = None) -> list[tuple[str, TaskType, str]]:
    tasks: Sequence[TaskType] = ("short_qa", "long_form", "structured", "code") if task is None else (task,)
    return [(f"{t}-{i}", t, text) for t in tasks for i, (text, _) in enumerate(documents(t, per_task, 7))]


def chat(models: Models, text: str) -> list[int]:
    return models.tokenizer.render_chat([("user", text)])


def told(models: Models, case: str, arm: str, repeat: int, ids: Sequence[int], finish: str, **more: Any) -> Output:
    eos = models.tokenizer.eos_id
    return Output(case, arm, repeat, tuple(ids), models.tokenizer.decode(ids), finish, stop_ids=(eos,), **more)


def greedy(server: Any, case: str, task: TaskType, ids: Sequence[int], arm: str, **more: Any) -> Output:
    found, finish, _, _ = server.answer(server.sampler(task, ids, 0, 0.0), 96)
    return told(server.models, case, arm, 0, found, finish, **more)


def named(pairs: Sequence[tuple[Output, Output]]) -> dict[str, int]:
    """Fault -> cases, each asked twice."""
    return {d.fault: len(d.cases) for d in diagnose(case_findings(compare_outputs([*pairs, *pairs])))}


def test_greedy_answers_of_sound_speculation_are_identical(models: Models) -> None:
    """H1: on an engine without numerics, no difference at all, with a draft model and with prompt lookup."""
    cases = tuple(corpus_cases(models, dict.fromkeys(("short_qa", "long_form", "structured", "code"), 4),
                               SamplingParams(temperature=0.0, max_tokens=48), 3))  # fmt: skip
    arms = {"off": None, "draft": DRAFT, "lookup": LOOKUP}
    plan = SimulationPlan({a: EngineConfig(speculation=s) for a, s in arms.items()}, (Stage(cases, concurrency=8),))
    by_arm: dict[str, dict[str, Output]] = {}
    for r in simulate(plan, 5, models).records:
        answer = told(models, r.case_id, r.arm, 0, r.token_ids, r.finish_reason or "")
        by_arm.setdefault(r.arm, {})[r.case_id] = answer
    for arm in ("draft", "lookup"):
        found = compare_outputs([(by_arm["off"][c.case_id], by_arm[arm][c.case_id]) for c in cases])
        assert {d.kind for d in found} == {"identical"}
        assert diagnose(case_findings([*found, *found])) == []


def test_wrong_template_is_named(models: Models, server: Callable[..., Any]) -> None:
    """The candidate's template leaves out the mark after which the assistant answers."""
    pairs = []
    for case, task, text in prompts(models, 3):
        ids = chat(models, text)
        pairs.append((greedy(server(), case, task, ids, "a"), greedy(server(), case, task, ids[:-1], "b")))
    assert named(pairs) == {"wrong_template": 12}


def test_junk_after_eos_is_named(models: Models, server: Callable[..., Any]) -> None:
    """H3: the stop check looks at a round's last token alone, so an EOS accepted in the middle is passed."""
    eos, speculating = models.tokenizer.eos_id, server(speculation=DRAFT)
    pairs, passed = [], 0
    for case, task, text in prompts(models, 6, "short_qa"):
        sampler = speculating.sampler(task, chat(models, text), 0, 0.0)
        ids = sampler.verify([], [])[0]
        while ids[-1] != eos and len(ids) < 60:
            ids += sampler.verify(*sampler.propose(4))[0]
        passed += eos in ids[:-1]
        pairs.append((greedy(server(), case, task, chat(models, text), "a"), told(models, case, "b", 0, ids, "stop")))
    assert passed >= 3
    assert named(pairs) == {"text_after_stop": passed}


def test_looping_is_named_and_acceptance_says_so_too(models: Models, server: Callable[..., Any]) -> None:
    """D29: a server that takes drafts unseen repeats itself, and its acceptance is too good."""
    unseen = Row(np.ones(models.tokenizer.output_size))
    unseen.p = np.zeros(models.tokenizer.vocab_size).data  # u x 0 < p: accepted whatever the draft's probability was
    sound = server(speculation=LOOKUP)
    pairs, before, now = [], [], []
    for case, task, text in [*prompts(models, 12, "structured"), *prompts(models, 12, "code")]:
        ids, drafted, accepted = [], 0, 0
        sampler = sound.sampler(task, chat(models, text), 1, 0.7)
        while len(ids) < 96:
            drafts, _ = sampler.propose(4) if ids else ([], [])
            emitted, taken = sampler.verify(drafts, [unseen] * len(drafts))
            ids, drafted, accepted = ids + emitted, drafted + len(drafts), accepted + taken
        now.append(Accepted(case, drafted, accepted))
        _, _, drafted, accepted = sound.answer(sound.sampler(task, chat(models, text), 1, 0.7), 96)
        before.append(Accepted(case, drafted, accepted))
        pairs.append((greedy(server(), case, task, chat(models, text), "a"), told(models, case, "b", 0, ids, "length")))
    assert named(pairs)["looping"] >= 20
    found = acceptance_anomaly(before, now, seed=1)
    assert [d.fault for d in diagnose([], family({"acceptance": found.compared.p}), found)] == ["acceptance_high"]


def test_a_drafter_that_lost_its_way_is_low_acceptance_and_right_output(
    models: Models, server: Callable[..., Any]
) -> None:
    """D29, two-sided: acceptance falls, while greedy answers stay what they were."""
    sound, lost = server(speculation=DRAFT), server(speculation=DRAFT, switches=Switches(draft_bias=1.0))
    asked: dict[str, list[Accepted]] = {"sound": [], "lost": []}
    pairs = []
    for case, task, text in prompts(models, 5):
        ids = chat(models, text)
        for name, one in (("sound", sound), ("lost", lost)):
            _, _, drafted, accepted = one.answer(one.sampler(task, ids, 2, 1.0), 64)
            asked[name].append(Accepted(case, drafted, accepted))
        pairs.append((greedy(sound, case, task, ids, "a"), greedy(lost, case, task, ids, "b")))
    found = acceptance_anomaly(asked["sound"], asked["lost"], seed=1)
    cases = case_findings(compare_outputs(pairs))
    assert {c.kind for c in cases} == {"identical"}
    named = diagnose(cases, family({"acceptance": found.compared.p}), found)
    assert [d.fault for d in named] == ["acceptance_low"]


def test_broken_json_is_named(models: Models, server: Callable[..., Any]) -> None:
    """A candidate that drops its fourth token: what was JSON no longer parses."""
    pairs = []
    for case, task, text in prompts(models, 4, "structured"):
        good = greedy(server(), case, task, chat(models, text), "a", format=Format("json"))
        ids = (*(good.token_ids or ())[:3], *(good.token_ids or ())[4:])
        pairs.append((good, told(models, case, "b", 0, ids, "stop", format=Format("json"))))
    assert named(pairs) == {"format_broken": 4}


def repeated(models: Models, server: Callable[..., Any], run: int, switches: Switches) -> list[Output]:
    """Two-token answers of both arms; the candidate's second token is the first that a draft was checked for."""
    arms = {"baseline": server(), "candidate": server(speculation=DRAFT, switches=switches)}
    return [
        Output(case, arm, i, tuple(ids), "", finish)
        for n, (arm, one) in enumerate(arms.items())
        for p, (case, task, text) in enumerate(prompts(models, 2, "long_form"))
        for i, (ids, finish, _, _) in enumerate(
            one.answers(task, chat(models, text), REPEATED // 2, 2, (run * 2 + n) * 10 + p, k=1)
        )
    ]


def next_token(models: Models, server: Callable[..., Any], run: int, switches: Switches) -> QualityTest:
    samples = second_tokens(repeated(models, server, run, switches))
    return next_token_test(samples, baseline="baseline", candidate="candidate", seed=run)


def expected_distance(models: Models) -> float:
    """Of the second token's distributions with and without the correction, from the models' rows alone."""
    shape, total = RowShape(1.0, 1.0, 0), 0.0
    for _, task, text in prompts(models, 2, "long_form"):
        target, draft = models.target[task], models.draft[task]
        t, d = models.start(task, chat(models, text))
        first = shape.apply(target.probs(t))
        for token in np.flatnonzero(first > 1e-4):
            p, q = (shape.apply(m.probs(m.advance(node, int(token)))) for m, node in ((target, t), (draft, d)))
            total += float(first[token]) * two_sample_distance(p, without_correction(p, q)) / 2
    return total


@pytest.mark.slow
def test_missing_correction_step_is_found_with_its_power(models: Models, server: Callable[..., Any]) -> None:
    """30 runs of 2400 two-token answers per arm: found in all, which shows a power above 0.9 (at 95 % confidence).

    Level: the strictest of ten tests. The distance is the one the models have, and the power the one it gives.
    """
    broken = [next_token(models, server, run, Switches(correction=False)) for run in range(RUNS)]
    others = {f"other{i}": 1.0 for i in range(TESTS - 1)}
    found = sum(family({**others, "next_token": t.p}).alarms == ("next_token",) for t in broken)
    assert found == RUNS
    assert beta.ppf(0.05, found, RUNS - found + 1) > POWER
    distance = expected_distance(models)
    # rare tokens are counted as one, which hides a part of the distance
    assert 0.85 < float(np.mean([t.value or 0 for t in broken])) / distance < 1.02
    detectable = broken[0].detectable(per_test_level(TESTS))
    assert detectable is not None
    assert detectable < distance
    null_mean, null_variance = broken[0].null_mean or 0, broken[0].null_variance or 0
    df = 2 * null_mean**2 / null_variance
    assert chi_square_power(distance * df / null_mean, df, per_test_level(TESTS)) > POWER
    greedy_alike = case_findings(
        compare_outputs(
            [
                (greedy(server(), c, t, chat(models, x), "a"),
                 greedy(server(speculation=DRAFT, switches=Switches(correction=False)), c, t, chat(models, x), "b"))
                for c, t, x in prompts(models, 2)
            ]
        )
    )  # fmt: skip
    named = diagnose(greedy_alike, family({"next_token": broken[0].p}))
    assert [d.fault for d in named] == ["sampling"]
    assert "the correction step after a rejected draft is missing" in named[0].text


def test_first_tokens_cannot_show_it(models: Models, server: Callable[..., Any]) -> None:
    """One-token answers come from the prefill: without any speculation, whatever is broken in it."""
    outputs = repeated(models, server, 0, Switches(correction=False))
    firsts = [Output(o.case_id, o.arm, o.repeat, (0, *(o.token_ids or ())[:1]), "", "length") for o in outputs]
    found = next_token_test(second_tokens(firsts), baseline="baseline", candidate="candidate", seed=1)
    assert (found.p or 0) > 0.05
