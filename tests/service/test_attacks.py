"""What nobody who is well would send, on a real socket: refused, in our own words, and never a 5xx."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

from loadgen.service.roles import ACCESS, Access
from tests.service.conftest import TOKENS, Live, MakeLive, scenario
from tests.service.test_access import filled

HOST = "Host: 127.0.0.1\n"
OPS = f"Authorization: Bearer {TOKENS['ops']}\n"
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}


async def told(service: Live, text: str) -> bytes:
    """The whole answer to a request that is written by hand; it says Connection: close itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(text.replace("\n", "\r\n").encode("latin-1"))
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


PATHS = [
    "/api/v1/runs/..%2f..%2fetc%2fpasswd", "/api/v1/runs/%2e%2e", "/api/v1/runs/a%00b", "/api/v1/runs/a%0d%0aX:y",
    "/api/v1/scenarios/..%2fservice", "/api/v1/scenarios/.hidden", "/api/v1/scenarios/a%0a", "/api/v1/canaries/..%2f..",
    "/assets/0/..%2f..%2fserve.py", "/assets/..%2f0/live.js", "/runs/..%2f", "/api/v1/hooks/argo/canaries/*",
    "/api/v1/targets/one%2f..", "//evil.example/api/v1/me", "http://evil.example/api/v1/me", "/api/v1/runs/%ff%fe",
    "/api/v1/runs/\xe4", "/api/v1/runs/１２", "/api/v1/runs?before=%D9%A3", "/api/v1/audit?limit=1e9",
    "/api/v1/runs/" + "a" * 500, "/login?next=%0d%0aSet-Cookie:%20x=y", "/api/v1/compare?first=../a&second=..",
]  # fmt: skip


async def test_no_path_leads_out(live: MakeLive) -> None:
    """I5: neither out of the folders, nor into a header, nor into a 5xx."""
    async with live() as service:
        for path in PATHS:
            target = path.encode("utf-8").decode("latin-1")
            answer = await told(service, f"GET {target} HTTP/1.1\n{HOST}{OPS}Accept: text/html\nConnection: close\n\n")
            assert 200 <= status(answer) < 500, (path, answer[:300])
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"set-cookie" not in head.lower()
            assert b"root:" not in body
            assert status(answer) >= 400 or path.startswith("/login"), (path, answer[:300])


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ("Host: 127.0.0.1\nHost: evil.example\n", {400, 421}),
        ("", {400, 421}),
        ("Host: evil.example\n", {421}),
        ("Host: 127.0.0.1@evil.example\n", {421}),
        ("Host: 127.0.0.1 evil\n", {400, 421}),
        (f"{HOST}Content-Length: 1\nContent-Length: 2\n", {400}),
        (f"{HOST}Content-Length: 5\nTransfer-Encoding: chunked\n", {400}),
        (f"{HOST}Transfer-Encoding: gzip\n", {400, 501}),
        (f"{HOST}X-A: b\n folded: c\n", {200, 400, 401}),
        (f"{HOST}X-Null: a\x00b\n", {400}),
        (f"{HOST}Expect: 100-continue\nContent-Length: 10\n", {401}),
        (f"{HOST}Upgrade: websocket\nConnection: Upgrade\n", {401}),
    ],
)
async def test_heads_that_two_could_read_in_two_ways_are_refused(live: MakeLive, lines: str, codes: set[int]) -> None:
    async with live() as service:
        answer = await told(service, f"GET /api/v1/me HTTP/1.1\n{lines}Connection: close\n\n")
        assert status(answer) in codes, answer[:200]


@pytest.mark.parametrize("line", ["X-Long: " + "a" * 2_000_000 + "\n", "".join(f"X-{i}: b\n" for i in range(200_000))])
async def test_a_head_without_an_end_is_not_kept(live: MakeLive, line: str) -> None:
    """What the kernel holds at once, and 64 KiB: then the line is cut, perhaps before its answer was read."""
    async with live() as service:
        reader, writer = await service.connect(f"GET /api/v1/me HTTP/1.1\n{HOST}{line}")
        answer = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                answer = await reader.read()
        assert answer[:13] in (b"", b"HTTP/1.1 400 ")
        writer.close()
        assert (await service.ask("GET", "/api/v1/me")).status_code == 200


