"""The C beside msgspec: the leading payloads that it takes are plain there, too, and it says the same of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_adapters import openai_plain
from server_adapters.base import ChunkRun
from server_adapters.openai_plain import parse_run, read_run

DATA = Path(__file__).resolve().parents[1] / "data" / "vllm_0.32"
USAGE = {"prompt_tokens": 9, "total_tokens": 12, "completion_tokens": 3}
CHOICE = {"index": 0, "text": "a", "logprobs": None, "finish_reason": None, "stop_reason": None, "token_ids": [1, 2]}
DELTA = {"role": "assistant", "content": "ä\n\U0001f600", "reasoning": "", "tool_calls": []}
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "x", "object": "text_completion", "created": 1795989930, "model": "m", "choices": [CHOICE], "usage": USAGE},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": DELTA, "finish_reason": "length"}]},
    {"choices": [{"delta": {"reasoning_content": "hm"}, "token_ids": []}], "usage": None, "metrics": None},
    {"choices": [{"text": "", "prompt_token_ids": [1, 2**31 - 1], "stop_reason": "\\", "matched_stop": 2}]},
]
PLAIN = [form(document) for document in DOCUMENTS for form in (orjson.dumps, lambda d: json.dumps(d).encode())]


@pytest.fixture(autouse=True)
def built() -> None:
    """An install without a compiler is allowed to have no C; CI is not."""
    if openai_plain._plain is None:
        reason = "the C is not built: python setup.py build_ext --inplace"
        if os.environ.get("SPECLOAD_NO_SKIP") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def by_c(payloads: Sequence[bytes]) -> ChunkRun:
    ids, tokens, outputs, answers, prompt, finish = openai_plain._plain.read(payloads)
    as_ints = (list(memoryview(column).cast("q")) for column in (ids, tokens))
    told = None if prompt < 0 else prompt
    return ChunkRun(*as_ints, outputs, answers, told, (None, "stop", "length")[finish])


def test_what_servers_send_is_read_in_c() -> None:
    assert by_c(PLAIN) == read_run(PLAIN)
    assert len(by_c(PLAIN)) == len(PLAIN)
    for file in DATA.glob("*_stream_*.sse"):
        lines = [line[6:] for line in file.read_bytes().splitlines() if line.startswith(b"data: {")]
        plain = [line for line in lines if len(read_run([line]))]
        assert by_c(plain) == read_run(plain), file.name
        assert len(plain) >= len(lines) - 1


@pytest.mark.parametrize(
    "odd",
    [
        b"", b"{", b"{}", b"[]", b'{"choices":[]}', b'{"choices":null}', b'{"choices":[null]}', b'{"choices":[{},{}]}',
        b'{"choices":[{}]} x', b'{"choices":[{}],}', b'{"choices":[{,}]}', b'{"choices":[{"text":"a",}]}',
        b'{"choices":[{"text":"a}]}', b'{"choices":[{"text":"\xff"}]}', b'{"choices":[{"text":"\xc0\x80"}]}',
        b'{"choices":[{"text":"\xed\xa0\x80"}]}', b'{"choices":[{"text":"\xf4\x90\x80\x80"}]}',
        b'{"choices":[{"text":"\xe2\x82"}]}', b'{"choices":[{"text":"\x1f"}]}', b'{"choices":[{"text":"\\x"}]}',
        b'{"choices":[{"text":"\\', b'{"choices":[{"text":"\\u12', b'{"choices":[{"text":"\\u12x4"}]}',
        b'{"choices":[{"text":"\\ud83d', b'{"choices":[{"text":"\\ud83d\\u', b'{"choices":[{"text":"\\ud83d\\ude0',
        b'{"choices":[{"text":"\\ud83d\\u0041"}]}', b'{"choices":[{"text":"\\ude00"}]}',
        b'{"choices":[{"token_ids":[01]}]}', b'{"choices":[{"token_ids":[-1]}]}', b'{"choices":[{"token_ids":[1.5]}]}',
        b'{"choices":[{"token_ids":[1,]}]}', b'{"choices":[{"token_ids":[2147483648]}]}',
        b'{"choices":[{"token_ids":[18446744073709551617]}]}', b'{"choices":[{"index":1e0}]}',
        b'{"choices":[{"logprobs":{}}]}', b'{"choices":[{"finish_reason":"stopp"}]}', b'{"choices":[{"text":nul}]}',
        b'{"choices":[{}],"object":"error"}', b'{"choices":[{}],"created":-1}', b'{"choices":[{}],"metrics":{}}',
        b'{"choices":[{"delta":{"tool_calls":[{}]}}]}', b'{"choices":[{}],"usage":{"completion_tokens":null,"x":1}}',
        b'{"choices":[{"text":"a","text":""}]}', b'{"choices":[{}],"choices":[{}]}',
        b'{"\\u0065rror":1,"choices":[{}]}',
    ],
)  # fmt: skip
def test_what_is_not_exactly_plain_ends_the_run(odd: bytes) -> None:
    assert by_c([PLAIN[0], odd, PLAIN[0]]) == read_run(PLAIN[:1])
    assert len(by_c([odd])) == 0


def test_only_bytes_are_read() -> None:
    assert len(by_c([PLAIN[0], "x", PLAIN[0]])) == 1  # type: ignore[list-item]
    with pytest.raises(TypeError, match="sequence"):
        openai_plain._plain.read(5)  # type: ignore[arg-type]


BITS = st.sampled_from(
    [b"", b"null", b"0", b"1", b"-", b".5", b"e1", b"2147483648", b"true", b'"', b'\\"', b"\\", b"\\u00e4", b"\\ud83d",
     b"\\ude00", b"\\n", b"\x00", b"\x80", b"\xc3\xa4", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b" ", b"\t", b"\r",
     b"{", b"}", b"[", b"]", b",", b":", b"[]", b"{}", b'"text":"b",', b'"usage":null,', b'"x":1,',
     b'"text"', b'"error"']
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    payload = draw(st.sampled_from(PLAIN))
    for _ in range(draw(st.integers(0, 2))):
        begin = draw(st.integers(0, len(payload)))
        end = min(len(payload), begin + draw(st.integers(0, 3)))
        payload = payload[:begin] + draw(BITS) + payload[end:]
    return payload


@settings(max_examples=1500, deadline=None)
@given(payloads=st.lists(mutated(), min_size=1, max_size=4))
def test_any_payloads_are_told_alike(payloads: list[bytes]) -> None:
    """C11: never more than msgspec takes, and of that the same."""
    run = by_c(payloads)
    assert run == (read_run(payloads[: len(run)]) if len(run) else ChunkRun([], [], b"", b""))
    told = parse_run(payloads)
    assert list(told.ids) == read_run(payloads[: len(told)]).ids if len(told) else not len(read_run(payloads))


def test_the_environment_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLOAD_READER", "python")
    assert isinstance(parse_run(PLAIN).ids, list)
    monkeypatch.setenv("SPECLOAD_READER", "c")
    assert not isinstance(parse_run(PLAIN).ids, list)
