"""Prompts for structured answers: records as text, and the JSON Schema of the object asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from loadgen.plan.prompts.voice import Voice, cut, reference
from loadgen.plan.streams import Draw

Property = tuple[dict[str, Any], Callable[[Voice], str]]

_OBJECT = {"type": "object", "additionalProperties": False}


def structured(draw: Draw, chars: int) -> tuple[str, dict[str, Any]]:
    """(prompt, schema): an extraction of about `chars` characters, records included; at least one record."""
    voice = Voice(draw)
    mark = reference(draw)
    properties = _properties(voice, chars)
    schema: dict[str, Any] = {
        **_OBJECT,
        "properties": {name: rule for name, (rule, _) in properties.items()},
        "required": list(properties),
    }
    wanted = _identifier(voice)
    head = f"File {mark}. Give the record {wanted} as one JSON object that follows this JSON Schema:\n"
    asked = f"{head}{json.dumps(schema)}\n\nRecords:\n"
    first = _record(voice, properties, wanted)
    more = cut(_records(voice, properties), chars - len(asked) - len(first))
    return f"{asked}{first}{more}".rstrip(), schema


def _properties(voice: Voice, chars: int) -> dict[str, Property]:
    """Up to six, as many as leave room for a record or two: one takes about 170 characters in all."""
    draw = voice.draw
    most = max(1, min(6, (chars - 250) // 170))
    chosen: dict[str, Property] = {}
    for _ in range(draw.between((most + 1) // 2, most)):
        name = f"{voice.word('adj')}_{voice.word('noun')}".replace(" ", "_").replace("-", "_")
        chosen[name] = draw.pick(_MAKERS)(voice)
    return chosen


def _text(voice: Voice) -> Property:
    return {"type": "string"}, lambda v: v.fill("{adj} {noun} from {place}")


def _count(voice: Voice) -> Property:
    return {"type": "integer", "minimum": 0}, lambda v: v.word("number")


def _amount(voice: Voice) -> Property:
    return {"type": "number"}, lambda v: f"{v.draw.below(100_000) / 100} {v.word('unit')}"


def _flag(voice: Voice) -> Property:
    return {"type": "boolean"}, lambda v: v.draw.pick(("yes", "no", "no longer", "certainly"))


def _choice(voice: Voice) -> Property:
    options = sorted({voice.word("past") for _ in range(4)})
    return {"type": "string", "enum": options}, lambda v: v.draw.pick(options)


def _names(voice: Voice) -> Property:
    rule = {"type": "array", "items": {"type": "string"}, "maxItems": 5}
    return rule, lambda v: " and ".join(v.person() for _ in range(v.draw.between(1, 3)))


def _day(voice: Voice) -> Property:
    rule = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
    return rule, lambda v: f"{v.draw.between(1, 28)} {v.word('month')} {v.word('year')}"


_MAKERS = (_text, _count, _amount, _flag, _choice, _names, _day)


def _identifier(voice: Voice) -> str:
    return f"{voice.word('noun')[:3].upper()}-{voice.draw.below(10**6):06d}"


def _record(voice: Voice, properties: dict[str, Property], name: str) -> str:
    values = [f"{key.replace('_', ' ')}: {value(voice)}" for key, (_, value) in properties.items()]
    return f"{name} | {'; '.join(values)}\n"


def _records(voice: Voice, properties: dict[str, Property]) -> Iterator[str]:
    """Records for ever, each with a remark."""
    while True:
        yield f"{_record(voice, properties, _identifier(voice))}  remark: {voice.sentence()}\n"
