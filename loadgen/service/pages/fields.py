"""What of a scenario a start may change, as fields of a form, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loadgen.service.api.models import Value
from loadgen.service.compose import OVERRIDABLE

#: Fields of one form; the rest can be written as lines. A form has at most 50 with its arms.
MOST_FIELDS = 24
ARM, KEY, LINES = "arm.", "set.", "more"


@dataclass(frozen=True, slots=True)
class Field:
    """`key`: dotted path. `value`: as the scenario has it. `given`: what the start says instead."""

    key: str
    value: str
    given: str


def fields_of(document: Mapping[str, Any], given: Mapping[str, Any]) -> list[Field]:
    """Numbers and switches that are written in the scenario and may be changed."""
    there = [(key, value) for key, value in _leaves(document) if OVERRIDABLE.fullmatch(key) and key != "description"]
    return [Field(key, _text(value), _text(given[key]) if key in given else "") for key, value in there[:MOST_FIELDS]]


def lines_of(document: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What is given and has no field."""
    shown = {field.key for field in fields_of(document, given)}
    return "\n".join(f"{key}={_text(value)}" for key, value in given.items() if key not in shown)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}.{i}")
    elif value is None or isinstance(value, bool | int | float | str):
        yield path, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def arms_in(form: Mapping[str, str]) -> dict[str, str]:
    """Arm to target."""
    return {key.removeprefix(ARM): value for key, value in form.items() if key.startswith(ARM) and value}


def overrides_in(form: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    """What is given, by its key; and lines that are no `key=value`."""
    found: dict[str, Value] = {
        key.removeprefix(KEY): value_of(text) for key, text in form.items() if key.startswith(KEY) and text.strip()
    }
    problems = []
    for number, line in enumerate(form.get(LINES, "").splitlines(), 1):
        key, equals, text = line.partition("=")
        if not line.strip():
            continue
        if not equals or not key.strip():
            problems.append(f"further changes, line {number}: write key=value")
        else:
            found[key.strip()] = value_of(text)
    return found, problems


def value_of(text: str) -> Value:
    """A number, true, false or null where it is one, else the text."""
    try:
        found = orjson.loads(text.strip())
    except ValueError:
        return text.strip()
    return found if found is None or isinstance(found, bool | int | float | str) else text.strip()


def minutes_in(text: str) -> tuple[float | None, list[str]]:
    """A time budget in seconds; and why it is none."""
    if not text.strip():
        return None, []
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= 10_080:
        return None, ["time budget: a number of minutes above 0 and at most 10080 (a week)"]
    return 60 * minutes, []
