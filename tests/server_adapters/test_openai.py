"""Requests and answers of any OpenAI-compatible server, shape by shape."""

import contextlib
import dataclasses
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_adapters import adapter_named
from server_adapters.base import Adapter, Ask, Capabilities, Chunk, CollectionError, Sampling, ServerError
from server_adapters.openai import OpenAIAdapter
from server_adapters.probing import NOTHING_KNOWN

ADAPTER = OpenAIAdapter()
STREAMS = dataclasses.replace(NOTHING_KNOWN, stream_usage=True)
ASK = Ask("completions", "m", "Say: café", 16, Sampling(temperature=0.7, seed=5), True, "id-1")


def body(ask: Ask, capabilities: Capabilities = STREAMS) -> Any:
    return orjson.loads(ADAPTER.build(ask, capabilities).body)


def chunk(payload: Any) -> Chunk:
    return ADAPTER.parse_chunk(orjson.dumps(payload))


def delta(**fields: Any) -> Chunk:
    return chunk({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


# ------------------------------------------------------------------- asking


def test_all_sampling_parameters_are_sent() -> None:
    """F18, H9: what is left out is not neutral; B17: usage is asked for."""
    request = ADAPTER.build(ASK, STREAMS)
    assert request.path == "/v1/completions"
    assert orjson.loads(request.body) == {
        "model": "m",
        "prompt": "Say: café",
        "max_tokens": 16,
        "temperature": 0.7,
        "top_p": 1.0,
        "seed": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert request.headers["X-Request-Id"] == "id-1"
    assert request.headers["Accept-Encoding"] == "identity"


def test_chat_text_is_one_user_message() -> None:
    request = ADAPTER.build(dataclasses.replace(ASK, endpoint="chat"), STREAMS)
    assert request.path == "/v1/chat/completions"
    assert orjson.loads(request.body)["messages"] == [{"role": "user", "content": "Say: café"}]


def test_chat_messages_go_as_they_are() -> None:
    messages = (MappingProxyType({"role": "system", "content": "s"}), {"role": "user", "content": "u"})
    assert body(dataclasses.replace(ASK, endpoint="chat", prompt=messages))["messages"] == [dict(m) for m in messages]
    with pytest.raises(ValueError, match="endpoint: chat"):
        body(dataclasses.replace(ASK, prompt=messages))


def test_options_only_where_they_belong() -> None:
    assert "stream_options" not in body(ASK, NOTHING_KNOWN)
    quiet = body(dataclasses.replace(ASK, stream=False, sampling=Sampling(seed=None, stop=("END",))))
    assert "stream_options" not in quiet
    assert "seed" not in quiet
    assert quiet["stop"] == ["END"]
    assert quiet["stream"] is False


def test_extra_fields_are_sent_and_never_overwrite() -> None:
    assert body(dataclasses.replace(ASK, sampling=Sampling(extra={"min_p": 0.1})))["min_p"] == 0.1
    with pytest.raises(ValueError, match="temperature"):
        body(dataclasses.replace(ASK, sampling=Sampling(extra={"temperature": 1})))


@pytest.mark.parametrize("sampling", [Sampling(top_k=5), Sampling(ignore_eos=True), Sampling(min_tokens=3)])
def test_what_the_api_cannot_ask_is_an_error(sampling: Sampling) -> None:
    """H10: a parameter that one arm silently drops makes the arms incomparable."""
    with pytest.raises(ValueError, match=r"adapter: vllm"):
        body(dataclasses.replace(ASK, sampling=sampling))


def test_structured_output() -> None:
    schema = {"type": "object"}
    asked = body(dataclasses.replace(ASK, endpoint="chat", json_schema=MappingProxyType(schema)))
    assert asked["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    with pytest.raises(ValueError, match="chat"):
        body(dataclasses.replace(ASK, json_schema=schema))


# ------------------------------------------------------------------- chunks


def test_completions_text() -> None:
    got = chunk({"choices": [{"index": 0, "text": " two", "finish_reason": None}], "usage": None})
    assert got == Chunk(has_choices=True, answer=" two", has_output=True)


@pytest.mark.parametrize("content", [None, ""])
def test_role_only_chunk_bears_nothing(content: str | None) -> None:
    """C1, C2: a role chunk is no token."""
    assert delta(role="assistant", content=content) == Chunk(has_choices=True)


def test_content() -> None:
    assert delta(content="Hi") == Chunk(has_choices=True, answer="Hi", has_output=True)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_under_both_names(name: str) -> None:
    """B11, B12, B13."""
    assert delta(content=None, **{name: "We"}) == Chunk(has_choices=True, reasoning="We", has_output=True)


def test_reasoning_sent_twice_counts_once() -> None:
    """vLLM 0.11.2-0.15.1 sends both names."""
    assert delta(reasoning="We", reasoning_content="We").reasoning == "We"


def test_content_in_parts() -> None:
    got = delta(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    )
    assert (got.reasoning, got.answer) == ("hm", "yes")


def test_tool_call_is_output() -> None:
    """C7: the name comes first, then arguments; the id is the server's own."""
    first = delta(
        tool_calls=[{"index": 0, "id": "call-1", "type": "function", "function": {"name": "get", "arguments": ""}}]
    )
    assert (first.tool, first.has_output) == ("get", True)
    later = delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}])
    assert (later.tool, later.has_output) == ('{"a":', True)
    empty = delta(
        tool_calls=[{"index": 0, "id": "call-1", "type": "function", "function": {"name": None, "arguments": ""}}]
    )
    assert (empty.tool, empty.has_output) == ("", False)
    assert delta(tool_calls=[]).has_output is False
    assert delta(function_call={"name": "f", "arguments": "{}"}).tool == "f{}"
    assert delta(tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]).tool == "shls"


