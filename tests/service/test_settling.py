"""Where a monitor's webhooks and kill switch are: looked up and checked anew before each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest

from loadgen.errors import TargetUnusable
from loadgen.experiment import pull
from loadgen.redact import Redactor
from loadgen.scenario import Switch
from loadgen.service.config import OutgoingKeys
from loadgen.service.runner.settling import Settling

KEYS = OutgoingKeys(hosts=["gate.example"], networks=["127.0.0.0/8"])
ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


class Names:
    """The resolver's answer by now; None: there is none."""

    def __init__(self, *found: str) -> None:
        self.found: Sequence[str] | None = found

    async def __call__(self, _host: str, _port: int) -> Sequence[str]:
        if self.found is None:
            raise OSError("the resolver is down")
        return self.found


@asynccontextmanager
async def gate(address: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Its port, and the heads of what it was asked."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, address, 0) as server:
        yield server.sockets[0].getsockname()[1], heads


async def test_a_load_balancer_that_has_moved_is_found() -> None:
    """Also after the resolver has gone: then the last address that was allowed is taken."""
    names = Names("127.0.0.1")
    settling = Settling(KEYS, {"gate.example": "127.0.0.1"}, names)
    async with gate("127.0.0.2") as (port, heads):
        url = f"http://gate.example:{port}/off"
        switch = Switch.model_validate({"off": {"kind": "http", "url": url, "timeout_s": 30}})

        async def post() -> int:
            async with settling.client(url, 30) as client:
                return (await client.post(url)).status_code

        with pytest.raises(httpx.ConnectError):
            await post()
        names.found = ("127.0.0.2",)
        assert await post() == 204
        assert (await pull(await settling.switch(switch), "off", Redactor([]))).ok
        names.found = None
        assert await post() == 204
        assert (await pull(await settling.switch(switch), "off", Redactor([]))).ok
        assert [head.split(b"\r\n")[0] for head in heads] == [b"POST /off HTTP/1.1"] * 4
        assert all(f"Host: gate.example:{port}".lower().encode() in head.lower() for head in heads)


async def test_a_name_that_leads_inside_by_now_is_not_connected_to() -> None:
    """I8: what was allowed at the start is not taken instead."""
    settling = Settling(KEYS, {"gate.example": "127.0.0.1"}, Names("127.0.0.1", "169.254.169.254"))
    async with gate("127.0.0.1") as (port, heads):
        url = f"http://gate.example:{port}/off"
        switch = Switch.model_validate({"off": {"kind": "http", "url": url}})
        async with settling.client(url, 30) as client:
            for where in (url, f"http://other.example:{port}/"):
                with pytest.raises(httpx.ConnectError, match=r"a metadata address|not among outgoing\.hosts"):
                    await client.post(where)
        with pytest.raises(TargetUnusable, match=r"169\.254\.169\.254, a metadata address"):
            await settling.switch(switch)
    assert heads == []


async def test_what_has_no_host_to_look_up_stays_as_it_is() -> None:
    settling = Settling(OutgoingKeys(hosts=["127.0.0.1"], networks=["127.0.0.0/8"]), {}, Names())
    for call in ({"kind": "command", "command": ["true"]}, {"kind": "http", "url": "http://127.0.0.1/off"}):
        switch = Switch.model_validate({"off": call})
        assert await settling.switch(switch) == switch
