"""The driver against a server that plays scripts: outcomes, ends, accounting. Nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from loadgen.clock import Anchor, now_ns
from loadgen.drive import Budget, Deadlines, Driver, Outcome, RateCap, SegmentResult, Tally, make_kernel_transport
from loadgen.errors import StorageError

MS = 1_000_000
Make = Callable[..., Driver]
Soon = Callable[[], int]


def check_books(result: SegmentResult, sink: Any) -> None:
    """The identities of the method: scheduled = sent + dropped + unsent; sent = sum of outcomes."""
    books = result.accounting
    assert books.scheduled == books.sent + books.dropped + books.unsent
    assert books.sent == len(sink.attempts) == sum(sink.outcomes.values())
    assert len({a.request_id for a in sink.attempts}) == len(sink.attempts)


async def test_open_loop_sends_what_is_due(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E6: absolute times; nothing early, nothing lost, cases in order."""
    server = await play(http.answer())
    start = soon()
    due = [0, 20, 25, 25, 90]
    result = await driver(server.url).run(segments.open(due), start)
    check_books(result, sink)
    assert sink.outcomes == {Outcome.OK: 5}
    attempts = sorted(sink.attempts, key=lambda a: a.seq)
    assert [a.due_ns for a in attempts] == [start + ms * MS for ms in due]
    assert all(a.sent_ns >= a.due_ns for a in attempts)
    assert [a.case.index for a in attempts] == [a.seq for a in attempts] == [0, 1, 2, 3, 4]
    assert (result.started_ns, result.full_ns, result.aborted) == (start, start, None)
    assert result.load_end_ns == start + 90 * MS
    assert result.ended_ns >= max(a.end_ns for a in attempts)
    one = attempts[0]
    assert (one.output_len, one.first_tokens, one.terminal, one.worker, one.segment) == (3, 1, "both", 0, 1)
    assert one.connect_ns is not None


