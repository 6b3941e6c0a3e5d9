"""Telling others that the state has changed: signed, at most a few times, and never in the monitor's way.

Headers and signature are those of Standard Webhooks (standardwebhooks.com), so that receivers verify with a library
that is there already: `webhook-id`, `webhook-timestamp` (Unix seconds), `webhook-signature` "v1," and the base64 of
HMAC-SHA256 over "id.timestamp.body".
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
import orjson
from pydantic import SecretStr

from loadgen.errors import ScenarioError
from loadgen.experiment.switch import failure
from loadgen.redact import Redactor, one_line
from loadgen.scenario import Reach, Webhook, read_secret

HookResult = Literal["delivered", "failed", "dropped", "dry_run"]
#: Events that one webhook may still have to tell; a further one is dropped, and said to be.
QUEUED = 64
LONGEST_WAIT_S = 60.0
#: Answers that may be others a moment later; any other that is no 2xx is final.
_AGAIN = frozenset({408, 425, 429, *range(500, 600)})
_LEAST_KEY_BYTES = 16

Client = Callable[[str, float], AbstractAsyncContextManager[httpx.AsyncClient]]


@dataclass(frozen=True, slots=True)
class HookCall:
    """What came of telling one event to one webhook. `hook`: its host; `detail`: the last answer's status, or what
    failed, in our own words. `error`: the error's text, masked, for a log: it may hold what the receiver sent."""

    event_id: str
    hook: str
    result: HookResult
    tries: int
    detail: str
    error: str = ""


def key_of(text: SecretStr) -> bytes:
    """Raises ValueError where the text is no base64 of at least 16 bytes."""
    value = text.get_secret_value().removeprefix("whsec_")
    try:
        key = base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("is not base64") from None
    if len(key) < _LEAST_KEY_BYTES:
        raise ValueError(f"must be base64 of at least {_LEAST_KEY_BYTES} bytes")
    return key


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    signed = b".".join((event_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def plain_client(url: str, timeout_s: float) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """No proxies of the environment, no redirects."""
    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False, **Reach("webhook").httpx_options())


class Webhooks:
    """Tells each webhook the events that it wants, one after the other and each by its own task. `on_result` hears of
    every event told, or not. `client` makes what connects; `pause` waits between tries. Raises ScenarioError where a
    secret cannot be used."""

    def __init__(
        self,
        hooks: Sequence[Webhook],
        redact: Redactor,
        on_result: Callable[[HookCall], None],
        *,
        dry_run: bool = False,
        client: Client = plain_client,
        pause: Callable[[float], Any] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._on_result, self._dry_run = on_result, dry_run
        self._channels = [_Channel(i, hook, redact, client, pause, now) for i, hook in enumerate(hooks)]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(channel.name for channel in self._channels))

    def start(self) -> None:
        self._tasks = [asyncio.create_task(channel.work(self._on_result)) for channel in self._channels]

    def tell(self, event_id: str, state: str, event: Mapping[str, Any]) -> None:
        """Returns at once."""
        body = orjson.dumps(event)
        for channel in self._channels:
            if state not in channel.wants:
                continue
            if self._dry_run:
                self._on_result(HookCall(event_id, channel.name, "dry_run", 0, "would have been told"))
            elif not channel.offer(event_id, body):
                said = f"{QUEUED} events wait already"
                self._on_result(HookCall(event_id, channel.name, "dropped", 0, said))

    async def close(self, grace_s: float) -> None:
        """Give what is under way so long; what is not told then is said to have failed."""
        waiting = [asyncio.create_task(channel.queue.join()) for channel in self._channels]
        if waiting:
            await asyncio.wait(waiting, timeout=grace_s)
        for task in (*waiting, *self._tasks):
            task.cancel()
        await asyncio.gather(*waiting, *self._tasks, return_exceptions=True)
        for channel in self._channels:
            for call in channel.given_up():
                self._on_result(call)


class _Channel:
    """One webhook."""

    def __init__(self, number: int, hook: Webhook, redact: Redactor, client: Client, pause: Callable[[float], Any],
                 now: Callable[[], float]) -> None:  # fmt: skip
        self.name = urlsplit(hook.url).hostname or "?"
        self.wants = frozenset(hook.on)
        self.queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(QUEUED)
        self._hook, self._redact, self._client, self._pause, self._now = hook, redact, client, pause, now
        self._key = None
        self._under_way: tuple[str, int] | None = None
        if hook.secret is not None:
            where = f"canary.webhooks.{number}.secret"
            try:
                self._key = key_of(read_secret(hook.secret, where))
            except ValueError as error:
                raise ScenarioError([f"{where} {error}: make one with `openssl rand -base64 32`"]) from None

    def offer(self, event_id: str, body: bytes) -> bool:
        if self.queue.full():
            return False
        self.queue.put_nowait((event_id, body))
        return True

    async def work(self, on_result: Callable[[HookCall], None]) -> None:
        while True:
            event_id, body = await self.queue.get()
            self._under_way = (event_id, 0)
            call = await self._deliver(event_id, body)
            self._under_way = None
            self.queue.task_done()
            on_result(call)

    def given_up(self) -> list[HookCall]:
        found = []
        if self._under_way is not None:
            event_id, tries = self._under_way
            found.append(HookCall(event_id, self.name, "failed", tries, "the monitor ended before it was told"))
        while not self.queue.empty():
            event_id, _ = self.queue.get_nowait()
            found.append(HookCall(event_id, self.name, "failed", 0, "the monitor ended before it was told"))
        return found

    async def _deliver(self, event_id: str, body: bytes) -> HookCall:
        """The same id at every try, and a new timestamp."""
        said = error = ""
        for tried in range(1, self._hook.tries + 1):
            self._under_way = (event_id, tried)
            again, said, error = await self._post(event_id, body)
            if again is None:
                return HookCall(event_id, self.name, "delivered", tried, said)
            if not again or tried == self._hook.tries:
                break
            await self._pause(min(2.0 ** (tried - 1), LONGEST_WAIT_S))
        return HookCall(event_id, self.name, "failed", tried, said, error)

    async def _post(self, event_id: str, body: bytes) -> tuple[bool | None, str, str]:
        """Whether it may be tried again, None: it was taken; what came of it, and the text of an error."""
        stamp = int(self._now())
        headers = {
            "content-type": "application/json",
            "user-agent": "specload",
            "webhook-id": event_id,
            "webhook-timestamp": str(stamp),
            "idempotency-key": event_id,
        }
        if self._key is not None:
            headers["webhook-signature"] = signature(self._key, event_id, stamp, body)
        try:
            async with (
                asyncio.timeout(self._hook.timeout_s),
                self._client(self._hook.url, self._hook.timeout_s) as client,
                client.stream("POST", self._hook.url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
        except (TimeoutError, httpx.TimeoutException):
            return True, f"no answer within {self._hook.timeout_s:g} s", ""
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return True, failure(error), one_line(self._redact(str(error)))[:200]
        return (None if 200 <= status < 300 else status in _AGAIN), f"HTTP {status}", ""
