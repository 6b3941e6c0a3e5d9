"""Streams read in runs give the record that reading event by event gives, and the usual ones are read in runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loadgen.drive.reading as reading_module
from loadgen.drive import UNKNOWN_TOKENS, Attempt, Exchange, Outcome, Sent, read_exchange
from loadgen.drive.reading import StreamReader
from loadgen.drive.sse import frame, plain_payloads
from loadgen.plan import Case
from loadgen.redact import Redactor
from server_adapters.base import Chunk, ChunkRun, Sampling
from server_adapters.openai import OpenAIAdapter
from server_adapters.vllm import VllmAdapter

DATA = Path(__file__).resolve().parents[1] / "data" / "vllm_0.32"
CASE = Case(0, "measure", 3, "c3", 0, "short_qa", 10, 16, 7, 1, None, False, True)
SENT = Sent(3, "base", "http://r", 0, 1, CASE, "id", True, Sampling(), 16, 999, 1)
DONE = b"data: [DONE]\n\n"


class EventByEvent(VllmAdapter):
    parse_run = None  # type: ignore[assignment]


class Watched(VllmAdapter):
    """Keeps what was read alone, and how many payloads were read in runs."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[bytes] = []
        self.in_runs = 0

    def parse_chunk(self, data: bytes) -> Chunk:
        self.alone.append(data)
        return super().parse_chunk(data)

    def parse_run(self, payloads: Sequence[bytes]) -> ChunkRun:
        run = super().parse_run(payloads)
        self.in_runs += len(run)
        return run


def exchange_of(body: bytes, cuts: Sequence[int] = (), stamps: Sequence[int] = (), **more: Any) -> Exchange:
    """The body in pieces that end at `cuts`, stamped with `stamps` where there are enough of them."""
    exchange = Exchange(sent_ns=1000, headers_ns=1005, status=200, complete=True, end_ns=10**9, body=bytearray(body))
    exchange.headers = {"content-type": "text/event-stream"}
    for i, end in enumerate([*sorted({cut for cut in cuts if 0 < cut < len(body)}), len(body)] if body else []):
        exchange.piece_ns.append(stamps[i] if i < len(stamps) else 2000 + i)
        exchange.piece_end.append(end)
    for name, value in more.items():
        setattr(exchange, name, value)
    return exchange


def read(exchange: Exchange, adapter: Any, **more: Any) -> Attempt:
    return read_exchange(exchange, SENT, adapter, Redactor(), **more)


def sse(*documents: Any) -> bytes:
    return b"".join(b"data: " + orjson.dumps(document) + b"\n\n" for document in documents)


# ---------------------------------------------------------------- any stream: the same record

