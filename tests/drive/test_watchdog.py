"""When a stream last bore a token: not comments, not roles, not usage alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadgen.drive import Exchange
from loadgen.drive.watchdog import TokenClock

MS = 1_000_000
Make = Callable[..., Exchange]


def grow(exchange: Exchange, at_ms: int, data: bytes) -> None:
    exchange.body += data
    exchange.piece_ns.append((1000 + at_ms) * MS)
    exchange.piece_end.append(len(exchange.body))


def seen_ms(clock: TokenClock) -> float | None:
    ns = clock.look()
    return None if ns is None else ns / MS - 1000


def test_comments_roles_and_usage_do_not_reset(exchange: Make, adapter: Any, wire: Any) -> None:
    """E30: two timers; only a token feeds this one."""
    stream = exchange([(10, wire.event({"choices": [{"delta": {"role": "assistant"}}]})), (20, wire.delta("a"))])
    clock = TokenClock(stream, adapter)
    assert clock.quick_ns() == 1000 * MS
    assert seen_ms(clock) == 20
    grow(stream, 30, b": ping\n\n")
    grow(stream, 40, wire.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    grow(stream, 50, wire.usage(1))
    grow(stream, 60, wire.delta("b")[:10])
    assert seen_ms(clock) == 20
    grow(stream, 70, wire.delta("b")[10:])
    assert seen_ms(clock) == 70


def test_counts_decide_where_there_are_any(exchange: Make, adapter: Any, wire: Any) -> None:
    """An empty text whose count rises is a token; a repeated count is none."""
    stream = exchange([(10, wire.delta("", usage=0))])
    clock = TokenClock(stream, adapter)
    assert seen_ms(clock) == 0
    grow(stream, 20, wire.delta("", usage=1))
    grow(stream, 30, wire.delta("", usage=1))
    grow(stream, 40, wire.delta("", usage=1))
    assert seen_ms(clock) == 20
    grow(stream, 50, wire.delta("", usage=1))
    assert seen_ms(clock) == 20
    grow(stream, 60, wire.delta("x", usage=3))
    assert seen_ms(clock) == 60


def test_unreadable_events_are_no_tokens(exchange: Make, adapter: Any) -> None:
    clock = TokenClock(exchange([(10, b"data: {broken\n\n")]), adapter)
    assert seen_ms(clock) == 0


def test_the_end_of_a_stream_is_a_sign_of_life(exchange: Make, adapter: Any, wire: Any) -> None:
    """E30: from [DONE] on the limit runs once more; pings after it do not keep the request alive for ever."""
    stream = exchange([(10, wire.delta("a")), (500, wire.done)])
    clock = TokenClock(stream, adapter)
    assert seen_ms(clock) == 500
    grow(stream, 900, b": ping\n\n")
    assert seen_ms(clock) == 500


def test_not_sent_yet(adapter: Any) -> None:
    assert TokenClock(Exchange(), adapter).look() is None
