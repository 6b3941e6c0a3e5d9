"""Files, options and errors of load_scenario."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadgen.errors import ScenarioError
from loadgen.scenario import ConcurrencyStage, load_scenario

Write = Callable[[str], Path]

TEXT = """\
version: 1
name: lines
environment: disposable
arms:
  baseline:
    url: http://127.0.0.1:8001
    metrics_urls: [http://127.0.0.1:8001/metrics]
workload:
  tasks:
    - task_type: code
      input_len: {kind: fixed, value: 64}
      output_len:
        kind: uniform
        low: 8
        high: 32
load:
  - kind: concurrency
    concurrency: 4
    cases: 20
  - {kind: arrival_rate, rate_per_s: 2,
     duration_s: 5}
"""


def problems(path: Path, *args: object, **kwargs: object) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, *args, **kwargs)  # type: ignore[arg-type]
    return [p.replace(str(path), path.name) for p in caught.value.problems]


def test_a_right_file_loads(write: Write) -> None:
    path = write(TEXT)
    loaded = load_scenario(path)
    assert loaded.path == path
    assert loaded.text_sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert loaded.prompts == {}
    assert [stage.name for stage in loaded.scenario.load] == ["c4", "r2"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version: 1", "version: 2", "s.yaml:1: version: must be 1 (got 2)"),
        ("    url: http://127.0.0.1:8001\n", "    url: 7\n", "s.yaml:6: arms.baseline.url: must be text"),
        ("value: 64", "value: -1", "s.yaml:11: workload.tasks.0.input_len.value: must be at least 1 (got -1)"),
        ("low: 8", "low: 99", "s.yaml:14: workload.tasks.0.output_len.low: must not be above high (99 > 32)"),
        ("        low: 8\n", "", "s.yaml:12: workload.tasks.0.output_len.low: is missing (smallest length, tokens)"),
        ("concurrency: 4", "concurrency: none", "s.yaml:18: load.0.concurrency: must be a whole number"),
        ("    cases: 20\n", "", "s.yaml:17: load.0: needs cases"),
        ("duration_s: 5", "duration_s: -5", "s.yaml:21: load.1.duration_s: must be above 0 (got -5)"),
        ("kind: uniform", "kind: unifrom", "s.yaml:13: workload.tasks.0.output_len.kind: must be one of fixed"),
        ("name: lines\n", "", "s.yaml:1: name: is missing (part of the run's id)"),
    ],
)
def test_problems_name_file_line_and_key(write: Write, old: str, new: str, expected: str) -> None:
    assert TEXT.count(old) == 1
    found = problems(write(TEXT.replace(old, new)))
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_unknown_keys_name_what_is_allowed_and_what_is_near(write: Write) -> None:
    found = problems(write(TEXT.replace("    cases: 20", "    casses: 20\n    cases: 20").replace("low:", "lwo:")))
    assert found == [
        "s.yaml:12: workload.tasks.0.output_len.low: is missing (smallest length, tokens)",
        "s.yaml:14: workload.tasks.0.output_len.lwo: unknown key; did you mean low? allowed here: high, kind, low",
        "s.yaml:19: load.0.casses: unknown key; did you mean cases? "
        "allowed here: cases, concurrency, duration_s, kind, name",
    ]


def test_an_unknown_key_far_from_all_is_not_guessed(write: Write) -> None:
    found = problems(write(TEXT + "zzz: 1\n"))
    assert found[0].startswith("s.yaml:22: zzz: unknown key; allowed here: access, anomalies, arms,")


def test_all_problems_are_told_at_once(write: Write) -> None:
    text = TEXT.replace("version: 1", "version: x").replace("value: 64", "value: 0").replace("cases: 20", "cases: 0")
    assert [p.split(": ")[1] for p in problems(write(text))] == [
        "version", "workload.tasks.0.input_len.value", "load.0.cases",
    ]  # fmt: skip


def test_words_of_yaml_1_1_stay_words(write: Write) -> None:
    text = TEXT.replace("    metrics", "    speculation: off\n    metrics")
    assert load_scenario(write(text)).scenario.arms["baseline"].speculation == "off"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "s.yaml: is empty"),
        ("- a\n", "s.yaml:1: must be a mapping of keys to values"),
        ("\n\n{a", "s.yaml:3: is not YAML"),
        ("a: 1\nb: [1\nc: 2\n", "s.yaml:3: is not YAML"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2: is not YAML"),
        ("a: *x\n", "s.yaml:1: is not YAML: found undefined alias"),
        ("a: 1\na: 2\n", "s.yaml:2: a: stands here twice; first at s.yaml:1"),
        ("a: !!python/name:os.system x\n", 's.yaml:1: "x" is not a value that is allowed here'),
        ("a: 1e999\n", 's.yaml:1: "1e999" is not a value that is allowed here'),
        ("a: b\n\x07: c\n", "s.yaml:2: is not YAML: a character that is not allowed"),
        ('a: "\\U00FFFFFF"\n', "s.yaml: is not YAML: an escape names no character"),
        ('a: "\\ud800"\n', "s.yaml:1: half of a surrogate pair is not text"),
        ("? [a]\n: 1\n", "s.yaml:1: a key must be plain text"),
        ("[" * 4000, "s.yaml: is nested too deeply"),
    ],
)
def test_what_is_not_a_scenario_is_said(write: Write, content: str, expected: str) -> None:
    found = problems(write(content))
    assert found[0].startswith(expected)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.yaml") == ["none.yaml: scenario cannot be read: No such file or directory"]
    assert problems(tmp_path)[0].endswith("scenario cannot be read: Is a directory")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"version: 1\nname: caf\xe9\n")
    assert problems(latin) == ["latin.yaml:2: is not UTF-8 text"]
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * ((1 << 20) + 1))
    assert problems(large) == ["large.yaml: is larger than 1 MiB: not a scenario"]


def test_aliases_do_not_multiply_without_end(write: Write) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert problems(write("\n".join(lines))) == ["s.yaml: aliases expand to more than 200,000 values"]


def test_aliases_are_read(write: Write) -> None:
    text = TEXT.replace("input_len: {", "input_len: &len {").replace(
        "      output_len:\n        kind: uniform\n        low: 8\n        high: 32\n", "      output_len: *len\n"
    )
    task = load_scenario(write(text)).scenario.workload.tasks[0]
    assert task.output_len == task.input_len


# ---------------------------------------------------------------- --set and --arm


def test_set_changes_keys_and_list_items(write: Write) -> None:
    overrides = ["load.0.cases=44", "seed=9", "slos.ttft_s=0.5", "workload.tasks.0.input_len={kind: fixed, value: 7}"]
    scenario = load_scenario(write(TEXT), overrides).scenario
    stage = scenario.load[0]
    assert isinstance(stage, ConcurrencyStage)
    assert (stage.cases, scenario.seed, scenario.slos.ttft_s) == (44, 9, 0.5)
    assert scenario.workload.tasks[0].input_len is not None
    assert scenario.workload.tasks[0].input_len.model_dump() == {"kind": "fixed", "value": 7}


def test_the_last_set_wins(write: Write) -> None:
    assert load_scenario(write(TEXT), ["seed=1", "seed=2"]).scenario.seed == 2


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("load.0.cases=0", "--set load.0.cases: load.0.cases: must be at least 1 (got 0)"),
        ("load.0.casses=1", "--set load.0.casses: load.0.casses: unknown key; did you mean cases?"),
        ("warmup.x.y=1", "--set warmup.x.y: warmup.x: unknown key"),
        ("load.5.cases=1", "--set load.5.cases: load is a list of 2; items are numbered from 0"),
        ("load.-1.cases=1", "--set load.-1.cases: load is a list of 2"),
        ("name.x=1", "--set name.x: name is a value and has no key x"),
        ("seed", "--set seed: must be dotted.key=value"),
        ("=1", "--set : must be dotted.key=value"),
        ("a..b=1", "--set a..b: must be dotted.key=value"),
        ("seed={a", "--set seed:1: is not YAML"),
        ("load.0={kind: concurrency}", "--set load.0: load.0.concurrency: is missing"),
    ],
)
def test_problems_of_a_set_name_it(write: Write, override: str, expected: str) -> None:
    found = problems(write(TEXT), [override])
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_problems_of_options_and_of_the_file_come_together(write: Write) -> None:
    found = problems(write(TEXT.replace("cases: 20", "cases: 0")), ["load.9.x=1"])
    assert [p.split(": ")[0] for p in found] == ["--set load.9.x", "s.yaml:19"]


def test_arm_replaces_the_address_and_makes_arms(write: Write) -> None:
    path = write(TEXT.replace("    url: http://127.0.0.1:8001\n", "    urls: [http://a, http://b]\n"))
    arms = {"baseline": "http://c:1/", "candidate": "http://d"}
    scenario = load_scenario(path, ["arms.baseline.metrics_urls=null"], arms).scenario
    assert (scenario.arms["baseline"].url, scenario.arms["baseline"].urls) == ("http://c:1", [])
    assert scenario.arms["candidate"].url == "http://d"


def test_an_arm_that_is_added_to_others_is_noted(write: Write) -> None:
    arms = {"baseline": "http://a", "baselin": "http://b"}
    found = load_scenario(write(TEXT), ["arms.baseline.metrics_urls=null"], arms)
    assert list(found.scenario.arms) == ["baseline", "baselin"]
    assert found.notes == (
        "--arm baselin: the scenario has no arm of this name, so one is added (did you mean baseline?)",
    )
    text = TEXT[: TEXT.index("  baseline")] + TEXT[TEXT.index("workload") :]
    assert load_scenario(write(text), arms={"baseline": "http://a"}).notes == (), "the file leaves its arms to --arm"


def test_arm_fills_a_file_without_arms(write: Write) -> None:
    text = TEXT[: TEXT.index("  baseline")] + TEXT[TEXT.index("workload") :]
    assert list(load_scenario(write(text), arms={"baseline": "http://a"}).scenario.arms) == ["baseline"]


def test_a_moved_arm_does_not_keep_the_old_counters(write: Write) -> None:
    assert problems(write(TEXT), arms={"baseline": "http://new"}) == [
        "s.yaml:7: arms.baseline.metrics_urls: belongs to another address than --arm baseline: "
        "--set arms.baseline.metrics_urls=null takes the pages of the new one, =[] takes none"
    ]


def test_problems_of_an_arm_name_it(write: Write) -> None:
    assert problems(write(TEXT), arms={"c": "host"})[0].startswith("--arm c: arms.c.url: must be a URL like")
    assert problems(write(TEXT), arms={"C": "http://a"})[0].startswith("--arm C: arms.C: must match")


# ---------------------------------------------------------------- secrets and files


@pytest.mark.parametrize(
    "override",
    [
        "arms.baseline.api_key=hunter2hunter2",
        "arms.baseline.headers={Authorization: [hunter2hunter2]}",
        "arms.baseline.headers={Host: hunter2hunter2}",
        'arms.baseline.headers={X-Key: "hunter2hunter2\\n"}',
        "arms.baseline.headers=hunter2hunter2",
        "arms.baseline.url=http://user:hunter2hunter2@host",
        "arms.baseline.api_key={env: A, file: hunter2hunter2}",
        "arms.baseline.api_key={hunter2hunter2",
    ],
)
def test_no_problem_holds_a_secret(write: Write, override: str) -> None:
    """I1: a bench printed its headers into logs."""
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(TEXT), [override])
    assert "hunter2" not in str(caught.value)


def test_files_are_relative_to_the_scenario(write: Write, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "max_tokens": 4}\n')
    overrides = [
        "workload.tasks.0={task_type: code, prompts: p.jsonl}",
        "arms.baseline.api_key={file: keys/one}",
        "arms.baseline.tokenizer=/t/tokenizer.json",
    ]
    loaded = load_scenario(write(TEXT), overrides)
    arm = loaded.scenario.arms["baseline"]
    assert loaded.scenario.workload.tasks[0].prompts == tmp_path / "p.jsonl"
    assert arm.api_key is not None
    assert arm.api_key.file == tmp_path / "keys" / "one"
    assert arm.tokenizer == Path("/t/tokenizer.json")
    assert [p.prompt for p in loaded.prompts[0].prompts] == ["a"]


# ---------------------------------------------------------------- any text

_PIECES = st.sampled_from(
    [
        *TEXT.splitlines(keepends=True),
        *("  - ", "{", "}", "[", "]", ": ", "*a", "&a ", "!!int ", "!!map", "? ", "|\n", "''", "<<: ", "\t", "0x1f"),
        *(".nan", "~", "- -1", "1e400", "!x ", "\ufeff", "%YAML 1.1\n", "--- ", "... "),
    ]
)


def loads_or_is_refused(path: Path, options: list[str]) -> bool:
    """Anything but a LoadedScenario or a ScenarioError with whole sentences is an exception of the test."""
    try:
        return load_scenario(path, options).scenario.version == 1
    except ScenarioError as error:
        return bool(error.problems) and all(problem.strip() for problem in error.problems)


@settings(max_examples=150, deadline=None)
@given(text=st.one_of(st.text(max_size=80), st.lists(_PIECES, max_size=30).map("".join)))
@example(text='version: "\\x"')
@example(text="!!set {a}")
@example(text="!!binary aGk=")
@example(text="a: !!bool maybe")
@example(text="&a [*a]")
def test_any_text_is_a_scenario_or_a_scenario_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert loads_or_is_refused(path, [])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["ramp", "fixed"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "start", "end", "value", "low", "concurrency", "number"]), inner)
    ),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        "load",
        "load.0",
        "load.0.concurrency",
        "load.0.kind",
        "load.0.duration_s",
        "load.1.rate_per_s",
        "load.1.burstiness",
        "arms",
        "arms.baseline",
        "arms.baseline.url",
        "arms.baseline.headers",
        "arms.baseline.facts",
        "arms.baseline.api_key",
        "workload",
        "workload.tasks",
        "workload.tasks.0",
        "workload.tasks.0.input_len",
        "workload.tasks.0.input_len.value",
        "sampling.stop",
        "workload.tasks.0.lengths",
        "workload.tasks.0.prompts",
        "sampling",
        "sampling.extra",
        "warmup",
        "safety",
        "safety.max_cost",
        "environment",
        "slos",
        "scrape",
    ]
)


@settings(max_examples=200, deadline=None)
@given(changes=st.lists(st.tuples(_KEYS, _VALUES), min_size=1, max_size=3))
def test_any_value_at_any_key_is_a_scenario_or_a_scenario_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, object]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "values.yaml"
    path.write_text(TEXT)
    options = [f"{key}={yaml.safe_dump(value, default_flow_style=True, width=10**6)}" for key, value in changes]
    assert loads_or_is_refused(path, options)
