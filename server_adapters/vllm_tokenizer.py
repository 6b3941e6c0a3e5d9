"""How a vLLM server cuts text and renders chats, seen from outside: hashes of the token ids of fixed texts.

The ids tell two tokenizers, vocabularies or chat templates apart also where no file of theirs can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from server_adapters.base import Fact, Target
from server_adapters.probing import ask_json

#: Letters of several scripts, digits, code, white space and an emoji: where tokenizers differ.
TEXT = "The tokenizer's 12345 pieces:\n\tdef f(x): return x**2  # ≠ ünïcödé 速度 скорость 🙂"
#: With and without a system message, one turn and more: where templates differ.
CHATS: tuple[tuple[Mapping[str, str], ...], ...] = (
    ({"role": "user", "content": "What is one and one?"},),
    (
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "What is one and one?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "And one more?"},
    ),
)
_HASH_CHARS = 16


async def token_ids(client: httpx.AsyncClient, target: Target, model: str) -> dict[str, Fact]:
    """Hashes of the ids of `TEXT` and of `CHATS`; a reason where /tokenize gives none."""
    asked: Mapping[str, list[dict[str, Any]]] = {
        "tokenizer.ids": [{"prompt": TEXT}],
        "template.ids": [{"messages": list(chat)} for chat in CHATS],
    }
    facts: dict[str, Fact] = {}
    for key, bodies in asked.items():
        answers = [await ask_json(client, target, "/tokenize", {"model": model, **body}) for body in bodies]
        tokens = [(answer or {}).get("tokens") for answer in answers]
        if all(isinstance(ids, list) and ids for ids in tokens):
            digest = hashlib.sha256(orjson.dumps(tokens)).hexdigest()[:_HASH_CHARS]
            count = sum(len(ids) for ids in tokens if ids is not None)
            facts[key] = Fact(f"sha256:{digest} ({count} tokens)", "/tokenize of fixed texts")
        else:
            facts[key] = Fact(None, None, "/tokenize gave no token ids of fixed texts")
    return facts
