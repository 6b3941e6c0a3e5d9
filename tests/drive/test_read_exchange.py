"""Hand-made byte streams with exact expected numbers: ledger, times, counts, one outcome."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.drive import Attempt, Outcome

Read = Callable[..., Attempt]
MS = 1_000_000


def gaps_ms(attempt: Attempt) -> list[float]:
    """Chunk gaps: between consecutive arrivals."""
    times = sorted(set(attempt.ledger.arrival_ns))
    return [(b - a) / MS for a, b in pairwise(times)]


def since_sent_ms(attempt: Attempt, ns: int | None) -> float | None:
    return None if ns is None or attempt.sent_ns is None else (ns - attempt.sent_ns) / MS


def test_four_tokens_a_chunk(read: Read, wire: Any) -> None:
    """B1, B7, C14: 4 tokens every 40 ms is a chunk gap of 40 ms and a token latency of 10 ms."""
    pieces = [(100 + 40 * i, wire.delta("abcd", usage=4 * (i + 1))) for i in range(5)]
    attempt = read([*pieces, (265, wire.delta(None, finish="stop", usage=20) + wire.usage(20) + wire.done)])
    assert attempt.outcome is Outcome.OK
    assert list(attempt.ledger.tokens) == [4] * 5
    assert gaps_ms(attempt) == [40.0] * 4
    assert [g / t for g, t in zip(gaps_ms(attempt), attempt.ledger.tokens[1:], strict=True)] == [10.0] * 4
    assert (attempt.output_len, attempt.output_len_source, attempt.unattributed_tokens) == (20, "usage", 0)
    assert attempt.first_tokens == 4
    assert since_sent_ms(attempt, attempt.first_token_ns) == 100.0
    assert since_sent_ms(attempt, attempt.last_token_ns) == 260.0
    assert attempt.terminal == "both"
    assert attempt.warnings == ()


@pytest.mark.parametrize("per_chunk", [2, 4, 8, 16])
def test_tokens_come_from_usage_not_from_events(read: Read, wire: Any, per_chunk: int) -> None:
    """B1: 64 tokens in 64 / n events are 64 tokens."""
    n = 64 // per_chunk
    attempt = read(
        [(10 * i, wire.delta("x", usage=per_chunk * i)) for i in range(1, n + 1)]
        + [(1000, wire.delta("", finish="stop") + wire.usage(64) + wire.done)]
    )
    assert (attempt.output_len, len(attempt.ledger), sum(attempt.ledger.tokens)) == (64, n, 64)


def test_usage_only_at_the_end(read: Read, wire: Any) -> None:
    """B17: chunks carry no counts; the final usage gives the length, first_tokens is unknown, not 1."""
    attempt = read([(50, wire.delta("a")), (80, wire.delta("b")), (90, wire.usage(7) + wire.done)])
    assert list(attempt.ledger.tokens) == [-1, -1]
    assert (attempt.output_len, attempt.output_len_source) == (7, "usage")
    assert attempt.first_tokens is None
    assert attempt.unattributed_tokens is None
    assert attempt.absent["first_tokens"] == "the server's chunks carry no token counts"


def test_first_chunk_of_several_tokens(read: Read, wire: Any) -> None:
    """n_first is the cumulative count at the first token-bearing chunk."""
    attempt = read(
        [(50, wire.delta("abc", usage=3)), (90, wire.delta("d", usage=4)), (95, wire.delta(finish="stop") + wire.done)]
    )
    assert (attempt.first_tokens, attempt.output_len) == (3, 4)


def test_cumulative_usage_is_never_summed(read: Read, wire: Any) -> None:
    """B8, B9: running totals on each of 222 chunks; the last value wins."""
    pieces = [(10 + i, wire.delta("x", usage=i + 1)) for i in range(222)]
    attempt = read([*pieces, (900, wire.delta(finish="length", usage=222) + wire.usage(222) + wire.done)])
    assert (attempt.input_len, attempt.output_len) == (10, 222)
    assert (sum(attempt.ledger.tokens), len(attempt.ledger)) == (222, 222)


def test_empty_text_whose_count_rises_bears_a_token(read: Read, wire: Any) -> None:
    """METHOD, token-bearing chunk: text held back by the detokenizer, count not."""
    attempt = read(
        [
            (
                5,
                wire.event(
                    {"choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": {"completion_tokens": 0}}
                ),
            ),
            (40, wire.delta("", usage=1)),
            (60, wire.delta("ab", usage=2)),
            (70, wire.delta("", usage=2, finish="stop") + wire.done),
        ]
    )
    assert list(attempt.ledger.tokens) == [1, 1]
    assert since_sent_ms(attempt, attempt.first_token_ns) == 40.0


def test_token_ids_win(read: Read, wire: Any) -> None:
    """B6: ids count tokens; text does not, nor does a repeated usage."""
    attempt = read(
        [
            (30, wire.delta("ab", ids=[1, 2, 3], usage=3)),
            (60, wire.delta("", ids=[4], usage=4)),
            (80, wire.delta("", ids=[], usage=4, finish="stop") + wire.done),
        ]
    )
    assert list(attempt.ledger.tokens) == [3, 1]
    assert (attempt.first_tokens, attempt.output_len, attempt.output_len_source) == (3, 4, "usage")
    no_usage = read([(30, wire.delta("ab", ids=[1, 2, 3])), (60, wire.delta("", ids=[4], finish="stop") + wire.done)])
    assert (no_usage.output_len, no_usage.output_len_source) == (4, "token_ids")
    assert "usage_missing" in no_usage.warnings


def test_no_count_at_all_is_absent_not_estimated(read: Read, wire: Any) -> None:
    """B4, B5: without usage and ids the length is unknown, with the reason."""
    attempt = read([(30, wire.delta("hello world")), (60, wire.delta(finish="stop") + wire.done)])
    assert (attempt.outcome, attempt.output_len, attempt.output_len_source) == (Outcome.OK, None, None)
    assert attempt.absent["output_len"] == "the server told no token count"
    assert attempt.input_len is None


def test_final_usage_in_an_empty_chunk(read: Read, wire: Any) -> None:
    """B2, B3: the last chunk has choices, empty text and usage 37; 512 were asked for."""
    attempt = read(
        [
            (30, wire.event({"choices": [{"text": "a"}]})),
            (60, wire.event({"choices": [{"text": "b"}]})),
            (90, wire.event({"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 37}})),
            (91, wire.done),
        ]
    )
    assert attempt.output_len == 37
    assert list(attempt.ledger.tokens) == [-1, -1]
    assert since_sent_ms(attempt, attempt.last_token_ns) == 60.0


def test_unattributed_tokens(read: Read, wire: Any) -> None:
    """A final usage above what the chunks told of: the difference is kept, not spread."""
    attempt = read(
        [(30, wire.delta("ab", usage=2)), (60, wire.delta(finish="stop", usage=2) + wire.usage(5) + wire.done)]
    )
    assert (sum(attempt.ledger.tokens), attempt.output_len, attempt.unattributed_tokens) == (2, 5, 3)


def test_no_done(read: Read, wire: Any) -> None:
    """A6: a finish reason without [DONE] is a success with a warning."""
    attempt = read([(30, wire.delta("a")), (60, wire.delta(finish="stop") + wire.usage(1))])
    assert (attempt.outcome, attempt.terminal, attempt.warnings) == (Outcome.OK, "finish_reason", ("no_done",))


def test_error_before_any_token(read: Read, wire: Any) -> None:
    """A1, A3: an error object inside a 200 is a failure, with no token and no time to first token."""
    error = {"error": {"message": "TimeoutError", "type": "GatewayTimeout", "code": 504}}
    attempt = read([(30, wire.event(error) + wire.done)])
    assert (attempt.outcome, attempt.error_class, attempt.error_status) == (Outcome.STREAM_ERROR, "GatewayTimeout", 504)
    assert attempt.error_message == "TimeoutError"
    assert (len(attempt.ledger), attempt.first_token_ns, attempt.output_len) == (0, None, None)


def test_error_after_tokens(read: Read, wire: Any) -> None:
    """A2: five tokens, then an error: failed, the partial ledger kept and marked."""
    error = {"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}}
    pieces = [(30 + i, wire.delta("x", usage=i + 1)) for i in range(5)]
    attempt = read([*pieces, (90, wire.event(error) + wire.done)])
    assert attempt.outcome is Outcome.STREAM_ERROR
    assert (len(attempt.ledger), attempt.output_len, attempt.output_len_source) == (5, 5, "partial")


def test_named_error_event(read: Read) -> None:
    """An `event: error` is an error whatever its data looks like."""
    attempt = read([(30, b"event: error\ndata: upstream gone\n\n")])
    assert (attempt.outcome, attempt.error_class) == (Outcome.STREAM_ERROR, "error_event")
    assert attempt.error_message == "upstream gone"


def test_clean_end_without_terminal_marker(read: Read, wire: Any) -> None:
    """A5: a proxy that closes cleanly mid-answer."""
    attempt = read([(30 + i, wire.delta("x", usage=i + 1)) for i in range(3)])
    assert (attempt.outcome, attempt.error_class, attempt.terminal) == (Outcome.TRUNCATED, "no_terminal", None)
    assert (attempt.output_len, attempt.output_len_source) == (3, "partial")


def test_silence(read: Read) -> None:
    """C10: a 200 with nothing in it is no success; its times are None, never 0."""
    attempt = read([])
    assert (attempt.outcome, attempt.first_byte_ns, attempt.first_token_ns) == (Outcome.TRUNCATED, None, None)


def test_done_without_output(read: Read, wire: Any) -> None:
    """C10, C11: a finished stream without a token is its own outcome, and not an error of the server's HTTP."""
    attempt = read([(30, wire.event({"choices": [{"delta": {"role": "assistant"}}]}) + wire.done)])
    assert (attempt.outcome, attempt.first_token_ns, attempt.error_status) == (Outcome.NO_OUTPUT, None, 200)
    assert attempt.absent["first_token_ns"] == "no chunk bore a token"


