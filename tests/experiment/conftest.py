"""A small server that plays vLLM and misbehaves on request, and the real command line as a process beside it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.zygote import Forked, Zygote

ROOT = Path(__file__).resolve().parents[2]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def whole(body: Any, status: int = 200, kind: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


@dataclass
class Hostile:
    """`misbehave(number, headers)` gives the bytes of a completion instead of a good one, None for a good one.

    `number` counts requests after the probe's own. `pause_s` is between the tokens of a good answer.
    """

    model: str = "tiny"
    running: int = 0
    pause_s: float = 0.0
    misbehave: Callable[[int, dict[str, str]], bytes | None] = lambda _n, _headers: None
    paths: list[str] = field(default_factory=list)
    asked: int = 0
    tokens: int = 0
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
            self.paths.append(first.split()[1])
            async for part in self._answer(first.split()[1].partition("?")[0], headers, body):
                writer.write(part)
                await writer.drain()

    async def _answer(self, path: str, headers: dict[str, str], body: Any) -> AsyncIterator[bytes]:
        if path == "/v1/models":
            yield whole({"object": "list", "data": [{"id": self.model, "max_model_len": 2048}]})
        elif path == "/version":
            yield whole({"version": "0.32.0"})
        elif path == "/metrics":
            yield whole(self._page(), kind="text/plain")
        elif path == "/v1/completions" and not str(headers.get("x-request-id", "")).startswith("probe-"):
            number, self.asked = self.asked, self.asked + 1
            bad = self.misbehave(number, headers)
            if bad is not None:
                yield bad
                return
            async for part in self._stream(body):
                yield part
        elif path == "/v1/completions":
            async for part in self._stream(body):
                yield part
        else:
            yield whole({"detail": "Not Found"}, 404)

    async def _stream(self, body: Any) -> AsyncIterator[bytes]:
        yield HEAD
        n = int(body["max_tokens"])
        for i in range(1, n + 1):
            usage = {"prompt_tokens": 20, "completion_tokens": i}
            yield chunk(event({"choices": [{"index": 0, "text": "w ", "token_ids": [5]}], "usage": usage}))
            self.tokens += 1
            await asyncio.sleep(self.pause_s)
        last = event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        usage = {"prompt_tokens": 20, "completion_tokens": n}
        yield chunk(last + event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _page(self) -> bytes:
        labels = json.dumps(self.model)
        values = {
            "num_requests_running": self.running,
            "num_requests_waiting": 0,
            "generation_tokens_total": self.tokens,
        }
        lines = [f'vllm:{name}{{model_name={labels},engine="0"}} {value}' for name, value in values.items()]
        return "\n".join(["process_start_time_seconds 1.0", *lines, ""]).encode()


@pytest.fixture
async def hostile() -> AsyncIterator[Callable[..., Awaitable[Hostile]]]:
    """`await hostile(model=…, misbehave=…)` starts one; all end with the test."""
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(**how: Any) -> Hostile:
        played = Hostile(**how)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(played.serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        servers.append(server)
        played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return played

    yield start
    for server in servers:
        server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Ended:
    code: int
    out: str
    err: str
    after_signal_s: float

    @property
    def said(self) -> str:
        return self.out + self.err


Cli = Callable[..., Awaitable[Ended]]


@pytest.fixture
def cli(tmp_path: Path, zygote: Zygote) -> Cli:
    """cli(*args, env={}, when="text on stderr", signals=(…), before=callable in the child) -> Ended

    Once a line of stderr holds `when`, the signals go to the whole process group, as a terminal sends them. With
    `before` it is `python -m loadgen`, otherwise forked from what has imported it.
    """

    async def run(
        *args: str | Path,
        env: dict[str, str] | None = None,
        when: str = "",
        signals: tuple[signal.Signals, ...] = (),
        before: Callable[[], None] | None = None,
    ) -> Ended:
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        command: Forked | subprocess.Popen[bytes]
        if before is None:
            command = await asyncio.to_thread(
                zygote.start, args, cwd=tmp_path, out=out_end, err=err_end, env=env, new_session=True
            )
        else:
            command = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-m", "loadgen", *map(str, args)], cwd=tmp_path, stdout=out_end, stderr=err_end,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}, preexec_fn=before, start_new_session=True,
            )  # fmt: skip
        os.close(out_end)
        os.close(err_end)
        try:
            read = asyncio.ensure_future((await reader_of(out)).read())
            said, at = b"", time.monotonic()
            async for line in await reader_of(err):
                said += line
                if signals and when in line.decode():
                    for one in signals:
                        os.killpg(command.pid, one)
                        await asyncio.sleep(0.2)
                    at, signals = time.monotonic(), ()
            code = await asyncio.to_thread(command.wait, 120)
            return Ended(code, (await read).decode(), said.decode(), time.monotonic() - at)
        finally:
            command.kill()

    return run


async def reader_of(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Path]:
    """scenario(arm, **changes of the top level) -> file"""

    def write(arm: dict[str, Any], **changes: Any) -> Path:
        lengths = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "fixed", "value": 4}}
        content: dict[str, Any] = {
            "version": 1,
            "name": "hostile",
            "environment": "disposable",
            "arms": {"base": arm},
            "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
            "load": [{"kind": "concurrency", "concurrency": 2, "cases": 6}],
            "warmup": {"warmup_requests": 1},
            "scrape": {"interval_s": 0.5, "timeout_s": 1, "idle_wait_s": 0},
        }
        file = tmp_path / "hostile.yaml"
        file.write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
        return file

    return write


@pytest.fixture
def the_run(tmp_path: Path) -> Callable[[], tuple[Path, dict[str, Any]]]:
    """the_run() -> (directory, manifest) of the only run under `runs`."""

    def find() -> tuple[Path, dict[str, Any]]:
        (path,) = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
        return path, json.loads((path / "manifest.json").read_bytes())

    return find
