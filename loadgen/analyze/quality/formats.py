"""Is an answer what it was asked to be: JSON, JSON of a schema, Python that parses."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from loadgen.analyze.quality.types import Output

_FENCED = re.compile(r"\A\s*```[^\n`]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FormatCheck:
    """`valid` None: cannot be told, `reason` says why. False: `reason` is what is wrong."""

    valid: bool | None
    reason: str | None


def format_check(output: Output) -> FormatCheck:
    """Whether an output has the format its request asked for. One Markdown fence around it is taken off.

    An output cut at max_tokens that does not parse cannot be told: its end is missing. ValueError where the schema
    itself is wrong.
    """
    if output.format is None:
        return FormatCheck(None, "no format was asked for")
    fenced = _FENCED.match(output.text)
    text = fenced.group(1) if fenced else output.text
    if output.format.kind == "python":
        wrong = _python(text)
    else:
        wrong = _json(text, output.format.schema if output.format.kind == "json_schema" else None)
    if wrong is None:
        return FormatCheck(True, None)
    if output.finish_reason == "length":
        return FormatCheck(None, f"cut at max_tokens; as far as it goes: {wrong}")
    return FormatCheck(False, wrong)


def _python(text: str) -> str | None:
    if not text.strip():
        return "no Python: empty"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the answer is the answer's
            ast.parse(text)
    except SyntaxError as error:
        return f"no Python: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"no Python: {type(error).__name__}"
    return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _json(text: str, schema: Mapping[str, Any] | None) -> str | None:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    return None if schema is None else _against(value, schema)


def _against(value: Any, schema: Mapping[str, Any]) -> str | None:
    # imported where a schema is there: it takes longer to import than the rest of the room
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        # an empty registry: a reference to elsewhere is never fetched
        validator = Draft202012Validator(schema, registry=Registry())
        error = best_match(validator.iter_errors(value))
    except SchemaError as error:
        raise ValueError(f"the schema is not valid: {error.message}") from None
    except Unresolvable as error:
        raise ValueError(f"the schema refers to what is not in it: {error}") from None
    return None if error is None else f"not of the schema: {error.json_path}: {error.message[:200]}"