def test_reasoning_then_answer(read: Read, wire: Any) -> None:
    """C2, C5, C6, B11: first token and first answer token are two times; all channels count."""
    attempt = read(
        [
            (1, wire.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})),
            (30, wire.delta(reasoning="We", usage=1)),
            (
                60,
                wire.event(
                    {"choices": [{"delta": {"reasoning_content": "think"}}], "usage": {"completion_tokens": 474}}
                ),
            ),
            (3000, wire.delta("Yes", usage=512)),
            (3001, wire.delta(finish="stop", usage=512) + wire.done),
        ]
    )
    assert since_sent_ms(attempt, attempt.first_token_ns) == 30.0
    assert since_sent_ms(attempt, attempt.first_answer_ns) == 3000.0
    assert list(attempt.ledger.tokens) == [1, 473, 38]


def test_reasoning_only(read: Read, wire: Any) -> None:
    """A23, B12: the answer never starts; the record is complete and the first answer absent."""
    attempt = read([(30, wire.delta(reasoning="hm")), (40, wire.delta(finish="length") + wire.usage(512) + wire.done)])
    assert (attempt.outcome, attempt.output_len, attempt.first_answer_ns) == (Outcome.OK, 512, None)
    assert since_sent_ms(attempt, attempt.first_token_ns) == 30.0


