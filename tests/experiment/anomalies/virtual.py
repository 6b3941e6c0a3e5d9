"""Whole anomalies runs in virtual time: the real companion beside the load of a simulated engine, on a loop whose clock
jumps to the next thing to do. Only what goes over the wire is played."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from loadgen.analyze import AnomaliesResult, anomalies_found
from loadgen.experiment.anomalies.known import Known
from loadgen.experiment.anomalies.sending import Reply
from loadgen.experiment.anomalies.work import Work, prompts_of
from loadgen.experiment.health import Health
from loadgen.record import Event
from loadgen.scenario import AnomalyKeys
from server_adapters.anomalies import Absent, Expected, Script, Setting, chosen, expected_of
from server_adapters.rehearsal import (
    EngineConfig,
    Models,
    SamplingParams,
    SimulationPlan,
    Stage,
    corpus_cases,
    simulate,
)

ORIGIN_NS = 1_000_000_000_000
CONCURRENCY = 2
SETTING = Setting(
    host="h", path="", headers={}, adapter="openai", model="m", endpoint="completions", max_model_len=2048,
    drafter_max_len=None, speculation=None, max_body_bytes=1000, marker="specload-0a1b2c3d",
)  # fmt: skip


def ns(at_s: float) -> int:
    return ORIGIN_NS + round(at_s * 1e9)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Nothing is waited for but time, and that is skipped."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return self.now_s


class _Skipping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing is left to wait for"
        self._loop.now_s += max(timeout, 0.0)
        return []


@contextmanager
def virtual_time() -> Iterator[VirtualLoop]:
    """The companion's clock is the loop's."""
    loop = VirtualLoop()
    with pytest.MonkeyPatch.context() as patched:
        for module in ("aftermath", "again", "pulse", "work"):
            patched.setattr(f"loadgen.experiment.anomalies.{module}.now_ns", lambda: ns(loop.now_s))
        yield loop
    loop.close()


@dataclass(frozen=True)
class Load:
    """Requests of a simulated engine: (n,) seconds, ascending by `sent_s`; their chunks, from `sent_s` on."""

    sent_s: np.ndarray
    end_s: np.ndarray
    chunks: Sequence[Sequence[tuple[float, int]]]

    def cut(self, begin_s: float, length_s: float) -> Load:
        a, b = np.searchsorted(self.sent_s, [begin_s, begin_s + length_s])
        return Load(self.sent_s[a:b] - begin_s, self.end_s[a:b] - begin_s, self.chunks[a:b])

    @property
    def length_s(self) -> float:
        return float(self.end_s.max())


def simulated_load(models: Models, requests: int) -> Load:
    """Two users of a healthy engine, about five requests a second."""
    cases = tuple(
        corpus_cases(models, {"short_qa": requests}, SamplingParams(temperature=0.7, max_tokens=3), 5)
    )  # fmt: skip
    plan = SimulationPlan({"candidate": EngineConfig(speed=0.1)}, (Stage(cases, concurrency=CONCURRENCY),))
    records = sorted(simulate(plan, 5, models).records, key=lambda r: r.arrival_s)
    slower = requests / 5 / max(r.end_s or 0.0 for r in records)
    return Load(
        np.array([r.arrival_s * slower for r in records]),
        np.array([(r.end_s or 0.0) * slower for r in records]),
        [
            [((at - r.arrival_s) * slower, n) for at, n in zip(r.chunk_times_s, r.chunk_tokens, strict=True)]
            for r in records
        ],
    )


@dataclass(frozen=True)
class World:
    """What a healthy server does by itself. Requests fail with probability `fails`; while it is in trouble, which
    begins `troubles_per_s` and lasts one second on the average, with `fails_in_trouble`. It stands still
    `pauses_per_s`, for 1.5 s on the average. An answer comes out otherwise with probability `flips`."""

    name: str
    fails: float = 0.005
    troubles_per_s: float = 0.0
    fails_in_trouble: float = 0.8
    pauses_per_s: float = 0.0
    flips: float = 0.05


UNAVAILABLE = Reply("answered", 503, "application/json", bytearray(b'{"error": {"message": "busy"}}'))
#: They stand in many answers, as those of instructed models have them.
_PHRASES = [f"phrase number {i} that any of the answers may well hold, " for i in range(8)]


class Texts:
    """Answers to the known prompts: their own words between common phrases; at a near tie another phrase comes."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._own = {prompt: chance.permutation(8)[:3] for prompt in prompts_of(4)}
        self._chance = chance

    def answer(self, prompt: str, flips: float) -> str:
        own = self._own.get(prompt, np.arange(3))
        parts = [f"{hash_of(prompt, i)} {_PHRASES[k]}" for i, k in enumerate(own)]
        if self._chance.random() < flips:
            at = int(self._chance.integers(3))
            words = (f"{_PHRASES[k]}{self._chance.integers(10**6):06d} " for k in self._chance.permutation(8)[: 3 - at])
            parts = [*parts[:at], *words]
        return "".join(parts)


