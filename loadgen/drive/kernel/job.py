"""One request of a connection, from its first byte sent to the end of its answer."""

from __future__ import annotations

import asyncio

from loadgen.drive.kernel.answer import Answer
from loadgen.drive.types import Exchange


class Job:
    """One request on its way: what is still to be sent, the answer it gets, when it must end.

    `ended` has what ended it early, None if nothing did; `peer_closed` tells then whether that was the peer's
    end of file.
    """

    __slots__ = ("answer", "ended", "exchange", "left", "method", "peer_closed", "total_ns")

    answer: Answer  # from `Connection.start` on

    def __init__(self, payload: bytes, exchange: Exchange, method: str, total_ns: int | None) -> None:
        self.left = memoryview(payload)
        self.exchange = exchange
        self.method = method
        self.total_ns = total_ns
        self.peer_closed = False
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