COUNTS = st.one_of(
    st.integers(0, 40),
    st.integers(0, 40),
    st.sampled_from([None, True, -1, 3.0, 3.5, 2**31 - 1, 2**31, 10**25, "3", [1]]),
)
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["", "a", " b", "\u2028", "\n\ndata: ", "[DONE]", None, 5, ["x"]])
)
IDS = st.one_of(
    st.lists(st.integers(0, 50_000), max_size=4),
    st.sampled_from([None, [], [1.0], [True], [-1], [2**31], [None], "ab", {}]),
)
USAGES = st.one_of(
    st.fixed_dictionaries({"prompt_tokens": COUNTS, "completion_tokens": COUNTS}, optional={"total_tokens": COUNTS}),
    st.fixed_dictionaries(
        {},
        optional={
            "completion_tokens": COUNTS,
            "prompt_tokens_details": st.sampled_from([None, {}, {"cached_tokens": 3}, 1]),
            "completion_tokens_details": st.sampled_from([None, {"reasoning_tokens": 2}]),
        },
    ),
    st.sampled_from([None, {}, [], "x", {"queue": 1}]),
)
FINISHES = st.sampled_from([None, None, None, "stop", "length", "tool_calls", "abort", "error", "", 1])
CALLS = st.sampled_from(
    [None, [], [{"index": 0, "function": {"name": "f", "arguments": ""}}], [{"function": {"arguments": "{}"}}], [1], {}]
)
ERRORS = st.sampled_from([None, "", False, "boom", {"message": "m", "type": "t", "code": 500}, {}])
DELTAS = st.one_of(
    st.fixed_dictionaries({"content": TEXTS}),
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["assistant", None, 1]),
            "content": TEXTS,
            "reasoning": TEXTS,
            "reasoning_content": TEXTS,
            "refusal": TEXTS,
            "tool_calls": CALLS,
            "function_call": st.sampled_from([None, {"name": "f"}]),
            "audio": st.sampled_from([None, "x", {"data": "y"}]),
        },
    ),
    st.sampled_from([None, {}, "x"]),
)
CHOICES = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 0, 1, None, "0"]), "finish_reason": FINISHES},
    optional={
        "text": TEXTS,
        "delta": DELTAS,
        "message": st.sampled_from([None, {"content": "m"}]),
        "token_ids": IDS,
        "prompt_token_ids": IDS,
        "logprobs": st.sampled_from([None, {"content": []}]),
        "stop_reason": st.sampled_from([None, 2, "uple", [1]]),
        "error": ERRORS,
    },
)
METRICS = st.sampled_from([None, {"queue_time_ms": 1.5}, {"speculative_decoding": {"num_spec_steps": 1}}, 3])
ODD_DOCUMENTS = st.fixed_dictionaries(
    {"choices": st.one_of(st.lists(CHOICES, max_size=3), st.sampled_from([None, "x", [1]]))},
    optional={
        "id": st.sampled_from(["a", 1, None]),
        "object": st.sampled_from(["text_completion", "chat.completion.chunk", "error", 1, None]),
        "created": st.sampled_from([1795989930, 1.5, -1]),
        "usage": USAGES,
        "error": ERRORS,
        "detail": st.just("d"),
        "metrics": METRICS,
        "extra": st.sampled_from([None, "x", 1]),
        "service_tier": st.sampled_from([None, "default"]),
    },
)


def plain_document(chat: bool, text: str, ids: list[int] | None, usage: int | None, finish: str | None) -> Any:
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish, "token_ids": ids}
    choice |= {"delta": {"content": text}} if chat else {"text": text}
    told = (
        {} if usage is None else {"usage": {"prompt_tokens": 7, "total_tokens": 7 + usage, "completion_tokens": usage}}
    )
    return {"id": "x", "created": 1795989930, "model": "m", "choices": [choice], **told}


PLAIN_DOCUMENTS = st.builds(
    plain_document,
    st.booleans(),
    st.text(max_size=6),
    st.one_of(st.none(), st.lists(st.integers(0, 50_000), max_size=4)),
    st.one_of(st.none(), st.integers(0, 40)),
    st.sampled_from([None, None, None, None, "stop", "length"]),
)


@st.composite
def plain_streams(draw: st.DrawFn) -> list[bytes]:
    """As a vLLM sends: the usage rises, one shape throughout."""
    chat, tells, ids = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    steps = draw(st.lists(st.tuples(st.text(max_size=4), st.integers(0, 5)), min_size=1, max_size=12))
    told, documents = 0, []
    for text, tokens in steps:
        told += tokens
        documents.append(plain_document(chat, text, [5] * tokens if ids else None, told if tells else None, None))
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": told}}
    return [*map(orjson.dumps, [*documents, plain_document(chat, "", None, None, "length"), usage]), b"[DONE]"]


