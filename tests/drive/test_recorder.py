"""Ended requests become attempts, and let their bytes go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from loadgen.drive import Exchange, Outcome, Sent, Tally
from loadgen.drive.flight import Flight
from loadgen.drive.recorder import Recorder
from loadgen.drive.request import Outgoing
from loadgen.plan import Case
from loadgen.redact import Redactor
from server_adapters.base import Sampling

CASE = Case(0, "measure", 3, "c3", 0, "short_qa", 10, 16, 7, 1, None, False, True)


async def test_bytes_are_freed_when_they_have_been_read(
    exchange: Callable[..., Exchange], adapter: Any, wire: Any, sink: Any
) -> None:
    """What an answer weighed does not stay until something lets go of its request."""
    faults: list[Exception] = []
    recorder = Recorder(adapter, Redactor(), False, sink, Tally(), faults.append)
    flights = []
    for text in ("a", "b"):
        ended = exchange([(30, wire.delta(text, usage=1)), (40, wire.delta(finish="stop") + wire.usage(1) + wire.done)])
        outgoing = Outgoing(CASE, "id", "http://r", Sampling(), None, ended, None)
        flights.append(Flight(outgoing, Sent(3, "base", "http://r", 0, 1, CASE, "id", True, Sampling(), 16, 1, 1)))
        recorder.add(flights[-1])
    work = asyncio.create_task(recorder.work())
    await recorder.flush()
    work.cancel()
    assert not faults
    assert [(a.outcome, a.output_len, len(a.ledger)) for a in sink.attempts] == [(Outcome.OK, 1, 1)] * 2
    assert [len(flight.exchange.body) for flight in flights] == [0, 0]
