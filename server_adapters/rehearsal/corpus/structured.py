"""JSON objects, pretty-printed: fixed keys, few values."""

from __future__ import annotations

import json
import random
from typing import Any

from server_adapters.rehearsal.corpus.choice import pick

_NAMES = ("Ada", "Ben", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivan", "Julia")
_CITIES = ("Oslo", "Lima", "Cairo", "Tokyo", "Paris", "Athens", "Dublin", "Accra")
_ITEMS = ("chair", "table", "lamp", "desk", "shelf", "sofa", "mirror", "clock")
_STATUS = ("active", "pending", "closed")


def document(rng: random.Random) -> tuple[str, str]:
    """A request for JSON and the object."""
    kind, build = rng.choice((("person", _person), ("order", _order), ("product", _product), ("event", _event)))
    ask = pick(rng, 
        (
            "Return a JSON object that describes a {} with all fields.",
            "Give me one {} record as valid JSON.",
            "Extract the {} as JSON with the given schema. Output only JSON.",
        )
    )
    return ask.format(kind), json.dumps(build(rng), indent=2)


def _person(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "person",
        "name": pick(rng, _NAMES),
        "age": pick(rng, range(30, 60)),
        "city": pick(rng, _CITIES),
        "email": None if rng.random() < 0.3 else f"{pick(rng, _NAMES).lower()}@example.com",
        "status": pick(rng, _STATUS),
    }


def _order(rng: random.Random) -> dict[str, Any]:
    lines = [{"item": pick(rng, _ITEMS), "quantity": pick(rng, range(1, 6))} for _ in range(rng.randint(1, 3))]
    return {
        "type": "order",
        "customer": {"name": pick(rng, _NAMES), "city": pick(rng, _CITIES)},
        "lines": lines,
        "paid": rng.random() < 0.7,
        "status": pick(rng, _STATUS),
    }


def _product(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "product",
        "name": pick(rng, _ITEMS),
        "price": pick(rng, range(20, 70)),
        "currency": pick(rng, ("EUR", "USD", "JPY")),
        "stock": pick(rng, range(40)),
        "available": rng.random() < 0.8,
    }


def _event(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "event",
        "title": pick(rng, ("meeting", "concert", "lecture", "workshop")),
        "city": pick(rng, _CITIES),
        "year": pick(rng, range(2026, 2030)),
        "guests": sorted({pick(rng, _NAMES) for _ in range(rng.randint(1, 3))}),
        "status": pick(rng, _STATUS),
    }
