"""What a folder of model files tells: hashes of tokenizer and chat template, and the sampling defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from server_adapters.base import Fact

_TOKENIZERS: tuple[str, ...] = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
_CONFIG = "tokenizer_config.json"
_GENERATION = "generation_config.json"
#: Fields of generation_config.json that a server takes as defaults of a request.
SAMPLING_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "do_sample",
)  # fmt: skip
_MAX_BYTES = 128 * 2**20
_HASH_CHARS = 16
NOT_HERE = "not a folder of model files that can be read from here"


def tokenizer_hash(path: str | None) -> Fact:
    """SHA-256 (its first 16 digits) of the tokenizer's file: `path` itself, or in that folder."""
    folder: str | None = path
    if path is not None and Path(path).is_file():
        names: tuple[str, ...] = (Path(path).name,)
        folder = str(Path(path).resolve().parent)
    else:
        names = _TOKENIZERS
    for name in names:
        data = _read(folder, name)
        if data is not None:
            return Fact(_digest(data), name)
    return Fact(None, None, NOT_HERE)


def template_hash(folder: str | None) -> Fact:
    """The same of the chat template: its own file, else inside tokenizer_config.json."""
    for name in _TEMPLATES:
        data = _read(folder, name)
        if data is not None:
            return Fact(_digest(data), name)
    config = _object(_read(folder, _CONFIG))
    if config is None:
        return Fact(None, None, NOT_HERE)
    template = config.get("chat_template")
    if template is None:
        return Fact("none", _CONFIG)
    return Fact(_digest(orjson.dumps(template)), f"{_CONFIG} chat_template")


def sampling_defaults(folder: str | None) -> Fact:
    """Sampling fields of generation_config.json; {} where the folder has no such file."""
    if _read(folder, "config.json") is None:
        return Fact(None, None, NOT_HERE)
    told = _object(_read(folder, _GENERATION)) or {}
    return Fact({key: told[key] for key in SAMPLING_FIELDS if key in told}, _GENERATION)


def _read(folder: str | None, name: str) -> bytes | None:
    if folder is None or not Path(folder).is_absolute():
        return None
    path = Path(folder) / name
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
    except OSError:
        return None


def _object(data: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(data) if data is not None else None
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()[:_HASH_CHARS]}"