def test_tool_calls_first(read: Read, wire: Any) -> None:
    """C7: a turn that begins with a tool call has a first token."""
    attempt = read(
        [(30, wire.delta(tool='{"a"')), (40, wire.delta(tool=":1}")), (50, wire.delta(finish="tool_calls") + wire.done)]
    )
    assert since_sent_ms(attempt, attempt.first_token_ns) == 30.0
    assert len(attempt.ledger) == 2


def test_role_chunk_is_no_token(read: Read, wire: Any) -> None:
    """C1, C3, C4, C8: role at 5 ms, text at 214 ms, an empty finish chunk: one token at 214 ms."""
    attempt = read(
        [
            (5, wire.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})),
            (214, wire.delta("Hi")),
            (230, wire.delta("", finish="stop")),
            (231, wire.usage(1) + wire.done),
        ]
    )
    assert since_sent_ms(attempt, attempt.first_token_ns) == 214.0
    assert len(attempt.ledger) == 1
    assert since_sent_ms(attempt, attempt.first_byte_ns) == 5.0
    assert since_sent_ms(attempt, attempt.headers_ns) == 5.0


def test_empty_choices_first_and_last(read: Read, wire: Any) -> None:
    """A21, A22, A24: prompt filter results first, usage and statistics last; neither bears a token."""
    attempt = read(
        [
            (5, wire.event({"choices": [], "prompt_filter_results": [{}]})),
            (40, wire.delta("a", finish="stop")),
            (50, wire.usage(50, prompt=10, metrics={"spec": [10, 30, 40, 4]}) + wire.done),
        ]
    )
    assert (attempt.input_len, attempt.input_len_source, attempt.output_len) == (10, "usage", 50)
    assert since_sent_ms(attempt, attempt.first_token_ns) == 40.0
    assert attempt.spec is not None
    assert (attempt.spec.rounds, attempt.spec.accepted, attempt.spec.drafted, attempt.spec.k) == (10, 30, 40, 4)


