"""Pulling a kill switch: what was asked, when, and what came of it.

What came of it is said in our own words, which anybody may read; what the other side answered is kept apart, masked,
for whoever runs this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from loadgen.clock import now_ns
from loadgen.errors import ScenarioError
from loadgen.redact import Redactor, printable
from loadgen.scenario import AdapterCall, CommandCall, Direction, HttpCall, Reach, Switch, secrets_of
from server_adapters.base import Target, TargetError
from server_adapters.guarded import Ran, run_guarded
from server_adapters.switching import NotSwitched, switch_speculation

#: Of what a switch said.
SAID_CHARS = 500
_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Pulled:
    """`at_ns` (CLOCK_MONOTONIC): the request or command began. `took_s`: until it was answered or had ended. `ok`: it
    did what its call calls success. `said`: what came of it, in our own words. `answer`: what the other side said, or
    the error's text, masked and printable: for a log or a terminal, never for a record; empty where there is none."""

    at_ns: int
    took_s: float
    ok: bool
    said: str
    answer: str = ""

    @property
    def in_full(self) -> str:
        """For a log or a terminal."""
        return f"{self.said}: {self.answer}" if self.answer else self.said


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch of kind adapter is about: an arm's servers, and a client that reaches them (`ReadyArm.targets`,
    `ReadyArm.client`)."""

    targets: Sequence[Target]
    client: Callable[[float], httpx.AsyncClient]


async def pull(switch: Switch, direction: Direction, redact: Redactor, arm: Switched | None = None) -> Pulled:
    """Pull it. Never raises for what the other side does: `ok` is False, and `said` tells why. Cancelled, a command
    is ended first. `redact` must know the secrets of the switch (`switch_secrets`); `arm`: for kind adapter.

    Raises ScenarioError where a secret cannot be read, ValueError where there is no such direction."""
    call = switch.call(direction)
    begin_ns = now_ns()
    try:
        if isinstance(call, CommandCall):
            return _of_command(await _command(call, direction), call, redact)
        if isinstance(call, HttpCall):
            ok, said, answer = await _http(call)
        else:
            ok, said, answer = await _adapter(call, direction, arm)
    except (TimeoutError, httpx.TimeoutException):
        ok, said, answer = False, f"no answer within {call.timeout_s:g} s", ""
    except (OSError, TargetError, httpx.HTTPError, httpx.InvalidURL) as error:
        ok, said, answer = False, failure(error), str(error)
    return Pulled(begin_ns, (now_ns() - begin_ns) / 1e9, ok, said, _shown(answer, redact))


def failure(error: Exception) -> str:
    """Why nothing was answered, in our own words: the text of an error may hold what the other side sent."""
    if isinstance(error, NotSwitched):
        return error.said
    if isinstance(error, TargetError):
        return "a server cannot be asked"
    if isinstance(error, httpx.RemoteProtocolError):
        return f"no HTTP answer ({type(error).__name__})"
    if isinstance(error, (OSError, httpx.NetworkError)):
        return f"cannot be reached ({type(error).__name__})"
    return f"cannot be asked ({type(error).__name__})"


def dry_run(switch: Switch, direction: Direction, redact: Redactor) -> str:
    """What `pull` would do, in words; nothing is asked and no secret is read."""
    call = switch.call(direction)
    if isinstance(call, HttpCall):
        body = "" if call.body is None else f" with {json.dumps(call.body)}"
        text = f"{call.method} {call.url}{body}"
    elif isinstance(call, CommandCall):
        text = f"run {call.command if isinstance(call.command, str) else ' '.join(call.command)}"
    else:
        text = f"ask {', '.join(call.urls) or 'the servers of the arm'} to switch speculation {direction}"
    return f"{_shown(text, redact)} (at most {call.timeout_s:g} s)"


async def _command(call: CommandCall, direction: Direction) -> Ran:
    secrets = {name: value.get_secret_value() for name, value in secrets_of(call).items()}
    return await run_guarded(call.command, {**call.env, **secrets, "SPECLOAD_SWITCH": direction}, call.timeout_s)


def _of_command(ran: Ran, call: CommandCall, redact: Redactor) -> Pulled:
    if ran.status is None:
        how = f"took longer than {call.timeout_s:g} s and was ended"
    else:
        how = f"ended with status {ran.status}"
    return Pulled(ran.begin_ns, ran.took_s, ran.status == 0, how, _shown(ran.said.strip(), redact))


async def _http(call: HttpCall) -> tuple[bool, str, str]:
    """Whether it worked, what to say of it, and the answer."""
    headers = {name: value.get_secret_value() for name, value in secrets_of(call).items()}
    more: dict[str, Any] = {} if call.body is None else {"json": call.body}
    options = _reach(call).httpx_options()
    async with (
        asyncio.timeout(call.timeout_s),
        httpx.AsyncClient(timeout=call.timeout_s, follow_redirects=False, **options) as client,
        client.stream(call.method, call.url, headers=headers, **more) as answer,
    ):
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece[: _ANSWER_BYTES - len(body)]
            if len(body) >= _ANSWER_BYTES:
                break
    expected = call.expect_status or range(200, 300)
    text = body.decode("utf-8", "replace").strip()
    return answer.status_code in expected, f"HTTP {answer.status_code}", text


def _reach(call: HttpCall) -> Reach:
    resolve = tuple((host.lower(), address) for host, address in call.resolve.items())
    if call.tls is None:
        return Reach("switch", resolve=resolve)
    tls = call.tls
    return Reach("switch", None, None, False, tls.ca, tls.client_cert, tls.client_key, tls.verify, resolve)


async def _adapter(call: AdapterCall, direction: Direction, arm: Switched | None) -> tuple[bool, str, str]:
    if arm is None:
        raise ScenarioError(["switch: kind adapter needs an arm, and none is known here"])
    first = arm.targets[0]
    targets = [replace(first, url=url) for url in call.urls] or list(arm.targets)
    answers = []
    async with arm.client(call.timeout_s) as client:
        for target in targets:
            answers.append(await switch_speculation(client, target, direction == "on"))
    servers = "1 server has" if len(targets) == 1 else f"{len(targets)} servers have"
    return True, f"{servers} switched speculation {direction}", "; ".join(answers)


def _shown(text: str, redact: Redactor) -> str:
    text = printable(redact(text))
    return text if len(text) <= SAID_CHARS else f"{text[:SAID_CHARS]}…"
