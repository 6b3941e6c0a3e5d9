"""Own prompts: JSONL to prompt sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScenarioError
from loadgen.scenario import LoadedScenario, PromptSet, load_scenario

Load = Callable[..., LoadedScenario]
Problems = Callable[..., list[str]]

HEAD = """\
version: 1
name: own
environment: disposable
arms: {baseline: {url: "http://127.0.0.1:1"}}
load: [{kind: concurrency, concurrency: 1, cases: 1}]
workload:
"""
ONE = "  tasks: [{task_type: code, prompts: p.jsonl, output_len: {kind: fixed, value: 9}}]\n"


def rows(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def read(data: bytes, workload: str = ONE) -> LoadedScenario:
        (tmp_path / "p.jsonl").write_bytes(data)
        path = tmp_path / "s.yaml"
        path.write_text(HEAD + workload)
        return load_scenario(path)

    return read


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    def read(data: bytes, workload: str = ONE) -> list[str]:
        with pytest.raises(ScenarioError) as caught:
            load(data, workload)
        return [p.replace(f"{tmp_path}/", "") for p in caught.value.problems]

    return read


def test_text_and_messages(load: Load) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "a"}]
    schema = {"type": "object"}
    data = rows(
        {"prompt": "Sort a list.", "case_id": "sort", "max_tokens": 5, "json_schema": schema}, {"messages": messages}
    )
    found = load(data).prompts[0]
    assert isinstance(found, PromptSet)
    first, second = found.prompts
    assert (first.case_id, first.task_type, first.prompt) == ("sort", "code", "Sort a list.")
    assert (first.max_tokens, first.json_schema) == (5, schema)
    assert second.prompt == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "a"})
    assert (second.max_tokens, second.json_schema) == (None, None)
    assert found.sha256 == hashlib.sha256(data).hexdigest()


def test_case_ids_are_made_from_the_prompt(load: Load) -> None:
    """A new order of the file leaves every prompt its id: intervals cluster by it."""
    a, b = {"prompt": "a"}, {"prompt": "b"}
    one, two = load(rows(a, b)).prompts[0].prompts, load(rows(b, a)).prompts[0].prompts
    assert [p.case_id for p in one] == [p.case_id for p in reversed(two)]
    assert one[0].case_id == "own-" + hashlib.sha256(b'"a"').hexdigest()[:12]
    assert one[0].case_id != one[1].case_id


def test_empty_lines_and_a_byte_order_mark_are_skipped(load: Load) -> None:
    data = b"\xef\xbb\xbf" + rows({"prompt": "a"}) + b"\n  \r\n" + b'{"prompt": "b\xe2\x80\xa8c"}\r\n'
    assert [p.prompt for p in load(data).prompts[0].prompts] == ["a", "b\u2028c"]


TWO = """\
  tasks:
    - {task_type: code, prompts: p.jsonl, output_len: {kind: fixed, value: 9}}
    - {task_type: summary, prompts: p.jsonl, output_len: {kind: fixed, value: 9}}
