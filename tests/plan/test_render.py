"""From a case to the text that is sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loadgen.plan import ESTIMATE, LengthModel, Plan, render
from loadgen.scenario import OwnPrompt, PromptSet

Make = Callable[..., Plan]
FOUR = LengthModel(dict.fromkeys(ESTIMATE.base, 10.0), dict.fromkeys(ESTIMATE.base, 0.25), "tokenizers")


def test_length_follows_the_model(plan: Make) -> None:
    made = plan(workload={"tasks": [{"task_type": "long_form", "lengths": {"pairs": [[510, 10]]}}]})
    for i in range(50):
        prompt = render(made, made.case(0, "measure", i), FOUR).prompt
        assert 1960 <= len(prompt) <= 2000


def test_shared_prefix_is_the_same_text_first(plan: Make) -> None:
    """H14: the shared part is what was asked, and the rest is not shared."""
    tasks = [{"task_type": t, "lengths": {"pairs": [[200, 10]]}} for t in ("code", "short_qa", "long_form")]
    made = plan(workload={"tasks": tasks, "shared_prefix": {"fraction": 0.5, "tokens": 100}})
    cases = [made.case(0, "measure", i) for i in range(200)]
    texts = [str(render(made, case, FOUR).prompt) for case in cases]
    prefix = made.shared_prefix(400)
    assert 360 <= len(prefix) <= 400
    assert [text.startswith(prefix + "\n\n") for text in texts] == [case.shared_prefix for case in cases]
    assert 60 < sum(case.shared_prefix for case in cases) < 140
    assert len({text.removeprefix(prefix)[:50] for text in texts}) == 200
    assert plan(seed=1).shared_prefix(400) != prefix


def test_schema_is_enforced_only_where_asked(plan: Make) -> None:
    task = {"task_type": "structured", "lengths": {"pairs": [[300, 50]]}}
    for asked in (False, True):
        made = plan(workload={"tasks": [{**task, "json_schema": asked}]})
        rendered = render(made, made.case(0, "measure", 0), FOUR)
        assert (rendered.json_schema is not None) == asked
        assert '"required"' in str(rendered.prompt)


@pytest.mark.parametrize("prompt", ["plain text", ({"role": "user", "content": "hello"},)])
def test_own_prompts_are_sent_as_they_are(plan: Make, prompt: str | tuple[dict[str, str], ...]) -> None:
    schema = {"type": "object"}
    rows = PromptSet("0" * 64, (OwnPrompt("one", "chat_log", prompt, 5, schema),))
    task = {"task_type": "chat_log", "prompts": "mine.jsonl", "json_schema": True}
    made = plan({0: rows}, workload={"tasks": [task], "shared_prefix": {"fraction": 1.0, "tokens": 50}})
    rendered = render(made, made.case(0, "measure", 0), FOUR)
    assert rendered.prompt == prompt
    assert rendered.json_schema == schema
    made = plan({0: rows}, workload={"tasks": [{**task, "json_schema": False}]})
    assert render(made, made.case(0, "measure", 0), FOUR).json_schema is None


def test_the_same_text_in_every_arm(plan: Make) -> None:
    first, second = plan(), plan()
    for i in (300, 0, 7):
        case = second.case(0, "measure", i)
        assert render(first, first.case(0, "measure", i), FOUR) == render(second, case, FOUR)
