"""Servers in processes of their own, their configuration, and real time: what the wire shows against the truth."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from server_adapters.rehearsal.__main__ import main, parser
from server_adapters.rehearsal.config import SPEC_METRICS, RehearsalConfig, parse_spec
from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.faults import KINDS, Faults
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.runner import Runner
from server_adapters.rehearsal.serve import (
    ServeError,
    from_json,
    rehearsal_server,
    rehearsal_server_sync,
    to_json,
)
from server_adapters.rehearsal.simulate import Case, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, EngineRequest, SamplingParams, SpeculationConfig

Start = Callable[..., Awaitable[Any]]


async def gone(url: str) -> bool:
    """Whether nobody listens any more, within ten seconds."""
    async with httpx.AsyncClient() as client:
        for _ in range(500):
            try:
                await client.get(f"{url}/health")
            except httpx.TransportError:
                return True
            await asyncio.sleep(0.02)
    return False


async def test_a_child_process_serves_and_ends() -> None:
    config = RehearsalConfig(spec="ngram:k=3", model="8b", speed=20.0, faults=("no_done",))
    async with rehearsal_server(config) as url, httpx.AsyncClient(base_url=url) as client:
        body = {"prompt": "a", "max_tokens": 3, "stream": True}
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 200
        assert "[DONE]" not in answer.text
        info = (await client.get("/server_info", params={"config_format": "json"})).json()
        assert info["vllm_config"]["speculative_config"]["method"] == "ngram"
    assert await gone(url)


def test_a_child_process_that_cannot_start_says_so() -> None:
    with (
        pytest.raises(ServeError, match="ended with status 2"),
        rehearsal_server_sync(RehearsalConfig(spec="draft:k=x")),
    ):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = RehearsalConfig(port=taken.getsockname()[1])
        with pytest.raises(ServeError, match="ended with status 2"), rehearsal_server_sync(config):
            pass


def test_a_child_does_not_outlive_its_parent() -> None:
    """Also where the parent is killed and can clean up nothing."""
    script = (
        "import time\nfrom server_adapters.rehearsal.config import RehearsalConfig\n"
        "from server_adapters.rehearsal.serve import rehearsal_server_sync\n"
        "with rehearsal_server_sync(RehearsalConfig(model='8b')) as url:\n print(url, flush=True)\n time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    assert httpx.get(f"{url}/health").status_code == 200
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert asyncio.run(gone(url))


def test_the_command_serves_until_it_is_interrupted() -> None:
    argv = [sys.executable, "-m", "server_adapters.rehearsal", "--port", "0", "--model", "8b"]
    command = subprocess.Popen([*argv, "--spec", "draft:k=2"], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    url = command.stdout.readline().strip()
    assert "rehearsal-8b" in httpx.get(f"{url}/v1/models").text
    command.send_signal(signal.SIGINT)
    assert command.wait(20) == 0
    command.stdout.close()


def test_options_are_the_fields_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    options = vars(parser().parse_args(["--fault", "no_done", "--fault", "truncate:share=0.5"]))
    options.pop("child")
    made = RehearsalConfig(**{**options, "faults": tuple(options["faults"])})
    assert made == RehearsalConfig(port=8001, faults=("no_done", "truncate:share=0.5"))
    assert from_json(to_json(made)) == made
    assert all(name in parser().format_help() for name in KINDS)
    assert main(["--model", "8b", "--spec", "tree"]) == 2
    assert "write off, draft:k=4 or ngram:k=4" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["--port", str(taken.getsockname()[1])]) == 2
        assert f"127.0.0.1:{taken.getsockname()[1]}: Address already in use" in capsys.readouterr().err
    assert SPEC_METRICS == ("none", "summary", "detailed")


def test_spec_texts() -> None:
    assert parse_spec("off") is None
    assert parse_spec("draft") == SpeculationConfig("draft_model", 4)
    assert parse_spec("ngram:k=3,min=1,max=5") == SpeculationConfig(
        "ngram", 3, prompt_lookup_min=1, prompt_lookup_max=5
    )
    assert parse_spec("draft:k=4,schedule=1-8:4;9-256:1") == SpeculationConfig(
        "draft_model", 4, schedule=((1, 8, 4), (9, 256, 1))
    )


@pytest.mark.parametrize("text", ["", "eagle:k=2", "draft:k=0", "draft:k=2,min=1", "draft:k", "draft:schedule=1:4"])
def test_impossible_spec_texts(text: str) -> None:
    with pytest.raises(ValueError, match=r"spec|k=|schedule"):
        parse_spec(text)


def test_a_missing_key_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REHEARSAL_TEST_KEY", raising=False)
    with pytest.raises(ValueError, match="REHEARSAL_TEST_KEY"):
        RehearsalConfig(api_key_env="REHEARSAL_TEST_KEY").api_key()


async def test_connections_send_at_once(start_server: Start) -> None:
    """Nagle's algorithm would hold chunks for 40 ms. (A26)"""
    live = await start_server()
    await live.http.get("/health")
    (connection,) = live.server._uvicorn.server_state.connections
    transport = connection.transport.get_extra_info("socket")
    assert transport.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("spec", ["draft:k=4", "ngram:k=4,min=1"])
