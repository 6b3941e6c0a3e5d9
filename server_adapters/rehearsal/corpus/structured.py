"""JSON objects, pretty-printed: fixed keys, few values, and a subject that the prompt names."""

from __future__ import annotations

import json
import random
from typing import Any

from server_adapters.rehearsal.corpus.choice import pick

_NAMES = ("Ada", "Ben", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivan", "Julia")
_CITIES = ("Oslo", "Lima", "Cairo", "Tokyo", "Paris", "Athens", "Dublin", "Accra")
_ITEMS = ("chair", "table", "lamp", "desk", "shelf", "sofa", "mirror", "clock")
_TITLES = ("meeting", "concert", "lecture", "workshop")
_STATUS = ("active", "pending", "closed")


def document(rng: random.Random) -> tuple[str, str]:
    """A request for JSON and the object."""
    kinds = (("person", _NAMES), ("order", _CITIES), ("product", _ITEMS), ("event", _TITLES))
    kind, subjects = pick(rng, kinds)
    number = rng.randrange(len(subjects))
    ask = pick(
        rng,
        (
            "Return a JSON object that describes the {} {} with all fields.",
            "Give me one {} record about {} as valid JSON.",
            "Extract the {} {} as JSON with the given schema. Output only JSON.",
        ),
    )
    value = {"type": kind, **_FIELDS[kind](rng, number)}
    return ask.format(kind, subjects[number]), json.dumps(value, indent=2)


def _person(rng: random.Random, number: int) -> dict[str, Any]:
    name = _NAMES[number]
    return {
        "name": name,
        "age": 31 + 3 * number if rng.random() < 0.8 else pick(rng, range(30, 60)),
        "city": _CITIES[number % len(_CITIES)] if rng.random() < 0.7 else pick(rng, _CITIES),
        "email": None if rng.random() < 0.2 else f"{name.lower()}@example.com",
        "status": pick(rng, _STATUS),
    }


def _order(rng: random.Random, number: int) -> dict[str, Any]:
    lines = [{"item": pick(rng, _ITEMS), "quantity": pick(rng, range(1, 6))} for _ in range(rng.randint(1, 3))]
    return {
        "customer": {"name": pick(rng, _NAMES), "city": _CITIES[number]},
        "lines": lines,
        "paid": rng.random() < 0.7,
        "status": pick(rng, _STATUS),
    }


def _product(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "name": _ITEMS[number],
        "price": 24 + 5 * number if rng.random() < 0.8 else pick(rng, range(20, 70)),
        "currency": pick(rng, ("EUR", "USD", "JPY")),
        "stock": pick(rng, range(40)),
        "available": rng.random() < 0.8,
    }


def _event(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "title": _TITLES[number],
        "city": _CITIES[-1 - number] if rng.random() < 0.7 else pick(rng, _CITIES),
        "year": pick(rng, range(2026, 2030)),
        "guests": sorted({pick(rng, _NAMES) for _ in range(rng.randint(1, 3))}),
        "status": pick(rng, _STATUS),
    }


_FIELDS = {"person": _person, "order": _order, "product": _product, "event": _event}