async def test_a_token_in_a_url_is_none(live: MakeLive) -> None:
    """I4: URLs are written down on the way."""
    token = TOKENS["ops"]
    async with live() as service:
        for path in (
            f"/api/v1/me?token={token}",
            f"/api/v1/me?access_token={token}",
            f"/runs?Authorization=Bearer%20{token}",
        ):
            answer = await service.client.get(path)
            assert answer.status_code == 401
            assert token not in answer.text
        page = await service.client.get(f"/runs?state={token}", headers={"Accept": "text/html"})
        assert page.status_code == 303
        login = await service.client.get(f"/login?next=/x&token={token}")
        assert token not in login.text


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b'{"scenario": ' + b"9" * 5000 + b"}",
        b'{"scenario": "small", "time_budget_s": NaN}', b'{"scenario": "small", "time_budget_s": 1e999}',
        b'{"scenario": "small", "overrides": {"load.0.rate_per_s": NaN}}',
        b'{"scenario": "small", "overrides": {"load.0.rate_per_s": Infinity}}',
        b'{"scenario": "small", "scenario": "../etc"}', b'{"scenario": "small\\n"}', '{"scenario": "ｓmall"}'.encode(),
        b'{"scenario": "small", "arms": {"base": "one\\u0000"}}', b"\xff\xfe{\x00}\x00", b'{"__proto__": {}}',
        b'{"scenario": "small", "overrides": ' + json.dumps({f"k{i}": 1 for i in range(51)}).encode() + b"}",
    ],
)  # fmt: skip
async def test_bodies_that_are_no_request(live: MakeLive, body: bytes) -> None:
    async with live() as service:
        answer = await service.ask("POST", "/api/v1/runs", content=body, headers=JSON)
        assert answer.status_code in (400, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert service.service.registry.runs.count()["queued"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000, "a: " * 1 + "{b: " * 20_000, "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "\n".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]" for i in range(9)),
        "!!python/object/apply:os.system ['true']", "a: !!binary x", "? [a]\n: b", "\x00", "a: 1\na: 2",
    ],
)  # fmt: skip
async def test_yaml_that_is_no_scenario(live: MakeLive, text: str) -> None:
    """I5: neither deep, nor multiplied by aliases, nor an object."""
    async with live() as service:
        answer = await service.ask("PUT", "/api/v1/scenarios/x", content=text.encode(), headers=YAML)
        assert answer.status_code == 422, answer.text
        assert answer.json()["problems"]


async def test_names_are_text_wherever_they_are_shown(live: MakeLive) -> None:
    """A scenario's own words are never markup, nor a header."""
    nasty = '"><script>alert(1)</script>\r\nX-Evil: 1'
    async with live() as service:
        text = scenario(description=nasty)
        assert (await service.ask("PUT", "/api/v1/scenarios/nasty", content=text, headers=YAML)).status_code == 201
        for path in ("/runs/new", "/runs/new?scenario=nasty", "/runs"):
            page = await service.ask("GET", path, headers={"Accept": "text/html"})
            assert page.status_code == 200
            assert "<script>alert" not in page.text
            assert "x-evil" not in page.headers
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")


async def test_every_route_is_closed_before_a_body_comes(live: MakeLive) -> None:
    """Every route that takes one, of nobody: answered though nothing of it was sent."""
    async with live() as service:
        asked: list[tuple[str, str]] = [
            (m, p) for (m, p), access in sorted(ACCESS.items()) if m != "GET" and access is not Access.OPEN
        ]
        assert len(asked) > 10
        for method, path in asked:
            head = f"{method} {filled(path)} HTTP/1.1\n{HOST}Content-Length: 1000\nContent-Type: application/json\n\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
            writer.write(head.replace("\n", "\r\n").encode())
            async with asyncio.timeout(60):
                line: Any = await reader.readline()
            assert line.startswith(b"HTTP/1.1 401 "), (method, path)
            writer.close()