async def test_wire_times_are_the_truth_within_5_ms_and_the_lag(spec: str) -> None:
    """Durations from outside against the engine's: both clocks are CLOCK_MONOTONIC of this machine."""
    config = RehearsalConfig(spec=spec, model="8b", jitter=0.1)
    body = {"prompt": "def add(numbers):", "max_tokens": 60, "ignore_eos": True, "stream": True, "seed": 1}
    async with rehearsal_server(config) as url, httpx.AsyncClient(base_url=url) as client:
        await client.post("/v1/completions", json={**body, "max_tokens": 2})
        stamps = []
        sent_s = time.monotonic()
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            async for piece in answer.aiter_raw():
                stamps += [time.monotonic()] * piece.count(b"data: {")
        truth = (await client.get("/rehearsal/truth")).json()
    told = truth["requests"][-1]
    slack_s = 0.005 + told["max_lag_s"]
    assert len(stamps) == len(told["step_times_s"])
    late = [seen - true for seen, true in zip(stamps, told["step_times_s"], strict=True)]
    assert min(late) >= 0, "nothing is sent before its time"
    assert sorted(late)[len(late) // 2] <= slack_s
    assert abs((stamps[0] - sent_s) - (told["first_token_s"] - told["arrival_s"])) <= slack_s + late[0]
    assert not truth["lag"]["saturated"]


async def test_real_time_and_virtual_time_play_the_same(start_server: Start, models: Models) -> None:
    """One request at a time: the same tokens per step, the same drafts, the same step times as `simulate`."""
    live = await start_server(speed=1.0, seed=7)
    params = SamplingParams(temperature=0.8, max_tokens=48, seed=3)
    prompt = tuple(models.tokenizer.encode("Write a function that counts words."))
    stage = Stage((Case("c", models.classify(prompt), prompt, params),), concurrency=1)
    (record,) = simulate(SimulationPlan({"arm": live.server.config.engine()}, (stage,)), 0, models).records
    await live.post("/v1/completions", {"prompt": list(prompt), "temperature": 0.8, "max_tokens": 48, "seed": 3})
    (truth,) = (await live.truth())["requests"]
    assert truth["step_tokens"] == record.chunk_tokens
    assert record.spec is not None
    assert truth["per_step_accepted"] == record.spec.per_step_accepted
    first = truth["first_scheduled_s"]
    real = [at - first for at in truth["step_times_s"]]
    assert record.first_scheduled_s is not None
    virtual = [at - record.first_scheduled_s for at in record.chunk_times_s]
    forgone = truth["max_lag_s"] if live.server.runner.lag.forgone_s else 0.0
    assert real == pytest.approx(virtual, abs=1e-6 + forgone)


async def test_a_slow_reader_gets_merged_chunks_and_loses_nothing(start_server: Start) -> None:
    """Bounded: what a reader does not take is one delta that grows, as in vLLM's collector."""
    live = await start_server(speed=200.0)
    runner = live.server.runner
    stream = runner.submit(EngineRequest("slow", (5, 6, 7), SamplingParams(max_tokens=64, ignore_eos=True)), 1)

    async def ended() -> bool:
        return bool(stream.ended)

    await live.until(ended)
    delta = await stream.next()
    assert len(delta.token_ids) == 64
    assert delta.final is not None
    assert len(stream.step_times_s) > 10
    assert (await stream.next()).token_ids == []


async def test_no_step_begins_before_a_request_it_runs_has_arrived(start_server: Start) -> None:
    """A late process: its only step is over on the engine's axis and not yet delivered when the next request comes.

    Then, long after, two requests in one turn of the loop. No time in the queue is below zero, none is as long as the
    pause between them.
    """
    live = await start_server(speed=1.0)
    runner = live.server.runner
    one = SamplingParams(max_tokens=1, ignore_eos=True)
    runner.submit(EngineRequest("first", (5, 6, 7), one), 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not runner.engine.has_work
    time.sleep(0.05)  # noqa: ASYNC251 - the process is late
    runner.submit(EngineRequest("second", (5, 6, 7), one), 2)

    async def idle() -> bool:
        return not runner.num_streams

    await live.until(idle)
    await asyncio.sleep(0.1)
    for number, name in ((3, "third"), (4, "fourth")):
        runner.submit(EngineRequest(name, (5, 6, 7), one), number)
    await live.until(idle)
    times = {truth["request_id"]: truth["first_scheduled_s"] - truth["arrival_s"] for truth in runner.shown_truths()}
    assert len(times) == 4
    assert min(times.values()) >= 0.0
    assert times["fourth"] < 0.1


async def test_a_broken_engine_shows(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """J2: an exception in a step is an error for its clients and for /health, not silence."""
    live = await start_server()

    def broken(self: Engine, now_s: float) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Engine, "step", broken)
    raw = await live.raw({"prompt": "a", "max_tokens": 4})
    assert "boom" in json.loads(raw.split(b"\n\n")[0][6:])["error"]["message"]
    assert (await live.http.get("/health")).status_code == 503


async def test_saturation_is_told(start_server: Start) -> None:
    """A load the process cannot play in real time: it says so, with its lag and the time it gave up."""
    live = await start_server(speed=100_000.0)
    bodies = [{"prompt": f"a {i}", "max_tokens": 400, "ignore_eos": True, "stream": True} for i in range(40)]
    await asyncio.gather(*(live.post("/v1/completions", body) for body in bodies))
    lag = (await live.truth())["lag"]
    page = await live.metrics()
    assert lag["saturated"] is True
    assert lag["forgone_s"] + lag["max_s"] > 0.05
    assert page["rehearsal:saturated"] == 1
    assert page["rehearsal:lag_max_seconds"] == pytest.approx(lag["max_s"])


@pytest.mark.parametrize("text", ["min_p=0.1", "temperature", "temperature=warm", "top_k=1.5"])
def test_sampling_defaults_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"generation_config"):
        RehearsalConfig(generation_config=text).engine()


async def test_a_request_that_comes_right_after_a_step_waits_no_negative_time(models: Models) -> None:
    """The engine has no work, and does not wait for any yet: its clock is that of the last step's end (D2)."""
    runner = Runner(Engine(EngineConfig(), models), Faults())
    await asyncio.sleep(0)
    runner._clock_s = time.monotonic() - 0.01
    request = EngineRequest("r1", (5, 6, 7), SamplingParams(max_tokens=1))
    runner.submit(request, 1)
    await runner._step()
    assert runner.histograms.families["request_queue_time_seconds"].total >= 0