def test_refusal_is_the_answer() -> None:
    assert delta(content=None, refusal="I cannot") == Chunk(has_choices=True, answer="I cannot", has_output=True)


@pytest.mark.parametrize(
    ("field", "output"),
    [
        ("x", True),
        ("", False),
        (None, False),
        ([], False),
        ({}, False),
        ([{"a": ["b"]}], True),
        ([{"a": ""}], False),
        (3, False),
    ],
)
def test_unknown_delta_fields_are_output_where_they_hold_text(field: Any, output: bool) -> None:
    """B13."""
    got = delta(content="", thoughts=field)
    assert (got.has_output, got.answer) == (output, "")


def test_prompt_filter_chunk_first() -> None:
    """A21."""
    assert chunk({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}) == Chunk()


def test_usage_chunk_last() -> None:
    """A22, A23."""
    got = chunk({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60}})
    assert got == Chunk(prompt_tokens=10, completion_tokens=50)


def test_usage_on_the_finish_chunk_without_text() -> None:
    """B2: the final count comes with empty text."""
    got = chunk({"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 37}})
    assert got == Chunk(has_choices=True, completion_tokens=37, finish_reason="stop")


def test_usage_details() -> None:
    """D7: accepted_prediction_tokens is another feature and is not read."""
    got = chunk(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {
                    "reasoning_tokens": 12,
                    "accepted_prediction_tokens": 7,
                    "rejected_prediction_tokens": 1,
                },
            },
        }
    )
    assert (got.cached_tokens, got.reasoning_tokens, got.spec) == (8, 12, None)
    absent = {"usage": {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": None}}}
    assert chunk({"choices": [], **absent}) == Chunk()


def test_cumulative_usage_is_passed_on_as_it_is() -> None:
    """B8, B9: running totals, not increments."""
    counts = [
        chunk({"choices": [{"text": "a"}], "usage": {"completion_tokens": n}}).completion_tokens for n in (1, 4, 9)
    ]
    assert counts == [1, 4, 9]


@pytest.mark.parametrize("reason", [None, ""])
def test_an_empty_finish_reason_is_none(reason: str | None) -> None:
    assert chunk({"choices": [{"text": "a", "finish_reason": reason}]}).finish_reason is None


def test_several_choices() -> None:
    got = chunk(
        {
            "choices": [
                {"index": 0, "text": "a", "token_ids": [1], "finish_reason": "stop"},
                {"index": 1, "text": "b", "token_ids": [2, 3]},
            ]
        }
    )
    assert (got.answer, got.token_ids, got.finish_reason) == ("ab", (1, 2, 3), "stop")


def test_line_separators_inside_json() -> None:
    """A16."""
    data = b'{"choices":[{"delta":{"content":"A\xe2\x80\xa8B\xc2\x85C"}}]}'
    assert ADAPTER.parse_chunk(data).answer == "A\u2028B\u0085C"


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            {"error": {"message": "TimeoutError", "type": "GatewayTimeout", "code": 504}},
            ServerError(504, "GatewayTimeout", "TimeoutError"),
        ),
        ({"error": {"message": "no", "type": None, "code": "rate_limit"}}, ServerError(None, "rate_limit", "no")),
        ({"error": {"message": "no", "code": "429"}}, ServerError(429, "429", "no")),
        ({"error": {"code": 500}}, ServerError(500, "http_500", '{"code":500}')),
        ({"error": "overloaded", "error_type": "overloaded"}, ServerError(None, "overloaded", "overloaded")),
        ({"error": "broken"}, ServerError(None, "error", "broken")),
        ({"error": {}}, ServerError(None, "error", "{}")),
        (
            {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400},
            ServerError(400, "BadRequestError", "bad"),
        ),
        ({"detail": "There was an error"}, ServerError(None, "error", "There was an error")),
        ({"detail": [{"loc": ["body"]}]}, ServerError(None, "error", '[{"loc":["body"]}]')),
        (
            {"choices": [{"delta": {"content": ""}, "error": {"message": "up", "code": 502}}]},
            ServerError(502, "http_502", "up"),
        ),
        (
            {"error": {"message": "input (128038 tokens) is longer than the model's context length (40960 tokens)"}},
            ServerError(
                None, "context_length", "input (128038 tokens) is longer than the model's context length (40960 tokens)"
            ),
        ),
        (
            {"error": {"message": "too long", "code": "context_length_exceeded"}},
            ServerError(None, "context_length", "too long"),
        ),
    ],
)
def test_errors_inside_a_stream(payload: Any, error: ServerError) -> None:
    """A1, A2, A3: status 200 or not, this is a failure."""
    got = chunk(payload)
    assert got.error == error
    assert got.has_output is False


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_answers_the_server_gave_up(reason: str) -> None:
    """A2: half an answer is no success."""
    got = chunk({"choices": [{"text": "half", "finish_reason": reason}]})
    assert got.error is not None
    assert got.error.kind == f"finish_reason_{reason}"


