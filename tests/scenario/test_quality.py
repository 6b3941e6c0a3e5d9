"""The section `quality` and files of known answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.errors import ScenarioError
from loadgen.scenario import Scenario, load_scenario
from loadgen.scenario.known_answers import BUILT_IN, read_known_answers

Build = Callable[..., Scenario]
Refused = Callable[..., list[str]]


def test_defaults_fit_a_first_run(build: Build) -> None:
    """H11: at least one sampled profile is on; the stated sample size of second tokens is asked."""
    keys = build({}).quality
    assert keys.sampled is not None
    assert keys.second_tokens is not None
    assert keys.second_tokens.prompts * keys.second_tokens.samples == 2400
    assert (keys.repeats, keys.level, keys.keep_text) == (2, 0.002, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quality.repeats": 0}, "quality.repeats: must be at least 1"),
        ({"quality.level": 0.5}, "quality.level: must be at most 0.05"),
        ({"quality.top_logprobs": 21}, "quality.top_logprobs: must be at most 20"),
        ({"quality.sampled.samples": 1}, "quality.sampled.samples: must be at least 2"),
        ({"quality.formats.code": "xml"}, "quality.formats.code: "),
        ({"quality.second_tokens.task_type": "poems"}, 'quality.second_tokens.task_type: "poems" is no task'),
        ({"experiment": "quality"}, "arms: experiment: quality needs two arms or more"),
        ({"quality.case_per_task": 3}, "quality.case_per_task: "),
    ],
)
def test_what_cannot_be_is_refused(refused: Refused, changes: dict[str, Any], said: str) -> None:
    assert any(problem.startswith(said) for problem in refused(changes))


def test_built_in_cases_have_names_of_their_own_and_right_answers_that_fit() -> None:
    assert len({answer.case_id for answer in BUILT_IN}) == len(BUILT_IN) == 24
    assert {answer.match for answer in BUILT_IN} == {"number", "contains", "regex"}


def test_own_known_answers_come_with_the_scenario(right: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"prompt": "2+2?", "expected": "4", "match": "number"}, {"prompt": "Say yes.", "expected": "yes"}]
    (tmp_path / "known.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    right["quality"] = {"known_answers": {"built_in": False, "file": "known.jsonl"}}
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(right))
    loaded = load_scenario(file)
    assert [(k.prompt, k.expected, k.match, k.max_tokens) for k in loaded.known] == [
        ("2+2?", "4", "number", 48), ("Say yes.", "yes", "contains", 48),
    ]  # fmt: skip
    assert len({k.case_id for k in loaded.known}) == 2
    assert load_scenario(file, ["quality.known_answers.built_in=true"]).known[: len(BUILT_IN)] == BUILT_IN


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ('{"prompt": "a"}', "expected: is missing"),
        ('{"prompt": "a", "expected": "x", "match": "number"}', "must be a number where match is number"),
        ('{"prompt": "a", "expected": "(", "match": "regex"}', "is no regular expression"),
        ('{"prompt": "a", "expected": "x", "other": 1}', "other"),
        ('{"prompt": "a", "expected": "x", "case_id": "fact-0"}', 'case_id "fact-0" again'),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "k.jsonl").write_text(f'{{"prompt": "ok", "expected": "1"}}\n{line}\n')
    _, problems = read_known_answers(tmp_path / "k.jsonl")
    assert len(problems) == 1
    assert problems[0].startswith(f"{tmp_path / 'k.jsonl'}:2: ")
    assert said in problems[0]


def test_a_file_that_is_not_there_is_a_problem_of_the_scenario(right: dict[str, Any], tmp_path: Path) -> None:
    right["quality"] = {"known_answers": {"file": "nowhere.jsonl"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(right))
    with pytest.raises(ScenarioError, match="known answers cannot be read: No such file"):
        load_scenario(tmp_path / "s.yaml")
    (tmp_path / "nowhere.jsonl").write_text("\n")
    with pytest.raises(ScenarioError, match="holds no known answers"):
        load_scenario(tmp_path / "s.yaml")
