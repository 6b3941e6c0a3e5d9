"""Certificates made in the test, and a small HTTPS server that asks for a key."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

KEY = "planted-key-4711"
SUBJECT = "/CN=specload test"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem with its key, and sign(name, days) results, in one folder."""
    folder = tmp_path_factory.mktemp("pki")
    _run(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
        "-out", "ca.pem", "-days", "400", "-subj", f"{SUBJECT} authority", "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def signed(authority: Path) -> Callable[[str, int], Path]:
    """signed(names as in subjectAltName, days): a PEM file with certificate and key, of `authority`."""

    def make(names: str, days: int) -> Path:
        stem = f"{abs(hash(names))}-{days}"
        made = authority / f"{stem}.pem"
        if not made.exists():
            (authority / f"{stem}.ext").write_text(f"subjectAltName={names}\n")
            _run(
                authority, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", f"{stem}.key", "-out", f"{stem}.csr", "-subj", SUBJECT,
            )  # fmt: skip
            _run(
                authority, "x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{stem}.crt", "-days", str(days), "-extfile", f"{stem}.ext",
            )  # fmt: skip
            made.write_bytes((authority / f"{stem}.crt").read_bytes() + (authority / f"{stem}.key").read_bytes())
        return made

    return make


def _run(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@dataclass
class Door:
    """What it was asked: (method, path, authorization)."""

    url: str = ""
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    #: path -> (status, further header lines), for whoever has the key or where none is asked for
    pages: dict[str, tuple[int, str]] = field(default_factory=dict)
    guarded: tuple[str, ...] = ("/v1",)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            key = headers.get("authorization")
            self.asked.append((method, path, key))
            status, more = self.pages.get(path, (404, ""))
            if path.startswith(self.guarded) and method != "OPTIONS" and key != f"Bearer {KEY}":
                status, more = 401, ""
            writer.write(f"HTTP/1.1 {status} -\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n".encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()


Open = Callable[..., Awaitable[Door]]


@pytest.fixture
async def door() -> AsyncIterator[Open]:
    """await door(context=None, **fields): listens until the test ends."""
    servers: list[asyncio.Server] = []

    async def start(context: ssl.SSLContext | None = None, **fields: object) -> Door:
        made = Door(**fields)  # type: ignore[arg-type]
        server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        scheme = "http" if context is None else "https"
        made.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return made

    yield start
    for server in servers:
        server.close()


def serving(pem: Path, *, least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = least
    context.load_cert_chain(pem)
    return context