@pytest.mark.parametrize("nothing", [None, "", False])
def test_an_empty_error_field_is_none(nothing: Any) -> None:
    got = chunk({"error": nothing, "choices": [{"text": "a"}]})
    assert (got.error, got.answer) == (None, "a")


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (
            400,
            b'{"error":{"message":"x","type":"BadRequestError","param":null,"code":400}}',
            ServerError(400, "BadRequestError", "x"),
        ),
        (
            400,
            b'{"detail":"There was an error parsing the body"}',
            ServerError(400, "http_400", "There was an error parsing the body"),
        ),
        (
            503,
            b'{"error":{"message":"queue","type":"Service Unavailable","code":503}}',
            ServerError(503, "Service Unavailable", "queue"),
        ),
        (500, b"Internal  Server\nError", ServerError(500, "http_500", "Internal Server Error")),
        (502, b"<html><h1>502</h1></html>", ServerError(502, "http_502", "<html><h1>502</h1></html>")),
        (504, b"", ServerError(504, "http_504", "no message")),
        (500, b"\xff\xfe", ServerError(500, "http_500", "\ufffd\ufffd")),
        (418, b"{}", ServerError(418, "http_418", "{}")),
    ],
)
def test_http_errors(status: int, answer: bytes, error: ServerError) -> None:
    assert ADAPTER.parse_error(status, answer) == error


def test_long_messages_are_cut() -> None:
    assert len(ADAPTER.parse_error(500, b"x" * 100_000).message) == 2000
    assert len(ADAPTER.parse_error(500, orjson.dumps({"error": {"message": "x" * 100_000}})).message) == 2000


# ------------------------------------------------------------ whole bodies


