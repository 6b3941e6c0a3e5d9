"""Who is let in: keys, TLS, certificates, open pages; and that looking changes nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import AccessResult
from loadgen.errors import TargetUnusable
from loadgen.experiment import RunOptions, RunResult, run_experiment
from loadgen.experiment.access import tls
from loadgen.experiment.access.looks import MOST_REQUESTS
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.rehearsal.config import RehearsalConfig
from tests.experiment.access.conftest import KEY, serving
from tests.experiment.anomalies.conftest import Quiet


async def looked(tmp_path: Path, arm: dict[str, Any], **changes: Any) -> AccessResult:
    document = {"version": 1, "name": "access", "experiment": "access", "arms": {"base": arm}, **changes}
    loaded = LoadedScenario(Scenario.model_validate(document), None, "0" * 64)
    result: RunResult = await run_experiment(loaded, RunOptions(tmp_path), Quiet())
    assert isinstance(result.found, AccessResult)
    assert (result.path / "access.json").exists()
    return result.found


def states(found: AccessResult, *checks: str) -> dict[str, str]:
    """The worst state of each check."""
    order = ("fail", "warning", "not_shown", "pass", "info")
    told = {c.check: min((d.state for d in found.checks if d.check == c.check), key=order.index) for c in found.checks}
    return {check: told[check] for check in checks}


def state_of(found: AccessResult, text: str) -> str:
    (one,) = [c.state for c in found.checks if text in c.seen]
    return one


def kept_in(folder: Path, text: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("SPECLOAD_TEST_KEY", KEY)
    return {"api_key": {"env": "SPECLOAD_TEST_KEY"}}


async def test_a_closed_door(door: Any, signed: Any, authority: Path, tmp_path: Path, key: Any) -> None:
    """The key is asked for, the certificate is right, nothing is open: a pass; the key is in no file."""
    server = await door(serving(signed("IP:127.0.0.1", 300)), pages={"/v1/models": (200, ""), "/metrics": (401, "")})
    found = await looked(tmp_path, {"url": server.url, "tls": {"ca": str(authority / "ca.pem")}, **key})
    assert (found.state, found.reasons) == ("pass", [])
    assert states(found, "key_missing", "key_wrong", "key_right", "certificate", "certificate_days", "metrics") == {
        "key_missing": "pass", "key_wrong": "pass", "key_right": "pass", "certificate": "pass",
        "certificate_days": "pass", "metrics": "pass",
    }  # fmt: skip
    assert states(found, "transport", "plain_http", "audit_log")["audit_log"] == "not_shown"
    assert 0 < found.requests <= MOST_REQUESTS
    assert {method for method, _, _ in server.asked} <= {"GET", "OPTIONS", "HEAD"}
    assert not kept_in(tmp_path, KEY)


async def test_an_open_door(door: Any, tmp_path: Path, key: Any) -> None:
    pages = dict.fromkeys(("/v1/models", "/metrics", "/openapi.json", "/server_info"), (200, ""))
    pages |= {"/reset_prefix_cache": (405, "allow: POST\r\n"), "/mine": (200, "")}
    pages["/v1/models"] = (200, "access-control-allow-origin: *\r\nserver: uvicorn\r\n")
    server = await door(None, pages=pages, guarded=("/nothing",))
    found = await looked(tmp_path, {"url": server.url, **key}, access={"routes": ["/mine"]})
    assert found.state == "fail"
    assert states(found, "key_missing", "key_wrong", "metrics", "cors", "transport", "banner") == {
        "key_missing": "fail", "key_wrong": "fail", "metrics": "warning", "cors": "warning", "transport": "warning",
        "banner": "info",
    }  # fmt: skip
    assert state_of(found, "/server_info: status 200: open to all") == "fail"
    assert state_of(found, "/reset_prefix_cache: status 405, allow: POST") == "warning"
    assert state_of(found, "/mine: status 200") == "warning"
    assert ("OPTIONS", "/reset_prefix_cache", None) in server.asked
    assert not [path for method, path, _ in server.asked if path in ("/sleep", "/mine") and method == "GET"]
    assert any("key_missing: status 200: let in" in reason for reason in found.reasons)


@pytest.mark.parametrize("status", [302, 429, 503])
async def test_sent_elsewhere_or_asked_too_often_says_nothing(door: Any, tmp_path: Path, key: Any, status: int) -> None:
    """A login page is no open door, and not a closed one either; nor is a server that is too busy for the right key."""
    pages = dict.fromkeys(("/v1/models", "/v1/completions", "/metrics", "/server_info"), (status, ""))
    server = await door(None, pages=pages, guarded=("/nothing",))
    found = await looked(tmp_path, {"url": server.url, **key})
    checks = ("key_missing", "key_wrong", "key_right", "metrics")
    assert states(found, *checks) == dict.fromkeys(checks, "not_shown")
    assert found.state == "inconclusive"
    assert state_of(found, f"/server_info: status {status}") == "not_shown"


@pytest.mark.parametrize(("endpoint", "state"), [("completions", "pass"), ("chat", "inconclusive")])
async def test_the_route_that_is_asked_must_be_seen_to_be_guarded(
    door: Any, tmp_path: Path, endpoint: str, state: str
) -> None:
    """A gateway that asks for a key at /v1/models and /v1/completions, and says 405 to a GET of the third."""
    pages = {"/v1/chat/completions": (405, "allow: POST\r\n")}
    server = await door(None, pages=pages, guarded=("/v1/models", "/v1/completions"))
    found = await looked(tmp_path, {"url": server.url}, access={"endpoint": endpoint})
    assert states(found, "key_missing", "completions_key_missing", "chat_key_missing", "chat_key_wrong") == {
        "key_missing": "pass", "completions_key_missing": "pass", "chat_key_missing": "not_shown",
        "chat_key_wrong": "not_shown",
    }  # fmt: skip
    assert found.state == state
    assert found.reasons == [
        f"base: {server.url}: chat_key_{name}: status 405: says nothing of keys"
        for name in ("missing", "wrong")
        if endpoint == "chat"
    ]


async def test_a_stranger_with_credentials(door: Any, tmp_path: Path) -> None:
    lines = "access-control-allow-origin: https://elsewhere.invalid\r\naccess-control-allow-credentials: true\r\n"
    server = await door(None, pages={"/v1/models": (200, lines)})
    found = await looked(tmp_path, {"url": server.url})
    assert states(found, "cors", "key_right", "key_missing") == {
        "cors": "fail", "key_right": "not_shown", "key_missing": "pass"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "days", "words", "left"),
    [
        ("DNS:elsewhere.test", 300, "mismatch", "pass"),
        ("IP:127.0.0.1", 10, None, "warning"),
    ],
)
async def test_certificates(
    door: Any,
    signed: Any,
    authority: Path,
    tmp_path: Path,
    key: Any,
    names: str,
    days: int,
    words: str | None,
    left: str,
) -> None:
    """Another name's, and one that ends soon. A key is never sent over TLS that is not trusted."""
    server = await door(serving(signed(names, days)), pages={"/v1/models": (200, "")})
    found = await looked(tmp_path, {"url": server.url, "tls": {"ca": str(authority / "ca.pem")}, **key})
    (certificate,) = [c for c in found.checks if c.check == "certificate"]
    assert certificate.state == ("fail" if words else "pass")
    assert (words or "accepted") in certificate.seen
    assert states(found, "certificate_days") == {"certificate_days": left}
    if words:
        assert found.state == "fail"
        assert {authorization for _, _, authorization in server.asked} == {None}
        assert states(found, "key_missing", "key_wrong", "key_right") == {
            "key_missing": "pass", "key_wrong": "not_shown", "key_right": "not_shown"
        }  # fmt: skip


