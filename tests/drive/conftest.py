"""A tiny adapter of OpenAI's JSON, hand-made exchanges, and a raw TCP server that plays byte scripts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pytest

from loadgen.clock import now_ns
from loadgen.drive import (
    Asking,
    Attempt,
    Deadlines,
    DriveArm,
    DriveLimits,
    Driver,
    Exchange,
    LoopHealth,
    Sent,
    read_exchange,
    reader_name,
)
from loadgen.plan import ESTIMATE, Case, ClosedLoop, OpenLoop, Plan, Segment, build_plan
from loadgen.redact import Redactor
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.base import (
    Ask,
    Capabilities,
    Chunk,
    HttpRequest,
    Sampling,
    ServerError,
    ServerTimings,
    SpecStats,
    Target,
)

MS = 1_000_000


class TinyAdapter:
    """OpenAI's JSON as the tests need it; shares nothing with the real adapters."""

    name = "tiny"
    chunk_unit = "step"

    def build(self, ask: Ask, capabilities: Capabilities) -> HttpRequest:
        body = {
            "model": ask.model,
            "prompt": ask.prompt,
            "stream": ask.stream,
            "max_tokens": ask.max_tokens,
            "temperature": ask.sampling.temperature,
            "seed": ask.sampling.seed,
            "cache_salt": ask.cache_salt,
        }
        return HttpRequest("/v1/x", {"content-type": "application/json"}, orjson.dumps(body))

    def parse_chunk(self, data: bytes) -> Chunk:
        document = orjson.loads(data)
        if not isinstance(document, dict):
            raise ValueError("not an object")
        return _chunk(document)

    def parse_body(self, data: bytes) -> Chunk:
        return self.parse_chunk(data)

    def parse_error(self, status: int, body: bytes) -> ServerError:
        with contextlib.suppress(ValueError):
            error = _error(orjson.loads(body))
            if error is not None:
                return replace(error, status=status)
        return ServerError(status, "http", body.decode("utf-8", "replace"))


def _error(document: Any) -> ServerError | None:
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None
    return ServerError(error.get("code"), str(error.get("type")), str(error.get("message")))


def _chunk(document: dict[str, Any]) -> Chunk:
    usage = document.get("usage") or {}
    choices = document.get("choices") or []
    choice = choices[0] if choices else {}
    delta = choice.get("delta") or choice.get("message") or {}
    answer = delta.get("content") or choice.get("text") or ""
    reasoning = delta.get("reasoning") or delta.get("reasoning_content") or ""
    tool = "".join(t["function"].get("arguments", "") for t in delta.get("tool_calls") or ())
    ids = choice.get("token_ids")
    spec = (document.get("metrics") or {}).get("spec")
    timings = document.get("timings")
    return Chunk(
        has_choices=bool(choices),
        answer=answer,
        reasoning=reasoning,
        tool=tool,
        has_output=bool(answer or reasoning or tool),
        token_ids=None if ids is None else tuple(ids),
        completion_tokens=usage.get("completion_tokens"),
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=usage.get("cached"),
        finish_reason=choice.get("finish_reason"),
        error=_error(document),
        spec=None if spec is None else SpecStats(*spec),
        timings=None if timings is None else ServerTimings(queue_s=timings),
    )


@pytest.fixture
def adapter() -> TinyAdapter:
    return TinyAdapter()


# ---------------------------------------------------------------- hand-made exchanges


def delta(text: str | None = None, **more: Any) -> bytes:
    """One chat event with its blank line; keys of `more`: reasoning, tool, ids, usage, finish."""
    inner: dict[str, Any] = {}
    if text is not None:
        inner["content"] = text
    if "reasoning" in more:
        inner["reasoning"] = more["reasoning"]
    if "tool" in more:
        inner["tool_calls"] = [{"function": {"arguments": more["tool"]}}]
    choice: dict[str, Any] = {"index": 0, "delta": inner, "finish_reason": more.get("finish")}
    if "ids" in more:
        choice["token_ids"] = more["ids"]
    document: dict[str, Any] = {"choices": [choice]}
    if "usage" in more:
        document["usage"] = {"prompt_tokens": 10, "completion_tokens": more["usage"]}
    return event(document)


def event(document: Any) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"


def usage(completion: int, prompt: int = 10, **more: Any) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}, **more})


class Wire:
    """Builders of stream bytes."""

    delta = staticmethod(delta)
    event = staticmethod(event)
    usage = staticmethod(usage)
    done: bytes = b"data: [DONE]\n\n"


@pytest.fixture
def wire() -> Wire:
    return Wire()


