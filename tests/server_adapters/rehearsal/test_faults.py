"""Every fault: what it changes in the bytes, or in how the server behaves. What a client makes of it is in
tests/experiment/test_faults_seen.py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import psutil
import pytest

from server_adapters.rehearsal.faults import KINDS, Faults
from server_adapters.rehearsal.types import Switches

Start = Callable[..., Awaitable[Any]]
USAGE = {"stream_options": {"include_usage": True}}
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"prompt": "def add(numbers):", "max_tokens": 40, "ignore_eos": True, "seed": 2, **USAGE}
CHAT_BODY = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 7, "ignore_eos": True, "seed": 2}


def datas(raw: bytes) -> list[bytes]:
    return [block for block in raw.split(b"\n\n") if block]


def texts(raw: bytes) -> str:
    told = [json.loads(b[6:]) for b in datas(raw) if b.startswith(b"data: {")]
    return "".join(c["text"] for t in told for c in t.get("choices", ()))


async def test_truncation_is_a_clean_end_without_a_terminal(start_server: Start) -> None:
    """A5: the HTTP body is whole, the answer is not."""
    live = await start_server()
    whole = await live.raw(BODY)
    await live.fault("truncate", at_tokens=8)
    cut = datas(await live.raw(BODY))
    assert [json.loads(c[6:])["choices"][0]["text"] for c in cut] == [
        json.loads(c[6:])["choices"][0]["text"] for c in datas(whole)[: len(cut)]
    ]
    assert len(cut) < len(datas(whole))
    assert b"[DONE]" not in cut[-1]
    assert b'"finish_reason":null' in cut[-1]


async def test_a_severed_connection_ends_inside_the_body(start_server: Start) -> None:
    live = await start_server(faults=("sever:at_tokens=8",))
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
        await live.raw(BODY)
    assert (await live.truth())["requests"][0]["finish_reason"] in {"abort", "length"}


async def test_an_error_inside_the_stream(start_server: Start) -> None:
    """A1: HTTP 200, an error object, then [DONE]."""
    live = await start_server(faults=("in_stream_error:at_tokens=4,code=503",))
    blocks = datas(await live.raw(BODY))
    error = json.loads(blocks[-2][6:])["error"]
    assert (error["code"], error["type"], error["param"]) == (503, "InternalServerError", None)
    assert blocks[-1] == b"data: [DONE]"


async def test_missing_done_and_missing_usage(start_server: Start) -> None:
    live = await start_server(faults=("no_done",))
    blocks = datas(await live.raw(BODY))
    assert json.loads(blocks[-1][6:])["usage"]["completion_tokens"] == 40
    await live.fault("no_usage")
    told = [json.loads(b[6:]) for b in datas(await live.raw(BODY))]
    assert not any("usage" in t for t in told)
    assert told[-1]["choices"][0]["finish_reason"] == "length"


async def test_coalesced_events_share_writes(start_server: Start) -> None:
    """A13: nothing is lost, writes hold four events."""
    live = await start_server()
    whole = await live.raw(BODY)
    await live.fault("coalesce", events=4)
    pieces = await live.pieces(BODY)
    assert texts(b"".join(pieces)) == texts(whole)
    assert {len(datas(piece)) for piece in pieces[:-1]} == {4}


async def test_a_buffering_proxy_sends_bursts(start_server: Start) -> None:
    live = await start_server(speed=1.0)
    whole = await live.raw(BODY)
    await live.fault("buffering_proxy", hold_s=60)
    pieces = await live.pieces(BODY)
    assert texts(b"".join(pieces)) == texts(whole)
    assert len(pieces) == 1, "the answer ends before the first flush: all of it is one write"
    await live.fault("buffering_proxy", hold_s=0.02)
    assert 1 < len(await live.pieces(BODY)) < len(datas(whole))


async def test_stream_interval_holds_tokens(start_server: Start) -> None:
    """C19: between first and last, chunks of at least ten tokens."""
    live = await start_server(faults=("stream_interval:tokens=10",))
    body = {**BODY, "max_tokens": 60, "return_token_ids": True}
    told = [json.loads(b[6:]) for b in datas(await live.raw(body))[:-2]]
    lengths = [len(t["choices"][0]["token_ids"]) for t in told]
    assert lengths[0] == 1
    assert all(10 <= n < 15 for n in lengths[1:-1])
    assert sum(lengths) == 60


@pytest.mark.parametrize(("keep_alive_s", "comments"), [(0.0, 0), (0.05, 4)])
async def test_a_stall_with_and_without_keep_alive(start_server: Start, keep_alive_s: float, comments: int) -> None:
    live = await start_server()
    await live.fault("stall", at_tokens=8, seconds=0.2, keep_alive_s=keep_alive_s)
    begun = time.monotonic()
    raw = await live.raw(BODY)
    assert time.monotonic() - begun >= 0.2
    assert raw.count(b": keep-alive\n\n") == comments
    assert datas(raw)[-1] == b"data: [DONE]"


def roles(raw: bytes) -> list[str]:
    told = [json.loads(b[6:]) for b in datas(raw) if b.startswith(b"data: {")]
    return ["role" if "role" in t["choices"][0]["delta"] else "text" for t in told if t["choices"]]


async def test_role_chunks_early_and_late(start_server: Start) -> None:
    """J4: both styles; the normal one is together with the first token."""
    live = await start_server(speed=0.05)
    usual = await live.raw(CHAT_BODY, CHAT)
    assert roles(usual)[:2] == ["role", "text"]
    await live.fault("late_role")
    assert roles(await live.raw(CHAT_BODY, CHAT))[:3] == ["text", "role", "text"]
    await live.fault("late_role", clear=True)
    gaps = []
    for early in (False, True):
        if early:
            await live.fault("early_role")
        async with live.http.stream("POST", CHAT, json={**CHAT_BODY, "stream": True}) as answer:
            stamps = [(time.monotonic(), piece) async for piece in answer.aiter_raw()]
        assert b'"role"' in stamps[0][1]
        prefill_s = (await live.truth())["requests"][-1]["first_token_s"] - stamps[0][0]
        gaps.append(prefill_s)
    assert gaps[0] <= 0 < gaps[1], "early: before the engine had a token"


async def test_storms(start_server: Start) -> None:
    live = await start_server(faults=("storm_429:share=0.5,retry_after=3",))
    answers = [await live.post("/v1/completions", {"prompt": "a", "max_tokens": 1}) for _ in range(40)]
    refused = [a for a in answers if a.status_code == 429]
    assert 8 <= len(refused) <= 32
    assert {a.headers["retry-after"] for a in refused} == {"3"}
    await live.fault("storm_429", clear=True)
    await live.fault("storm_503", after=0)
    answer = await live.post("/v1/completions", {"prompt": "a"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "Service Unavailable")
    assert "retry-after" not in answer.headers


async def test_a_dead_engine(start_server: Start) -> None:
    """J2: running streams end with an error inside HTTP 200, later requests with 500 at once; /health is 503."""
    live = await start_server(speed=0.2)
    running = asyncio.ensure_future(live.raw({**BODY, "max_tokens": 400}))
    await live.truth_has("counters", "generation_tokens")
    await live.fault("engine_dead")
    blocks = datas(await running)
    assert json.loads(blocks[-2][6:])["error"]["message"].startswith("EngineCore encountered an issue")
    assert blocks[-1] == b"data: [DONE]"
    assert (await live.post("/v1/completions", BODY | {"stream": True})).status_code == 500
    assert (await live.http.get("/health")).status_code == 503
    await live.fault("engine_dead", clear=True)

    async def healthy() -> bool:
        return bool((await live.http.get("/health")).status_code == 200)

    await live.until(healthy)
    assert datas(await live.raw(BODY))[-1] == b"data: [DONE]"


async def refused(live: Any) -> bool:
    """Whether nobody listens at its port."""
    async with httpx.AsyncClient(base_url=live.server.url) as fresh:
        try:
            await fresh.get("/health")
        except httpx.ConnectError:
            return True
    return False


async def test_a_dead_engine_takes_its_process_along(start_server: Start) -> None:
    """J2: an error inside the stream, instant 500s for a while, then nobody listens any more."""
    live = await start_server(speed=0.2)
    running = asyncio.ensure_future(live.raw({**BODY, "max_tokens": 400}))
    await live.truth_has("counters", "generation_tokens")
    await live.fault("engine_dead", exit_s=60)
    assert b"EngineCore encountered an issue" in await running
    answer = await live.post("/v1/completions", {**BODY, "stream": True})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "InternalServerError")
    assert not live.server.left.is_set()
    await live.fault("engine_dead", exit_s=0.1)
    await live.until(lambda: refused(live))
    assert live.server.left.is_set()


def test_the_command_ends_with_its_engine() -> None:
    argv = [sys.executable, "-m", "server_adapters.rehearsal", "--port", "0", "--model", "8b"]
    argv += ["--fault", "engine_dead:after=0.1,exit_s=0.1"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr == "specload rehearse: the engine died, and the process ends as a fault wants it\n"


async def test_a_prompt_that_kills_the_engine(start_server: Start) -> None:
    """J1: beyond the drafter's limit; every stream of the moment dies with it, and a new engine takes over."""
    live = await start_server(speed=0.2, faults=("crash_on:tokens=64",))
    assert datas(await live.raw({**BODY, "prompt": [5] * 64, "max_tokens": 4}))[-1] == b"data: [DONE]"
    running = asyncio.ensure_future(live.raw({**BODY, "max_tokens": 400}))
    await live.truth_has("gauges", "num_requests_running")
    bodies = [live.raw({**BODY, "prompt": [5] * 65}), running]
    for blocks in map(datas, await asyncio.gather(*bodies)):
        assert json.loads(blocks[-2][6:])["error"]["code"] == 500
        assert blocks[-1] == b"data: [DONE]"
    answer = await live.post("/v1/completions", {**BODY, "stream": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, 500)
    assert (await live.http.get("/health")).status_code == 503

    async def healthy() -> bool:
        return bool((await live.http.get("/health")).status_code == 200)

    await live.fault("crash_on", tokens=64, down_s=0.1)
    await live.until(healthy)
    assert datas(await live.raw({**BODY, "max_tokens": 4}))[-1] == b"data: [DONE]"
    whole = await live.post("/v1/completions", {"prompt": [5] * 65})
    assert whole.status_code == 500, "it still kills"


@pytest.mark.parametrize(
    ("how", "status", "begin"),
    [("html", 200, "<!DOCTYPE"), ("empty", 200, ""), ("500", 500, "Internal"), ("truncated", 200, "# HELP python")],
)
async def test_broken_metrics(start_server: Start, how: str, status: int, begin: str) -> None:
    live = await start_server(faults=(f"broken_metrics:as={how}",))
    answer = await live.http.get("/metrics")
    assert answer.status_code == status
    assert answer.text.startswith(begin)
    assert "process_start_time_seconds" not in answer.text or how == "truncated"
    assert not answer.text.endswith("rehearsal:speculation_enabled 1.0\n")


async def test_slow_and_hanging_metrics_do_not_stop_the_rest(start_server: Start) -> None:
    live = await start_server(faults=("slow_metrics:seconds=0.2",))
    begun = time.monotonic()
    assert (await live.http.get("/metrics")).status_code == 200
    assert time.monotonic() - begun >= 0.2
    await live.fault("broken_metrics", **{"as": "hang"})
    hanging = asyncio.ensure_future(live.http.get("/metrics"))
    assert datas(await live.raw(BODY))[-1] == b"data: [DONE]"
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


async def test_counters_start_again(start_server: Start) -> None:
    """D12: all counters at zero, with a later start of the process."""
    live = await start_server()
    await live.raw(BODY)
    before = await live.metrics()
    drafts = 'vllm:spec_decode_num_drafts_total{engine="0",model_name="rehearsal-8b"}'
    assert before[drafts] > 0
    await live.fault("counter_reset")

    async def at_zero() -> bool:
        return bool((await live.metrics())[drafts] == 0)

    await live.until(at_zero)
    after = await live.metrics()
    assert after["process_start_time_seconds"] > before["process_start_time_seconds"]
    assert after[drafts.replace("_total", "_created")] > before[drafts.replace("_total", "_created")]
    assert all(
        v == 0 for n, v in after.items() if n.startswith("vllm:") and n.split("{")[0].endswith(("_total", "_count"))
    )
    await live.raw(BODY)
    assert (await live.metrics())[drafts] > 0, "it happens once"


async def test_counters_twice(start_server: Start) -> None:
    live = await start_server(faults=("duplicate_engines",))
    await live.raw(BODY)
    page = await live.metrics()
    one = {n: v for n, v in page.items() if 'engine="0"' in n}
    two = {n.replace('engine="1"', 'engine="0"'): v for n, v in page.items() if 'engine="1"' in n}
    assert one == two
    assert len(one) > 100


async def test_the_port_closes_and_opens_again(start_server: Start) -> None:
    live = await start_server(speed=0.2)
    running = asyncio.ensure_future(live.raw({**BODY, "max_tokens": 400}))
    await live.truth_has("counters", "generation_tokens")
    await live.fault("port_flap", closed_s=0.3)
    with pytest.raises(httpx.TransportError):
        await running
    refused = 0
    async with httpx.AsyncClient(base_url=live.server.url) as fresh:
        while refused < 1000:
            try:
                answer = await fresh.get("/health")
                break
            except httpx.ConnectError:
                refused += 1
                await asyncio.sleep(0.02)
    assert refused > 0
    assert answer.status_code == 200
    assert datas(await live.raw(BODY))[-1] == b"data: [DONE]"


def rss() -> int:
    return int(psutil.Process().memory_info().rss)


async def test_memory_grows_and_is_given_back(start_server: Start) -> None:
    """Whoever reads /metrics sees it as well."""
    live = await start_server()
    before, told = rss(), (await live.metrics())["process_resident_memory_bytes"]
    await live.fault("memory_growth", mb_per_s=2000, max_mb=60)

    async def grown() -> bool:
        return rss() > before + 50e6

    async def given_back() -> bool:
        return rss() < before + 25e6

    await live.until(grown)
    assert (await live.metrics())["process_resident_memory_bytes"] > told + 40e6
    await live.fault("memory_growth", clear=True)
    await live.until(given_back)


async def step_mean_s(live: Any) -> float:
    counters = (await live.truth())["counters"]
    return float(counters["busy_time_s"] / counters["engine_steps"])


async def test_a_cold_start_is_slow(start_server: Start) -> None:
    """C25: the first requests, not the later ones."""
    cold = await start_server(jitter=0.0, faults=("cold_start:factor=5",))
    warm = await start_server(jitter=0.0)
    body = {**BODY, "temperature": 0}
    await asyncio.gather(cold.raw(body), warm.raw(body))
    assert await step_mean_s(cold) == pytest.approx(5 * await step_mean_s(warm))


async def test_a_wrong_tokenizer_counts_more_tokens(start_server: Start) -> None:
    live = await start_server()
    text = "What is the capital of France?"
    usual = (await live.post("/tokenize", {"prompt": text})).json()["count"]
    await live.fault("wrong_tokenizer")
    assert (await live.post("/tokenize", {"prompt": text})).json()["count"] == len(text) > 2 * usual
    answer = (await live.post("/v1/completions", {"prompt": text, "max_tokens": 1})).json()
    assert answer["usage"]["prompt_tokens"] == len(text)
    chat = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    assert (await live.post(CHAT, chat)).json()["usage"]["prompt_tokens"] == len(text) + 2


@pytest.mark.parametrize("template", ["plain", "system"])
async def test_a_wrong_template_is_the_other_one(start_server: Start, template: str) -> None:
    """Chats have other prompts, completions the same."""
    live = await start_server(template=template)
    chat = {"messages": [{"role": "user", "content": "one two"}], "max_tokens": 1}

    async def counts() -> list[int]:
        answers = [await live.post(CHAT, chat), await live.post("/v1/completions", {"prompt": "one two"})]
        told = [a.json()["usage"]["prompt_tokens"] for a in answers]
        return [*told, (await live.post("/tokenize", {"messages": chat["messages"]})).json()["count"]]

    usual = await counts()
    await live.fault("wrong_template")
    wrong = await counts()
    assert (wrong[0] > usual[0]) == (template == "plain")
    assert wrong[0] != usual[0] == usual[2] != wrong[2]
    assert wrong[1] == usual[1]


async def acceptance(live: Any, salt: str) -> float:
    """Of 24 answers in code."""
    before = (await live.truth())["counters"]
    bodies = [{**BODY, "prompt": f"Write a function for {salt} {i}", "temperature": 0.7, "seed": i} for i in range(24)]
    await asyncio.gather(*(live.raw(body) for body in bodies))
    after = (await live.truth())["counters"]
    drafted = after["num_draft_tokens"] - before["num_draft_tokens"]
    return float((after["num_accepted_tokens"] - before["num_accepted_tokens"]) / drafted)


async def test_drift_and_a_stale_cache_lower_acceptance(start_server: Start) -> None:
    """D29, G26: outputs stay right, drafts do not."""
    live = await start_server(speed=200.0)
    usual = await acceptance(live, "a")
    await live.fault("draft_drift", bias=1.0)
    assert await acceptance(live, "b") < 0.5 * usual
    await live.fault("draft_drift", clear=True)
    await live.fault("stale_draft")
    assert await acceptance(live, "c") < 0.7 * usual
    await live.fault("stale_draft", clear=True)
    assert await acceptance(live, "d") == pytest.approx(usual, abs=0.15)


async def test_a_missing_correction_changes_the_output(start_server: Start) -> None:
    """The same seed gives other tokens only where a draft was rejected."""
    live = await start_server()
    body = {**BODY, "temperature": 1.0, "max_tokens": 120}
    usual = texts(await live.raw(body))
    assert texts(await live.raw(body)) == usual
    await live.fault("no_correction")
    assert texts(await live.raw(body)) != usual


def test_shares_times_and_seeds() -> None:
    faults = Faults(seed=3)
    faults.set_text("truncate:share=0.25,after=2,for=3", 100.0)
    assert all("truncate" not in faults.for_request(i, t) for i in range(50) for t in (101.9, 105.0))
    hit = [i for i in range(4000) if "truncate" in faults.for_request(i, 103.0)]
    assert 900 < len(hit) < 1100
    again = Faults(seed=3)
    again.set("truncate", {"share": 0.25}, 0.0)
    assert [i for i in range(4000) if "truncate" in again.for_request(i, 1.0)] == hit
    other = Faults(seed=4)
    other.set("truncate", {"share": 0.25}, 0.0)
    assert [i for i in range(4000) if "truncate" in other.for_request(i, 1.0)] != hit


def test_engine_switches_follow_the_clock() -> None:
    faults, switches = Faults(), Switches()
    faults.set_text("draft_drift:bias=0.5,after=10", 0.0)
    faults.set_text("no_correction:for=5", 0.0)
    faults.apply(switches, 1.0)
    assert (switches.draft_bias, switches.correction) == (0.0, False)
    faults.apply(switches, 11.0)
    assert (switches.draft_bias, switches.correction) == (0.5, True)
    faults.set_text("draft_drift:bias=0.5,after=10,ramp_s=20", 0.0)
    biases = []
    for now_s in (9.0, 10.0, 15.0, 30.0, 99.0):
        faults.apply(switches, now_s)
        biases.append(switches.draft_bias)
    assert biases == [0.0, 0.0, 0.125, 0.5, 0.5]


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "truncate:share=2",
        "truncate:at_tokens=x",
        "truncate:nope=1",
        "truncate:share",
        "no_correction:share=1",
        "stall:seconds=-1",
    ],
)
def test_impossible_faults_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"fault|known"):
        Faults().set_text(text, 0.0)


async def test_faults_are_shown_and_cleared(start_server: Start) -> None:
    live = await start_server(faults=("truncate:share=0.1", "no_done"))
    shown = (await live.http.get("/rehearsal/faults")).json()
    assert shown["truncate"] == {"share": 0.1, "after": 0.0, "for": None, "at_tokens": 8}
    assert set(shown) == {"truncate", "no_done"}
    assert (await live.post("/rehearsal/faults", {"clear": True})).json() == {}
    for bad in ({"name": "nope"}, {"name": "stall", "seconds": "x"}, [], {}):
        assert (await live.post("/rehearsal/faults", bad)).status_code == 400
    await live.fault("crash_on", exit_s=2)
    assert (await live.http.get("/rehearsal/faults")).json()["crash_on"] == {
        "share": 1.0, "after": 0.0, "for": None, "tokens": 2048.0, "down_s": None, "exit_s": 2.0,
    }  # fmt: skip
    assert all(kind.what for kind in KINDS.values())