@cache
def hash_of(prompt: str, i: int) -> str:
    return f"{sum(map(ord, prompt)) * (i + 7919) % 999_983:06d}"


class HealthyServer:
    """Beside a load, in virtual time. `loop`'s clock is zero when the load begins."""

    def __init__(self, loop: VirtualLoop, load: Load, world: World, seed: int, answers: Mapping[Script, Reply]) -> None:
        self.loop, self.world, self.chance = loop, world, np.random.default_rng(seed)
        self.texts, self.answers = Texts(self.chance), answers
        length_s = load.length_s
        self._trouble = self._spans(world.troubles_per_s, 1.0, length_s)
        self._pauses = self._spans(world.pauses_per_s, 1.5, length_s)
        self.load = self._paused(load)
        self.load_failed = self._failing(self.load.end_s)
        self._by_end = np.sort(self.load.end_s)
        self._failed_by_end = np.append(0, np.cumsum(self.load_failed[np.argsort(self.load.end_s)]))
        self._asked: list[list[float]] = []

    def _spans(self, per_s: float, mean_s: float, length_s: float) -> np.ndarray:
        n = self.chance.poisson(per_s * length_s)
        begins = np.sort(self.chance.random(n)) * length_s
        return np.stack([begins, begins + self.chance.exponential(mean_s, n)], axis=1)

    def _later(self, at_s: np.ndarray) -> np.ndarray:
        """With the pauses that came before."""
        begins, lengths = self._pauses[:, 0], self._pauses[:, 1] - self._pauses[:, 0]
        return at_s + np.append(0.0, np.cumsum(lengths))[np.searchsorted(begins, at_s)]

    def _paused(self, load: Load) -> Load:
        if not len(self._pauses):
            return load
        sent = self._later(load.sent_s)
        chunks = []
        for first, late, row in zip(load.sent_s, sent, load.chunks, strict=True):
            at_s = self._later(np.array([first + t for t, _ in row])) - late
            chunks.append([(float(at), n) for at, (_, n) in zip(at_s, row, strict=True)])
        return Load(sent, self._later(load.end_s), chunks)

    def _fails(self, at_s: float) -> bool:
        troubled = bool(((self._trouble[:, 0] <= at_s) & (at_s < self._trouble[:, 1])).any())
        return bool(self.chance.random() < (self.world.fails_in_trouble if troubled else self.world.fails))

    def _failing(self, at_s: np.ndarray) -> np.ndarray:
        """As of `_fails`, of many."""
        troubled = np.zeros(len(at_s), dtype=bool)
        for begin, end in self._trouble:
            troubled |= (begin <= at_s) & (at_s < end)
        drawn = self.chance.random(len(at_s))
        return np.asarray(drawn < np.where(troubled, self.world.fails_in_trouble, self.world.fails))

    async def _served(self) -> bool:
        """As long as the load's request that was sent last takes; whether it failed."""
        begun_s = self.loop.time()
        last = min(int(np.searchsorted(self.load.sent_s, begun_s)), len(self.load.end_s) - 1)
        mine = [begun_s, np.inf]
        self._asked.append(mine)
        await asyncio.sleep(float(self.load.end_s[last] - self.load.sent_s[last]))
        mine[1] = self.loop.time()
        return self._fails(mine[1])

    def ended(self) -> tuple[int, int]:
        n = int(np.searchsorted(self._by_end, self.loop.time() - 0.25))
        return n, int(self._failed_by_end[n])

    async def ask(self, prompt: str, within_s: float) -> Known:
        begun_s = self.loop.time()
        failed = await self._served()
        text = None if failed else self.texts.answer(prompt, self.world.flips)
        return Known(ns(begun_s), ns(self.loop.time()), text, "status 503" if failed else None)

    async def send(self, script: Script) -> Sequence[Reply]:
        reply = self.answers[script]
        if reply.ended == "left":  # what was left is let go of at once
            await asyncio.sleep(0.1)
            return [reply]
        return [UNAVAILABLE if await self._served() else reply]

    async def busy(self) -> float | None:
        """A page that is up to a second old."""
        at_s = self.loop.time() - self.chance.random()
        flying = np.searchsorted(self.load.sent_s, at_s) - np.searchsorted(self._by_end, at_s)
        return float(flying + sum(begun <= at_s < end for begun, end in self._asked))

    async def look(self) -> Health:
        """Its health route is honest; a small request may fail like any other."""
        return Health(not await self._served(), "a small request: 503")