CASE = Case(0, "measure", 3, "c3", 0, "short_qa", 10, 16, 7, 1, None, False, True)


def make_exchange(pieces: Sequence[tuple[int, bytes]], **more: Any) -> Exchange:
    """Pieces are (ms after sent, bytes); sent is at 1000 ms, headers 5 ms later."""
    exchange = Exchange(sent_ns=1000 * MS, headers_ns=1005 * MS, status=200, complete=True)
    exchange.headers = {"content-type": "text/event-stream"}
    for at_ms, data in pieces:
        exchange.body += data
        exchange.piece_ns.append((1000 + at_ms) * MS)
        exchange.piece_end.append(len(exchange.body))
    exchange.end_ns = exchange.piece_ns[-1] + MS if pieces else 1006 * MS
    for name, value in more.items():
        setattr(exchange, name, value)
    return exchange


@pytest.fixture
def exchange() -> Callable[..., Exchange]:
    return make_exchange


@pytest.fixture
def read(adapter: TinyAdapter) -> Callable[..., Attempt]:
    """read(pieces, stream=True, keep_text=False, adapter=…, served_by=header, **exchange attributes) -> Attempt"""

    def reading(
        pieces: Any,
        stream: bool = True,
        keep_text: bool = False,
        using: Any = None,
        served_by: str | None = None,
        **more: Any,
    ) -> Attempt:
        exchange = pieces if isinstance(pieces, Exchange) else make_exchange(pieces, **more)
        sent = Sent(3, "base", "http://r", 0, 1, CASE, "id", stream, Sampling(), 16, 999 * MS, 1)
        sent = replace(sent, served_by_header=served_by)
        return read_exchange(exchange, sent, using or adapter, Redactor(), keep_text)

    return reading


# ---------------------------------------------------------------- a scripted server

#: A script is a list of steps: bytes to send, seconds to sleep, or "close", "reset", "hang"
Script = Sequence[bytes | float | str]


@dataclass
class Got:
    """One request as the server saw it."""

    at_ns: int
    head: bytes
    body: bytes
    live: int  # requests in progress, this one included
    end_ns: int = 0

    def header(self, name: str) -> str | None:
        for line in self.head.decode().split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name:
                return value
        return None


@dataclass
class PlayServer:
    """Plays `script(number, request)` for every request; records when each had arrived whole."""

    script: Callable[[int, Got], Script]
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    live: int = 0
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        got = Got(0, head, b"", 0)
        got.body = await reader.readexactly(int(got.header("content-length") or 0))
        got.at_ns = now_ns()
        self.live += 1
        got.live = self.live
        self.got.append(got)
        try:
            return await self._play(self.script(len(self.got) - 1, got), writer)
        finally:
            self.live -= 1
            got.end_ns = now_ns()

    async def _play(self, script: Script, writer: asyncio.StreamWriter) -> bool:
        for step in script:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step == "close":
                return False
            elif step == "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return False
            elif step == "hang":
                await asyncio.sleep(3600)
            else:
                await asyncio.sleep(float(step))
        return True


