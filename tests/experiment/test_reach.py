"""Whole runs over TLS of one's own, and through a proxy: which transport read them is recorded and shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from loadgen.drive import reader_name

PEM = Path(__file__).parents[1] / "drive" / "data" / "localhost.pem"
Hostile = Callable[..., Awaitable[Any]]
Cli = Callable[..., Awaitable[Any]]
TheRun = Callable[[], tuple[Path, dict[str, Any]]]
MakeScenario = Callable[..., Path]
CASES = [{"kind": "concurrency", "concurrency": 2, "cases": 6}]


@contextlib.asynccontextmanager
async def front(to: str, tls: ssl.SSLContext | None, seen: list[bytes]) -> AsyncIterator[str]:
    """A hop in front of `to`: with TLS, passes bytes on; without, a proxy that takes whole addresses."""
    host, port = urlsplit(to).hostname, urlsplit(to).port
    tasks: set[asyncio.Task[Any]] = set()

    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                seen.append(data)
                sink.write(data.replace(to.encode() + b"/", b"/", 1) if tls is None else data)
                await sink.drain()
        sink.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        tasks.update(asyncio.ensure_future(pour(*way)) for way in ((reader, back), (there, writer)))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path / "requests.parquet").to_pylist()
    return rows


async def test_certificates_of_ones_own_and_the_kernels_stamps(
    hostile: Hostile, cli: Cli, scenario: MakeScenario, the_run: TheRun
) -> None:
    """Probe, load and metrics page: all with the authority and the client certificate that the scenario names."""
    server, context = await hostile(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(PEM)
    async with front(server.url, context, []) as url:
        without = await cli("check", scenario({"url": url}, load=CASES))
        tls = {"ca": str(PEM), "client_cert": str(PEM)}
        done = await cli(
            "run", scenario({"url": url, "tls": tls}, load=CASES), "--out", "runs", "--transport", "kernel"
        )
    assert without.code == 3, without.said
    assert done.code in (0, 98), done.said
    path, manifest = the_run()
    assert manifest["client"]["transports"] == {"base": "kernel"}
    rows = rows_of(path)
    assert {row["outcome"] for row in rows} == {"ok"}
    assert {row["timestamp_source"] for row in rows} == {"kernel"}
    assert {row["status"] for row in pq.read_table(path / "scrapes.parquet").to_pylist()} == {"ok"}
    assert "transport used: kernel" in done.out


async def test_through_a_proxy_the_plain_transport_reads_and_says_so(
    hostile: Hostile, cli: Cli, scenario: MakeScenario, the_run: TheRun
) -> None:
    """A31: asked for the kernel's, the run says what it used and why; the account is nowhere."""
    server, seen = await hostile(), list[bytes]()
    async with front(server.url, None, seen) as proxy:
        arm = {"url": server.url, "proxy": proxy, "proxy_auth": {"env": "PROXY_ACCOUNT"}}
        environment = {**os.environ, "PROXY_ACCOUNT": "me:planted9"}
        done = await cli(
            "run", scenario(arm, load=CASES), "--out", "runs", "--transport", "kernel", env=environment
        )  # fmt: skip
    assert done.code in (0, 98), done.said
    path, manifest = the_run()
    assert manifest["client"]["transports"] == {"base": "plain (proxy)"}
    assert manifest["client"]["reader"] == reader_name()
    assert "transport used: plain (proxy)" in done.out
    assert {(row["outcome"], row["timestamp_source"]) for row in rows_of(path)} == {("ok", "user")}
    assert b"POST " + server.url.encode() + b"/v1/completions HTTP/1.1" in b"".join(seen)
    assert b"GET " + server.url.encode() + b"/metrics HTTP/1.1" in b"".join(seen)
    kept = b"".join(file.read_bytes() for file in path.iterdir())
    assert b"planted9" not in kept + done.said.encode()
    assert json.loads((path / "summary.json").read_bytes())["conditions"]["client"]["transport"] == "kernel"


@pytest.mark.parametrize("wrong", ["none.pem", "text.pem"])
def test_a_certificate_that_cannot_be_used_sends_nothing(
    specload: Callable[..., Any], scenario: MakeScenario, tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    file = scenario({"url": "https://127.0.0.1:1", "tls": {"ca": wrong}}, load=CASES)
    done = specload("run", file, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "arms.base.tls.ca: " in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_server_without_http2_fails_the_preflight(hostile: Hostile, cli: Cli, scenario: MakeScenario) -> None:
    server, context = await hostile(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    async with front(server.url, context, []) as url:
        done = await cli("check", scenario({"url": url, "http2": True, "tls": {"ca": str(PEM)}}, load=CASES))
    assert done.code == 3, done.said
    assert "the scenario says http2: true, but the server speaks HTTP/1.1" in done.err