"""


def test_a_task_takes_the_rows_of_its_type_and_those_without_one(load: Load) -> None:
    data = rows({"prompt": "a", "task_type": "code"}, {"prompt": "b"}, {"prompt": "c", "task_type": "summary"},
                {"prompt": "d", "task_type": "other"})  # fmt: skip
    sets = load(data, TWO).prompts
    assert {i: [(p.prompt, p.task_type) for p in s.prompts] for i, s in sets.items()} == {
        0: [("a", "code"), ("b", "code")],
        1: [("b", "summary"), ("c", "summary")],
    }
    assert [sets[i].left_out for i in (0, 1)] == [2, 2]


def test_no_row_of_the_tasks_type_is_an_error(problems: Problems) -> None:
    data = rows({"prompt": "a", "task_type": "code"}, {"prompt": "b", "task_type": "code"})
    assert problems(data, TWO) == ["p.jsonl: none of its 2 rows is of task_type summary"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"prompt": "a"', "p.jsonl:2: is not JSON: "),
        (b'{"prompt": "caf\xe9"}', "p.jsonl:2: is not UTF-8 (byte 16 of the line)"),
        (b'{"prompt": NaN}', "p.jsonl:2: is not JSON: "),
        (b"[]", "p.jsonl:2: must be a mapping of keys to values"),
        (b'"text"', "p.jsonl:2: must be a mapping"),
        (b"{}", "p.jsonl:2: needs either prompt or messages, and not both"),
        (b'{"prompt": "a", "messages": [{"role": "user", "content": "a"}]}', "p.jsonl:2: needs either prompt or"),
        (b'{"prompt": ""}', "p.jsonl:2: prompt: must not be empty"),
        (b'{"prompt": 5}', "p.jsonl:2: prompt: must be text"),
        (b'{"messages": []}', "p.jsonl:2: messages: must not be empty"),
        (b'{"messages": [{"content": "a"}]}', "p.jsonl:2: messages.0.role: is missing"),
        (b'{"messages": [{"role": "user"}]}', "p.jsonl:2: messages.0.content: is missing"),
        (b'{"promt": "a"}', "p.jsonl:2: promt: unknown key; did you mean prompt? allowed here: case_id, json_schema,"),
        (b'{"prompt": "a", "max_tokens": 0}', "p.jsonl:2: max_tokens: must be at least 1 (got 0)"),
        (b'{"prompt": "a", "max_tokens": "5"}', "p.jsonl:2: max_tokens: must be a whole number"),
        (b'{"prompt": "a", "task_type": "A b"}', "p.jsonl:2: task_type: must match"),
        (b'{"prompt": "a", "json_schema": true}', "p.jsonl:2: json_schema: must be a mapping"),
        (b'{"prompt": "first"}', "p.jsonl:2: is the prompt of "),
        (b'{"prompt": "a", "case_id": "one"}', 'p.jsonl:2: case_id "one" is that of p.jsonl:1 again'),
    ],
)
def test_problems_name_file_and_line(problems: Problems, line: bytes, expected: str) -> None:
    first = {"prompt": "first"} if b"first" in line else {"prompt": "first", "case_id": "one"}
    found = problems(rows(first) + line + b"\n")
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_lengths_and_endpoint_are_checked_line_by_line(problems: Problems) -> None:
    workload = """\
  endpoint: completions
  tasks: [{task_type: code, prompts: p.jsonl, json_schema: true, sampling: {min_tokens: 8}}]
"""
    data = rows({"messages": [{"role": "user", "content": "a"}], "max_tokens": 8, "json_schema": {}},
                {"prompt": "b", "json_schema": {}}, {"prompt": "c", "max_tokens": 9},
                {"prompt": "d", "json_schema": {}, "max_tokens": 7})  # fmt: skip
    assert problems(data, workload) == [
        "p.jsonl:1: messages need workload.endpoint: chat (it is completions)",
        "p.jsonl:2: max_tokens is missing, and the task has no output_len to draw it from",
        "p.jsonl:3: json_schema is missing, but the task asks the server to enforce it (json_schema: true)",
        "p.jsonl:4: max_tokens (7) is below sampling.min_tokens (8)",
    ]


def test_one_case_id_is_one_prompt_over_all_files(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_bytes(rows({"prompt": "other", "case_id": "x"}))
    workload = TWO.replace("{task_type: summary, prompts: p.jsonl", "{task_type: summary, prompts: q.jsonl")
    assert problems(rows({"prompt": "one", "case_id": "x"}), workload) == [
        'q.jsonl:1: case_id "x" is another prompt in p.jsonl:1'
    ]


def test_many_problems_are_counted(problems: Problems) -> None:
    found = problems(b"{\n" * 25)
    assert len(found) == 21
    assert found[-1] == "p.jsonl: and 5 more problems"


def test_what_is_no_file_or_too_large_is_not_read(
    problems: Problems, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problems(b"", ONE.replace("p.jsonl", "/dev/zero")) == [
        "/dev/zero: prompts cannot be read: not a regular file"
    ]
    monkeypatch.setattr("loadgen.scenario.prompts.MAX_BYTES", 3)
    assert problems(b"12345") == [
        "p.jsonl: prompts cannot be read: 5 bytes are more than 3: take a sample of its lines"
    ]


def test_files_without_prompts(problems: Problems, tmp_path: Path) -> None:
    assert problems(b"\n\n") == ["p.jsonl: holds no prompts"]
    assert problems(b"", ONE.replace("p.jsonl", "gone.jsonl")) == [
        "gone.jsonl: prompts cannot be read: No such file or directory"
    ]


@settings(max_examples=100, deadline=None)
@given(
    data=st.binary(max_size=60) | st.lists(st.sampled_from([b'{"prompt": "', b'"}', b"\n", b"[", b"1"])).map(b"".join)
)
def test_any_bytes_are_prompts_or_problems(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "p.jsonl").write_bytes(data)
    (folder / "own.yaml").write_text(HEAD + ONE)
    try:
        counted = len(load_scenario(folder / "own.yaml").prompts[0].prompts)
    except ScenarioError as error:
        counted = len(error.problems)
    assert counted > 0
