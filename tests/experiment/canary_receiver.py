"""Somebody who is told: a small HTTP server that remembers what it was sent, and answers as it is told to."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Told:
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def signed_by(self, key: bytes) -> bool:
        """As the Standard Webhooks specification says, by code of its own."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        mac = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return self.headers.get("webhook-signature") == f"v1,{mac}"


@dataclass
class Receiver:
    """`answer(number)`: status of the answer to the request of this number from 0; None: none at all."""

    answer: Callable[[int], int | None] = lambda _number: 204
    told: list[Told] = field(default_factory=list)
    url: str = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            self.told.append(Told(headers, await reader.readexactly(int(headers.get("content-length", 0)))))
            status = self.answer(len(self.told) - 1)
            if status is None:
                await reader.read()
            writer.write(f"HTTP/1.1 {status} -\r\nlocation: {self.url}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(answer: Callable[[int], int | None] = lambda _number: 204) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver._serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks/planted-path-token"
    async with server:
        yield receiver


async def until(true: Callable[[], Any], what: str, limit_s: float = 60.0) -> None:
    end = asyncio.get_running_loop().time() + limit_s
    while True:
        if true():
            return
        assert asyncio.get_running_loop().time() < end, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.01)
