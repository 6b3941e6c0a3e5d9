"""What a change of the state sets off: webhooks, and, only where it is asked for, the kill switch.

`records` take what came of it in our own words; what others answered is said (`say`), to whoever runs this machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import SecretStr

from loadgen.control import CanaryStanding
from loadgen.errors import SpecloadError
from loadgen.experiment.canary.metrics import CanaryMetrics
from loadgen.experiment.canary.records import Alert, CanaryRecords, window_line
from loadgen.experiment.canary.webhooks import Client, HookCall, Webhooks
from loadgen.experiment.preflight import ReadyArm, arm_secrets
from loadgen.experiment.switch import Switched, dry_run, pull
from loadgen.redact import Redactor
from loadgen.scenario import CanaryKeys, LoadedScenario, Switch, read_secret, switch_secrets

#: A pull that did not work is tried again with the next window that still fails, so often in all.
PULLS = 3
_WORDS = {"delivered": "has worked", "failed": "is not known to have worked", "dry_run": "was not pulled (dry run)"}
_CUT_SHORT = "the monitor ended before it was told whether it worked"
#: A switch as it is to be pulled now: with the address of its host. Raises SpecloadError where it may not be.
Place = Callable[[Switch], Awaitable[Switch]]


async def as_it_is(switch: Switch) -> Switch:
    return switch


class Hooks:
    """`records` must be set before `start`. Raises ScenarioError where a secret cannot be read."""

    records: CanaryRecords

    def __init__(
        self, keys: CanaryKeys, loaded: LoadedScenario, canary: ReadyArm, dry: bool, client: Client,
        metrics: CanaryMetrics, say: Callable[[str], None], place: Place = as_it_is,
    ) -> None:  # fmt: skip
        self._place = place
        self._keys, self._canary, self._dry, self._metrics, self._say = keys, canary, dry, metrics, say
        self._redact = Redactor([*arm_secrets(loaded.scenario), *_secrets(keys)])
        self._webhooks = Webhooks(keys.webhooks, self._redact, self._told, dry_run=dry, client=client)
        self._pulling: asyncio.Task[None] | None = None
        self._under_way: tuple[str, int] | None = None
        self._pulls = 0
        self._pulled = False

    def start(self) -> None:
        self._webhooks.start()

    def changed(self, alert: Alert, standing: CanaryStanding) -> None:
        """Once for each change; returns at once."""
        self._webhooks.tell(alert.id, alert.state, event_of(self.records, alert, standing))
        if alert.state == "fail":
            self._pulls, self._pulled = 0, False

    def standing(self, standing: CanaryStanding) -> None:
        """After each window: the switch is pulled once for a fail, and again only where that did not work."""
        if standing.state != "fail" or self._keys.on_fail != "switch" or self._pulled or self._pulls >= PULLS:
            return
        if self._pulling is None or self._pulling.done():
            self._pulls += 1
            event_id = self.records.result.alerts[-1].id
            self._pulling = asyncio.create_task(self._pull(event_id, self._pulls))

    async def _pull(self, event_id: str, number: int) -> None:
        switch = self._keys.switch
        assert switch is not None, "the scenario's check: on_fail: switch needs one"
        if self._dry:
            self._pulled = True
            return self._of_switch(event_id, "dry_run", number, f"would: {dry_run(switch, 'off', self._redact)}")
        self._under_way = event_id, number
        try:
            switch = await self._place(switch)
            found = await pull(switch, "off", self._redact, Switched(self._canary.targets, self._canary.client))
        except SpecloadError as error:  # a secret that is gone by now, a host that may not be connected to any more
            return self._of_switch(event_id, "failed", number, self._redact(str(error)))
        self._pulled = found.ok
        return self._of_switch(event_id, "delivered" if found.ok else "failed", number, found.said, found.answer)

    def _of_switch(self, event_id: str, result: str, number: int, said: str, answer: str = "") -> None:
        self._under_way = None
        self._say(f"the kill switch {_WORDS[result]}: {said}{f': {answer}' if answer else ''}")
        self._metrics.call("switch", result)
        self.records.call(time.time(), event_id, "switch", result, number, said)

    def _told(self, call: HookCall) -> None:
        if call.result != "delivered":
            why = f"{call.detail}: {call.error}" if call.error else call.detail
            self._say(f"webhook {call.hook}: {call.result.replace('_', ' ')}: {why}")
        self._metrics.call("webhook", call.result)
        self.records.call(time.time(), call.event_id, call.hook, call.result, call.tries, call.detail)

    async def close(self, grace_s: float) -> None:
        """Give what is under way so long. A pull that is cut then may have worked: it is recorded as failed."""
        if self._pulling is not None:
            await asyncio.wait([self._pulling], timeout=grace_s)
            self._pulling.cancel()
            await asyncio.gather(self._pulling, return_exceptions=True)
            if self._under_way is not None:
                event_id, number = self._under_way
                self._of_switch(event_id, "failed", number, _CUT_SHORT)
        await self._webhooks.close(grace_s)


def event_of(records: CanaryRecords, alert: Alert, standing: CanaryStanding) -> dict[str, Any]:
    """What webhooks are sent (docs/hooks.md)."""
    result = records.result
    return {
        "type": "canary.state",
        "timestamp": alert.at,
        "data": {
            "id": alert.id,
            "canary_id": result.canary_id,
            "scenario": result.scenario,
            "environment": result.environment,
            "arm": result.arm,
            "baseline": result.baseline,
            "dry_run": result.dry_run,
            **window_line(standing),
        },
    }


def _secrets(keys: CanaryKeys) -> list[SecretStr]:
    """A webhook's URL may hold its token in its path."""
    found = [SecretStr(hook.url) for hook in keys.webhooks]
    for i, hook in enumerate(keys.webhooks):
        if hook.secret is not None:
            found.append(read_secret(hook.secret, f"canary.webhooks.{i}.secret"))
    if keys.switch is not None and keys.on_fail == "switch":
        found += switch_secrets(keys.switch, "canary.switch")
    return found
