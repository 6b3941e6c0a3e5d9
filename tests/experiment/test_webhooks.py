"""Webhooks: signed, tried a few times, in nobody's way."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from pydantic import SecretStr

from loadgen.errors import ScenarioError
from loadgen.experiment.canary.webhooks import QUEUED, HookCall, Webhooks, key_of, signature
from loadgen.redact import Redactor
from loadgen.scenario import Webhook
from tests.experiment.canary_receiver import receiving, until

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Hooked:
    """Webhooks with a clock that stands and pauses that are only remembered."""

    def __init__(self, *urls: str, dry_run: bool = False, **keys: Any) -> None:
        self.results: list[HookCall] = []
        self.pauses: list[float] = []
        hooks = [Webhook.model_validate({"url": url, "timeout_s": 2.0, **keys}) for url in urls]
        redact = Redactor([SecretStr(url) for url in urls])
        self.webhooks = Webhooks(
            hooks, redact, self.results.append, dry_run=dry_run, pause=self._pause, now=lambda: 17e8
        )

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def ended(self, n: int = 1) -> list[HookCall]:
        await until(lambda: len(self.results) >= n, "all told")
        await self.webhooks.close(5)
        return self.results


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of standardwebhooks.com: id, timestamp and body are signed."""
    key = key_of(SecretStr("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    body = b'{"test": 2432232314}'
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265331, body) != signature(key, "msg", 1614265330, body)


@pytest.mark.parametrize("text", ["not base64!", "c2hvcnQ=", "whsec_", ""])
def test_a_key_that_is_none_is_refused_without_being_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: no value of a secret in a message."""
    with pytest.raises(ValueError, match="base64"):
        key_of(SecretStr(text))
    monkeypatch.setenv("HOOK_KEY", text or "x")
    with pytest.raises(ScenarioError) as refused:
        Hooked("http://127.0.0.1:9/", secret={"env": "HOOK_KEY"})
    assert "canary.webhooks.0.secret" in str(refused.value)
    assert not text or text not in str(refused.value)


async def test_an_event_is_told_once_and_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", SECRET)
    async with receiving() as receiver:
        hooked = Hooked(receiver.url, secret={"env": "HOOK_KEY"})
        hooked.webhooks.start()
        hooked.webhooks.tell("c-3", "fail", {"state": "fail"})
        [call] = await hooked.ended()
    [told] = receiver.told
    assert told.signed_by(KEY)
    assert not told.signed_by(KEY[::-1])
    assert told.event == {"state": "fail"}
    assert told.headers["webhook-id"] == told.headers["idempotency-key"] == "c-3"
    assert told.headers["webhook-timestamp"] == "1700000000"
    assert told.headers["content-type"] == "application/json"
    assert (call.event_id, call.hook, call.result, call.tries, call.detail) == (
        "c-3", "127.0.0.1", "delivered", 1, "HTTP 204",
    )  # fmt: skip


async def test_what_may_pass_is_tried_again_with_the_same_id() -> None:
    async with receiving(lambda n: (503, 429, 200)[n]) as receiver:
        hooked = Hooked(receiver.url)
        hooked.webhooks.start()
        hooked.webhooks.tell("c-3", "fail", {})
        [call] = await hooked.ended()
    assert (call.result, call.tries) == ("delivered", 3)
    assert hooked.pauses == [1.0, 2.0]
    assert {told.headers["webhook-id"] for told in receiver.told} == {"c-3"}
    assert "webhook-signature" not in receiver.told[0].headers


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (400, 1), (302, 1), (500, 3)])
async def test_tries_are_bounded_and_redirects_not_followed(status: int, tries: int) -> None:
    """I5: a redirect could lead anywhere."""
    async with receiving(lambda _n: status) as receiver:
        hooked = Hooked(receiver.url, tries=3)
        hooked.webhooks.start()
        hooked.webhooks.tell("c-3", "fail", {})
        [call] = await hooked.ended()
    assert (call.result, call.tries, call.detail) == ("failed", tries, f"HTTP {status}")
    assert len(receiver.told) == tries


async def test_nobody_there_and_nobody_who_answers() -> None:
    """I4: no word of the URL's path, which may be a token, gets out."""
    async with receiving(lambda _n: None) as receiver:
        hooked = Hooked("http://127.0.0.1:1/planted-path-token", receiver.url, tries=2, timeout_s=0.3)
        hooked.webhooks.start()
        hooked.webhooks.tell("c-3", "fail", {})
        calls = await hooked.ended(2)
    assert sorted(call.result for call in calls) == ["failed", "failed"]
    assert any("no answer within 0.3 s" in call.detail for call in calls)
    assert "planted-path-token" not in str(calls)


async def test_only_the_states_that_are_wanted_and_nothing_in_a_dry_run() -> None:
    async with receiving() as receiver:
        wanted = Hooked(receiver.url, on=["fail"])
        wanted.webhooks.start()
        wanted.webhooks.tell("c-2", "doubtful", {})
        wanted.webhooks.tell("c-3", "fail", {})
        await wanted.ended()
        dry = Hooked(receiver.url, dry_run=True)
        dry.webhooks.start()
        dry.webhooks.tell("c-3", "fail", {})
        [call] = await dry.ended()
    assert [told.headers["webhook-id"] for told in receiver.told] == ["c-3"]
    assert (call.result, call.tries) == ("dry_run", 0)


async def test_a_hook_that_hangs_holds_nobody_up_and_is_said_at_the_end() -> None:
    """Telling returns at once; the queue is bounded; what was not told by the end is said."""
    async with receiving(lambda _n: None) as hanging, receiving() as quick:
        hooked = Hooked(hanging.url, quick.url, timeout_s=30.0)
        hooked.webhooks.start()
        hooked.webhooks.tell("c-0", "fail", {})
        await until(lambda: hanging.told, "the first is under way")
        for i in range(1, QUEUED + 2):
            hooked.webhooks.tell(f"c-{i}", "fail", {})
            await asyncio.sleep(0)
        await until(lambda: len(quick.told) >= QUEUED + 1, "the other is told all")
        await hooked.webhooks.close(0.1)
    by_result: dict[str, int] = {}
    for call in hooked.results:
        by_result[call.result] = by_result.get(call.result, 0) + 1
    # of the hanging one: one under way, QUEUED wait, the last one finds no room
    assert by_result["failed"] == QUEUED + 1
    assert by_result["dropped"] >= 1
    assert sum(by_result.values()) == 2 * (QUEUED + 2)
    assert "the monitor ended before it was told" in {call.detail for call in hooked.results}
