"""Ended requests become attempts, and let their bytes go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from loadgen.drive import Exchange, Outcome, Sent, Tally
from loadgen.drive.flight import Flight
from loadgen.drive.recorder import LONG_QUEUE, Recorder, held_bytes
from loadgen.drive.request import Outgoing
from loadgen.drive.slack import Slack
from loadgen.plan import Case
from loadgen.redact import Redactor
from server_adapters.base import Sampling

CASE = Case(0, "measure", 3, "c3", 0, "short_qa", 10, 16, 7, 1, None, False, True)


def flight_of(ended: Exchange) -> Flight:
    outgoing = Outgoing(CASE, "id", "http://r", Sampling(), None, ended, None)
    return Flight(outgoing, Sent(3, "base", "http://r", 0, 1, CASE, "id", True, Sampling(), 16, 1, 1))


async def test_what_waits_to_be_read_is_bounded(
    exchange: Callable[..., Exchange], adapter: Any, wire: Any, sink: Any, monkeypatch: Any
) -> None:
    """E31: with nobody reading beside, the oldest answers are read as soon as more wait than may."""
    faults: list[Exception] = []
    ended = [
        exchange([(30, wire.delta(t, usage=1)), (40, wire.delta(finish="stop") + wire.usage(1) + wire.done)])
        for t in "abcd"
    ]
    monkeypatch.setattr("loadgen.drive.recorder.UNREAD_BYTES", 2 * held_bytes(flight_of(ended[0])))
    recorder = Recorder(adapter, Redactor(), False, sink, Tally(), faults.append)
    for one in ended:
        recorder.add(flight_of(one))
    assert len(sink.attempts) == 2
    assert [len(one.body) > 0 for one in ended] == [False, False, True, True]
    work = asyncio.create_task(recorder.work())
    await recorder.flush()
    work.cancel()
    assert not faults
    assert [a.outcome for a in sink.attempts] == [Outcome.OK] * 4


async def test_empty_answers_count_for_what_they_hold(
    exchange: Callable[..., Exchange], adapter: Any, sink: Any
) -> None:
    """E31, J2: a server that fails at once, faster than failures are read: an hour of that must not fill the memory."""
    faults: list[Exception] = []
    recorder = Recorder(adapter, Redactor(), False, sink, Tally(), faults.append)
    headers = {"content-length": "0"}
    for _ in range(15_000):
        recorder.add(flight_of(exchange([], status=500, headers=headers)))
    assert 15_000 - len(sink.attempts) < 12_000
    assert not faults


async def test_control_hears_of_failures_under_a_load_that_is_always_late(
    exchange: Callable[..., Exchange], adapter: Any, sink: Any
) -> None:
    """J2, E31: a request is always due; reading a long queue takes whole turns, not one request each 5 ms."""
    slack, faults, tally = Slack(), list[Exception](), Tally()
    slack.expect(slack, 0)
    recorder = Recorder(adapter, Redactor(), False, sink, tally, faults.append, slack)
    for _ in range(LONG_QUEUE + 200):
        recorder.add(flight_of(exchange([], status=500)))
    work = asyncio.create_task(recorder.work())
    read: list[int] = []
    while len(sink.attempts) < 200:
        before = len(sink.attempts)
        await asyncio.sleep(0)
        read += [len(sink.attempts) - before] if len(sink.attempts) > before else []
    work.cancel()
    assert max(read) > 1
    assert not faults


async def test_bytes_are_freed_when_they_have_been_read(
    exchange: Callable[..., Exchange], adapter: Any, wire: Any, sink: Any
) -> None:
    """What an answer weighed does not stay until something lets go of its request."""
    faults: list[Exception] = []
    recorder = Recorder(adapter, Redactor(), False, sink, Tally(), faults.append)
    flights = []
    for text in ("a", "b"):
        ended = exchange([(30, wire.delta(text, usage=1)), (40, wire.delta(finish="stop") + wire.usage(1) + wire.done)])
        flights.append(flight_of(ended))
        recorder.add(flights[-1])
    work = asyncio.create_task(recorder.work())
    await recorder.flush()
    work.cancel()
    assert not faults
    assert [(a.outcome, a.output_len, len(a.ledger)) for a in sink.attempts] == [(Outcome.OK, 1, 1)] * 2
    assert [len(flight.exchange.body) for flight in flights] == [0, 0]