async def test_an_authority_nobody_knows(door: Any, signed: Any, tmp_path: Path) -> None:
    server = await door(serving(signed("IP:127.0.0.1", 300)), pages={})
    found = await looked(tmp_path, {"url": server.url})
    assert states(found, "certificate", "certificate_days") == {"certificate": "fail", "certificate_days": "pass"}


def test_an_expired_certificate_is_called_that(signed: Any) -> None:
    found = tls._days({"notAfter": "Jan  1 00:00:00 2020 GMT"})
    assert found is not None
    assert found < 0
    assert tls._days({}) is None


async def test_versions_of_tls(door: Any, signed: Any) -> None:
    """1.2 and 1.3 are taken; what this machine's own TLS cannot offer is not shown, with the reason."""
    server = await door(serving(signed("IP:127.0.0.1", 300)))
    host, port = "127.0.0.1", int(server.url.rsplit(":", 1)[1])
    told = [await asyncio.to_thread(tls.version, host, port, n, 5.0) for n in range(4)]
    assert [name for name, _, _ in told] == ["1.0", "1.1", "1.2", "1.3"]
    assert [takes for _, takes, _ in told[2:]] == [True, True]
    assert all(takes in (False, None) and why for _, takes, why in told[:2])
    only = await door(serving(signed("IP:127.0.0.1", 300), least=ssl.TLSVersion.TLSv1_3))
    _, takes, why = await asyncio.to_thread(tls.version, "model.invalid", port, 3, 5.0, host)
    assert takes, why
    name, takes, _ = await asyncio.to_thread(tls.version, host, int(only.url.rsplit(":", 1)[1]), 2, 5.0)
    assert (name, takes) == ("1.2", False)


