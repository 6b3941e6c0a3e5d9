"""Pydantic's errors as sentences for a user: where, which key, what is wrong, what is allowed."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from loadgen.redact import Redactor
from loadgen.scenario.base import Loc
from loadgen.scenario.yaml_text import dotted

_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text (in quotes, where it looks like a number)",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "path_type": "a path",
    "is_instance_of": "text",
}
#: What to write where a mapping was expected and people are known to write something else.
_ADVICE = {
    "warmup": "say warmup_requests (a count) or warmup_seconds: a bare number has no unit",
    "api_key": "a key does not belong into a scenario; give env (a variable's name) or file (a path)",
    "shared_prefix": "say fraction (0–1) and tokens",
}
_SECRET = {"api_key", "headers", "headers_from", "env", "env_from", "hash"}
_redact = Redactor()


def sentences(error: ValidationError, root: type[BaseModel], where: Callable[[Loc], str]) -> list[str]:
    """One sentence for each wrong key of a value that was validated as `root`. `where` names the place of a key."""
    found: dict[Loc, str] = {}
    for details in error.errors(include_url=False):
        loc, model = _resolve(details["loc"], root)
        if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
            loc = (*loc, "kind")
        elif details["type"] == "scenario":
            loc += details["ctx"]["loc"]
        if loc in found and "facts" in loc:  # one value, refused by every branch of its union
            found[loc] = "must be text, a number, or true or false"
        found.setdefault(loc, _message(details, loc, model))
    return [f"{where(loc)}: {dotted(loc) + ': ' if loc else ''}{text}" for loc, text in found.items()]


def _message(details: ErrorDetails, loc: Loc, model: type[BaseModel] | None) -> str:
    kind, context = details["type"], details.get("ctx", {})
    key = str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        return _unknown(key, model)
    if kind == "scenario":
        return str(context["message"])
    if kind in ("missing", "union_tag_not_found"):
        field = model.model_fields.get(key) if model is not None else None
        return f"is missing ({field.description})" if field is not None and field.description else "is missing"
    if kind.startswith("model_") and key in _ADVICE:
        return _ADVICE[key]
    got = _got(context["tag"] if kind == "union_tag_invalid" else details["input"], loc)
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        bound = context[name]
        return f"must be {word} {bound:,g}{got}" if bound < 1e6 else f"must be {word} {bound:,.0f}{got}"
    if kind in _TYPES:
        return f"must be {_expected(kind, loc, model)}{got}"
    return _other(kind, context, details["msg"]) + got


def _other(kind: str, context: dict[str, Any], message: str) -> str:
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be {context['expected']}".replace("'", "")
    if kind == "union_tag_invalid":
        return f"must be one of {context['expected_tags']}".replace("'", "")
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    if kind in ("too_short", "string_too_short"):
        return f"must not be empty (at least {context.get('min_length', 1)})"
    return message


def _expected(kind: str, loc: Loc, model: type[BaseModel] | None) -> str:
    """Loads may also be ramps; everything else is its plain type."""
    if loc[-1:] in (("concurrency",), ("rate_per_s",)):
        return f"{_TYPES[kind]}, or a ramp {{start, end}}"
    return _TYPES[kind]


def _got(value: Any, loc: Loc) -> str:
    """What was written instead, unless it could be a secret."""
    if _SECRET & set(loc):
        return ""
    if isinstance(value, str):
        return f' (got the text "{_redact(value)[:40]}")'
    if value is None or isinstance(value, bool):
        return f" (got {str(value).lower().replace('none', 'null')})"
    if isinstance(value, int | float):
        return f" (got {value})"
    return f" (got {'a mapping' if isinstance(value, dict) else 'a list'})"


def _unknown(key: str, model: type[BaseModel] | None) -> str:
    allowed = sorted(model.model_fields) if model is not None else []
    close = difflib.get_close_matches(key, allowed, n=1)
    guess = f"; did you mean {close[0]}?" if close else ""
    return (
        f"unknown key{guess} allowed here: {', '.join(allowed)}"
        if guess
        else f"unknown key; allowed here: {', '.join(allowed)}"
    )


def _resolve(loc: Loc, root: Any) -> tuple[Loc, type[BaseModel] | None]:
    """(path of keys, model that holds the last key). Pydantic's paths also name the branches of unions."""
    keys: list[str | int] = []
    here, model = root, None
    for part in loc:
        if part == "[key]":  # the key of a mapping is wrong, not its value
            break
        here = _unwrap(here)
        origin, members = get_origin(here), get_args(here)
        if isinstance(here, type) and issubclass(here, BaseModel):
            model = here
            keys.append(part)
            field = here.model_fields.get(str(part))
            here = None if field is None else field.annotation
        elif origin in (Union, types.UnionType):
            here = next((m for m in members if _tag(m) == part), None)
        elif origin in (list, dict, tuple):
            model = None
            keys.append(part)
            here = members[part] if origin is tuple and isinstance(part, int) else members[-1]
    return tuple(keys), model


def _unwrap(annotation: Any) -> Any:
    """Without Annotated and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            members = [m for m in get_args(annotation) if m is not type(None)]
            if len(members) > 1:
                return annotation
            annotation = members[0]
        else:
            return annotation


def _tag(member: Any) -> str | None:
    """The name of a union's branch in error paths."""
    for note in getattr(member, "__metadata__", ()):
        if isinstance(note, Tag):
            return note.tag
    plain = _unwrap(member)
    if isinstance(plain, type) and issubclass(plain, BaseModel) and "kind" in plain.model_fields:
        return str(get_args(plain.model_fields["kind"].annotation)[0])
    return None
