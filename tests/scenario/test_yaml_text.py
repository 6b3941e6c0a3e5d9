"""YAML to values and marks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.scenario.yaml_text import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("NO", "NO"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("nullable", "nullable"), ("trueish", "trueish"),
        ("12", 12), ("-3", -3), ("+3", 3), ("0", 0), ("0x1F", 31), ("0o17", 15),
        ("010", "010"), ("1_000", "1_000"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("0b1", "0b1"),
        ("1.5", 1.5), ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0), ("1.5E-2", 0.015), ("12%", "12%"),
        ("1.2.3", "1.2.3"),
        (".nan", ".nan"), (".inf", ".inf"), ("-.inf", "-.inf"), ("'5'", "5"), ('"true"', "true"), ("5 s", "5 s"),
        ("!!str 5", "5"), ("[1, a]", [1, "a"]), ("{a: {b: 1}}", {"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_plain_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    document = parse(text, "t")
    assert document.problems == []
    assert document.value == value
    assert type(document.value) is type(value)


def test_marks_of_keys_and_items() -> None:
    document = parse("a:\n  b:\n    - 1\n    - c: 2\n      d: 3\n", "f.yaml")
    assert document.marks == {
        (): "f.yaml:1",
        ("a",): "f.yaml:1",
        ("a", "b"): "f.yaml:2",
        ("a", "b", 0): "f.yaml:3",
        ("a", "b", 1): "f.yaml:4",
        ("a", "b", 1, "c"): "f.yaml:4",
        ("a", "b", 1, "d"): "f.yaml:5",
    }
    assert document.where(("a", "b", 1, "missing", "deeper")) == "f.yaml:4"
    assert document.where(("x",)) == "f.yaml:1"


def _walk(value: Any, loc: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], str]]:
    """(path, key) of every key, at any depth."""
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in [((*loc, key), key), *_walk(inner, (*loc, key))]]
    if isinstance(value, list):
        return [pair for i, inner in enumerate(value) for pair in _walk(inner, (*loc, i))]
    return []


def _renamed(value: Any, numbers: Any) -> Any:
    """The same shape, with every key unique in the whole text."""
    if isinstance(value, dict):
        return {f"key{next(numbers)}x": _renamed(inner, numbers) for inner in value.values()}
    return [_renamed(inner, numbers) for inner in value] if isinstance(value, list) else value


_SHAPES = st.recursive(
    st.integers(-9, 9) | st.text("ab \n:", max_size=8) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 9), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(
    shape=st.dictionaries(st.integers(0, 9), _SHAPES, min_size=1, max_size=4), flow=st.sampled_from([None, False, True])
)
def test_every_key_is_marked_with_its_own_line(shape: dict[int, Any], flow: bool | None) -> None:
    value = _renamed(shape, itertools.count())
    text = yaml.safe_dump(value, default_flow_style=flow, width=30, sort_keys=False)
    document = parse(text, "f")
    assert document.problems == []
    assert document.value == value
    for loc, key in _walk(value):
        line = next(i for i, content in enumerate(text.split("\n"), 1) if key in content)
        assert document.marks[loc] == f"f:{line}"