def test_statistics_missing_are_absent(read: Read, wire: Any) -> None:
    """A24: no statistics is None with a reason, never 0."""
    attempt = read([(40, wire.delta("a", finish="stop") + wire.done)])
    assert attempt.spec is None
    assert attempt.absent["spec"] == "the answer carries no speculation statistics"


def test_event_after_done(read: Read, wire: Any) -> None:
    """TensorRT-LLM sends its performance event after [DONE]."""
    attempt = read(
        [(40, wire.delta("a", finish="stop") + wire.done), (41, wire.event({"choices": [], "timings": 0.25}))]
    )
    assert attempt.outcome is Outcome.OK
    assert attempt.timings is not None
    assert attempt.timings.queue_s == 0.25


@pytest.mark.parametrize("eol", [b"\n", b"\r", b"\r\n"])
def test_line_ends(read: Read, wire: Any, eol: bytes) -> None:
    """A8, A9, A11: any line end, comments in between: the same numbers."""
    body = b"".join(
        [
            b": hello\n\n",
            wire.delta("A\u2028B\u0085C", usage=2),
            b":\n\n",
            wire.delta(finish="stop", usage=2),
            wire.done,
        ]
    )
    attempt = read([(30, body.replace(b"\n", eol))], keep_text=True)
    assert (attempt.outcome, attempt.output_len, attempt.text) == (Outcome.OK, 2, "A\u2028B\u0085C")
    assert attempt.token_ids is None, "the server told none"


@pytest.mark.parametrize("keep_text", [True, False])
def test_token_ids_are_kept_with_the_text_alone(read: Read, wire: Any, keep_text: bool) -> None:
    chunks = [
        wire.delta("a", usage=1, ids=[7]),
        wire.delta("", usage=3, ids=[8, 9]),
        wire.delta(finish="stop", usage=3),
    ]
    attempt = read([(30, b"".join([*chunks, wire.done]))], keep_text=keep_text)
    assert attempt.outcome is Outcome.OK
    assert (None if attempt.token_ids is None else list(attempt.token_ids)) == ([7, 8, 9] if keep_text else None)


def test_chunks_read_together_are_one_arrival(read: Read, wire: Any) -> None:
    """A20, A28: three events in one read have one time; none gets an invented gap."""
    three = b"".join(wire.delta("x", usage=i) for i in (1, 2, 3))
    attempt = read([(30, three), (70, wire.delta("x", usage=4)), (75, wire.delta(finish="stop") + wire.done)])
    assert list(attempt.ledger.arrival_no) == [0, 0, 0, 1]
    assert attempt.ledger.coalesced == 2
    assert gaps_ms(attempt) == [40.0]


def test_equal_stamps_are_one_arrival(read: Read, wire: Any) -> None:
    """Two pieces with the same stamp came together."""
    attempt = read(
        [(30, wire.delta("x", usage=1)), (30, wire.delta("x", usage=2)), (31, wire.delta(finish="stop") + wire.done)]
    )
    assert list(attempt.ledger.arrival_no) == [0, 0]


def test_event_over_two_pieces_arrives_with_the_second(read: Read, wire: Any) -> None:
    """wire.md 7.4: the stamp of the piece with the line end that completes the event."""
    body = wire.delta("x", usage=1)
    attempt = read([(30, body[:9]), (55, body[9:]), (60, wire.delta(finish="stop") + wire.done)])
    assert since_sent_ms(attempt, attempt.first_token_ns) == 55.0
    assert since_sent_ms(attempt, attempt.first_byte_ns) == 30.0