PAYLOADS = st.one_of(
    PLAIN_DOCUMENTS.map(orjson.dumps),
    PLAIN_DOCUMENTS.map(orjson.dumps),
    PLAIN_DOCUMENTS.map(lambda document: json.dumps(document).encode()),
    ODD_DOCUMENTS.map(lambda document: json.dumps(document).encode()),
    st.sampled_from(
        [
            b"[DONE]", b" [DONE] ", b"", b"{", b"{}", b"[]", b"null", b"{}{}", b'{"choices":[', b"]}",
            b'{"a":1},{"a":2}', b'{"choices":[{"text":"\xff"}]}', b'{"choices":[{"text":"\\ud800"}]}',
            b'{"choices":[{"text":"a","text":""}]}',
            b'{"choices":[{"text":"a"}],"choices":[]}', b'{"\\u0065rror":"x","choices":[{"text":"a"}]}',
            b'{"choices":[{"text":"a","token_ids":[1e0]}]}', b'{"choices":[{"text":"a","token_ids":[-0]}]}',
            b'{"choices":[{"text":"a"}],"usage":{"completion_tokens":1e0}}', b' {"choices":[{"text":"a"}]} ',
            b'{"choices":[{"text":"a"}],"created":1e999}', b'{"choices":[{"text":"a","x":1e999}]}',
            b'\xef\xbb\xbf{"choices":[{"text":"a"}]}', b'{"choices":[{"text":"a"}]}x',
        ]
    ),
)  # fmt: skip
FRAMES = st.sampled_from(
    [b"data: %s\n\n"] * 24
    + [
        b"data:%s\n\n", b"data: %s\r\n\r\n", b"data: %s\r\r", b"data: %s\n\n\n", b"data: %s\n",
        b": ping\n\ndata: %s\n\n",
        b"event: error\ndata: %s\n\n", b"id: 4\ndata: %s\n\n", b"data: %s\n:x\n\n", b"%s\n\n", b"data: \ndata: %s\n\n",
        b"data:  %s\n\n", b"data: %s\r\n\n", b"data: %s\n\r\n", b"event: x\n\ndata: %s\n\n", b"datum: %s\n\n",
    ]
)  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Streams of any kind: plain, odd, mixed, broken, cut."""
    payloads = draw(st.one_of(plain_streams(), plain_streams(), st.lists(PAYLOADS, max_size=12)))
    if (odd := draw(st.lists(PAYLOADS, max_size=2))) and payloads:
        at = draw(st.integers(0, len(payloads)))
        payloads = [*payloads[:at], *odd, *payloads[at:]]
    frames = [b"data: %s\n\n"] * len(payloads)
    if draw(st.integers(0, 3)) == 3:
        frames = [draw(FRAMES) for _ in payloads]
    body = draw(st.sampled_from([*[b""] * 8, b"\xef\xbb\xbf", b"\n", b": hi\n\n"]))
    body += b"".join(frame.replace(b"%s", payload) for frame, payload in zip(frames, payloads, strict=True))
    if body and draw(st.integers(0, 5)) == 5:
        at = draw(st.integers(0, len(body) - 1))
        body = (
            body[:at] + draw(st.sampled_from([b"", b"\n", b"\r", b"\n\n", b"}", b'"', b"\x80", b"1"])) + body[at + 1 :]
        )
    return body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 7)) == 7 else body


@settings(max_examples=400, deadline=None)
@given(data=st.data(), body=bodies())
def test_any_stream_gives_the_same_record(data: st.DataObject, body: bytes) -> None:
    """A8 to A20, C11: the whole attempt, warnings and reasons too, for any split and any size of the blocks."""
    cuts = data.draw(st.lists(st.integers(1, max(len(body), 1)), max_size=20), "cuts")
    stamps = data.draw(st.lists(st.integers(2000, 2010), max_size=20).map(sorted), "stamps")
    cut_short = {"complete": False, "failure": Outcome.TRUNCATED, "failure_detail": "reset: x"}
    more = data.draw(st.sampled_from([{}, {}, cut_short, {"status": 500}]), "exchange")
    options = data.draw(st.sampled_from([{}, {}, {"max_event_bytes": 60}, {"keep_text": True}]), "options")
    block, run = data.draw(st.sampled_from([(131072, 512), (131072, 3), (400, 512), (90, 2)]), "sizes")
    expected = read(exchange_of(body, cuts, stamps, **more), EventByEvent(), **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_module, "_BLOCK_BYTES", block)
        patch.setattr(reading_module, "_RUN_PAYLOADS", run)
        assert read(exchange_of(body, cuts, stamps, **more), VllmAdapter(), **options) == expected


@settings(max_examples=200, deadline=None)
@given(payloads=st.lists(PAYLOADS, max_size=8))
def test_a_run_says_what_parse_chunk_says(payloads: list[bytes]) -> None:
    """The leading payloads only, each as it is told alone."""
    for adapter in (OpenAIAdapter(), VllmAdapter()):
        run = adapter.parse_run(payloads)
        chunks = [adapter.parse_chunk(payload) for payload in payloads[: len(run)]]
        assert all(c.has_choices and not c.error and c.spec is c.timings is c.cached_tokens is None for c in chunks)
        assert list(run.ids) == [len(c.token_ids or ()) for c in chunks]
        assert list(run.completion_tokens) == [-1 if (n := c.completion_tokens) is None else n for c in chunks]
        assert run.outputs == bytes(c.has_output for c in chunks)
        assert run.answers == bytes(bool(c.answer or c.tool) for c in chunks)
        prompts, reasons = [c.prompt_tokens for c in chunks], [c.finish_reason for c in chunks]
        assert run.prompt_tokens == next((n for n in reversed(prompts) if n is not None), None)
        assert run.finish_reason == next((r for r in reversed(reasons) if r is not None), None)


@settings(max_examples=300, deadline=None)
@given(body=bodies())
def test_a_plain_block_is_framed_as_the_standard_has_it(body: bytes) -> None:
    if (plain := plain_payloads(body)) is not None:
        payloads, ends = plain
        assert [(e.data, e.end, e.name) for e in frame(body)] == [
            (p, end, None) for p, end in zip(payloads, ends.tolist(), strict=True)
        ]


# ---------------------------------------------------------------- the ledger's definition, read aloud


def told_by_hand(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """(number of the chunk, tokens) of those that bear tokens, by the words of `Ledger`."""
    with_choices = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.has_choices]
    first = next((c for _, c in with_choices if c.has_output), with_choices[0][1] if with_choices else Chunk())
    continuous, by_ids = first.completion_tokens is not None, any(c.token_ids for _, c in with_choices)
    told, bearing = 0, []
    for i, chunk in with_choices:
        if continuous or by_ids:
            risen = (chunk.completion_tokens or 0) - told if continuous else 0
            tokens = max(risen, len(chunk.token_ids or ()), 0)
            told += tokens
        else:
            tokens = UNKNOWN_TOKENS if chunk.has_output else 0
        if tokens:
            bearing.append((i, tokens))
    return bearing


@settings(max_examples=300, deadline=None)
@given(
    documents=st.lists(
        st.one_of(PLAIN_DOCUMENTS, st.just({"choices": [], "usage": {"completion_tokens": 9}})), max_size=10
    ),
    stamps=st.lists(st.integers(2000, 2004), min_size=12, max_size=12).map(sorted),
    adapter=st.sampled_from([VllmAdapter(), EventByEvent()]),
)
def test_the_ledger_by_its_words(documents: list[Any], stamps: list[int], adapter: VllmAdapter) -> None:
    """B8, B12, A28: which chunks bear tokens, how many, and which came together."""
    events = [sse(document) for document in documents]
    ends = [sum(map(len, events[: i + 1])) for i in range(len(events))]
    attempt = read(exchange_of(b"".join(events) + DONE, ends, stamps), adapter)
    chunks = [adapter.parse_chunk(event[6:-2]) for event in events]
    bearing, ledger = told_by_hand(chunks), attempt.ledger
    assert list(ledger.tokens) == [tokens for _, tokens in bearing]
    assert list(ledger.arrival_ns) == [stamps[i] for i, _ in bearing]
    assert list(ledger.size) == [len(events[i]) - 8 for i, _ in bearing]
    changes = [a != b for a, b in pairwise(ledger.arrival_ns)]
    assert list(ledger.arrival_no) == [sum(changes[:i]) for i in range(len(bearing))]
    assert attempt.first_token_ns == (ledger.arrival_ns[0] if bearing else None)
    assert attempt.last_token_ns == (ledger.arrival_ns[-1] if bearing else None)
    assert attempt.first_answer_ns == next((stamps[i] for i, _ in bearing if chunks[i].answer), None)


# ---------------------------------------------------------------- the usual streams are read in runs


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("completions_stream_off", 1),
        ("completions_stream_draft", 1),
        ("completions_stream_ngram", 1),
        ("completions_stream_draft_stop", 1),
        ("completions_stream_draft_plain", 0),
        ("chat_stream_off", 1),
        ("chat_stream_draft", 1),
        ("chat_stream_ngram", 1),
    ],
)
def test_streams_of_vllm_are_plain(name: str, alone: int) -> None:
    """All but the last payload, with usage and statistics."""
    body, watched = (DATA / f"{name}.sse").read_bytes().rstrip() + b"\n\n", Watched()
    attempt = read(exchange_of(body), watched)
    assert attempt == read(exchange_of(body), EventByEvent())
    assert attempt.outcome is Outcome.OK
    assert len(watched.alone) == alone
    assert all(b'"choices":[],"usage"' in data for data in watched.alone)
    assert watched.in_runs + alone == body.count(b'"choices"')


def test_streams_of_the_truth_server_are_plain() -> None:
    head = b'{"id":"cmpl-00000001","object":"text_completion","created":1,"model":"tiny","choices":[{"index":0,'
    head += b'"text":" the"'
    chat = head.replace(b"text_completion", b"chat.completion.chunk").replace(
        b'"text":" the"', b'"delta":{"content":" the"}'
    )
    tail = b'"seq":"00000000","sm":"0000000000000000001","sr":"0000000000000000002"}'
    ending = b',"logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":[7]}],"usage":null,' + tail
    for start in (head, chat):
        watched = Watched()
        attempt = read(exchange_of((b"data: " + start + ending + b"\n\n") * 3 + DONE), watched)
        assert (watched.alone, watched.in_runs, list(attempt.ledger.tokens)) == ([], 3, [1, 1, 1])


def test_a_comment_makes_one_block_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A11, A12: a server's ping costs its block, not the stream."""
    monkeypatch.setattr(reading_module, "_BLOCK_BYTES", 4096)
    event = sse(plain_document(False, "a", [1], None, None))
    body, watched = event * 200 + b": ping\n\n" + event * 200 + DONE, Watched()
    attempt = read(exchange_of(body), watched)
    assert (len(attempt.ledger), attempt.warnings) == (400, ("no_finish_reason", "usage_missing"))
    assert 0 < len(watched.alone) <= 4096 // len(event)


