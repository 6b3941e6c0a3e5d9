"""Pulling a switch: what counts as worked, masked words, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from loadgen.experiment import Pulled, Switched, dry_run, pull
from loadgen.redact import Redactor
from loadgen.scenario import Switch, switch_secrets
from server_adapters.base import Target
from server_adapters.rehearsal.config import RehearsalConfig

SECRET = "planted-sesame-4711"
Rehearsal = Callable[[RehearsalConfig], AbstractContextManager[str]]


def switch_of(off: dict[str, Any]) -> Switch:
    return Switch.model_validate({"off": off})


def command(words: str | list[str], **more: Any) -> Switch:
    return switch_of({"kind": "command", "command": words, **more})


async def pulled(switch: Switch, arm: Switched | None = None) -> Pulled:
    return await pull(switch, "off", Redactor([*switch_secrets(switch), SecretStr(SECRET)]), arm)


@pytest.fixture(scope="module")
def engine(rehearsal: Rehearsal) -> Iterator[str]:
    with rehearsal(RehearsalConfig(spec="draft:k=4")) as url:
        yield url


def arm_at(url: str) -> Switched:
    return Switched([Target(url, (), None, {})], lambda timeout_s: httpx.AsyncClient(timeout=timeout_s))


def drafting(url: str) -> bool:
    return bool(httpx.get(f"{url}/rehearsal/truth").json()["speculation_enabled"])


async def test_a_command_that_ends_well_has_worked(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    found = await pulled(command(f'echo "$SPECLOAD_SWITCH $A" > {tmp_path}/done', env={"A": "b c; $(id)"}))
    assert found.ok, found
    assert found.said == "ended with status 0"
    assert before < found.at_ns < time.monotonic_ns()
    assert (tmp_path / "done").read_text() == "off b c; $(id)\n"


async def test_a_list_is_no_shell(tmp_path: Path) -> None:
    assert (await pulled(command(["touch", f"{tmp_path}/a; touch b"]))).ok
    assert os.listdir(tmp_path) == ["a; touch b"]


async def test_what_a_command_says_is_masked_printable_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_SWITCH", SECRET)
    text = r'printf "key %s \033[2J"; head -c 100000 /dev/zero | tr "\0" x; exit 3'
    found = await pulled(command(text.replace("%s", "$TOKEN"), env_from={"TOKEN": {"env": "KEY_OF_THE_SWITCH"}}))
    assert not found.ok
    assert found.said == "ended with status 3"
    assert found.answer.startswith("key *** �[2Jxxx")
    assert len(found.answer) < 600
    assert SECRET not in found.answer


async def test_a_command_that_is_not_there() -> None:
    found = await pulled(command(["specload-no-such-program"]))
    assert not found.ok
    assert "127" in found.said
    assert "cannot start specload-no-such-program" in found.answer


async def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    text = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/pid; sleep 600"
    found = await pulled(command(text, timeout_s=1.0))
    assert not found.ok
    assert found.said == "took longer than 1 s and was ended"
    assert gone(int((tmp_path / "pid").read_text()))


async def test_a_cancelled_pull_leaves_nothing_running(tmp_path: Path, until: Callable[..., Any]) -> None:
    task = asyncio.create_task(pulled(command(f"echo $$ > {tmp_path}/pid; sleep 600")))
    file = tmp_path / "pid"
    await until(lambda: file.exists() and file.read_text().strip(), "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(int(file.read_text()))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def test_http_by_its_status(engine: str) -> None:
    url = f"{engine}/rehearsal/speculation"
    found = await pulled(switch_of({"kind": "http", "url": url, "body": {"enabled": False}}))
    assert found.ok
    assert (found.said, found.answer) == ("HTTP 200", '{"enabled":false}')
    assert found.in_full == 'HTTP 200: {"enabled":false}'
    assert not drafting(engine)
    refused = await pulled(switch_of({"kind": "http", "url": url, "body": {"enabled": True}, "expect_status": [202]}))
    assert not refused.ok, "200 is not what the scenario calls success"
    assert drafting(engine)
    missing = await pulled(switch_of({"kind": "http", "url": f"{engine}/nowhere"}))
    assert not missing.ok
    assert missing.said == "HTTP 404"


async def test_http_goes_to_the_address_that_was_settled(engine: str) -> None:
    """I8: the name is not looked up: it has no address."""
    url = f"{engine.replace('127.0.0.1', 'switch.invalid')}/rehearsal/speculation"
    call = {"kind": "http", "url": url, "body": {"enabled": True}}
    assert not (await pulled(switch_of(call))).ok
    found = await pulled(switch_of({**call, "resolve": {"switch.invalid": "127.0.0.1"}}))
    assert found.ok, found


async def test_http_headers_arrive_and_are_not_told(hostile: Callable[..., Any]) -> None:
    server = await hostile(misbehave=lambda _n, headers: echo(headers))
    call = {"kind": "http", "url": f"{server.url}/v1/completions", "body": {}, "headers": {"X-Key": SECRET}}
    found = await pulled(switch_of(call))
    assert found.ok
    assert found.said == "HTTP 200"
    assert "x-key: ***" in found.answer
    assert SECRET not in found.answer


def echo(headers: dict[str, str]) -> bytes:
    body = "\n".join(f"{k}: {v}" for k, v in headers.items()).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def test_http_that_hangs_or_is_not_there(hostile: Callable[..., Any], free_port: Callable[[], int]) -> None:
    nobody = await pulled(switch_of({"kind": "http", "url": f"http://127.0.0.1:{free_port()}/"}))
    assert not nobody.ok
    assert nobody.said == "cannot be reached (ConnectError)"
    assert "onnect" in nobody.answer
    server = await hostile(pause_s=30)
    call = {"kind": "http", "url": f"{server.url}/v1/completions", "body": {"max_tokens": 2}, "timeout_s": 0.3}
    silent = await pulled(switch_of(call))
    assert (silent.ok, silent.said) == (False, "no answer within 0.3 s")


async def test_the_rehearsal_engine_has_a_switch_of_its_own(engine: str) -> None:
    switch = Switch.model_validate({"off": {"kind": "adapter"}, "on": {"kind": "adapter", "urls": [engine]}})
    off = await pull(switch, "off", Redactor(), arm_at(engine))
    assert off.ok, off
    assert off.said == "1 server has switched speculation off"
    assert off.answer.endswith('{"enabled":false}')
    assert not drafting(engine)
    on = await pull(switch, "on", Redactor(), arm_at("http://127.0.0.1:9"))
    assert on.ok, on
    assert drafting(engine)


async def test_vllm_has_none_and_that_is_said(hostile: Callable[..., Any]) -> None:
    """I6: the version is the server's own word."""
    server = await hostile()
    found = await pulled(switch_of({"kind": "adapter"}), arm_at(server.url))
    assert not found.ok
    assert "no run-time switch of speculation is known of a server" in found.said
    assert "kind http or command" in found.said
    assert "0.32.0" not in found.said
    assert "version 0.32.0, of which no run-time switch of speculation is known" in found.answer


def test_a_dry_run_asks_nothing_and_tells_no_secret() -> None:
    switch = switch_of({"kind": "http", "url": f"http://127.0.0.1:9/off?token={SECRET}", "body": {"on": False}})
    assert dry_run(switch, "off", Redactor()) == (
        'POST http://127.0.0.1:9/off?token=*** with {"on": false} (at most 10 s)'
    )
    assert dry_run(command(["nginx", "-s", "reload"]), "off", Redactor()) == "run nginx -s reload (at most 30 s)"