def test_size_is_the_payload(read: Read) -> None:
    attempt = read([(30, b'data: {"choices":[{"text":"abc"}]}\n\ndata: [DONE]\n\n')])
    assert list(attempt.ledger.size) == [len(b'{"choices":[{"text":"abc"}]}')]


def test_compressed_stream_is_flagged(read: Read) -> None:
    """A26: identity was asked for; what comes compressed has the compressor's timing."""
    attempt = read([(30, b"\x1f\x8b\x08")], headers={"content-encoding": "gzip", "content-type": "text/event-stream"})
    assert (attempt.outcome, attempt.error_class) == (Outcome.MALFORMED, "content_encoding")
    assert "content_encoding" in attempt.warnings


def test_html_200(read: Read) -> None:
    attempt = read([(30, b"<html>login</html>")], headers={"content-type": "text/html"})
    assert (attempt.outcome, attempt.error_class) == (Outcome.MALFORMED, "not_event_stream")
    assert attempt.error_message == "text/html: <html>login</html>"


def test_json_error_200_where_a_stream_was_asked(read: Read) -> None:
    """A1: the error object may also be the whole body."""
    body = b'{"error":{"message":"too long","type":"context_length","code":400}}'
    attempt = read([(30, body)], headers={"content-type": "application/json"})
    assert (attempt.outcome, attempt.error_class) == (Outcome.STREAM_ERROR, "context_length")


@pytest.mark.parametrize("payload", [b"data: {broken\n\n", b"data: [1]\n\n", b"data: \xff\xfe\n\n"])
def test_malformed_payload(read: Read, wire: Any, payload: bytes) -> None:
    """A4: a payload that cannot be read is the server's malformed answer; what was readable stays."""
    attempt = read([(30, wire.delta("a", usage=1)), (40, payload), (50, wire.delta(finish="stop") + wire.done)])
    assert (attempt.outcome, attempt.error_class, len(attempt.ledger)) == (Outcome.MALFORMED, "bad_payload", 1)


def test_http_error(read: Read) -> None:
    """A4: 503 with an error body: status, class and message kept."""
    body = b'{"error":{"message":"overloaded","type":"ServiceUnavailable"}}'
    attempt = read([(30, body)], status=503)
    assert (attempt.outcome, attempt.error_status, attempt.error_class) == (
        Outcome.HTTP_ERROR,
        503,
        "ServiceUnavailable",
    )
    assert attempt.first_token_ns is None


def test_redirect_is_an_error(read: Read) -> None:
    assert read([(30, b"")], status=307).outcome is Outcome.HTTP_ERROR


def test_message_is_redacted_and_cut(read: Read) -> None:
    body = b"Authorization: Bearer abcdef0123456789 " + b"z" * 1000
    attempt = read([(30, body)], status=401)
    assert attempt.error_message is not None
    assert "abcdef0123456789" not in attempt.error_message
    assert len(attempt.error_message) == 300


@pytest.mark.parametrize(
    ("failure", "detail", "outcome"),
    [
        (Outcome.TRUNCATED, "reset: peer", Outcome.TRUNCATED),
        (Outcome.TIMEOUT, "byte_idle: 60 s", Outcome.TIMEOUT),
        (Outcome.STALLED, "token_idle: 60 s", Outcome.STALLED),
        (Outcome.ABORTED, "drain: cut", Outcome.ABORTED),
        (Outcome.CLIENT_FAULT, "emfile: no files", Outcome.CLIENT_FAULT),
    ],
)
def test_cut_mid_answer(read: Read, wire: Any, failure: Outcome, detail: str, outcome: Outcome) -> None:
    """A5, E28: cut by wire, deadline or drain; what had come is kept as partial."""
    attempt = read(
        [(30, wire.delta("a", usage=1)), (40, wire.delta("b", usage=2)[:20])],
        failure=failure,
        failure_detail=detail,
        complete=False,
    )
    assert (attempt.outcome, attempt.error_class) == (outcome, detail.partition(":")[0])
    assert (len(attempt.ledger), attempt.output_len, attempt.output_len_source) == (1, 1, "partial")


