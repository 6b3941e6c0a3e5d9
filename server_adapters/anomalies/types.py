"""What an anomaly is: bytes and waits on a connection, and which answers to it are right. Data alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from server_adapters.base import Endpoint

Group = Literal[
    "too_long", "empty", "json", "types", "content_type", "text", "range", "speculation", "model", "huge", "slow",
    "disconnect", "ids", "http",
]  # fmt: skip

#: What a body is: an error as OpenAI and vLLM write it, another JSON object, no JSON, nothing; of a success, a whole
#: answer, a stream that ended well, and one with an error in it.
Shape = Literal["error", "detail", "other_json", "text", "empty", "completion", "stream", "stream_error", "none"]

#: How a connection ended: with a whole answer; the server closed it, or reset it, before that; no whole answer came in
#: time; we left on purpose; there was no connection.
Ended = Literal["answered", "closed", "timeout", "left", "refused"]


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes; with `every_s` one at a time, so far apart."""

    data: bytes
    every_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Await:
    """Read until the head of the answer is there, the first bytes of its body, or its end."""

    what: Literal["head", "body", "end"]


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Leave:
    """Close the connection; `reset`: at once, with what is unsent thrown away (RST)."""

    reset: bool = False


Step = Send | Await | Pause | Leave


@dataclass(frozen=True, slots=True)
class Script:
    """What is done on each of `connections` connections at once. `answer_s`: how long a whole answer is waited for;
    None: as the user says."""

    steps: tuple[Step, ...]
    connections: int = 1
    answer_s: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """The server that anomalies are made for. `path`: of its URL, before /v1. `headers` let us in, and are secret.

    `marker`: stands in every prompt that is text, so that it can be found where it must not be.
    `vocabulary`: a number that no token id reaches.
    """

    host: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    adapter: str
    model: str
    endpoint: Endpoint
    max_model_len: int | None
    drafter_max_len: int | None
    speculation: bool | None
    max_body_bytes: int
    marker: str
    vocabulary: int = 10**9
    spec_method: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Which answers are right. `statuses` of the whole answer; `shapes`: of its body, empty = any. `closed`, `timeout`:
    to close without an answer, or to give none in time, is right too. `left`: we go before the end: a status that has
    come by then must be among `statuses`. `source`: where that is known from."""

    statuses: frozenset[int] = frozenset()
    shapes: frozenset[Shape] = frozenset()
    closed: bool = False
    timeout: bool = False
    left: bool = False
    source: str = ""

    def fits(self, ended: Ended, status: int | None, shape: Shape) -> bool:
        if ended == "refused":
            return False
        if ended == "left":
            return self.left and (status is None or status in self.statuses)
        if ended == "closed":
            return (self.closed or self.left) and (status is None or status in self.statuses)
        if ended == "timeout":
            return self.timeout
        return status in self.statuses and (not self.shapes or shape in self.shapes)

    def words(self) -> str:
        """ "400 error, or closed"."""
        parts = []
        if len(self.statuses) > 2:
            parts += ["200"] * (200 in self.statuses) + ["4xx"]
        elif self.statuses:
            parts.append(f"{'/'.join(map(str, sorted(self.statuses)))} {'/'.join(sorted(self.shapes))}".strip())
        parts += ["closed"] * self.closed + ["no answer"] * self.timeout + ["we leave"] * self.left
        return ", or ".join(parts)


@dataclass(frozen=True, slots=True)
class Absent:
    """Why an anomaly cannot be made for a server. `unknown`: what it would need was not found out, so that nothing is
    shown; else the server has nothing that it could hit."""

    reason: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`make` gives its script for a server. `expected`: of any OpenAI-compatible server; `expected.py` knows better of
    some. `rows`: of the catalogue of pitfalls. `default`: runs unless it is excluded; the others must be included by
    name."""

    name: str
    group: Group
    what: str
    make: Callable[[Setting], Script | Absent]
    expected: Expected
    rows: tuple[str, ...] = ()
    default: bool = True
