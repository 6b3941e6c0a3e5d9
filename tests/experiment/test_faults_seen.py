"""What a client makes of every fault of the rehearsal engine: outcome, warning, ledger, counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest

from loadgen.drive import Asking, Attempt, Deadlines, DriveArm, DriveLimits, Driver, LoopHealth, Outcome
from loadgen.observe import ScrapeArm, Scraped, Scraper, window
from loadgen.plan import ESTIMATE, ClosedLoop, Segment, build_plan
from loadgen.redact import Redactor
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters import adapter_named
from server_adapters.base import Capabilities, Sampling, Target
from server_adapters.rehearsal.config import RehearsalConfig

FOREVER_NS = 2**63 - 1
MODEL = "rehearsal-8b"


@dataclass
class Kept:
    attempts: list[Attempt] = field(default_factory=list)

    def attempt(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)

    def health(self, health: LoopHealth) -> None: ...


@dataclass
class Client:
    """One server, and a driver against it."""

    url: str
    http: httpx.AsyncClient
    capabilities: Capabilities

    async def fault(self, name: str, **options: Any) -> None:
        answer = await self.http.post("/rehearsal/faults", json={"name": name, **options})
        assert answer.status_code == 200, answer.text

    async def drive(self, cases: int = 2, endpoint: Any = "completions", token_s: float | None = None) -> list[Attempt]:
        """The attempts of so many requests, one after the other."""
        kept, adapter = Kept(), adapter_named("vllm")
        target = Target(self.url, (), MODEL, {})
        arm = DriveArm("base", adapter, (target,), MODEL, self.capabilities, endpoint)
        token_ns = None if token_s is None else round(token_s * 1e9)
        limits = DriveLimits(Deadlines(2_000_000_000, None, token_ns, None), 20_000_000_000)
        asking = Asking((Sampling(ignore_eos=True, temperature=0.7),), cold=True, shared_prefix=False)
        driver = Driver(arm, PLAN, ESTIMATE, kept, limits, asking, Redactor())
        start = np.zeros(1, dtype=np.int64)
        load = ClosedLoop(start, start + FOREVER_NS, 0, 1, cases, "first")
        segment = Segment(1, "base", "measure", "s", 0, 0, 0, 0, "concurrency", 1, None, None, load)
        await driver.run(segment, time.monotonic_ns() + 200_000_000)
        return kept.attempts


def plan() -> Any:
    task = {
        "task_type": "code",
        "input_len": {"kind": "fixed", "value": 24},
        "output_len": {"kind": "fixed", "value": 40},
    }
    document = {
        "version": 1,
        "name": "faults",
        "environment": "disposable",
        "arms": {"base": {"url": "http://127.0.0.1:1"}},
        "workload": {"tasks": [task]},
        "load": [{"kind": "concurrency", "concurrency": 1, "cases": 50}],
        "warmup": {"warmup_requests": 0},
    }
    return build_plan(LoadedScenario(Scenario.model_validate(document), None, "0" * 64))


PLAN = plan()


@pytest.fixture(scope="module")
def server(rehearsal: Callable[[RehearsalConfig], Any]) -> Iterator[str]:
    with rehearsal(RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0)) as url:
        yield url


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(base_url=server, timeout=20) as http:
        capabilities = await adapter_named("vllm").probe(http, Target(server, (), MODEL, {}))
        yield Client(server, http, capabilities)
        await http.post("/rehearsal/faults", json={"clear": True})


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(2000):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition never held")


async def answers(client: Client, status: int) -> bool:
    try:
        return (await client.http.get("/health")).status_code == status
    except httpx.TransportError:
        return False


async def test_nothing_wrong(client: Client) -> None:
    attempts = await client.drive(3)
    assert [a.outcome for a in attempts] == [Outcome.OK] * 3
    assert {a.warnings for a in attempts} == {()}
    assert {a.output_len for a in attempts} == {40}
    assert all(a.spec is not None and a.spec.rounds > 0 for a in attempts)


FAILURES: dict[str, tuple[str, dict[str, Any], Outcome, int | None]] = {
    "truncated": ("truncate", {}, Outcome.TRUNCATED, 200),
    "severed": ("sever", {}, Outcome.TRUNCATED, 200),
    "error in the stream": ("in_stream_error", {}, Outcome.STREAM_ERROR, 500),
    "429": ("storm_429", {}, Outcome.HTTP_ERROR, 429),
    "503": ("storm_503", {}, Outcome.HTTP_ERROR, 503),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_failures(client: Client, name: str) -> None:
    """A1, A5, C14: none of them is a success, though all but the refusals have status 200."""
    fault, options, outcome, status = FAILURES[name]
    await client.fault(fault, **options)
    attempts = await client.drive()
    assert [a.outcome for a in attempts] == [outcome] * 2
    assert {a.error_status for a in attempts} == {status}


@pytest.mark.parametrize("keep_alive_s", [0.0, 0.1])
async def test_a_stall_is_found_by_tokens_not_by_bytes(client: Client, keep_alive_s: float) -> None:
    """E30: keep-alive comments are bytes and no tokens."""
    await client.fault("stall", seconds=3, keep_alive_s=keep_alive_s)
    attempts = await client.drive(1, token_s=0.5)
    assert [a.outcome for a in attempts] == [Outcome.STALLED]


async def test_a_dead_engine_is_an_error(client: Client) -> None:
    """J2: instant 500s are no fast answers."""
    await client.fault("engine_dead")
    await until(lambda: answers(client, 503))
    attempts = await client.drive(3)
    assert {a.outcome for a in attempts} == {Outcome.HTTP_ERROR}
    assert {a.error_status for a in attempts} == {500}
    await client.http.post("/rehearsal/faults", json={"clear": True})
    await until(lambda: answers(client, 200))


async def test_a_closed_port_is_refused(client: Client) -> None:
    await client.fault("port_flap", closed_s=1.5)
    attempts = await client.drive(2)
    assert Outcome.REFUSED in {a.outcome for a in attempts}
    assert Outcome.OK not in {a.outcome for a in attempts}
    await until(lambda: answers(client, 200))


@pytest.mark.parametrize(("fault", "warning"), [("no_done", "no_done"), ("no_usage", "usage_missing")])
async def test_warnings(client: Client, fault: str, warning: str) -> None:
    """A6: odd, counted, and no failure."""
    await client.fault(fault)
    attempts = await client.drive()
    assert [a.outcome for a in attempts] == [Outcome.OK] * 2
    assert all(warning in a.warnings for a in attempts)


async def test_missing_usage_takes_the_statistics_with_it(client: Client) -> None:
    """A24: they ride on the usage chunk."""
    await client.fault("no_usage")
    (attempt,) = await client.drive(1)
    assert attempt.spec is None
    assert attempt.output_len_source in {"token_ids", None}


async def test_bursts_are_told_as_coalesced(client: Client) -> None:
    """A13, C10: several events in one arrival get no invented gaps."""
    (usual,) = await client.drive(1)
    await client.fault("buffering_proxy", hold_s=30)
    (burst,) = await client.drive(1)
    assert burst.outcome is Outcome.OK
    assert len(set(usual.ledger.arrival_ns)) > 1  # a busy machine merges some by itself
    assert len(set(burst.ledger.arrival_ns)) == 1
    assert burst.ledger.coalesced > usual.ledger.coalesced
    await client.fault("buffering_proxy", clear=True)
    await client.fault("coalesce", events=4)
    (merged,) = await client.drive(1)
    assert 1 < len(set(merged.ledger.arrival_ns)) < len(merged.ledger.arrival_ns)


async def test_stream_interval_shows_as_tokens_per_chunk(client: Client) -> None:
    """C19: more than k + 1 tokens in a chunk."""
    await client.fault("stream_interval", tokens=12)
    (attempt,) = await client.drive(1)
    assert attempt.outcome is Outcome.OK
    assert max(attempt.ledger.tokens) > 5
    assert sum(attempt.ledger.tokens) == attempt.output_len == 40


async def test_the_role_chunk_is_no_token(client: Client) -> None:
    """J4: first token and number of tokens do not depend on when the role comes."""
    for fault in ("early_role", "late_role"):
        await client.fault(fault)
        (attempt,) = await client.drive(1, "chat")
        assert attempt.outcome is Outcome.OK
        assert attempt.output_len == 40
        truth = (await client.http.get("/rehearsal/truth")).json()["requests"][-1]
        assert attempt.first_token_ns is not None
        assert attempt.first_token_ns / 1e9 >= truth["first_token_s"]
        await client.fault(fault, clear=True)


async def test_a_wrong_tokenizer_shows_as_longer_prompts(client: Client) -> None:
    usual = await client.drive(2)
    await client.fault("wrong_tokenizer")
    wrong = await client.drive(2)
    for right, other in zip(usual, wrong, strict=True):
        assert right.input_len is not None
        assert other.input_len is not None
        assert other.input_len > 1.2 * right.input_len


def acceptance(attempts: list[Attempt]) -> float:
    specs = [a.spec for a in attempts if a.spec is not None]
    return sum(s.accepted for s in specs) / sum(s.drafted for s in specs)


async def test_drift_shows_as_acceptance(client: Client) -> None:
    """G26, D29: same cases, fewer accepted; a missing correction does not show here, only in the text."""
    usual = acceptance(await client.drive(8))
    for fault, most in (("draft_drift", 0.6), ("stale_draft", 0.9)):
        await client.fault(fault)
        assert acceptance(await client.drive(8)) < most * usual
        await client.fault(fault, clear=True)
    await client.fault("no_correction")
    assert acceptance(await client.drive(8)) == pytest.approx(usual, abs=0.2)


async def test_a_cold_start_shows_as_time_to_first_token(client: Client) -> None:
    """C25: the same request, many times slower."""
    (warm,) = await client.drive(1)
    await client.fault("cold_start", factor=25)
    (cold,) = await client.drive(1)
    assert cold.timings is not None
    assert warm.timings is not None
    assert cold.timings.decode_s is not None
    assert warm.timings.decode_s is not None
    assert cold.timings.decode_s > 10 * warm.timings.decode_s


@pytest.fixture
async def scraper(server: str, forked_children: None) -> AsyncIterator[Scraper]:
    arm = ScrapeArm("base", "vllm", MODEL, (f"{server}/metrics",))
    made = Scraper((arm,), interval_s=600, timeout_s=0.5)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"as": "html"}, Scraped.NOT_METRICS),
        ({"as": "empty"}, Scraped.NOT_METRICS),
        ({"as": "500"}, Scraped.UNREACHABLE),
        ({"as": "hang"}, Scraped.UNREACHABLE),
    ],
)
async def test_broken_metrics_pages(client: Client, scraper: Scraper, options: Any, status: Scraped) -> None:
    """D14: a page that is none, and one that never comes, are told apart and are not zeros."""
    await client.fault("broken_metrics", **options)
    (scrape,) = await scraper.edge("base", 1, "start")
    assert scrape.status is status
    assert scrape.page is None
    assert scrape.reason


async def test_a_slow_metrics_page_is_waited_for(client: Client, scraper: Scraper) -> None:
    await client.fault("slow_metrics", seconds=0.3)
    (scrape,) = await scraper.edge("base", 1, "start")
    assert scrape.status is Scraped.OK
    assert scrape.answered_ns - scrape.asked_ns >= 300_000_000


async def test_a_restart_inside_a_window_is_seen(client: Client, scraper: Scraper) -> None:
    """D12: the window counts from zero of the new process and says so."""
    await client.drive(2)
    before = await scraper.edge("base", 1, "start")
    begun = time.monotonic_ns()
    await client.fault("counter_reset")

    async def at_zero() -> bool:
        return bool((await client.http.get("/rehearsal/truth")).json()["counters"]["engine_steps"] == 0)

    await until(at_zero)
    attempts = await client.drive(2)
    after = await scraper.edge("base", 1, "end")
    seen = window([*before, *after], "base", MODEL, begun, time.monotonic_ns(), 1)
    assert seen.restarts == 1
    rounds = sum(a.spec.rounds for a in attempts if a.spec is not None)
    assert seen.deltas["drafts"] >= rounds > 0


async def test_doubled_counters_do_not_agree_with_the_requests(client: Client, scraper: Scraper) -> None:
    """D18: summing over engines is right for engines, and shows a double count as one."""
    await client.fault("duplicate_engines")
    before = await scraper.edge("base", 1, "start")
    begun = time.monotonic_ns()
    attempts = await client.drive(2)
    after = await scraper.edge("base", 1, "end")
    seen = window([*before, *after], "base", MODEL, begun, time.monotonic_ns(), 1)
    truth = (await client.http.get("/rehearsal/truth")).json()["requests"][-2:]
    assert seen.deltas["drafts"] == 2 * sum(len(t["per_step_accepted"]) for t in truth)
    assert seen.deltas["drafts"] == 2 * sum(a.spec.rounds for a in attempts if a.spec is not None) > 0
