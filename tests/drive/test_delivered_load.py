"""The load that arrives, measured at a server that records arrivals: not on our own word (E13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from loadgen.drive import Driver
from loadgen.plan import Plan, Segment, shard

Make = Callable[..., Driver]
MakePlan = Callable[..., Plan]
Soon = Callable[[], int]


TRIES = 5
LATE_S = 0.05


def measured(plan: Plan) -> Segment:
    (segment,) = [s for s in plan.segments if s.phase == "measure"]
    return segment


def arrived_s(server: Any, start_ns: int) -> NDArray[np.float64]:
    return (np.array(sorted(got.at_ns for got in server.got), dtype=np.int64) - start_ns) / 1e9


async def delivered(play: Any, script: Any, driver: Make, plan: Plan, soon: Soon) -> NDArray[np.float64]:
    """When the requests of an open loop arrived, in seconds from the start.

    A machine that stands still for a moment makes any client late, and shapes of arrivals cannot be told then: such a
    delivery is made again. A client that is late by itself is late in each of them, and fails.
    """
    segment = measured(plan)
    due = np.sort(segment.load.due_ns) / 1e9
    late = []
    for _ in range(TRIES):
        server, start = await play(script), soon()
        result = await driver(server.url, plan).run(segment, start)
        at = arrived_s(server, start)
        assert len(at) == result.accounting.scheduled == result.accounting.sent == len(due)
        assert (at - due).min() >= 0
        late.append(float((at - due).max()))
        if late[-1] < LATE_S:
            return at
    raise AssertionError(f"in each of {TRIES} deliveries an arrival came late, by {late} s")


def arrival(kind: str, rate: Any, seconds: float, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": "arrival_rate", "rate_per_s": rate, "duration_s": seconds, "arrivals": kind, **more}]


async def test_poisson_arrivals(play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon) -> None:
    """E13: gaps are exponential (KS, 1 % level), counts have dispersion 1, the rate is the one asked for."""
    plan = plan_of(arrival("poisson", 25, 4.4), seed=5)
    at = await delivered(play, http.answer(1), driver, plan, soon)
    gaps = np.diff(at)
    assert stats.kstest(gaps, "expon", args=(0, 1 / 25)).statistic < 1.63 / np.sqrt(len(gaps))
    counts, _ = np.histogram(at, bins=np.arange(0, 4.41, 0.2))
    assert 0.4 < counts.var(ddof=1) / counts.mean() < 1.9
    assert abs(len(at) - 110) < 3 * np.sqrt(110)


async def test_uniform_arrivals_keep_their_times(
    play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon
) -> None:
    """E6, E10: no drift: the last of 80 arrivals is as punctual as the first."""
    plan = plan_of(arrival("uniform", 20, 4.0))
    segment = measured(plan)
    late = await delivered(play, http.answer(1), driver, plan, soon) - np.sort(segment.load.due_ns) / 1e9
    assert np.median(late[-25:]) - np.median(late[:25]) < 0.01
    assert len(late) == 80


async def test_gamma_burstiness(play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon) -> None:
    """E18: a shape of 0.25 has a coefficient of variation of 2: the bursts of the plan arrive as bursts."""
    plan = plan_of(arrival("gamma", 15, 4.5, burstiness=0.25), seed=3)
    segment = measured(plan)
    gaps, planned = (
        np.diff(await delivered(play, http.answer(1), driver, plan, soon)),
        np.diff(segment.load.due_ns) / 1e9,
    )
    asked = planned.std() / planned.mean()
    assert asked > 1.4
    assert abs(gaps.std() / gaps.mean() - asked) < 0.25 * asked


async def test_ramp_is_linear_in_time(play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon) -> None:
    """The rate at half time is half: a quarter of the arrivals of a ramp from 0 came by then."""
    plan = plan_of(arrival("uniform", {"start": 0, "end": 40}, 4.5))
    at = await delivered(play, http.answer(1), driver, plan, soon)
    assert abs(len(at) - 90) <= 1
    assert abs(np.count_nonzero(at < 2.25) / len(at) - 0.25) < 0.04
    assert abs(np.count_nonzero((at > 1.75) & (at < 2.75)) - 20) <= 3


def level_at(server: Any, ns: float) -> int:
    return sum(got.at_ns <= ns < got.end_ns for got in server.got)


async def test_concurrency_plateau(play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon) -> None:
    """E1, E13: never more than C at the server, and a time-mean of at least 0.98 C."""
    plan = plan_of([{"kind": "concurrency", "concurrency": 4, "duration_s": 4.0}])
    server = await play(http.answer(tokens=2, first_s=0.9, gap_s=0.95))
    result = await driver(server.url, plan).run(measured(plan), soon())
    assert max(got.live for got in server.got) == 4
    begin, end = result.full_ns, result.load_end_ns
    busy = sum(max(0, min(got.end_ns, end) - max(got.at_ns, begin)) for got in server.got)
    assert 0.98 * 4 <= busy / (end - begin) <= 4


async def test_concurrency_ramp(play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon) -> None:
    """E17: slots come one after the other; at half time half of them are there."""
    plan = plan_of([{"kind": "concurrency", "concurrency": {"start": 0, "end": 8}, "duration_s": 2.4}])
    server, start = await play(http.answer(tokens=2, gap_s=0.3)), soon()
    await driver(server.url, plan).run(measured(plan), start)
    levels = [level_at(server, start + s * 1e9) for s in np.linspace(1.1, 1.3, 21)]
    assert 3.4 <= np.mean(levels) <= 4.6
    assert max(got.live for got in server.got) == 8


async def test_same_seed_same_requests(
    play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon, sink: Any
) -> None:
    """E13: the same plan twice: the same cases, seeds and prompts in the same order, other request ids."""
    seen = []
    for _ in range(2):
        plan = plan_of(arrival("poisson", 40, 1.0), seed=9, sampling={"temperature": 0.5})
        server = await play(http.answer(1))
        sink.attempts.clear()
        await driver(server.url, plan).run(measured(plan), soon())
        bodies = sorted(got.body.split(b',"cache_salt"')[0] for got in server.got)
        attempts = sorted(sink.attempts, key=lambda a: a.seq)
        seen.append((bodies, [(a.case, a.sampling, a.max_tokens) for a in attempts], {a.request_id for a in attempts}))
    assert seen[0][:2] == seen[1][:2]
    assert not seen[0][2] & seen[1][2]


@pytest.mark.parametrize(
    "load",
    [
        arrival("poisson", 60, 1.5),
        [{"kind": "concurrency", "concurrency": 5, "cases": 23}],
    ],
)
async def test_shards_together_are_the_whole(
    play: Any, http: Any, driver: Make, plan_of: MakePlan, soon: Soon, sink: Any, load: list[dict[str, Any]]
) -> None:
    """E13, E15: three workers deliver what one would: every request once, at its time."""
    plan = plan_of(load, seed=2)
    segment = measured(plan)
    server, start = await play(http.answer(2, gap_s=0.02)), soon()
    drivers = [driver(server.url, plan, worker=i) for i in range(3)]
    results = await asyncio.gather(*(d.run(shard(segment, i, 3), start) for i, d in enumerate(drivers)))
    total = sum(r.accounting.sent for r in results)
    assert sorted(a.seq for a in sink.attempts) == list(range(total))
    if segment.rate_per_s is None:
        assert total == 23
        assert max(got.live for got in server.got) <= 5
    else:
        due = np.sort(segment.load.due_ns)
        assert total == len(due)
        assert sorted(a.due_ns - start for a in sink.attempts) == due.tolist()
    assert {a.worker for a in sink.attempts} == {0, 1, 2}
