"""Healthy servers in whole anomalies runs: at most one run of a hundred has a false alarm, whatever rule it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze.found import before_after
from loadgen.analyze.quality.family import PROMISED
from loadgen.experiment.anomalies.known import Known
from loadgen.experiment.anomalies.sending import Reply
from loadgen.experiment.anomalies.work import prompts_of
from loadgen.scenario import AnomalyKeys
from server_adapters.anomalies import Script
from server_adapters.rehearsal import load_models
from tests.analyze.conftest import Run
from tests.experiment.anomalies.virtual import (
    UNAVAILABLE,
    HealthyServer,
    Load,
    Whole,
    World,
    fitting,
    simulated_load,
)

NAMES = ("empty", "leave_in_stream", "storm_in_stream")
RUNS, RUN_S = 310, 80.0
WORLDS = (
    World("one in 200 fails"),
    World("one in 20 fails, in bursts", troubles_per_s=1 / 18),
    World("stands still at times", pauses_per_s=1 / 20, flips=0.2),
)


@pytest.fixture(scope="module")
def load() -> Load:
    return simulated_load(load_models(), 6000)


def whole(**keys: Any) -> Whole:
    changed: dict[str, Any] = {"include": list(NAMES), "before_s": 20, "after_s": 1, "latency_ratio": 1.0, **keys}
    return Whole(Run, AnomalyKeys.model_validate(changed), fitting(changed["include"]))


@pytest.mark.slow
def test_healthy_runs_alarm_in_at_most_one_of_a_hundred(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 95 % upper limit, of servers that fail by themselves, in bursts or not, stand still, and flip near ties. A
    fifth of the steady series is enough to tell p of 0.04 %, and takes a fifth of the time."""
    monkeypatch.setattr("loadgen.analyze.found.before_after.STEADY_SERIES", 4_000)
    before_after._steady.cache_clear()
    runs, chance, alarms, suspected, reasons = whole(), np.random.default_rng(11), 0, 0, []
    for run in range(RUNS):
        piece = load.cut(chance.random() * (load.length_s - RUN_S), RUN_S)
        found = runs.found(piece, WORLDS[run % len(WORLDS)], run)
        alarms += found.state == "fail"
        suspected += any(row.again for row in found.arms[0].rows)
        reasons += found.reasons
    assert float(beta.ppf(0.95, alarms + 1, RUNS - alarms)) <= PROMISED, (alarms, reasons)
    assert suspected > RUNS / 3, "many of them give a reason to suspect something"
    before_after._steady.cache_clear()


class Hurt(HealthyServer):
    """An anomaly does something each time it is sent: the one that asks with an empty body."""

    TO = next(iter(fitting(("body_empty",))))
    last_s = -1e9

    async def send(self, script: Script) -> Sequence[Reply]:
        if script == self.TO:
            self.last_s = self.loop.time()
        return await super().send(script)

    def hurt(self, for_s: float) -> bool:
        return self.last_s <= self.loop.time() < self.last_s + for_s


class Refusing(Hurt):
    """It gets 503."""

    async def send(self, script: Script) -> Sequence[Reply]:
        replies = await super().send(script)
        return [UNAVAILABLE] if script == self.TO else replies


class Forgetting(Hurt):
    """The next answer is another one."""

    async def ask(self, prompt: str, within_s: float) -> Known:
        hurt = self.hurt(1.0)
        known = await super().ask(prompt, within_s)
        return replace(known, text=f"{known.text}!") if hurt and known.text else known


class Failing(Hurt):
    """All requests that end in the next second and a half fail."""

    def _fails(self, at_s: float) -> bool:
        return self.hurt(1.5) or super()._fails(at_s)

    def ended(self) -> tuple[int, int]:
        """Of the load, what the witnesses show."""
        return (0, 0)


class Stopping(Hurt):
    """Nothing ends for four seconds."""

    async def _served(self) -> bool:
        failed = await super()._served()
        if self.hurt(4.0):
            await asyncio.sleep(self.last_s + 4.0 - self.loop.time())
        return failed

    def ended(self) -> tuple[int, int]:
        return (0, 0)