@pytest.fixture
async def play() -> AsyncIterator[Callable[..., Awaitable[PlayServer]]]:
    """play(script, tls=None) -> server; `script` is a list of steps or a function (number, request) -> list of steps"""
    running: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(script: Script | Callable[[int, Got], Script], tls: ssl.SSLContext | None = None) -> PlayServer:
        server = PlayServer(script if callable(script) else lambda _n, _got: script)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(server.serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        listener = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024, ssl=tls)
        running.append(listener)
        scheme = "http" if tls is None else "https"
        server.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        return server

    yield start
    for listener in running:
        listener.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def http_head(kind: str = "text/event-stream", status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", *more, "transfer-encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode()


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def http_whole(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def answer(tokens: int = 3, first_s: float = 0.0, gap_s: float = 0.0) -> list[bytes | float | str]:
    """A whole streamed answer: `tokens` chunks of one token, finish, usage, [DONE]."""
    steps: list[bytes | float | str] = [http_head(), first_s]
    for i in range(tokens):
        steps += [http_chunk(delta("x", usage=i + 1)), gap_s if i + 1 < tokens else 0.0]
    steps.append(http_chunk(delta(None, finish="stop", usage=tokens) + usage(tokens) + Wire.done) + b"0\r\n\r\n")
    return steps


class Http:
    """Builders of HTTP bytes and scripts."""

    head = staticmethod(http_head)
    chunk = staticmethod(http_chunk)
    whole = staticmethod(http_whole)
    answer = staticmethod(answer)
    end: bytes = b"0\r\n\r\n"


@pytest.fixture
def http() -> Http:
    return Http()


def choose_reader(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the sockets of kernel transports: "c" or "python"."""
    monkeypatch.setenv("SPECLOAD_READER", name)
    if reader_name() != name:
        pytest.skip("the C reader is not built: python setup.py build_ext --inplace")


@pytest.fixture(params=["c", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers, one after the other."""
    choose_reader(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---------------------------------------------------------------- a driver


@dataclass
class ListSink:
    attempts: list[Attempt] = field(default_factory=list)
    healths: list[LoopHealth] = field(default_factory=list)
    error: Exception | None = None

    def attempt(self, attempt: Attempt) -> None:
        if self.error is not None:
            raise self.error
        self.attempts.append(attempt)

    def health(self, health: LoopHealth) -> None:
        self.healths.append(health)

    @property
    def outcomes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for attempt in self.attempts:
            found[attempt.outcome] = found.get(attempt.outcome, 0) + 1
        return found


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


def make_plan(load: list[dict[str, Any]], **more: Any) -> Plan:
    task = {
        "task_type": "short_qa",
        "input_len": {"kind": "fixed", "value": 20},
        "output_len": {"kind": "fixed", "value": 8},
    }
    document = {
        "version": 1,
        "name": "t",
        "environment": "disposable",
        "arms": {"base": {"url": "http://127.0.0.1:1"}},
        "workload": {"tasks": [task]},
        "load": load,
        "warmup": {"warmup_requests": 0},
        **more,
    }
    return build_plan(LoadedScenario(Scenario.model_validate(document), None, "0" * 64))


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    return make_plan


def open_segment(due_ms: Sequence[float], max_in_flight: int = 1000, when_full: str = "drop") -> Segment:
    due = np.array([round(ms * MS) for ms in due_ms], dtype=np.int64)
    load = OpenLoop(due, np.arange(len(due), dtype=np.int64), max_in_flight, when_full)  # type: ignore[arg-type]
    return Segment(1, "base", "measure", "s", 0, 0, 0, 0, "arrival_rate", None, None, None, load)


def closed_segment(
    start_ms: Sequence[float], stop_ms: Sequence[float | None], cases: int | None = None, end: str = "first"
) -> Segment:
    start = np.array([round(ms * MS) for ms in start_ms], dtype=np.int64)
    stop = np.array([2**63 - 1 if ms is None else round(ms * MS) for ms in stop_ms], dtype=np.int64)
    load = ClosedLoop(start, stop, 0, 1, cases, end)  # type: ignore[arg-type]
    return Segment(1, "base", "measure", "s", 0, 0, 0, 0, "concurrency", len(start), None, None, load)


class Segments:
    open = staticmethod(open_segment)
    closed = staticmethod(closed_segment)


@pytest.fixture
def segments() -> Segments:
    return Segments()


CAPABILITIES = Capabilities(
    ("m",), 2048, "1", True, True, 4, None, True, True, "detailed", False, True, True, True, False
)


@pytest.fixture
def driver(sink: ListSink, adapter: TinyAdapter) -> Callable[..., Driver]:
    """driver(urls, plan=…, capabilities=…, asking=…, drain_s=…, connect_s=… and other deadlines, **driver options)"""

    def make(urls: str | Sequence[str], plan: Plan | None = None, **more: Any) -> Driver:
        plan = plan or make_plan([{"kind": "concurrency", "concurrency": 1, "duration_s": 1}])
        targets = tuple(Target(u, (), "m", {}) for u in ([urls] if isinstance(urls, str) else urls))
        arm = DriveArm("base", adapter, targets, "m", more.pop("capabilities", CAPABILITIES), "completions")
        deadlines = Deadlines(
            round(more.pop("connect_s", 2.0) * 1e9),
            *(None if (s := more.pop(k, None)) is None else round(s * 1e9) for k in ("byte_s", "token_s", "total_s")),
        )
        limits = DriveLimits(deadlines, round(more.pop("drain_s", 5.0) * 1e9))
        asking = more.pop("asking", None) or Asking(
            tuple(Sampling() for _ in plan.workload.tasks), cold=True, shared_prefix=False
        )
        return Driver(arm, plan, ESTIMATE, more.pop("sink", sink), limits, asking, Redactor(), **more)

    return make


@pytest.fixture
def soon() -> Callable[[], int]:
    """A start 0.25 s from now: the driver has been set up by then, on a busy machine too."""
    return lambda: time.monotonic_ns() + 250 * MS
