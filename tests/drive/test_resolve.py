"""Hosts whose address is settled are not looked up: by the load, by probes, by whoever reads metrics pages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from loadgen.drive import Deadlines, Exchange, make_kernel_transport, make_transport
from loadgen.scenario import Arm, reach_of

DEADLINES = Deadlines(2_000_000_000, 5_000_000_000, None, 20_000_000_000)
PEM = Path(__file__).parent / "data" / "localhost.pem"
#: No name server knows it.
NAME = "model.internal.invalid"


@pytest.fixture
async def server() -> AsyncIterator[Callable[..., Any]]:
    """await server(tls=False) -> (port, heads)"""
    servers: list[asyncio.Server] = []

    async def start(tls: bool = False) -> tuple[int, list[bytes]]:
        heads: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
            await writer.drain()
            writer.close()

        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(PEM)
        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
        return servers[-1].sockets[0].getsockname()[1], heads

    yield start
    for one in servers:
        one.close()


@pytest.mark.parametrize("make", [make_transport, make_kernel_transport])
async def test_the_load_connects_to_the_address(make: Callable[..., Any], server: Callable[..., Any]) -> None:
    """I7."""
    port, heads = await server()
    transport = make(DEADLINES, addresses={NAME: "127.0.0.1"})
    exchange = Exchange()
    request = httpx.Request("GET", f"http://{NAME.upper()}:{port}/x", extensions={"exchange": exchange})
    await transport.handle_async_request(request)
    other = httpx.Request("GET", f"http://other.invalid:{port}/x")
    with pytest.raises(httpx.TransportError):
        await transport.handle_async_request(other)
    await transport.aclose()
    assert bytes(exchange.body) == b"hi"
    assert f"host: {NAME}:{port}".encode() in heads[0].lower()


@pytest.mark.parametrize("tls", [False, True])
async def test_an_arms_own_client_connects_to_the_address_and_checks_the_name(
    tls: bool, server: Callable[..., Any]
) -> None:
    port, heads = await server(tls)
    scheme, name = ("https", "localhost") if tls else ("http", NAME)
    keys: dict[str, Any] = {"url": f"{scheme}://{name}:{port}", "resolve": {name: "127.0.0.1"}}
    reach = reach_of("a", Arm.model_validate({**keys, **({"tls": {"ca": PEM}} if tls else {})}))
    assert not reach.usual
    async with httpx.AsyncClient(**reach.httpx_options()) as client:
        assert (await client.get(f"{scheme}://{name}:{port}/metrics")).text == "hi"
    assert f"host: {name}:{port}".encode() in heads[0].lower()


async def test_a_certificate_of_another_name_is_refused(server: Callable[..., Any]) -> None:
    """The name that TLS checks is the URL's, not the address."""
    port, _ = await server(tls=True)
    keys = {"url": f"https://{NAME}:{port}", "resolve": {NAME: "127.0.0.1"}, "tls": {"ca": PEM}}
    reach = reach_of("a", Arm.model_validate(keys))
    async with httpx.AsyncClient(**reach.httpx_options()) as client:
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            await client.get(f"https://{NAME}:{port}/")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"resolve": {"a": "b"}}, "must be an IP address"),
        ({"resolve": {"a b": "1.2.3.4"}}, "pattern"),
        ({"resolve": {"a": "1.2.3.4"}, "proxy": "http://p:1"}, "contradicts proxy"),
    ],
)
def test_what_is_no_address_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Arm.model_validate({"url": "http://a", **keys})