@pytest.mark.parametrize(
    ("spoiled", "symptom", "reason"),
    [
        (Refusing, "answer", "body_empty: got 503 error (busy), expected 4xx"),
        (Forgetting, "new", "after body_empty the known-good request was answered otherwise than ever before"),
        (Failing, "failed", "after body_empty the known-good request failed, though the server was alive"),
        (Failing, "all_failed", "all requests that ended while body_empty went on failed"),
        (
            Stopping,
            "stall",
            "no request ended for longer than the limit of a stall (anomalies.stall_s) while body_empty",
        ),
    ],
)
def test_what_one_anomaly_does_each_time_is_found(
    load: Load, spoiled: type[HealthyServer], symptom: str, reason: str
) -> None:
    """On a server that fails one request in 200 by itself."""
    found = whole(include=["empty"]).found(load.cut(100.0, 300.0), WORLDS[0], 3, spoiled)
    assert found.state == "fail"
    assert any(r.startswith(f"candidate: {reason}") for r in found.reasons), found.reasons
    row = next(row for row in found.arms[0].rows if row.name == "body_empty")
    tried = next(one for one in row.again if one.symptom == symptom)
    assert (tried.state, tried.sent, tried.shown, tried.shown_without) == ("confirmed", 5, 5, 0)


class Garbling(HealthyServer):
    """Three seconds after the anomalies began every answer becomes another one."""

    async def ask(self, prompt: str, within_s: float) -> Known:
        known = await super().ask(prompt, within_s)
        if known.text is None or self.loop.time() < 23:
            return known
        return replace(known, text=str(self.chance.random()))


class Mixing(HealthyServer):
    """Some answers go on like another's."""

    async def ask(self, prompt: str, within_s: float) -> Known:
        known = await super().ask(prompt, within_s)
        if known.text is None or self.loop.time() < 23 or self.chance.random() > 0.2:
            return known
        other = next(p for p in prompts_of(4) if p != prompt)
        return replace(known, text=known.text[:8] + self.texts.answer(other, 0.0)[8:])


class Deaf(HealthyServer):
    """What was left goes on."""

    left_s = np.inf

    async def send(self, script: Script) -> Sequence[Reply]:
        replies = await super().send(script)
        self.left_s = min(self.left_s, self.loop.time()) if replies[0].ended == "left" else self.left_s
        return replies

    async def busy(self) -> float | None:
        busy = await super().busy()
        return None if busy is None else busy + (20.0 if self.loop.time() >= self.left_s else 0.0)


@pytest.mark.parametrize(
    ("spoiled", "include", "reason"),
    [
        (Garbling, "types", "the share of known requests that failed or were answered otherwise rose from"),
        (Mixing, "empty", "cross-talk: "),
        (Deaf, "leave_in_stream", "after leave_in_stream more requests ran and waited than in the time before"),
    ],
)
def test_what_lasts_is_found(load: Load, spoiled: type[HealthyServer], include: str, reason: str) -> None:
    found = whole(include=[include]).found(load.cut(100.0, 300.0), WORLDS[0], 3, spoiled)
    assert any(r.startswith(f"candidate: {reason}") for r in found.reasons), found.reasons


class Blind(HealthyServer):
    """Its page does not tell what runs and waits."""

    async def busy(self) -> float | None:
        return None


def test_what_was_left_on_a_server_that_tells_nothing_is_not_shown(load: Load) -> None:
    """H20: nobody could look whether it goes on; what leaves nothing behind needs no look."""
    piece = load.cut(100.0, 300.0)
    found = whole(include=["disconnect"], pause_s=2).found(piece, WORLDS[0], 3, Blind)
    (reason,) = found.reasons
    assert found.state == "inconclusive"
    assert reason.startswith("candidate: whether what leave_connected, leave_in_head, leave_in_body,")
    assert "was not told in the time before (arms.candidate.metrics_urls)" in reason
    assert whole(include=["disconnect"], pause_s=2).found(piece, WORLDS[0], 3).state == "pass"
    assert whole(include=["empty"], pause_s=2).found(piece, WORLDS[0], 3, Blind).state == "pass"
