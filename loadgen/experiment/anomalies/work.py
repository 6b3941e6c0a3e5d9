"""Anomalies beside the load: a quiet time first, then one after the other, each followed by its aftermath."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from loadgen.analyze import anomalies_found
from loadgen.clock import now_ns
from loadgen.experiment.anomalies.aftermath import Aftermath
from loadgen.experiment.anomalies.known import Asker
from loadgen.experiment.anomalies.sending import Place, Reply, send
from loadgen.experiment.anomalies.shapes import shape_of
from loadgen.experiment.anomalies.witnesses import Witnesses
from loadgen.experiment.companion import Beside
from loadgen.experiment.preflight import ReadyArm
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.plan import Segment, probe_texts
from loadgen.scenario import LoadedScenario, Scenario, limits_of
from server_adapters.anomalies import Absent, Anomaly, Setting, chosen, expected_of

#: What witnesses and probes ask: tasks whose answers are not alike.
_TASKS = ("code", "short_qa", "long_form", "structured")
_PROBE_SEED, _WITNESS_SEED = 7_000, 7_001
#: In the time before, so far apart.
_NORMAL_S = 0.5


@dataclass(frozen=True)
class Anomalies:
    """The companion. Everything it does and sees is an event (docs/anomalies.md, "Events")."""

    scenario: Scenario

    async def during(self, segment: Segment, begin_ns: int, beside: Beside) -> None:
        keys, arm = self.scenario.anomalies, beside.ready.arms[segment.arm]
        setting = setting_of(self.scenario, arm)

        def note(event: str, at_ns: int | None = None, /, **data: object) -> None:
            beside.event(event, at_ns, arm=arm.name, **data)

        async with arm.client(max(keys.probe_s, 30.0)) as client:
            target, endpoint = arm.targets[0], self.scenario.workload.endpoint
            asker = Asker(client, arm, target, endpoint, keys.witness_tokens)
            aftermath = Aftermath(
                client, arm, target, endpoint, asker, probe_texts("code", _PROBE_SEED)[0], keys,
                limits_of(self.scenario).breaker_wait_s, note,
            )  # fmt: skip
            witnesses = Witnesses(asker, prompts_of(keys.witnesses), setting.marker, keys.probe_s, note)
            await asyncio.sleep(max(begin_ns - now_ns(), 0) / 1e9)
            beside.say(f"{arm.name}: {keys.before_s:g} s of load alone first …")
            watching = asyncio.create_task(witnesses.work(keys.witness_concurrency))
            try:
                chosen_now = len(chosen(keys.include, keys.exclude)) * keys.repeat
                await _quiet(aftermath, witnesses, begin_ns + round(keys.before_s * 1e9), chosen_now, note)
                await self._catalogue(setting, arm, aftermath, beside, note)
                await asyncio.sleep(keys.after_s)
                beside.enough(segment)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _catalogue(
        self, setting: Setting, arm: ReadyArm, aftermath: Aftermath, beside: Beside, note: Callable[..., None]
    ) -> None:
        keys, place = self.scenario.anomalies, place_of(arm)
        all_of_them = chosen(keys.include, keys.exclude)
        beside.say(f"{arm.name}: {len(all_of_them) * keys.repeat} anomalies …")
        for anomaly in all_of_them:
            for repeat in range(keys.repeat):
                if not await _one(anomaly, repeat, setting, place, keys.answer_s, note, beside.ready.redact):
                    break
                await aftermath.after(anomaly.name, repeat)
                await asyncio.sleep(keys.pause_s)
        note("all_sent")
        beside.say(f"{arm.name}: all anomalies are sent")


async def _quiet(
    aftermath: Aftermath, witnesses: Witnesses, until_ns: int, chosen_now: int, note: Callable[..., None]
) -> None:
    while now_ns() < until_ns:
        await aftermath.normal()
        await asyncio.sleep(min(_NORMAL_S, max((until_ns - now_ns()) / 1e9, 0)))
    aftermath.settled = True
    note(
        "quiet_over", witnesses=witnesses.settle(), probe_answers=len(aftermath.answers),
        most_busy=aftermath.most_busy, chosen=chosen_now,
    )  # fmt: skip


async def _one(
    anomaly: Anomaly,
    repeat: int,
    setting: Setting,
    place: Place,
    answer_s: float,
    note: Callable[..., None],
    redact: Callable[[str], str],
) -> bool:
    """Send it once. The event `anomaly`, of the moment it began; `anomaly_skipped` where it cannot be made: False."""
    script, expected = anomaly.make(setting), expected_of(anomaly, setting)
    if isinstance(script, Absent):
        note("anomaly_skipped", name=anomaly.name, group=anomaly.group, reason=script.reason, unknown=script.unknown)
        return False
    begun_ns = now_ns()
    note("anomaly_begins", begun_ns, name=anomaly.name, repeat=repeat)
    replies = await send(place, script, answer_s)
    shown = [_told(reply, redact) for reply in replies]
    unfit = [told for reply, told in zip(replies, shown, strict=True)
             if not expected.fits(reply.ended, reply.status, shape_of(reply)[0])]  # fmt: skip
    note(
        "anomaly", begun_ns, name=anomaly.name, group=anomaly.group, repeat=repeat, ended_ns=now_ns(),
        expected=expected.words(), source=expected.source, rows=anomaly.rows, connections=len(replies),
        fits=not unfit, got=(unfit or shown)[0], unfit=len(unfit),
    )  # fmt: skip
    return True


def _told(reply: Reply, redact: Callable[[str], str]) -> dict[str, object]:
    shape, message = shape_of(reply)
    return {
        "ended": reply.ended, "status": reply.status, "shape": shape, "s": round(reply.seconds, 6),
        "sent_bytes": reply.sent_bytes, "body_bytes": reply.body_bytes, "message": redact(message),
    }  # fmt: skip


def prompts_of(number: int) -> list[str]:
    """Witness prompts: tasks in turn, each with a text of its own."""
    return [probe_texts(_TASKS[i % len(_TASKS)], _WITNESS_SEED + i)[0] for i in range(number)]


def setting_of(scenario: Scenario, arm: ReadyArm) -> Setting:
    keys, target = scenario.anomalies, arm.targets[0]
    url = urlsplit(target.url)
    told = arm.facts.environment.get("speculation.draft_max_len")
    drafter = keys.drafter_max_len or (told.value if told is not None and isinstance(told.value, int) else None)
    return Setting(
        host=url.netloc,
        path=url.path.rstrip("/"),
        headers={name: value.get_secret_value() for name, value in target.headers.items()},
        adapter=arm.adapter.name,
        model=arm.model,
        endpoint=scenario.workload.endpoint,
        max_model_len=arm.capabilities.max_model_len,
        drafter_max_len=drafter,
        speculation=arm.capabilities.speculation,
        max_body_bytes=round(keys.max_body_mb * 1e6),
        marker=f"specload-{secrets.token_hex(4)}",
        spec_method=arm.capabilities.spec_method,
    )


def place_of(arm: ReadyArm) -> Place:
    url = urlsplit(arm.targets[0].url)
    tls, host = url.scheme == "https", url.hostname or ""
    context = arm.reach.ssl_context() if tls else None
    return Place(host, url.port or (443 if tls else 80), context, arm.reach.address_of(host))


async def run_anomalies(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """A run with anomalies beside its load; raises as `run_scenario`."""
    options = replace(options, companion=Anomalies(loaded.scenario), read=anomalies_found)
    return await run_scenario(loaded, options, progress)