async def test_plain_http_beside_it(door: Any) -> None:
    server = await door(None, pages={"/": (200, "")})
    host, port = "127.0.0.1", int(server.url.rsplit(":", 1)[1])
    assert await asyncio.to_thread(tls.plain_http, host, port, 5.0) == "HTTP/1.1 200 -"
    assert await asyncio.to_thread(tls.plain_http, "model.invalid", port, 5.0, host) == "HTTP/1.1 200 -"
    with socket.socket() as closed:
        closed.bind((host, 0))
        assert await asyncio.to_thread(tls.plain_http, host, closed.getsockname()[1], 1.0) is None


async def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(TargetUnusable, match="no server of base answers"):
            await looked(tmp_path, {"url": url})


async def test_no_more_than_fifty_requests(door: Any, tmp_path: Path) -> None:
    """Many replicas: the rest is not shown, and says why."""
    servers = [await door(None, pages={"/v1/models": (200, "")}) for _ in range(6)]
    found = await looked(tmp_path, {"urls": [s.url for s in servers], "metrics_urls": []})
    assert found.requests == MOST_REQUESTS
    assert sum(len(s.asked) for s in servers) == MOST_REQUESTS
    assert any("50 requests are all" in c.seen for c in found.checks)


@pytest.mark.parametrize("asks", [True, False])
async def test_on_the_command_line(
    rehearsal: Any, cli: Any, tmp_path: Path, key: Any, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Production, and no word of load in the scenario: exit code 99 for what is open. A server that asks for a key only
    under /v1 leaves its development routes open."""
    config = RehearsalConfig(model="8b", api_key_env="SPECLOAD_TEST_KEY" if asks else None)
    with rehearsal(config) as url:
        text = {"version": 1, "name": "a", "experiment": "access", "arms": {"base": {"url": url, **key}}}
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(text))
        ended = await cli("run", "a.yaml")
    assert ended.code == 99, ended.said
    assert "access: FAIL" in ended.out
    assert ("key_missing: status 200: let in" in ended.out) is not asks
    assert "/server_info: status 200: open to all" in " ".join(ended.out.split())
    assert KEY not in ended.said
    (run,) = (tmp_path / "runs").iterdir()
    again = await cli("report", str(run))
    assert again.code == 0
    assert "access: FAIL" in again.out
