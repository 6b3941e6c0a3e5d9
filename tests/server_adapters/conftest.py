"""A server that plays vLLM over real sockets, part by part."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response

SERVERS = Path(__file__).resolve().parents[1] / "data" / "servers"


@dataclass
class PlayedServer:
    """What it answers is settable; what it was asked is kept. None = no such route (404)."""

    models: list[dict[str, Any]] = field(
        default_factory=lambda: [{"id": "tiny", "object": "model", "root": "/models/tiny", "max_model_len": 2048}]
    )
    stream: bytes | None = field(default_factory=lambda: (SERVERS / "vllm_0.32_sse_completions_spec.txt").read_bytes())
    chat_stream: bytes | None = None
    metrics: str | None = field(default_factory=lambda: (SERVERS / "vllm_0.32_metrics_single.txt").read_text())
    version: str | None = "0.32.0"
    server_info: dict[str, Any] | None = None
    tokens: int | None = 7
    token_ids: list[int] = field(default_factory=list)
    api_key: str | None = None
    refused_fields: frozenset[str] = frozenset()
    every_page: Response | None = None
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokenized: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Response:
        if self.every_page is not None:
            return self.every_page
        if self.api_key and path.startswith("/v1/") and headers.get("authorization") != f"Bearer {self.api_key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        return self._route(path, body) or JSONResponse({"detail": "Not Found"}, 404)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One HTTP/1.1 exchange; bodies of requests are JSON."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        response = self.answer(first.split()[1].partition("?")[0], headers, json.loads(body or b"{}"))
        head = [b"HTTP/1.1 %d -" % response.status_code, b"connection: close"]
        head += [name + b": " + value for name, value in response.raw_headers]
        writer.write(b"\r\n".join([*head, b"", b""]) + bytes(response.body))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _route(self, path: str, body: dict[str, Any]) -> Response | None:
        if path == "/v1/models":
            return JSONResponse({"object": "list", "data": self.models})
        if path == "/v1/completions" and self.stream is not None:
            return self._generate(body, self.stream)
        if path == "/v1/chat/completions" and self.chat_stream is not None:
            return self._generate(body, self.chat_stream)
        if path == "/metrics" and self.metrics is not None:
            return Response(self.metrics, media_type="text/plain; version=0.0.4")
        if path == "/version" and self.version is not None:
            return JSONResponse({"version": self.version})
        if path == "/server_info" and self.server_info is not None:
            return JSONResponse(self.server_info)
        if path == "/tokenize" and self.tokens is not None:
            self.tokenized.append(body)
            return JSONResponse({"count": self.tokens, "tokens": self.token_ids})
        return None

    def _generate(self, body: dict[str, Any], stream: bytes) -> Response:
        self.bodies.append(body)
        sent = body.keys() | (body.get("stream_options") or {}).keys()
        refused = sorted(self.refused_fields & sent)
        if refused:
            return JSONResponse({"error": {"message": f"unknown field {refused[0]}", "code": 400}}, 400)
        return Response(stream, media_type="text/event-stream")


@contextlib.asynccontextmanager
async def _running(played: PlayedServer) -> AsyncIterator[PlayedServer]:
    async with await asyncio.start_server(played.connected, "127.0.0.1", 0) as server:
        played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield played


@pytest.fixture
async def play() -> AsyncIterator[Callable[[PlayedServer], Any]]:
    """`await play(PlayedServer(…))` starts one; all are stopped after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(played: PlayedServer) -> PlayedServer:
            return await stack.enter_async_context(_running(played))

        yield start


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10, trust_env=False, verify=False) as client:
        yield client


@pytest.fixture
def played_server() -> type[PlayedServer]:
    return PlayedServer
