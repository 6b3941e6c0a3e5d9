"""Worker processes against a server that plays scripts: one plan, one run directory, nothing lost but what died."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest

from loadgen.clock import now_ns
from loadgen.control import Sample
from loadgen.drive import (
    Accounting,
    Asking,
    Attempt,
    Budget,
    Deadlines,
    DriveArm,
    DriveLimits,
    LoopHealth,
    SegmentResult,
    WorkerEnd,
    Workers,
    WorkerSetup,
)
from loadgen.drive.workers import merge_results
from loadgen.export import Exporter, Metrics
from loadgen.plan import ESTIMATE, Plan
from loadgen.record import Manifest, RunData, RunWriter, open_run
from loadgen.redact import Redactor
from server_adapters import adapter_named
from server_adapters.base import Capabilities, Sampling, Target

MS = 1_000_000
CAPABILITIES = Capabilities(
    ("m",), 2048, "1", True, True, 4, None, True, True, "detailed", False, True, True, True, False
)
MakePlan = Callable[..., Plan]


def manifest(workers: int) -> Manifest:
    return Manifest(
        run_id="r", specload_version="0", started="2026-01-01T00:00:00Z", scenario={}, scenario_path=None,
        scenario_sha256="0", plan_hash="p", workers=workers, design="sequential", length_model={}, arms={}, client={},
    )  # fmt: skip


@dataclass
class Crew:
    """Workers, and the run directory they write into."""

    workers: Workers
    writer: RunWriter
    plan: Plan
    lost: list[str]
    ended: list[tuple[int, int]]
    ends: list[WorkerEnd] = field(default_factory=list)

    async def drive(self, number: int = 0) -> SegmentResult:
        segment = self.plan.segments[number]
        await self.workers.prepare([segment], ESTIMATE)
        return await self.workers.drive(segment, now_ns() + 250 * MS)

    async def close(self) -> RunData:
        self.ends = await self.workers.close()
        self.writer.finish("finished", workers=self.ends)
        return open_run(self.writer.path)


MakeCrew = Callable[..., Awaitable[Crew]]


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[MakeCrew]:
    """crew(url, plan, workers, cold=False, shared_prefix=False, sinks_at=path, **options of Workers), started"""
    made: list[Crew] = []

    async def make(url: str, plan: Plan, workers: int, **more: Any) -> Crew:
        writer = RunWriter(tmp_path / str(len(made)), manifest(workers))
        sinks = writer.sinks({s.number: s for s in plan.segments})
        if (path := more.pop("sinks_at", None)) is not None:
            sinks = replace(sinks, path=path)
        asking = Asking(
            tuple(Sampling() for _ in plan.workload.tasks),
            cold=more.pop("cold", False),
            shared_prefix=more.pop("shared_prefix", False),
        )
        arm = DriveArm("base", adapter_named("vllm"), (Target(url, (), "m", {}),), "m", CAPABILITIES, "chat")
        limits = DriveLimits(Deadlines(2000 * MS, None, None, None), 20_000 * MS)
        watched, teller = more.pop("watched", False), more.pop("teller", None)
        setup = WorkerSetup((arm,), plan, ESTIMATE, limits, asking, Redactor(), sinks, watched=watched, teller=teller)
        lost: list[str] = []
        ended: list[tuple[int, int]] = []
        one = Workers(setup, workers, on_lost=lost.append, on_ended=lambda *n: ended.append(n), **more)
        made.append(Crew(one, writer, plan, lost, ended))
        await one.start()
        return made[-1]

    yield make
    for one in made:
        await one.workers.close()


def check_books(result: SegmentResult) -> Accounting:
    books = result.accounting
    assert books.scheduled == books.sent + books.dropped + books.unsent
    return books


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def asked(server: Any) -> Counter[bytes]:
    """What the server was asked, whatever the order."""
    return Counter(orjson.dumps(orjson.loads(got.body), option=orjson.OPT_SORT_KEYS) for got in server.got)


@pytest.mark.parametrize(
    "load",
    [
        {"kind": "arrival_rate", "rate_per_s": 40, "duration_s": 1, "arrivals": "poisson"},
        {"kind": "concurrency", "concurrency": 3, "cases": 17},
    ],
    ids=["open", "closed"],
)
async def test_two_workers_ask_what_one_asks_when_it_asks_it(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew, load: dict[str, Any]
) -> None:
    """H14: the same plan for any number of workers: requests, cases, due times; all rows in one directory. Every
    worker counts its times from the same moment."""
    plan = plan_of([load], seed=3)
    found = []
    for workers in (1, 2):
        server = await play(http.answer(2))
        one = await crew(server.url, plan, workers)
        result = await one.drive()
        run = await one.close()
        rows = run.requests.to_pylist()
        books = check_books(result)
        assert books.sent == len(rows) == len(server.got) == sum(n for n, _ in one.ended) > 10
        assert {row["outcome"] for row in rows} == {"ok"}
        assert {row["worker"] for row in rows} == set(range(workers))
        assert {row["worker"] for row in run.health.to_pylist()} == set(range(workers))
        assert one.lost == []
        assert [end.died for end in one.ends] == [None] * workers
        opened = load["kind"] == "arrival_rate"
        due = [row["due_ns"] - result.started_ns if opened else 0 for row in rows]
        found.append(
            (sorted(zip(due, [r["seq"] for r in rows], [r["case_id"] for r in rows], strict=True)), asked(server))
        )
    assert found[0] == found[1]
    if load["kind"] == "arrival_rate":
        assert [due for due, _, _ in found[1][0]] == sorted(plan.segments[0].load.due_ns.tolist())  # type: ignore[union-attr]


async def test_slots_are_split_and_never_more_in_flight_than_planned(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """E15: five slots of three workers are five at the server; a worker without a slot in a segment is not asked."""
    server = await play(lambda n, _got: http.answer(2, gap_s=1.0 if n < 5 else 0.0))
    load = [{"kind": "concurrency", "concurrency": n, "cases": 20} for n in (5, 1)]
    one = await crew(server.url, plan_of(load), 3)
    first = await one.drive(0)
    assert max(got.live for got in server.got) == 5
    second = await one.drive(1)
    assert max(got.live for got in server.got[20:]) == 1
    rows = (await one.close()).requests.to_pylist()
    assert (check_books(first).sent, check_books(second).sent) == (20, 20)
    assert {row["worker"] for row in rows if row["segment"] == 1} == {0}
    assert [Counter(r["seq"] for r in rows if r["segment"] == s) for s in (0, 1)] == [Counter(range(20))] * 2


async def test_max_requests_is_exact_over_all_workers(play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew) -> None:
    """safety.max_requests: a plan of exactly so many finishes, whoever sends them; then not one more."""
    server = await play(http.answer(1))
    load = [
        {"kind": "concurrency", "concurrency": 1, "cases": 3},
        {"kind": "concurrency", "concurrency": 4, "duration_s": 30},
    ]
    one = await crew(server.url, plan_of(load), 2, max_requests=14)
    whole = await one.drive(0)
    ended = await one.drive(1)
    assert (check_books(whole).sent, whole.aborted) == (3, None)
    assert (check_books(ended).sent, ended.aborted) == (11, "policy")
    assert one.workers.counts.sent == len(server.got) == (await one.close()).requests.num_rows == 14


@pytest.mark.parametrize("watched", [True, False])
async def test_samples_of_what_ended_reach_the_coordinator_where_someone_watches(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew, watched: bool
) -> None:
    """Every request once, failed ones too, with the times of its record."""
    server = await play(lambda n, _got: [b"HTTP/1.1 500 -\r\ncontent-length: 0\r\n\r\n"] if n == 3 else http.answer(2))
    told: list[Sample] = []
    load = [{"kind": "concurrency", "concurrency": 2, "cases": 12}]
    one = await crew(server.url, plan_of(load), 2, watched=watched, on_samples=told.extend)
    await one.drive()
    rows = (await one.close()).requests.to_pylist()
    assert len(rows) == 12
    if not watched:
        assert told == []
        return
    assert sorted(s.failed for s in told) == [False] * 11 + [True]
    seen = sorted(s.times[0] for s in told if s.times[0] is not None and not s.failed)
    assert seen == sorted(row["ttft_s"] for row in rows if row["outcome"] == "ok")


async def test_the_rate_cap_is_shared_by_those_who_work(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """E9: two workers have half of it each; one that works alone has it all."""
    server = await play(http.answer(1))
    load = [{"kind": "concurrency", "concurrency": n, "cases": cases} for n, cases in ((2, 24), (1, 12))]
    one = await crew(server.url, plan_of(load), 2, max_requests_per_second=20)
    await one.drive(0)
    alone = await one.drive(1)
    rows = (await one.close()).requests.to_pylist()
    for worker in (0, 1):
        sent = sorted(r["sent_ns"] for r in rows if (r["segment"], r["worker"]) == (0, worker))
        assert len(sent) == 12
        assert sent[10] - sent[0] >= 500 * MS
    assert (check_books(alone).sent, check_books(alone).capped_rate) == (12, 0)


async def test_salts_of_a_segment_are_the_same_in_every_worker(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """A shared prefix can hit whoever asked it first; without one, no two requests share a salt."""
    for shared, distinct in ((True, 1), (False, 8)):
        server = await play(http.answer(1))
        plan = plan_of([{"kind": "concurrency", "concurrency": 4, "cases": 8}])
        one = await crew(server.url, plan, 2, cold=True, shared_prefix=shared)
        await one.drive()
        await one.close()
        salts = {orjson.loads(got.body)["cache_salt"] for got in server.got}
        assert len(salts) == distinct
        assert len({salt.split("-")[0] for salt in salts}) == 1


async def test_first_stop_drains_second_cuts(play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew) -> None:
    plan = plan_of([{"kind": "concurrency", "concurrency": 4, "duration_s": 30}])
    server = await play(lambda n, _got: [http.head(), 1.0, "hang"] if n % 4 == 3 else http.answer(2, gap_s=0.5))
    one = await crew(server.url, plan, 2)
    driven = asyncio.create_task(one.drive())
    await eventually(lambda: server.live == 4)
    one.workers.stop("user_stop")
    sent = len(server.got)
    await eventually(lambda: server.live == 1)
    assert not driven.done()
    one.workers.stop("user_stop")
    result = await driven
    rows = (await one.close()).requests.to_pylist()
    assert check_books(result).sent == len(rows) == len(server.got) == sent == 4
    assert result.aborted == "user_stop"
    assert Counter(row["outcome"] for row in rows) == {"ok": 3, "aborted": 1}
    assert {row["error_class"] for row in rows if row["outcome"] == "aborted"} == {"user_stop"}


async def test_a_worker_that_has_gone_when_its_last_word_is_read_is_not_lost(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """A busy coordinator finds the end of file right behind the answer to its close."""
    server = await play(http.answer(1))
    one = await crew(server.url, plan_of([{"kind": "concurrency", "concurrency": 1, "cases": 1}]), 1)
    (pid,) = one.workers.pids
    closing = asyncio.create_task(one.workers.close())
    for _ in range(3):
        await asyncio.sleep(0)  # it is asked to close
    deadline = time.monotonic() + 60
    while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # the loop reads nothing meanwhile
        assert time.monotonic() < deadline
        time.sleep(0.005)  # noqa: ASYNC251
    (end,) = await closing
    assert (end.died, one.lost) == (None, [])


async def test_kill_9_of_a_worker_loses_what_was_not_finished_and_is_seen_at_once(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """What was on disk stays; the others go on until they are stopped; the books still balance."""
    server = await play(http.answer(1, first_s=0.02))
    one = await crew(server.url, plan_of([{"kind": "concurrency", "concurrency": 4, "duration_s": 120}]), 2)
    driven = asyncio.create_task(one.drive())

    def stored() -> set[int]:
        return {r["seq"] for r in open_run(one.writer.path).requests.to_pylist() if r["worker"] == 1}

    await eventually(lambda: len(stored()) > 20)
    pid = one.workers.pids[1]
    assert pid is not None
    before, begun_ns = stored(), now_ns()
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: bool(one.lost))
    assert one.lost == ["worker 1 died (signal 9)"]
    assert now_ns() - begun_ns < 10_000 * MS
    assert not driven.done()
    one.workers.stop("policy")
    result = await driven
    run = await one.close()
    rows = run.requests.to_pylist()
    assert result.aborted == "policy"
    assert check_books(result).unsent >= 0
    kept = [row["seq"] for row in rows]
    assert len(kept) == len(set(kept))
    assert before <= {row["seq"] for row in rows if row["worker"] == 1}
    assert {row["outcome"] for row in rows} == {"ok"}
    assert [end.died for end in one.ends] == [None, "worker 1 died (signal 9)"]
    assert len(rows) <= len(server.got)


async def test_a_worker_that_cannot_start_is_said_and_waited_for_by_nobody(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew, tmp_path: Path
) -> None:
    server = await play(http.answer(1))
    plan = plan_of([{"kind": "concurrency", "concurrency": 2, "cases": 4}])
    one = await crew(server.url, plan, 2, sinks_at=tmp_path / "nowhere")
    assert len(one.lost) == 2
    assert all("failed: StorageError" in reason and "nowhere" in reason for reason in one.lost)
    result = await one.drive()
    assert check_books(result).scheduled == 0
    assert result.aborted is not None
    ends = await one.workers.close()
    assert [end.died for end in ends] == sorted(one.lost)
    assert not server.got


def test_parts_add_up() -> None:
    """Sums of the accounting, earliest start, latest of everything else, the first reason."""
    one = SegmentResult(4, 0, 10, 20, 90, 100, Accounting(7, 4, 2, 1, 3, 1, 2), None)
    two = SegmentResult(4, 1, 10, 30, 80, 110, Accounting(5, 5, 0, 0, 1, 0, 4), "policy")
    assert merge_results([one, two]) == SegmentResult(4, 0, 10, 30, 90, 110, Accounting(12, 9, 2, 1, 4, 1, 6), "policy")
    assert merge_results([one]) == one


def test_a_budget_is_used_up_exactly_once() -> None:
    budget = Budget.of(2)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budget.close()


async def test_salts_are_new_for_every_repeat_and_every_window_of_warm_up(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """H12, H13: what one repeat has put into a cache no other finds. Blocks of a repeat share a prefix's salt; windows
    of warm-up, which ask the same requests, do not."""
    server = await play(http.answer(1))
    load = [{"kind": "concurrency", "concurrency": 1, "cases": 4}]
    warmup = {"warmup_requests": 2, "max_windows": 2}
    plan = plan_of(load, repeats=2, comparison={"blocks": 2}, warmup=warmup)
    one = await crew(server.url, plan, 2, cold=True, shared_prefix=True)
    for segment in plan.segments:
        await one.drive(segment.number)
    await one.close()
    salts = [orjson.loads(got.body)["cache_salt"] for got in server.got]
    parts = [salts[i : i + 2] for i in range(0, 12, 2)]
    assert [len(set(part)) for part in parts] == [1] * 6
    warm_1, warm_2, first_1, first_2, second_1, second_2 = (part[0] for part in parts)
    assert (first_1, second_1) == (first_2, second_2)
    assert len({warm_1, warm_2, first_1, second_1}) == 4


@dataclass
class Counting:
    """A `Teller`: ended requests and seconds of health since the last look. `Counting(worker)` makes one."""

    worker: int
    ended: int = 0
    seconds: int = 0

    def attempt(self, attempt: Attempt) -> None:
        self.ended += 1

    def health(self, health: LoopHealth) -> None:
        self.seconds += 1

    def take(self) -> tuple[int, int, int]:
        taken, self.ended, self.seconds = (self.worker, self.ended, self.seconds), 0, 0
        return taken


async def test_what_tellers_count_is_told_whole_before_the_segment_ends(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    """Every ended request once, whichever worker had it, and none is still to come when `drive` returns."""
    server = await play(http.answer(2))
    told: list[tuple[int, int, int]] = []
    one = await crew(
        server.url, plan_of([{"kind": "concurrency", "concurrency": 3, "cases": 17}]), 2, teller=Counting,
        on_told=told.append,
    )  # fmt: skip
    result = await one.drive()
    assert sum(n for _, n, _ in told) == result.accounting.sent == 17
    assert {worker for worker, n, _ in told if n} == {0, 1}
    await one.close()
    assert sum(seconds for _, _, seconds in told) >= 2
    assert sum(n for _, n, _ in told) == 17


async def test_books_of_a_segment_in_progress_are_those_of_all_workers(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew
) -> None:
    server = await play(http.answer(2, gap_s=0.7))
    one = await crew(server.url, plan_of([{"kind": "concurrency", "concurrency": 4, "cases": 12}]), 2)
    driving = asyncio.create_task(one.drive())
    await eventually(lambda: one.workers.accounting(0).sent >= 4)
    assert 4 <= one.workers.accounting(0).sent <= 12
    assert one.workers.accounting(7) == Accounting()
    assert (await driving).accounting.sent == 12


async def test_a_scrape_asks_no_worker(play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew) -> None:
    """G22: scraping cannot hurt what stamps: with every worker stopped dead, the page is answered all the same."""
    server = await play(http.answer(2))
    metrics = Metrics()
    one = await crew(server.url, plan_of([{"kind": "concurrency", "concurrency": 2, "cases": 4}]), 2)
    metrics.declare("sent_requests_total", arm="base")
    pids = [pid for pid in one.workers.pids if pid is not None]
    exporter = Exporter(metrics, "127.0.0.1", 0)
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            for _ in range(20):
                answer = await client.get(exporter.url)
                assert 'specload_sent_requests_total{arm="base"} 0.0' in answer.text
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        exporter.close()
    assert (await one.drive()).accounting.sent == 4


async def test_a_worker_that_is_stopped_dead_holds_up_nobody_who_asks_twice(
    play: Any, http: Any, plan_of: MakePlan, crew: MakeCrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the second stop a silent worker is named and given up after seconds, not after half a minute or more."""
    monkeypatch.setattr("loadgen.drive.workers.HURRIED_S", 3)
    server = await play(http.answer(2, gap_s=0.2))
    waiting: list[str] = []
    plan = plan_of([{"kind": "concurrency", "concurrency": 2, "cases": 400}])
    one = await crew(server.url, plan, 2, on_waiting=waiting.append)
    driving = asyncio.create_task(one.drive())
    await eventually(lambda: one.workers.counts.sent >= 4)
    pid = one.workers.pids[1]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    one.workers.stop("user_stop")
    one.workers.stop("user_stop")
    async with asyncio.timeout(20):
        await driving
        ends = await one.workers.close()
    assert waiting == [f"waiting for worker 1 (process {pid}), which says nothing: 2 s more at most"]
    assert [end.died for end in ends] == [None, "worker 1 said nothing for 3 s"]
    assert one.lost == ["worker 1 said nothing for 3 s"]
