"""Payloads read many at a time: what is plain, and where a run ends. Equality with `parse_chunk`: tests/drive."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from server_adapters.base import ChunkRun
from server_adapters.openai import OpenAIAdapter
from server_adapters.openai_plain import read_run

TEXT = {"index": 0, "text": "a", "logprobs": None, "finish_reason": None, "token_ids": [1, 2]}


def payloads(*documents: Any) -> list[bytes]:
    return [orjson.dumps(document) for document in documents]


def chat(**delta: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def test_columns() -> None:
    """Channels apart: reasoning is output but no answer; counts as told, -1 where not."""
    run = read_run(
        payloads(
            chat(role="assistant", content=""),
            {**chat(reasoning="hm"), "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
            {**chat(reasoning_content="hm"), "usage": None},
            {**chat(content="a"), "usage": {"prompt_tokens": 9, "completion_tokens": 5}},
            {"choices": [{**TEXT, "finish_reason": "length"}]},
        )
    )
    assert run == ChunkRun(
        ids=[0, 0, 0, 0, 2],
        completion_tokens=[-1, 2, -1, 5, -1],
        outputs=bytes([0, 1, 1, 1, 1]),
        answers=bytes([0, 0, 0, 1, 1]),
        prompt_tokens=9,
        finish_reason="length",
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": []},
        {"choices": [TEXT, TEXT]},
        {"choices": [{**TEXT, "logprobs": {"tokens": ["a"]}}]},
        {"choices": [{**TEXT, "finish_reason": "abort"}]},
        {"choices": [{**TEXT, "token_ids": [1.0]}]},
        {"choices": [{**TEXT, "error": {"message": "m"}}]},
        {"choices": [TEXT], "usage": {"completion_tokens": -1}},
        {"choices": [TEXT], "usage": {"completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}},
        {"choices": [TEXT], "object": "error"},
        {"choices": [TEXT], "error": {"message": "m"}},
        {"choices": [TEXT], "metrics": {"queue_time_ms": 1.0}},
        {"choices": [TEXT], "unheard_of": 1},
        chat(tool_calls=[{"function": {"name": "f"}}]),
        chat(refusal="no"),
        chat(audio={"data": "x"}),
        [1],
    ],
)
def test_a_run_ends_before_what_is_not_plain(odd: Any) -> None:
    plain = {"choices": [TEXT]}
    assert len(OpenAIAdapter().parse_run(payloads(plain, plain, odd, plain))) == 2
    assert len(OpenAIAdapter().parse_run(payloads(odd, plain))) == 0