def test_runs_are_not_tried_for_long_in_vain() -> None:
    """Payloads that never are plain, such as those with logprobs, cost no second reading each."""
    document = plain_document(False, "a", [1], None, None)
    document["choices"][0]["logprobs"] = {"tokens": ["a"]}
    tried: list[int] = []

    class Counting(VllmAdapter):
        def parse_run(self, payloads: Sequence[bytes]) -> ChunkRun:
            tried.append(len(payloads))
            return super().parse_run(payloads)

    attempt = read(exchange_of(sse(document) * 500 + DONE), Counting())
    assert len(attempt.ledger) == 500
    assert len(tried) < 100


@pytest.mark.parametrize(("logprobs", "most"), [(None, 800), ({"tokens": []}, 32)])
def test_long_bodies_let_the_loop_run(logprobs: Any, most: int) -> None:
    """So many events at most between two steps: less than a millisecond's work."""
    document = plain_document(False, "a", [1], None, None)
    document["choices"][0]["logprobs"] = logprobs
    reader = StreamReader(exchange_of(sse(document) * 4000 + DONE), VllmAdapter())
    read_so_far = [0, *[reader.reading.events for _ in reader.steps()], reader.reading.events]
    assert read_so_far[-1] == 4001
    assert max(b - a for a, b in pairwise(read_so_far)) <= most
    assert len(reader.reading.bearing.ledger) == 4000