def test_cut_after_the_end_is_whole(read: Read, wire: Any) -> None:
    """A server that answers whole and then holds or resets the connection has answered."""
    attempt = read(
        [(30, wire.delta("a", finish="stop") + wire.usage(1) + wire.done)],
        failure=Outcome.TIMEOUT,
        failure_detail="byte_idle: x",
        complete=False,
    )
    assert (attempt.outcome, attempt.warnings) == (Outcome.OK, ("cut_after_end",))


def test_refused(read: Read) -> None:
    attempt = read(
        [], status=None, sent_ns=None, headers_ns=None, complete=False,
        failure=Outcome.REFUSED, failure_detail="connect: no one there",
    )  # fmt: skip
    assert (attempt.outcome, attempt.error_class, attempt.sent_ns) == (Outcome.REFUSED, "connect", None)


def test_no_final_newline(read: Read, wire: Any) -> None:
    attempt = read([(30, wire.delta("a", finish="stop") + b"data: [DONE]")])
    assert (attempt.outcome, attempt.terminal) == (Outcome.OK, "both")
    assert "no_final_newline" in attempt.warnings


def test_non_streaming(read: Read) -> None:
    """A non-streaming answer has a total time only: no ledger, no first token."""
    body = (
        b'{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":9,"completion_tokens":4}}'
    )
    attempt = read([(300, body)], stream=False, keep_text=True)
    assert (attempt.outcome, attempt.output_len, attempt.input_len, attempt.text) == (Outcome.OK, 4, 9, "hello")
    assert (len(attempt.ledger), attempt.first_token_ns, attempt.last_token_ns) == (0, None, None)
    assert attempt.absent["first_token_ns"] == "not streamed: there is no time to first token"
    assert (attempt.end_ns - (attempt.sent_ns or 0)) / MS == 301.0


@pytest.mark.parametrize(
    ("body", "more", "outcome"),
    [
        (b"<html>", {}, Outcome.MALFORMED),
        (
            b'{"choices":[',
            {"complete": False, "failure": Outcome.TRUNCATED, "failure_detail": "closed: x"},
            Outcome.TRUNCATED,
        ),
        (b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}', {}, Outcome.NO_OUTPUT),
        (b'{"error":{"message":"m","type":"t","code":500}}', {}, Outcome.STREAM_ERROR),
    ],
)
def test_non_streaming_failures(read: Read, body: bytes, more: dict[str, Any], outcome: Outcome) -> None:
    assert read([(30, body)], stream=False, **more).outcome is outcome


def test_one_token_divides_nothing(read: Read, wire: Any) -> None:
    """C12: a single token is a success with first = last."""
    attempt = read([(30, wire.delta("a", usage=1, finish="length") + wire.done)])
    assert (attempt.outcome, attempt.output_len, attempt.first_tokens) == (Outcome.OK, 1, 1)
    assert attempt.first_token_ns == attempt.last_token_ns


def test_stall_stays_in_the_ledger(read: Read, wire: Any) -> None:
    """C15: 99 gaps of 20 ms and one of 2 s: every raw gap is there."""
    times, at = [100], 100
    for i in range(100):
        at += 2000 if i == 50 else 20
        times.append(at)
    pieces = [(t, wire.delta("x", usage=i + 1)) for i, t in enumerate(times)]
    attempt = read([*pieces, (at + 1, wire.delta(finish="stop") + wire.done)])
    assert sorted(gaps_ms(attempt)) == [20.0] * 99 + [2000.0]


def test_our_bug_is_a_client_fault(read: Read, adapter: Any, wire: Any) -> None:
    """C11: an error in our own reading is never an error of the server."""

    class Buggy:
        parse_error = adapter.parse_error

        def parse_chunk(self, data: bytes) -> None:
            raise ZeroDivisionError("ours")

    attempt = read([(30, wire.delta("a") + wire.done)], using=Buggy())
    assert (attempt.outcome, attempt.error_class, attempt.warnings) == (
        Outcome.CLIENT_FAULT, "ZeroDivisionError", ("client_bug",),
    )  # fmt: skip
    assert attempt.end_ns == 1031 * MS


