"""Clients that are slow, many, or take nothing: a real server, real sockets; only the time is made up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from loadgen.service import serving
from loadgen.service.limits import source_of
from loadgen.service.serving import _Loop
from tests.service.conftest import TOKENS, Live, MakeLive

PEM = Path(__file__).resolve().parents[1] / "drive" / "data" / "localhost.pem"
HOST = "Host: 127.0.0.1\n"
OPS = f"Authorization: Bearer {TOKENS['ops']}\n"


async def into(taken: bytearray, reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(60):
        while piece := await reader.read(1 << 20):
            taken += piece


async def whole(reader: asyncio.StreamReader) -> bytes:
    """Until the other end closes."""
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            return await reader.read()
    return b""


def frozen(service: Live) -> None:
    """No bucket fills again while the test goes on."""
    for limit in (service.service.failures, service.service.guesses, service.service.asks):
        limit._now = lambda: 0.0


def slow(service: Live) -> float:
    return service.service.metrics.value("service_refused_total", reason="slow") or 0.0


@pytest.mark.parametrize("sent", ["", "GET /health HTT", f"GET /health HTTP/1.1\n{HOST}X-Slow: "])
async def test_a_head_that_does_not_come_is_waited_for_so_long(live: MakeLive, sent: str) -> None:
    async with live() as service:
        reader, writer = await service.connect(sent)
        service.later(5)
        assert (await service.client.get("/health")).status_code == 200
        assert slow(service) == 0
        service.later(10.1)
        assert (await whole(reader)).startswith(b"HTTP/1.1 408 ")
        assert slow(service) >= 1
        writer.close()


async def test_a_head_that_trickles_in_gets_no_more_time(live: MakeLive) -> None:
    async with live(limits={"head_timeout_s": 5}) as service:
        reader, writer = await service.connect("GET /health HTTP/1.1\n")
        (one,) = service.server.server_state.connections
        since: Any = one._head_since  # type: ignore[union-attr]
        writer.write(f"{HOST.strip()}\r\nX-A: b".encode().replace(b"\n", b"\r\n"))
        await service.until(lambda: b"X-A" in bytes(one.conn._receive_buffer))  # type: ignore[union-attr]
        assert one._head_since == since  # type: ignore[union-attr]
        service.later(5.1)
        assert (await whole(reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_body_that_does_not_come_is_waited_for_so_long(live: MakeLive) -> None:
    """And who began it is in the audit log."""
    async with live() as service:
        put = f"PUT /api/v1/scenarios/x HTTP/1.1\n{HOST}{OPS}Content-Type: application/yaml\nContent-Length: 100\n\nver"
        reader, writer = await service.connect(put)
        await service.until(lambda: service.service.tokens.seen(TOKENS["ops"]))
        service.later(20)
        assert slow(service) == 0
        service.later(30.1)
        assert (await whole(reader)).startswith(b"HTTP/1.1 408 ")
        audit = service.service.registry.audit
        await service.until(lambda: audit.select())
        (row,) = audit.select()
        assert (row.who, row.action, row.subject, row.status) == ("ops", "PUT /api/v1/scenarios/{name}", "x", 408)
        writer.close()


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("", 401),
        ("Authorization: Bearer sl_ops_wrong\n", 401),
        (f"Authorization: Bearer {TOKENS['eye']}\n", 403),
    ],
)
async def test_nothing_of_a_body_is_waited_for_of_whoever_may_not(live: MakeLive, token: str, status: int) -> None:
    """Answered before the first byte of it; what is sent after that is thrown away for a while, and then the line is
    cut."""
    async with live() as service:
        post = f"POST /api/v1/runs HTTP/1.1\n{HOST}{token}Content-Type: application/json\nContent-Length: 1000000\n\n"
        reader, writer = await service.connect(post)
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        writer.write(b"x" * 1000)
        await writer.drain()
        service.later(1)
        service.later(5.1)
        assert b"408" not in await whole(reader)
        assert slow(service) == 0  # it has its answer: nobody waited for it
        writer.close()


async def test_nothing_of_a_form_is_waited_for_of_whoever_may_not(live: MakeLive) -> None:
    """With a session, too; and of whoever may, nothing where it comes from another's page."""
    async with live() as service:
        for who, more in (("eye", ""), ("ops", "Origin: http://evil.example\n")):
            service.client.cookies.clear()
            answer = await service.client.post("/login", data={"token": TOKENS[who]})
            cookie = answer.headers.get_list("set-cookie")[0].partition(";")[0]
            form = "Content-Type: application/x-www-form-urlencoded\nContent-Length: 100000\n"
            reader, writer = await service.connect(f"POST /runs HTTP/1.1\n{HOST}Cookie: {cookie}\n{more}{form}\n")
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 403 "), who
            writer.close()