async def test_behind_schedule_it_catches_up(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E11: a start that is 150 ms late sends what is overdue, in order, and counts it late; nothing is skipped."""
    server = await play(http.answer())
    result = await driver(server.url).run(segments.open([0, 10, 20, 30, 2000]), soon() - 400 * MS)
    check_books(result, sink)
    assert (result.accounting.sent, result.accounting.late) == (5, 4)


@pytest.mark.parametrize("when_full", ["drop", "wait"])
async def test_max_in_flight(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon, when_full: str
) -> None:
    """E7, E8: arrivals that meet the cap are dropped or wait, counted either way; the cap holds at the server."""
    server = await play(http.answer(tokens=2, gap_s=0.6))
    result = await driver(server.url).run(segments.open([0, 5, 10, 15, 20, 2500], 2, when_full), soon())
    check_books(result, sink)
    assert max(got.live for got in server.got) == 2
    books = result.accounting
    if when_full == "drop":
        assert (books.sent, books.dropped, books.capped_in_flight) == (3, 3, 0)
        assert sorted(a.seq for a in sink.attempts) == [0, 1, 5]
    else:
        assert (books.sent, books.dropped, books.capped_in_flight) == (6, 0, 3)
        assert books.late >= 3
        waited = {a.seq: a.wait_ns for a in sink.attempts}
        assert waited[0] == 0
        assert waited[2] > 300 * MS
    assert max(a.concurrency for a in sink.attempts) == 2


async def test_rate_cap_delays_and_counts(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E9: the cap stands in front of the server only; what it delays is counted, with the wait."""
    server = await play(http.answer())
    result = await driver(server.url, cap=RateCap(2.5)).run(segments.open([0, 1, 2, 3, 4]), soon())
    check_books(result, sink)
    assert result.accounting.capped_rate >= 1
    at = [got.at_ns for got in server.got]
    assert at[3] - at[0] >= 1190 * MS
    assert max(a.wait_ns for a in sink.attempts) > 1000 * MS


async def test_what_is_overdue_for_longer_than_the_drain_is_unsent(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E11: an open loop that cannot catch up ends with its plan and its drain, and counts what it did not send."""
    server = await play(http.answer())
    made = driver(server.url, cap=RateCap(4), drain_s=1.5)
    result = await made.run(segments.open([*range(30)]), soon())
    check_books(result, sink)
    assert result.accounting.scheduled == 30
    assert result.aborted is None
    assert 4 <= result.accounting.sent <= 10
    assert result.load_end_ns == result.started_ns + 29 * MS


async def test_closed_loop_by_cases(play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon) -> None:
    """Every case once, in order, never more than the slots in flight."""
    server = await play(http.answer(tokens=2, gap_s=0.02))
    result = await driver(server.url).run(segments.closed([0, 0, 0], [None] * 3, cases=10), soon())
    check_books(result, sink)
    assert sorted(a.seq for a in sink.attempts) == list(range(10))
    in_order = [a.seq for a in sorted(sink.attempts, key=lambda a: a.sent_ns)]
    assert all(abs(seq - place) < 3 for place, seq in enumerate(in_order))  # three connect side by side
    assert max(got.live for got in server.got) == 3
    last = max(a.sent_ns for a in sink.attempts)
    assert abs(result.load_end_ns - last) < 50 * MS
    assert result.started_ns <= result.full_ns <= result.load_end_ns < result.ended_ns


@pytest.mark.parametrize("closed", [True, False])
async def test_no_more_requests_than_the_run_may_send(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon, closed: bool
) -> None:
    """safety.max_requests is exact: the request that would be one more is never sent, and the run says so."""
    server = await play(http.answer(tokens=2, gap_s=0.01))
    budget = Budget.of(7)
    one = driver(server.url, tally=Tally(budget))
    segment = segments.closed([0, 0, 0], [None] * 3, cases=30) if closed else segments.open(list(range(0, 300, 10)))
    result = await one.run(segment, soon())
    check_books(result, sink)
    assert not budget.take()
    budget.close()
    assert len(server.got) == len(sink.attempts) == result.accounting.sent == 7
    assert result.aborted == "policy"


async def test_closed_loop_by_time(play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon) -> None:
    """Slots begin and stop as planned; a request begun in time may end later; due is when the slot was free."""
    server = await play(http.answer(tokens=2, gap_s=0.03))
    start = soon()
    result = await driver(server.url).run(segments.closed([0, 100], [1500, 1500]), start)
    check_books(result, sink)
    assert result.load_end_ns == start + 1500 * MS
    assert start + 100 * MS <= result.full_ns < result.load_end_ns
    assert all(a.due_ns <= a.sent_ns for a in sink.attempts)
    assert max(a.due_ns for a in sink.attempts) < start + 1500 * MS
    assert min(a.due_ns for a in sink.attempts) == start


@pytest.mark.parametrize(("stop_ms", "cases", "at_least"), [(800, 3, 5), (0, 6, 6)])
async def test_warm_up_reaches_both(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon, stop_ms: int, cases: int, at_least: int
) -> None:
    """C26: `end` "both" goes on until the time and the number of cases are reached."""
    server = await play(http.answer(tokens=2, gap_s=0.02))
    start = soon()
    result = await driver(server.url).run(segments.closed([0, 0], [stop_ms] * 2, cases, "both"), start)
    check_books(result, sink)
    assert result.accounting.sent >= at_least
    assert result.load_end_ns >= start + stop_ms * MS
    if stop_ms == 0:
        assert result.accounting.sent == cases


async def test_outcomes_by_kind(
    play: Any, http: Any, wire: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """A4, E24: one success and each kind of failure in one run: nothing pooled, nothing retried."""
    error = wire.event({"error": {"message": "EngineDead", "type": "InternalServerError", "code": 500}})
    scripts = [
        http.answer(),
        [http.head(), http.chunk(wire.delta("a", usage=1)) + http.end],
        [http.whole(b"busy", "503 Service Unavailable", "text/plain")],
        [http.head(), http.chunk(error + wire.done) + http.end],
        [http.whole(b"<html>proxy</html>", kind="text/html")],
        ["close"],
        [http.head(), http.chunk(wire.done) + http.end],
        [http.head("text/event-stream", "200 OK", "content-encoding: gzip"), http.chunk(b"\x1f\x8b") + http.end],
        [http.head(), http.chunk(wire.delta("a", usage=1)), "reset"],
    ]
    server = await play(lambda n, _got: scripts[n])
    result = await driver(server.url).run(segments.closed([0], [None], cases=len(scripts)), soon())
    check_books(result, sink)
    by_seq = [a.outcome for a in sorted(sink.attempts, key=lambda a: a.seq)]
    assert by_seq == [
        Outcome.OK,
        Outcome.TRUNCATED,
        Outcome.HTTP_ERROR,
        Outcome.STREAM_ERROR,
        Outcome.MALFORMED,
        Outcome.TRUNCATED,
        Outcome.NO_OUTPUT,
        Outcome.MALFORMED,
        Outcome.TRUNCATED,
    ]
    assert len(server.got) == len(scripts)


async def test_stalled_though_comments_come(
    play: Any, http: Any, wire: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E30: pings keep the bytes alive; without a token it is stalled, and the tokens before are kept."""
    pings = [step for _ in range(100) for step in (http.chunk(b": ping\n\n"), 0.02)]
    server = await play([http.head(), http.chunk(wire.delta("a", usage=1)), *pings])
    result = await driver(server.url, token_s=0.2, byte_s=5).run(segments.closed([0], [None], cases=1), soon())
    check_books(result, sink)
    (attempt,) = sink.attempts
    assert (attempt.outcome, attempt.error_class, len(attempt.ledger)) == (Outcome.STALLED, "token_idle", 1)
    assert attempt.end_ns - attempt.sent_ns < 1500 * MS


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"])
async def test_a_whole_answer_that_never_ends(
    head: bytes, play: Any, driver: Any, segments: Any, sink: Any, soon: Any, plan_of: Any
) -> None:
    """E16, E30: not streamed, so no token can be missed; a byte now and then must not hold the stage for ever."""
    server = await play([head, *[step for _ in range(500) for step in (b"a", 0.02)]])
    plan = plan_of([{"kind": "concurrency", "concurrency": 1, "cases": 1}], workload=whole_answers())
    result = await driver(server.url, plan, token_s=0.3, byte_s=0.2).run(segments.closed([0], [None], cases=1), soon())
    check_books(result, sink)
    (attempt,) = sink.attempts
    assert (attempt.outcome, attempt.error_class, attempt.stream) == (Outcome.STALLED, "token_idle", False)
    assert 500 * MS <= attempt.end_ns - attempt.sent_ns < 3000 * MS


async def test_a_stream_that_says_it_has_ended_and_does_not(
    play: Any, driver: Any, segments: Any, sink: Any, soon: Any, http: Any, wire: Any
) -> None:
    """E16, E30: pings after [DONE]. The answer is whole, so it counts; the connection is let go."""
    pings = [step for _ in range(500) for step in (http.chunk(b": ping\n\n"), 0.02)]
    told = wire.delta("a", usage=1) + wire.delta(None, finish="stop", usage=1) + wire.usage(1) + wire.done
    server = await play([http.head(), http.chunk(told), *pings])
    await driver(server.url, token_s=0.3, byte_s=5).run(segments.closed([0], [None], cases=1), soon())
    (attempt,) = sink.attempts
    assert (attempt.outcome, attempt.output_len) == (Outcome.OK, 1)
    assert "cut_after_end" in attempt.warnings


def whole_answers() -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": 20}, "output_len": {"kind": "fixed", "value": 8}}
    return {"stream_fraction": 0.0, "tasks": [{"task_type": "short_qa", **lengths}]}


async def test_slow_steady_stream_does_not_stall(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E27: 0.6 s of tokens under a token idle limit of 0.3 s."""
    server = await play(http.answer(tokens=7, gap_s=0.1))
    await driver(server.url, token_s=0.3).run(segments.closed([0], [None], cases=1), soon())
    assert sink.outcomes == {Outcome.OK: 1}


async def test_refused_target_is_not_hammered(
    free_port: int, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """A dead target ends each request as refused, counted as sent; its slot pauses before the next."""
    result = await driver(f"http://127.0.0.1:{free_port}").run(segments.closed([0], [None], cases=3), soon())
    check_books(result, sink)
    assert sink.outcomes == {Outcome.REFUSED: 3}
    due = [a.due_ns for a in sink.attempts]
    assert all(later - earlier >= 100 * MS for earlier, later in pairwise(due))
    assert sink.attempts[0].sent_ns is None


async def test_drain_lets_end_and_then_cuts(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """E16, E19: what is in flight may end within drain_s; the rest is cut and says so, with its tokens."""
    server = await play(lambda n, _got: http.answer(tokens=3, gap_s=0.05) if n == 0 else http.answer(99, gap_s=0.05))
    result = await driver(server.url, drain_s=1.5).run(segments.open([0, 0]), soon())
    check_books(result, sink)
    first, second = sorted(sink.attempts, key=lambda a: len(a.ledger))
    assert first.outcome is Outcome.OK
    assert (second.outcome, second.error_class) == (Outcome.ABORTED, "drain")
    assert second.output_len_source == "partial"
    assert second.output_len == len(second.ledger) >= 3
    assert (result.aborted, result.accounting.unsent) == (None, 0)


async def test_stop_drains_and_second_stop_cuts(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """Ctrl-C once: no new requests; twice: cut now. What was measured is kept, what was planned is unsent."""
    server = await play(http.answer(tokens=200, gap_s=0.05))
    made = driver(server.url, drain_s=30)
    running = asyncio.create_task(made.run(segments.open([0, 10, 5000, 6000]), soon()))
    await asyncio.sleep(0.6)
    made.stop("user_stop")
    await asyncio.sleep(0.1)
    assert not running.done()
    made.stop("user_stop")
    result = await asyncio.wait_for(running, 5)
    check_books(result, sink)
    assert result.aborted == "user_stop"
    assert (result.accounting.scheduled, result.accounting.sent, result.accounting.unsent) == (4, 2, 2)
    assert [(a.outcome, a.error_class) for a in sink.attempts] == [(Outcome.ABORTED, "user_stop")] * 2
    later = await made.run(segments.open([0, 1]), soon())
    assert (later.accounting.sent, later.accounting.unsent) == (0, 2)


async def test_stop_while_waiting_for_the_cap(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """Requests that wait for the safety cap when the run is stopped are unsent, not lost."""
    server = await play(http.answer())
    made = driver(server.url, cap=RateCap(0.1))
    running = asyncio.create_task(made.run(segments.closed([0, 0, 0], [None] * 3), soon()))
    for _ in range(200):  # until the first has passed and ended: then all three stand before the cap
        if sink.attempts:
            break
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    made.stop("policy")
    result = await asyncio.wait_for(running, 5)
    check_books(result, sink)
    assert (result.accounting.sent, result.accounting.unsent, result.aborted) == (1, 3, "policy")


async def test_cancelled_run_records_what_it_cut(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    server = await play(http.answer(tokens=200, gap_s=0.05))
    running = asyncio.create_task(driver(server.url).run(segments.closed([0, 0], [None] * 2), soon()))
    await asyncio.sleep(0.6)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [(a.outcome, a.error_class) for a in sink.attempts] == [(Outcome.ABORTED, "user_stop")] * 2


async def test_sink_that_fails_ends_the_run(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """A full disk stops the load and is raised, after everything has ended."""
    server = await play(http.answer())
    sink.error = StorageError("disk full")
    with pytest.raises(StorageError, match="disk full"):
        await driver(server.url).run(segments.closed([0], [60_000]), soon())
    assert server.live == 0


async def test_unbuildable_request_is_a_client_fault(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon, adapter: Any
) -> None:
    """C11: our own error is one attempt, not a lost one and not the server's."""
    server = await play(http.answer())
    made = driver(server.url)
    adapter.build = None
    result = await made.run(segments.open([0, 1]), soon())
    check_books(result, sink)
    assert sink.outcomes == {Outcome.CLIENT_FAULT: 2}
    assert not server.got


async def test_live_tally(play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon) -> None:
    """Aggregates for control: failures of the server among the last ended."""
    server = await play(lambda n, _got: http.answer(tokens=3) if n % 2 else [http.whole(b"", "500 x")])
    tally = Tally()
    await driver(server.url, tally=tally).run(segments.closed([0], [None], cases=6), soon())
    live = tally.counts().live(price_per_million=2e6, server_waiting=(1.0,))
    assert (live.sent, live.output_tokens, live.cost) == (6, 9, 18.0)
    assert (live.recent_ended, live.recent_failures, live.server_waiting) == (6, 3, (1.0,))


async def test_health_every_second_and_garbage_collector_restored(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """C21, C23: the client's own lag and load stand beside its numbers; a blocked loop shows."""
    server = await play(http.answer())
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    asyncio.get_running_loop().call_later(0.6, lambda: time.sleep(0.08))
    await driver(server.url).run(segments.closed([0], [1300]), soon())
    assert gc.get_threshold() == thresholds
    assert (gc.get_freeze_count() > 0) is frozen
    assert len(sink.healths) >= 1
    assert sink.healths == sorted(sink.healths, key=lambda h: h.at_ns)
    assert max(h.lag_max_s for h in sink.healths) >= 0.06
    assert all(0 <= h.lag_p50_s <= h.lag_max_s for h in sink.healths)
    assert all(h.rss_bytes > 1_000_000 and h.cpu_share >= 0 and h.in_flight >= 0 for h in sink.healths)
    assert max(h.send_lag_max_s for h in sink.healths) > 0


async def test_what_the_kernel_transport_saw_reaches_the_records(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    """C24, E21: waits for a turn to connect, stamps that did not come, steps of the wall clock."""
    server, made = await play(http.answer()), []

    def transport(deadlines: Deadlines) -> Any:
        made.append(make_kernel_transport(deadlines))
        return made[-1]

    def step() -> None:
        made[0].offset.take(Anchor(now_ns(), now_ns() + made[0].offset.offset_ns - 40 * MS, 100))

    asyncio.get_running_loop().call_later(0.5, step)
    await driver(server.url, transport=transport).run(segments.closed([0], [1300]), soon())
    first, *others = sorted(sink.attempts, key=lambda a: a.sent_ns)
    assert first.connect_wait_ns is not None
    assert all(a.missing_stamps == 0 for a in sink.attempts)
    assert others
    assert all((a.connect_wait_ns is None) == (a.connect_ns is None) for a in others)
    told = [h.clock_step_s for h in sink.healths]
    assert max(told) == pytest.approx(0.04, abs=0.001)


async def test_a_transport_that_compares_no_clocks_tells_of_no_step(
    play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon
) -> None:
    server = await play(http.answer(tokens=3, gap_s=0.03))
    await driver(server.url).run(segments.closed([0], [None], cases=2), soon())
    assert {h.clock_step_s for h in sink.healths} == {None}
    assert {(a.connect_wait_ns, a.missing_stamps) for a in sink.attempts} == {(None, None)}


async def test_replicas_take_turns(play: Any, http: Any, driver: Make, segments: Any, sink: Any, soon: Soon) -> None:
    one, two = await play(http.answer()), await play(http.answer())
    await driver([one.url, two.url]).run(segments.open([0, 5, 10, 15]), soon())
    assert (len(one.got), len(two.got)) == (2, 2)
    assert {(a.seq % 2, a.replica) for a in sink.attempts} == {(0, one.url), (1, two.url)}


@pytest.mark.parametrize("seed", range(6))
async def test_books_balance_whatever_happens(
    play: Any, http: Any, wire: Any, driver: Make, segments: Any, sink: Any, soon: Soon, seed: int
) -> None:
    """E5: random servers, loads, deadlines and stops: the identities hold and nothing stays in flight."""
    dice = random.Random(seed)
    kinds: list[Callable[[], list[Any]]] = [
        lambda: http.answer(dice.randint(1, 5), gap_s=0.01),
        lambda: ["close"],
        lambda: ["hang"],
        lambda: [http.head(), http.chunk(wire.delta("a", usage=1)), "hang"],
        lambda: [http.head(), http.chunk(wire.delta("a", usage=1)), "reset"],
        lambda: [http.whole(b"no", "503 x")],
        lambda: [http.head(), *[s for _ in range(30) for s in (http.chunk(b": p\n\n"), 0.02)]],
    ]
    server = await play(lambda _n, _got: dice.choice(kinds)())
    made = driver(
        server.url,
        token_s=dice.choice([None, 0.15]),
        byte_s=dice.choice([0.2, 1.0]),
        total_s=dice.choice([None, 0.3]),
        drain_s=dice.choice([0.0, 0.2]),
        cap=dice.choice([None, RateCap(40)]),
    )
    if dice.random() < 0.5:
        due = sorted(dice.uniform(0, 500) for _ in range(40))
        segment = segments.open(due, dice.choice([3, 100]), dice.choice(["drop", "wait"]))
    else:
        segment = segments.closed([0, 0, 50, 100], [500] * 4, dice.choice([None, 15]), dice.choice(["first", "both"]))
    if dice.random() < 0.5:
        asyncio.get_running_loop().call_later(0.5, made.stop, "user_stop")
    result = await asyncio.wait_for(made.run(segment, soon()), 10)
    check_books(result, sink)
    for attempt in sink.attempts:
        assert attempt.end_ns >= (attempt.sent_ns or 0)
        assert (attempt.outcome is Outcome.OK) == (attempt.error_class is None)
    await asyncio.sleep(0.05)
    following = driver(server.url, total_s=0.3)
    server.script = lambda _n, _got: http.answer()
    sink.attempts.clear()
    await following.run(segments.closed([0, 0], [None] * 2, cases=4), soon())
    assert sink.outcomes == {Outcome.OK: 4}