def fitting(names: Sequence[str]) -> dict[Script, Reply]:
    """A right answer to each anomaly's bytes."""
    found = {}
    for anomaly in chosen(names, []):
        script = anomaly.make(SETTING)
        assert not isinstance(script, Absent)
        found[script] = _right(expected_of(anomaly, SETTING))
    return found


def _right(expected: Expected) -> Reply:
    if expected.left:
        return Reply("left")
    reply = Reply("answered", 400, "application/json", bytearray(b'{"error": {"message": "no"}}'))
    assert expected.fits("answered", 400, "error"), expected
    return reply


@dataclass
class Whole:
    """Makes whole runs. `made()`: a new run of tests/analyze/conftest.py."""

    made: Callable[[], Any]
    keys: AnomalyKeys
    answers: Mapping[Script, Reply] = field(default_factory=dict)

    def found(
        self, load: Load, world: World, seed: int, spoiled: type[HealthyServer] = HealthyServer
    ) -> AnomaliesResult:
        with virtual_time() as loop:
            server = spoiled(loop, load, world, seed, self.answers)
            events: list[Event] = []

            def note(event: str, at_ns: int | None = None, /, **data: object) -> None:
                events.append(Event(ns(loop.now_s) if at_ns is None else at_ns, event, {"arm": "candidate", **data}))

            work = Work(server, "candidate", self.keys, SETTING, 10.0, seed, server.ended, note, lambda _: None)
            loop.run_until_complete(work.all_of_it(ns(self.keys.before_s)))
            return self._read(server, events, loop.now_s)

    def _read(self, server: HealthyServer, events: list[Event], end_s: float) -> AnomaliesResult:
        made = self.made()
        made.scenario |= {"experiment": "anomalies", "anomalies": self.keys.model_dump()}
        assert end_s < server.load.length_s, "the load is too short"
        made.segment(0, start=0.0, full=0.0, load_end=end_s, end=end_s + 5, concurrency=CONCURRENCY)
        for i in range(int(np.searchsorted(server.load.sent_s, end_s))):
            failed = {"outcome": "http_error"} if server.load_failed[i] else {}
            made.request(server.load.chunks[i], sent=float(server.load.sent_s[i]), **failed)
        return anomalies_found(replace(made.data(), events=tuple(sorted(events, key=lambda e: e.at_ns))))