async def test_a_service_that_is_stopped_lets_its_watchers_go(
    live: MakeLive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At SIGTERM, and at once: a stream ends whole, one that is opened meanwhile, too; nobody waits for a body."""
    monkeypatch.setattr(serving, "ANSWERS_S", 900)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        async with live() as service:
            row = service.service.registry.runs.add("r", "small", state="running")
            events = service.service.runner.events(row)
            reader, writer = await service.connect(f"GET /api/v1/runs/r/events HTTP/1.1\n{HOST}{OPS}\n")
            await service.until(lambda: events.watchers == 1)
            signal.raise_signal(signal.SIGTERM)
            assert (await whole(reader)).endswith(b"0\r\n\r\n")
            writer.close()
            late = service.service.runner.events(row).watch(None, row.shown())
            assert (await late.take(), await late.take())[1] is None
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_who_is_slow_when_the_service_is_stopped_is_cut_without_a_word(
    live: MakeLive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that does not come has its seconds; then its connection is cut, which is no fault of ours."""
    monkeypatch.setattr(serving, "ANSWERS_S", 0.2)
    async with live() as service:
        put = f"PUT /api/v1/scenarios/x HTTP/1.1\n{HOST}{OPS}Content-Type: application/yaml\nContent-Length: 100\n\nver"
        reader, writer = await service.connect(put)
        await service.until(lambda: service.service.tokens.seen(TOKENS["ops"]))
        service.server.should_exit = True
        assert await whole(reader) == b""
        writer.close()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_login_is_a_small_thing(live: MakeLive) -> None:
    async with live() as service:
        body = "token=" + "x" * 20_000
        answer = await service.client.post("/login", content=body)
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:specload:problem:too-large")
        assert "16,384 bytes" in answer.json()["detail"]


async def test_one_address_has_so_many_connections_before_it_says_who_it_is(live: MakeLive) -> None:
    async with live(limits={"connections_per_address": 2}) as service:
        asked = f"GET /api/v1/me HTTP/1.1\n{HOST}{OPS}\n"
        held = [await service.connect(), await service.connect()]
        refused = service.service.metrics
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        assert (await whole(reader)).startswith((b"HTTP/1.1 503 ", b""))
        writer.close()
        assert refused.value("service_refused_total", reason="connections") == 1
        held[0][1].write(asked.replace("\n", "\r\n").encode())
        async with asyncio.timeout(60):
            assert (await held[0][0].readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        held.append(await service.connect(asked))
        async with asyncio.timeout(60):
            assert (await held[-1][0].readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        assert refused.value("service_refused_total", reason="connections") == 1
        for _, one in held:
            one.close()


async def test_there_are_so_many_connections_in_all(live: MakeLive) -> None:
    """And one that has gone makes room; a trusted proxy is counted here only."""
    listen = {"port": 0, "behind_tls_proxy": True, "trusted_proxies": ["127.0.0.0/8"]}
    limits = {"connections": 2, "connections_per_address": 1}
    async with live(limits=limits, listen=listen) as service:
        held = [await service.connect(), await service.connect()]
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        assert (await whole(reader)).startswith((b"HTTP/1.1 503 ", b""))
        writer.close()
        held.pop()[1].close()
        await service.until(lambda: len(service.server.server_state.connections) == 1)
        held.append(await service.connect(f"GET /health HTTP/1.1\n{HOST}\n"))
        async with asyncio.timeout(60):
            assert (await held[-1][0].readline()).startswith(b"HTTP/1.1 200 ")
        for _, one in held:
            one.close()


async def test_a_watcher_that_takes_nothing_loses_its_stream(live: MakeLive) -> None:
    """And one that reads keeps it."""
    async with live(limits={"watchers_per_token": 2, "requests_per_minute": 1000}) as service:
        row = service.service.registry.runs.add("r", "small", state="running")
        events, watching = service.service.runner.events(row), service.service.watching
        asked = f"GET /api/v1/runs/r/events HTTP/1.1\n{HOST}{OPS}\n".replace("\n", "\r\n").encode()
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(raw, ("127.0.0.1", service.port))
            await loop.sock_sendall(raw, asked)
            await service.until(lambda: events.watchers == 1)
            (stalled,) = service.server.server_state.connections
            reader, writer = await service.connect(asked.decode().replace("\r", "")[:-1] + "Connection: close\n\n")
            (well,) = service.server.server_state.connections - {stalled}
            taken = bytearray()
            reading = asyncio.create_task(into(taken, reader))
            await service.until(lambda: events.watchers == 2)
            said = 0
            async with asyncio.timeout(60):
                while not stalled.transport.get_write_buffer_size():
                    events.publish("said", {"text": "x" * 50_000})
                    said += 1
                    await asyncio.sleep(0.002)
            await service.until(lambda: taken.count(b"event: said") == said)
            assert not well.transport.get_write_buffer_size()
            service.later(0)
            service.later(29)
            assert watching.open == 2
            passed_s = 0
            while watching.open == 2:
                passed_s += 31  # what the kernel still took of it was progress
                service.later(passed_s)
                await asyncio.sleep(0.01)
            assert stalled.transport.is_closing()
            events.publish("ended", {"id": "r"})
            await service.until(lambda: watching.open == 0)
            await reading
            assert taken.count(b"event: ended") == 1
            writer.close()
        assert events.watchers == 0


async def test_who_is_locked_out_is_alone(live: MakeLive) -> None:
    """Behind a trusted proxy an address is what the proxy says it is: neither another client nor another token
    suffers."""
    listen = {"port": 0, "behind_tls_proxy": True, "trusted_proxies": ["127.0.0.1"]}
    async with live(listen=listen, limits={"failures_per_minute": 3}) as service:
        frozen(service)

        async def ask(address: str, token: str) -> int:
            headers = {"X-Forwarded-For": f"6.6.6.6, {address}", "Authorization": f"Bearer {token}"}
            return (await service.client.get("/api/v1/me", headers=headers)).status_code

        assert [await ask("203.0.113.1", "sl_ops_guess") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert await ask("203.0.113.1", TOKENS["ops"]) == 429
        assert await ask("203.0.113.1", TOKENS["eye"]) == 200
        assert await ask("203.0.113.2", TOKENS["ops"]) == 200
        assert {row.address for row in service.service.registry.audit.select()} == {"203.0.113.1"}


async def test_whom_nobody_trusts_does_not_say_where_it_is(live: MakeLive) -> None:
    async with live() as service:
        headers = {"X-Forwarded-For": "203.0.113.1", "Authorization": "Bearer sl_ops_guess"}
        assert (await service.client.get("/api/v1/me", headers=headers)).status_code == 401
        assert [row.address for row in service.service.registry.audit.select()] == ["127.0.0.1"]


async def test_many_names_of_one_address_are_bounded_too_and_tell_nothing(live: MakeLive) -> None:
    """A name that somebody has is refused as one that nobody has."""
    async with live(limits={"failures_per_minute": 1}) as service:
        frozen(service)

        async def ask(name: str) -> int:
            headers = {"Authorization": f"Bearer sl_{name}_guess"}
            return (await service.client.get("/api/v1/me", headers=headers)).status_code

        assert [await ask(name) for name in ("ops", "ops", "nobody", "nobody")] == [401, 429, 401, 429]
        assert [await ask(f"n{i}") for i in range(10)] == [401] * 8 + [429] * 2
        assert await ask("eye") == 429


async def test_whoever_shows_no_token_locks_nobody_out(live: MakeLive) -> None:
    async with live(limits={"failures_per_minute": 1, "requests_per_minute": 3}) as service:
        frozen(service)
        codes = [(await service.client.get("/api/v1/me")).status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert (await service.ask("GET", "/api/v1/me")).status_code == 200


def test_a_tls_handshake_has_its_time() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    async def silent() -> bytes:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                return await whole(reader)
            finally:
                writer.close()

    with asyncio.Runner(loop_factory=lambda: _Loop(0.1)) as runner:
        assert runner.run(silent()) == b""


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("203.0.113.7", "203.0.113.7"), ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"), ("203.0.113.7:80", "unknown"),
        ("", "unknown"), (None, "unknown"),
        ("<script>", "unknown"),
    ],
)  # fmt: skip
def test_a_host_that_has_many_addresses_is_one(address: str | None, source: str) -> None:
    assert source_of(address) == source