def facts(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.outcome,
        attempt.error_class,
        list(attempt.ledger.tokens),
        list(attempt.ledger.size),
        attempt.output_len,
        attempt.output_len_source,
        attempt.finish_reason,
        attempt.terminal,
        attempt.text,
        attempt.warnings,
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_split_gives_the_same_record(data: st.DataObject) -> None:
    """A20: any split of the bytes into reads gives the same record except timestamps."""
    read, wire = _tools()
    parts = [
        b"\xef\xbb\xbf: hi\r\n\r\n",
        wire.delta("A\u2028", usage=2).replace(b"\n", b"\r\n"),
        wire.delta(reasoning="", usage=2),
        wire.delta("Bé滚", usage=5).replace(b"\n", b"\r"),
        wire.delta(finish="stop", usage=5) + wire.usage(6) + wire.done,
    ]
    body = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=30))
    at = [0, *sorted(set(cuts)), len(body)]
    pieces = [(30 + i, body[a:b]) for i, (a, b) in enumerate(pairwise(at))]
    split = read(pieces, keep_text=True)
    assert facts(split) == facts(read([(30, body)], keep_text=True))
    assert split.outcome is Outcome.OK
    assert list(split.ledger.tokens) == [2, 3]


_TOOLS: list[Any] = []


@pytest.fixture(autouse=True)
def _keep_tools(read: Read, wire: Any) -> None:
    """hypothesis may not take function-scoped fixtures."""
    _TOOLS[:] = [read, wire]


def _tools() -> tuple[Read, Any]:
    return _TOOLS[0], _TOOLS[1]


@settings(max_examples=100, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=200), st.text(alphabet="data: {}[]\n\r\\", max_size=60).map(str.encode)),
    status=st.sampled_from([200, 204, 301, 404, 500]),
    stream=st.booleans(),
    complete=st.booleans(),
)
def test_any_bytes_end_in_one_outcome(body: bytes, status: int, stream: bool, complete: bool) -> None:
    """C11: whatever a server sends is judged, as the server's doing, and never as a success."""
    read, _ = _tools()
    failure = {} if complete else {"failure": Outcome.TRUNCATED, "failure_detail": "reset: x"}
    attempt = read([(30, body)], stream=stream, status=status, complete=complete, **failure)
    assert attempt.outcome not in (Outcome.OK, Outcome.CLIENT_FAULT)
    assert attempt.error_class
    assert attempt.warnings != ("client_bug",)


def test_what_a_server_calls_its_error_is_kept_short_and_harmless(read: Read) -> None:
    """I4: the class of an error is the server's text too: no secret, no escape sequence, no page of it."""
    kind = "Bearer planted-key-77 \\u001b[2J" + "x" * 5000
    attempt = read([(100, b'data: {"error":{"message":"m","type":"%s"}}\n\n' % kind.encode())])
    assert attempt.outcome is Outcome.STREAM_ERROR
    assert attempt.error_class is not None
    assert attempt.error_class.startswith("Bearer *** \N{REPLACEMENT CHARACTER}[2Jxxx")
    assert len(attempt.error_class) == 80


def test_hidden_ids_do_not_hide_tokens(read: Read, wire: Any) -> None:
    """B12, B13: a server that hides token ids while it reasons still tells usage; TTFT is of the first token."""
    pieces = [
        (50, wire.delta("", usage=2)),
        (90, wire.delta("", usage=5)),
        (130, wire.delta("a", usage=6, ids=[7])),
        (140, wire.delta(finish="stop", usage=6) + wire.usage(6) + wire.done),
    ]
    attempt = read(pieces)
    assert list(attempt.ledger.tokens) == [2, 3, 1]
    assert since_sent_ms(attempt, attempt.first_token_ns) == 50.0
    assert (attempt.output_len, attempt.unattributed_tokens) == (6, 0)


def test_which_server_answered_is_kept_masked_where_its_header_is_asked_for(read: Read, wire: Any) -> None:
    headers = {"content-type": "text/event-stream", "x-upstream": "10.0.0.7:8000 token=hunter2222 \x1b[2J"}
    pieces = [(50, wire.delta("a", usage=1)), (60, wire.done)]
    assert read(pieces, headers=headers, served_by="x-upstream").served_by == "10.0.0.7:8000 token=*** �[2J"
    assert read(pieces, headers=headers).served_by is None
    assert read(pieces, headers=headers, served_by="x-other").served_by is None
    refused = read([(5, b"no")], headers={"x-upstream": "a"}, served_by="x-upstream", status=502)
    assert (refused.outcome, refused.served_by) == (Outcome.HTTP_ERROR, "a")
