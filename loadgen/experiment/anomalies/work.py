"""Anomalies beside the load: a quiet time first, then one after the other, each followed by its aftermath."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from loadgen.analyze import anomalies_found
from loadgen.clock import now_ns
from loadgen.experiment.anomalies.aftermath import Aftermath
from loadgen.experiment.anomalies.again import AFTER_NS, Again, Tried
from loadgen.experiment.anomalies.known import Asker
from loadgen.experiment.anomalies.pulse import Pulse
from loadgen.experiment.anomalies.sending import Place, Reply
from loadgen.experiment.anomalies.server import FirstReplica, Server
from loadgen.experiment.anomalies.shapes import shape_of
from loadgen.experiment.anomalies.witnesses import Witnesses
from loadgen.experiment.companion import Beside
from loadgen.experiment.preflight import ReadyArm
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.plan import Segment, probe_texts
from loadgen.scenario import AnomalyKeys, LoadedScenario, Scenario, limits_of
from server_adapters.anomalies import Absent, Anomaly, Expected, Setting, chosen, expected_of

#: What witnesses and probes ask: tasks whose answers are not alike.
_TASKS = ("code", "short_qa", "long_form", "structured")
_PROBE_SEED, _WITNESS_SEED = 7_000, 7_001
#: In the time before, so far apart.
_NORMAL_S = 0.5
#: A stall is so many times the longest time of the time before in which no request ended.
_STALL_TIMES = 3
#: "Later": 4xx that are about the server, not the request.
_BUSY = frozenset({408, 425, 429})


@dataclass(frozen=True)
class Anomalies:
    """The companion. Everything it does and sees is an event (docs/anomalies.md, "Events")."""

    scenario: Scenario

    async def during(self, segment: Segment, begin_ns: int, beside: Beside) -> None:
        keys, arm = self.scenario.anomalies, beside.ready.arms[segment.arm]

        def note(event: str, at_ns: int | None = None, /, **data: object) -> None:
            beside.event(event, at_ns, arm=arm.name, **data)

        async with arm.client(max(keys.probe_s, 30.0)) as client:
            target, endpoint = arm.targets[0], self.scenario.workload.endpoint
            asker = Asker(client, arm, target, endpoint, keys.witness_tokens)
            server = FirstReplica(client, arm, target, endpoint, asker, place_of(arm), keys.answer_s)
            work = Work(
                server, arm.name, keys, setting_of(self.scenario, arm), limits_of(self.scenario).breaker_wait_s,
                self.scenario.seed, beside.ended, note, beside.say, beside.ready.redact,
                len(self.scenario.arms),
            )  # fmt: skip
            await asyncio.sleep(max(begin_ns - now_ns(), 0) / 1e9)
            await work.all_of_it(begin_ns + round(keys.before_s * 1e9))
        beside.enough(segment)


@dataclass(frozen=True)
class Work:
    """What is done beside the load, once that has begun. `ended`: as of `Beside`."""

    server: Server
    name: str
    keys: AnomalyKeys
    setting: Setting
    wait_s: float
    seed: int
    ended: Callable[[], tuple[int, int]]
    note: Callable[..., None]
    say: Callable[[str], None]
    redact: Callable[[str], str] = str
    arms: int = 1

    async def all_of_it(self, quiet_until_ns: int) -> None:
        keys, pulse = self.keys, Pulse(self.ended)
        probe = probe_texts("code", _PROBE_SEED)[0]
        aftermath = Aftermath(self.server, self.name, probe, keys, self.wait_s, self.note)
        witnesses = Witnesses(
            self.server, prompts_of(keys.witnesses), self.setting.marker, keys.probe_s, self.note, pulse.note
        )
        self.say(f"{self.name}: {keys.before_s:g} s of load alone first …")
        beside = [
            asyncio.create_task(witnesses.work(keys.witness_concurrency)), asyncio.create_task(pulse.work())
        ]  # fmt: skip
        try:
            begin_ns = now_ns()
            await self._quiet(aftermath, witnesses, quiet_until_ns)
            stall_s = max(keys.stall_s, _STALL_TIMES * pulse.longest_s(begin_ns, quiet_until_ns))
            again = Again(aftermath, pulse, self._fits, self.note, self.seed, stall_s, self.arms)
            tried = await self._catalogue(aftermath)
            await asyncio.sleep(max(keys.after_s, AFTER_NS / 1e9))
            suspects = again.suspects(tried)
            if suspects:
                self.say(f"{self.name}: {len(suspects)} suspicions are tried again …")
            await again.work(suspects)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _quiet(self, aftermath: Aftermath, witnesses: Witnesses, until_ns: int) -> None:
        keys = self.keys
        while now_ns() < until_ns:
            await aftermath.normal()
            await asyncio.sleep(min(_NORMAL_S, max((until_ns - now_ns()) / 1e9, 0)))
        aftermath.settled = True
        self.note(
            "quiet_over", witnesses=witnesses.settle(), probe_answers=len(aftermath.answers),
            most_busy=aftermath.most_busy, chosen=len(chosen(keys.include, keys.exclude)) * keys.repeat,
            crossed_chars=witnesses.least,
        )  # fmt: skip

    async def _catalogue(self, aftermath: Aftermath) -> list[Tried]:
        keys, found = self.keys, []
        all_of_them = chosen(keys.include, keys.exclude)
        self.say(f"{self.name}: {len(all_of_them) * keys.repeat} anomalies …")
        for anomaly in all_of_them:
            for repeat in range(keys.repeat):
                begun_ns = now_ns()
                told = await self._one(anomaly, repeat, begun_ns)
                if told is None:
                    break
                ended_ns = now_ns()
                seen = await aftermath.after(anomaly.name, repeat)
                found.append(Tried(anomaly, repeat, begun_ns, ended_ns, told.chance, seen))
                await asyncio.sleep(keys.pause_s)
        self.note("all_sent")
        self.say(f"{self.name}: all anomalies are sent")
        return found

    async def _one(self, anomaly: Anomaly, repeat: int, begun_ns: int) -> _Answers | None:
        """Send it once. The event `anomaly`, of the moment it began; None: `anomaly_skipped`, it cannot be made."""
        script, expected = anomaly.make(self.setting), expected_of(anomaly, self.setting)
        if isinstance(script, Absent):
            self.note(
                "anomaly_skipped", name=anomaly.name, group=anomaly.group, reason=script.reason, unknown=script.unknown
            )
            return None
        self.note("anomaly_begins", begun_ns, name=anomaly.name, repeat=repeat)
        told = _Answers.of(expected, await self.server.send(script), self.redact)
        self.note(
            "anomaly", begun_ns, name=anomaly.name, group=anomaly.group, repeat=repeat, ended_ns=now_ns(),
            expected=expected.words(), source=expected.source, rows=anomaly.rows, connections=len(told.shown),
            fits=not told.unfit, chance=told.chance, got=(told.unfit or told.shown)[0], unfit=len(told.unfit),
        )  # fmt: skip
        return told

    async def _fits(self, anomaly: Anomaly) -> bool:
        """Send it once more."""
        script, expected = anomaly.make(self.setting), expected_of(anomaly, self.setting)
        assert not isinstance(script, Absent), "it was sent before"
        return not _Answers.of(expected, await self.server.send(script), self.redact).unfit


@dataclass(frozen=True, slots=True)
class _Answers:
    """To one anomaly, as events tell them. `unfit`: those that are not as expected; `chance`: each of these is one that
    a server which fails some requests may give to any."""

    shown: list[dict[str, object]]
    unfit: list[dict[str, object]]
    chance: bool

    @classmethod
    def of(cls, expected: Expected, replies: Sequence[Reply], redact: Callable[[str], str]) -> _Answers:
        shown = [_told(reply, redact) for reply in replies]
        wrong = [(reply, told) for reply, told in zip(replies, shown, strict=True)
                 if not expected.fits(reply.ended, reply.status, shape_of(reply)[0])]  # fmt: skip
        return cls(shown, [told for _, told in wrong], bool(wrong) and all(_by_chance(reply) for reply, _ in wrong))


def _by_chance(reply: Reply) -> bool:
    """Failures of the server or of the way there, not what it makes of a request."""
    if reply.ended in ("closed", "timeout", "refused"):
        return True
    return (reply.status or 0) >= 500 or reply.status in _BUSY or shape_of(reply)[0] == "stream_error"


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