def test_whole_chat_body() -> None:
    got = ADAPTER.parse_body(
        orjson.dumps(
            {
                "id": "c",
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "length",
                        "message": {
                            "role": "assistant",
                            "content": "Yes",
                            "refusal": None,
                            "annotations": [],
                            "audio": None,
                            "function_call": None,
                            "tool_calls": [],
                            "reasoning": "Hm",
                        },
                    }
                ],
                "usage": {"prompt_tokens": 9, "completion_tokens": 4},
            }
        )
    )
    assert got == Chunk(
        has_choices=True,
        answer="Yes",
        reasoning="Hm",
        has_output=True,
        completion_tokens=4,
        prompt_tokens=9,
        finish_reason="length",
    )


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'"x"', b"{}", b'{"usage":{}}', b'{"a":NaN}', b"\xff"])
def test_bodies_that_are_none(data: bytes) -> None:
    with pytest.raises(ValueError):
        ADAPTER.parse_body(data)


def test_a_200_body_may_be_an_error() -> None:
    """A4."""
    assert ADAPTER.parse_body(b'{"error":"no"}').error == ServerError(None, "error", "no")


@pytest.mark.parametrize(
    "data",
    [
        b"[DONE]",
        b"{",
        b"null",
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"text":1}]}',
        b'{"choices":[{"delta":{"content":{}}}]}',
        b'{"choices":[{"delta":[1]}]}',
        b'{"choices":[{"finish_reason":1}]}',
        b'{"choices":[{"token_ids":["1"]}]}',
        b'{"choices":[{"token_ids":[true]}]}',
        b'{"choices":[],"usage":[1]}',
        b'{"choices":[],"usage":{"completion_tokens":-1}}',
        b'{"choices":[],"usage":{"completion_tokens":1.5}}',
        b'{"choices":[],"usage":{"completion_tokens":true}}',
        b'{"choices":[],"usage":{"completion_tokens":"3"}}',
        b'{"choices":[],"usage":{"completion_tokens":1e300}}',
        b'{"choices":[],"usage":{"completion_tokens":99999999999}}',
    ],
)
def test_malformed_chunks(data: bytes) -> None:
    with pytest.raises(ValueError):
        ADAPTER.parse_chunk(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "text",
                    "content",
                    "reasoning",
                    "tool_calls",
                    "function",
                    "arguments",
                    "usage",
                    "completion_tokens",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "error",
                    "code",
                    "type",
                    "detail",
                    "object",
                    "finish_reason",
                    "token_ids",
                    "metrics",
                    "speculative_decoding",
                    "per_step_accepted",
                    "num_spec_steps",
                    "num_spec_tokens",
                    "acceptance_histogram",
                    "queue_time_ms",
                    "unknown",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("name", ["openai", "vllm"])
@settings(max_examples=300, deadline=None)
@given(payload=JSON)
def test_any_json_is_a_chunk_or_a_value_error(name: str, payload: Any) -> None:
    adapter = adapter_named(name)
    for parse in (adapter.parse_chunk, adapter.parse_body):
        try:
            got = parse(orjson.dumps(payload))
        except ValueError:
            continue
        assert isinstance(got, Chunk)
        assert not (got.has_output and not got.has_choices)
    assert adapter.parse_error(500, orjson.dumps(payload)).status == 500


@settings(max_examples=200, deadline=None)
@given(data=st.binary())
def test_any_bytes_are_a_chunk_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(ADAPTER.parse_chunk(data), Chunk)
    assert ADAPTER.parse_error(500, data).status == 500


def test_depth_is_no_way_to_break_us() -> None:
    deep = b'{"choices":[{"delta":{"x":' + b'{"y":[' * 400 + b'"z"' + b"]}" * 400 + b"}}]}"
    assert ADAPTER.parse_chunk(deep).has_output is True
    with pytest.raises(ValueError):
        ADAPTER.parse_chunk(b'{"a":' + b"[" * 100_000)


# --------------------------------------------------------------- the rest


def test_no_server_counters() -> None:
    with pytest.raises(CollectionError) as caught:
        ADAPTER.parse_metrics("a 1\n")
    assert caught.value.kind == "families_missing"
    with pytest.raises(CollectionError) as caught:
        ADAPTER.parse_metrics("<html>")
    assert caught.value.kind == "not_metrics"


def test_names() -> None:
    adapter: Adapter = adapter_named("openai")
    assert (adapter.name, adapter_named("vllm").name) == ("openai", "vllm")
    with pytest.raises(ValueError, match="known are: openai, vllm"):
        adapter_named("tgi")
