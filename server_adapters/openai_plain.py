"""The usual payloads of OpenAI-compatible streams, read many at a time.

A payload is plain if it fits the types here, which name the fields that servers send in most chunks. What does not fit,
by an unknown field, a type or a range, is left to `openai_chunks.read_chunk`; so the types may be too narrow, never too
wide: they fit only what orjson takes too, and only what `read_chunk` finds nothing more in.

`_plain.c`, where it is built, reads most of them without an object for each; what it leaves is read here.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec

from server_adapters.base import ChunkRun

try:
    from server_adapters import _plain
except ImportError:
    _plain = None  # type: ignore[assignment]

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Empty = Annotated[list[Any], msgspec.Meta(max_length=0)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields of each type are in the order in which vLLM sends them, which is the fastest to decode."""


class _Delta(_Strict):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: _Empty | None = None
    refusal: None = None
    function_call: None = None


class _Choice(_Strict):
    index: _Count | None = None
    delta: _Delta | None = None
    text: str | None = None
    logprobs: None = None
    finish_reason: Literal["stop", "length"] | None = None
    stop_reason: _Count | str | None = None
    matched_stop: _Count | str | None = None
    prompt_logprobs: None = None
    prompt_token_ids: list[_Count] | None = None
    token_ids: list[_Count] | None = None
    routed_experts: None = None


class _Usage(_Strict):
    prompt_tokens: _Count | None = None
    total_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: None = None
    completion_tokens_details: None = None


class _Plain(_Strict, kw_only=True):
    """`seq`, `sm` and `sr`: number and send times in the chunks of benchmarks/truth_server."""

    id: str | None = None
    object: Literal["text_completion", "chat.completion.chunk"] | None = None
    created: _Whole | None = None
    model: str | None = None
    choices: tuple[_Choice]
    usage: _Usage | None = None
    seq: str | None = None
    sm: str | None = None
    sr: str | None = None
    prompt_token_ids: list[_Count] | None = None
    prompt_text: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    metrics: None = None


_NOTHING = ChunkRun((), (), b"", b"")
_decode = msgspec.json.Decoder(_Plain).decode
_FINISHES = (None, "stop", "length")


def parse_run(payloads: Sequence[bytes]) -> ChunkRun:
    """As `RunParser.parse_run`: in C, and from the first payload on that is not plain there in Python, if there is
    nothing before it. `SPECLOAD_READER=python` in the environment leaves the C out, for comparison."""
    if _plain is None or os.environ.get("SPECLOAD_READER") == "python":
        return read_run(payloads)
    ids, tokens, outputs, answers, prompt_tokens, finish = _plain.read(payloads)
    if not outputs:
        return read_run(payloads)
    return ChunkRun(
        array("q", ids),
        array("q", tokens),
        outputs,
        answers,
        None if prompt_tokens < 0 else prompt_tokens,
        _FINISHES[finish],
    )


def read_run(payloads: Sequence[bytes]) -> ChunkRun:
    """The leading plain payloads (`RunParser.parse_run`)."""
    chunks: list[_Plain] = []
    with suppress(msgspec.DecodeError):  # the first that is not plain ends the run
        chunks.extend(map(_decode, payloads))
    if not chunks:
        return _NOTHING
    choices = [chunk.choices[0] for chunk in chunks]
    answers = bytes([1 if c.text or ((d := c.delta) is not None and d.content) else 0 for c in choices])
    told = [usage for chunk in chunks if (usage := chunk.usage) is not None]
    finishes = [reason for choice in choices if (reason := choice.finish_reason) is not None]
    return ChunkRun(
        ids=[len(ids) if (ids := choice.token_ids) else 0 for choice in choices],
        completion_tokens=_completion_tokens(chunks) if told else [-1] * len(chunks),
        outputs=answers if 0 not in answers else _outputs(choices),
        answers=answers,
        prompt_tokens=next((n for usage in reversed(told) if (n := usage.prompt_tokens) is not None), None),
        finish_reason=finishes[-1] if finishes else None,
    )


def _completion_tokens(chunks: list[_Plain]) -> list[int]:
    return [-1 if (u := chunk.usage) is None or (n := u.completion_tokens) is None else n for chunk in chunks]


def _outputs(choices: list[_Choice]) -> bytes:
    return bytes(
        [
            1 if c.text or ((d := c.delta) is not None and (d.content or d.reasoning or d.reasoning_content)) else 0
            for c in choices
        ]
    )
