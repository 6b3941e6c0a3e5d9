"""Answers of the server: shapes, counts, determinism."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from server_adapters.base import Target
from server_adapters.rehearsal.chat import SYSTEM_MESSAGE
from server_adapters.rehearsal.models import Models
from server_adapters.vllm import VllmAdapter

CAPTURED = Path(__file__).parents[2] / "data" / "vllm_0.32"
PROMPT = "def add(numbers):"
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
Start = Callable[..., Awaitable[Any]]


def shape(value: Any) -> Any:
    """Key sets in order, down through objects and through lists of objects."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    return None


def order(payloads: list[Any]) -> list[str]:
    """Shapes of a stream with repetitions removed: the order of its kinds of events."""
    found: list[str] = []
    for payload in payloads:
        text = payload if isinstance(payload, str) else json.dumps(shape(payload))
        if not found or found[-1] != text:
            found.append(text)
    return found


def captured(name: str) -> list[Any]:
    blocks = (CAPTURED / name).read_text().split("\n\n")
    told = [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]
    return [json.loads(text) if text.startswith("{") else text for text in told]


FULL = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "return_token_ids": True}
USAGE = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("name", "spec", "path", "body"),
    [
        ("completions_stream_off.sse", "off", "/v1/completions", {"prompt": PROMPT, **FULL}),
        ("completions_stream_draft.sse", "draft:k=4", "/v1/completions", {"prompt": PROMPT, **FULL}),
        ("completions_stream_ngram.sse", "ngram:k=4,min=1", "/v1/completions", {"prompt": PROMPT, **FULL}),
        ("completions_stream_draft_plain.sse", "draft:k=4", "/v1/completions", {"prompt": PROMPT}),
        ("chat_stream_off.sse", "off", "/v1/chat/completions", {**CHAT, **USAGE}),
        ("chat_stream_draft.sse", "draft:k=4", "/v1/chat/completions", {**CHAT, **USAGE}),
        ("chat_stream_ngram.sse", "ngram:k=4,min=1", "/v1/chat/completions", {**CHAT, **USAGE}),
    ],
)
async def test_streams_have_the_events_and_fields_of_a_real_server(
    start_server: Start, name: str, spec: str, path: str, body: dict[str, Any]
) -> None:
    """Order of events, names and order of fields, as captured from vLLM 0.32 (C10, J4)."""
    live = await start_server(spec=spec)
    asked = {**body, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    assert order(await live.events(asked, path)) == order(captured(name))


async def test_a_stop_string_ends_like_a_real_servers(start_server: Start) -> None:
    live = await start_server()
    whole = (await live.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 60, "temperature": 0})).json()
    text = whole["choices"][0]["text"]
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": PROMPT, "max_tokens": 60, "temperature": 0, "stop": stop, "stream_options": options}
    events = await live.events(body)
    assert order(events) == order(captured("completions_stream_draft_stop.sse"))
    assert "speculative_decoding" not in events[-2]["metrics"]
    assert events[-3]["choices"][0]["stop_reason"] == stop
    assert "".join(e["choices"][0]["text"] for e in events[:-2]) == text[: text.index(stop)]


@pytest.mark.parametrize(
    ("name", "spec", "path", "body"),
    [
        ("completions_off.json", "off", "/v1/completions", {"prompt": PROMPT}),
        ("completions_draft.json", "draft:k=4", "/v1/completions", {"prompt": PROMPT}),
        ("completions_ngram.json", "ngram:k=4,min=1", "/v1/completions", {"prompt": PROMPT}),
        ("chat_off.json", "off", "/v1/chat/completions", CHAT),
    ],
)
async def test_whole_bodies_have_the_fields_of_a_real_server(
    start_server: Start, name: str, spec: str, path: str, body: dict[str, Any]
) -> None:
    live = await start_server(spec=spec)
    answer = await live.post(path, {**body, "max_tokens": 24, "temperature": 0, "ignore_eos": True})
    assert json.dumps(shape(answer.json())) == json.dumps(shape(json.loads((CAPTURED / name).read_text())))


async def test_streamed_text_and_tokens_are_those_of_the_whole_body(start_server: Start, models: Models) -> None:
    """H18: characters whose bytes lie in two tokens come whole; nothing is lost at the end."""
    live = await start_server()
    body = {"prompt": PROMPT, "max_tokens": 80, "seed": 5, **FULL}
    events = await live.events(body)
    whole = {key: value for key, value in body.items() if key != "stream_options"}
    choice = (await live.post("/v1/completions", whole)).json()["choices"][0]
    ids = [i for e in events[:-2] for i in e["choices"][0]["token_ids"]]
    assert ids == choice["token_ids"]
    assert "".join(e["choices"][0]["text"] for e in events[:-2]) == choice["text"] == models.tokenizer.decode(ids)
    assert events[0]["choices"][0]["prompt_token_ids"] == models.tokenizer.encode(PROMPT)


async def test_one_chunk_is_one_step(start_server: Start) -> None:
    """The first chunk is the prefill's token, then accepted + 1 tokens each, the last one trimmed (D22)."""
    live = await start_server()
    events = await live.events({"prompt": PROMPT, "max_tokens": 64, "ignore_eos": True, "seed": 1, **FULL})
    lengths = [len(e["choices"][0]["token_ids"]) for e in events[:-2]]
    spec = events[-2]["metrics"]["speculative_decoding"]
    accepted = spec["per_step_accepted"]
    assert lengths[0] == 1
    assert lengths[1:-1] == [a + 1 for a in accepted[:-1]]
    assert lengths[-1] <= accepted[-1] + 1
    assert sum(lengths) == 64
    assert spec["num_draft_tokens"] == sum(spec["per_step_drafted"]) == 4 * len(accepted)


@pytest.mark.parametrize("spec", ["draft:k=4", "ngram:k=4,min=1"])
async def test_truth_counters_and_request_sums_are_equal(start_server: Start, spec: str) -> None:
    """D18: three sources, no tolerance: the engine's counters, /metrics, and the sum over requests."""
    live = await start_server(spec=spec)
    bodies = [{"prompt": f"{PROMPT} # {i}", "max_tokens": 30 + i, "seed": i, **FULL} for i in range(12)]
    streams = await asyncio.gather(*(live.events(body) for body in bodies))
    told = [events[-2]["metrics"]["speculative_decoding"] for events in streams]
    usage = [events[-2]["usage"] for events in streams]
    counters, page = (await live.truth())["counters"], await live.metrics()
    labels = '{engine="0",model_name="rehearsal-8b"}'
    for family, key in (
        ("num_drafts", "num_spec_steps"),
        ("num_draft_tokens", "num_draft_tokens"),
        ("num_accepted_tokens", "num_accepted_draft_tokens"),
    ):
        total = sum(t[key] for t in told)
        assert total == counters[family] == page[f"vllm:spec_decode_{family}_total{labels}"] > 0
    generated = sum(u["completion_tokens"] for u in usage)
    assert generated == counters["generation_tokens"] == page[f"vllm:generation_tokens_total{labels}"]
    prompted = sum(u["prompt_tokens"] for u in usage)
    assert prompted == counters["prompt_tokens"] == page[f"vllm:prompt_tokens_total{labels}"]
    chunks = sum(len(events) - 2 for events in streams)
    steps = page[f"vllm:inter_token_latency_seconds_count{labels}"]
    assert steps == counters["decode_outputs"]
    assert steps + 12 >= chunks, "a chunk holds one step or, merged, more"
    assert page[f"vllm:time_to_first_token_seconds_count{labels}"] == 12
    per_position = [page[f'vllm:spec_decode_num_accepted_tokens_per_pos_total{labels[:-1]},position="{i}"}}']
                    for i in range(4)]  # fmt: skip
    accepted = [a for t in told for a in t.get("per_step_accepted", [])]
    assert per_position == [sum(a > i for a in accepted) for i in range(4)]


async def test_the_truth_of_a_request_is_what_its_client_saw(start_server: Start) -> None:
    live = await start_server(speed=2.0)
    events = await live.events({"prompt": PROMPT, "max_tokens": 20, "seed": 3, **FULL})
    (truth,) = (await live.truth())["requests"]
    assert truth["step_tokens"] == [len(e["choices"][0]["token_ids"]) for e in events[:-2]]
    assert truth["per_step_accepted"] == events[-2]["metrics"]["speculative_decoding"]["per_step_accepted"]
    assert truth["step_times_s"] == sorted(truth["step_times_s"])
    assert truth["step_times_s"][0] == truth["first_token_s"]
    assert truth["last_token_s"] - truth["first_token_s"] == pytest.approx(
        events[-2]["metrics"]["generation_time_ms"] / 1000
    )
    assert 0 < truth["draft_time_s"] < truth["verify_time_s"] < truth["last_token_s"] - truth["arrival_s"]


async def test_text_of_a_seed_does_not_depend_on_the_batch(start_server: Start) -> None:
    live = await start_server()
    body = {"prompt": PROMPT, "max_tokens": 40, "seed": 11, "return_token_ids": True}
    alone = (await live.post("/v1/completions", body)).json()["choices"][0]["token_ids"]
    crowd = [{"prompt": f"Tell me about {i}", "max_tokens": 60, "seed": i} for i in range(20)]
    answers = await asyncio.gather(*(live.post("/v1/completions", b) for b in (*crowd, body)))
    assert answers[-1].json()["choices"][0]["token_ids"] == alone


async def test_the_kill_switch_stops_drafting_and_nothing_else(start_server: Start) -> None:
    live = await start_server()
    body = {"prompt": PROMPT, "max_tokens": 40, "temperature": 0}
    drafting = (await live.post("/v1/completions", body)).json()
    assert (await live.post("/rehearsal/speculation", {"enabled": False})).json() == {"enabled": False}
    before = (await live.truth())["counters"]["num_drafts"]
    plain = (await live.post("/v1/completions", body)).json()
    assert plain["choices"][0]["text"] == drafting["choices"][0]["text"]
    assert plain["metrics"]["speculative_decoding"]["num_spec_steps"] == 0
    assert plain["metrics"]["speculative_decoding"]["per_step_accepted"] is None
    assert (await live.truth())["counters"]["num_drafts"] == before > 0
    await live.post("/rehearsal/speculation", {"enabled": True})
    again = (await live.post("/v1/completions", body)).json()
    assert again["metrics"]["speculative_decoding"]["num_spec_steps"] > 0


async def test_a_client_that_goes_ends_its_request(start_server: Start) -> None:
    live = await start_server(speed=1.0)
    body = {"prompt": PROMPT, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    async with live.http.stream("POST", "/v1/completions", json=body) as answer:
        async for _ in answer.aiter_raw():
            break

    async def counted() -> bool:
        return bool((await live.truth())["counters"]["request_success"]["abort"])

    await live.until(counted)
    aborted = 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="rehearsal-8b"}'
    assert (await live.metrics())[aborted] == 0, "vLLM does not count them"
    told = await live.truth()
    assert told["gauges"]["num_requests_running"] == told["gauges"]["num_blocks_used"] == 0
    assert told["requests"][0]["finish_reason"] == "abort"


async def test_the_vllm_adapter_understands_the_server(start_server: Start, models: Models) -> None:
    """Probe, environment and prompt lengths, without a word about which server it is."""
    live = await start_server(spec="draft:k=3")
    target = Target(live.server.url, (f"{live.server.url}/metrics",), None, {})
    adapter = VllmAdapter()
    async with httpx.AsyncClient(timeout=20) as client:
        found = await adapter.probe(client, target)
        told = await adapter.environment(client, target)
        count = await adapter.count_tokens(client, target, "one two", "completions")
        chat = await adapter.count_tokens(client, target, "one two", "chat")
        page = adapter.parse_metrics((await client.get(f"{live.server.url}/metrics")).text)
    assert found.models == ("rehearsal-8b",)
    assert (found.speculation, found.k, found.spec_method, found.per_request_spec) == (
        True, 3, "draft_model", "detailed",
    )  # fmt: skip
    assert found.version is not None
    assert found.version.startswith("0.32.0")
    assert found.continuous_usage
    assert found.token_ids
    assert found.cache_salt
    assert found.tokenize
    assert found.dev_mode
    assert found.counts_artefact is False
    assert told["speculation.k"].value == 3
    assert told["gpu.name"].value == "NVIDIA H100 80GB HBM3 (simulated)"
    assert told["kv_cache.block_size"].value == 16
    assert count == len(models.tokenizer.encode("one two"))
    assert chat is not None
    assert chat == count + 2, "the marks of the user and of the assistant"
    assert page.started_unix_s is not None
    assert {series.model for series in page.series} == {"rehearsal-8b"}


async def test_dtype_template_and_sampling_defaults_are_told(start_server: Start) -> None:
    """Two servers that differ in what a comparison must not: the adapter sees each of them."""
    adapter = VllmAdapter()
    options = {"dtype": "float16", "template": "system", "generation_config": "temperature=0.6,top_k=20"}
    found = []
    async with httpx.AsyncClient(timeout=20) as client:
        for more in ({}, options):
            live = await start_server(spec="off", **more)
            found.append(await adapter.environment(client, Target(live.server.url, (), None, {})))
    plain, other = ({key: fact.value for key, fact in told.items()} for told in found)
    assert (plain["model.dtype"], other["model.dtype"]) == ("bfloat16", "float16")
    assert (plain["sampling.override"], other["sampling.override"]) == ({}, {"temperature": 0.6, "top_k": 20})
    assert plain["template.ids"] != other["template.ids"]
    assert plain["tokenizer.ids"] == other["tokenizer.ids"]


async def test_the_system_template_adds_tokens_only_where_no_system_message_is(start_server: Start) -> None:
    live = await start_server(spec="off", template="system")
    user, system = {"role": "user", "content": "one two"}, {"role": "system", "content": "Be brief."}

    async def ids(*messages: dict[str, str]) -> list[int]:
        tokens: list[int] = (await live.post("/tokenize", {"messages": messages})).json()["tokens"]
        return tokens

    added = {"role": "system", "content": SYSTEM_MESSAGE}
    assert await ids(user) == await ids(added, user)
    assert len(await ids(system, user)) < len(await ids(user))


async def test_sampling_defaults_hold_for_what_a_request_leaves_out(start_server: Start) -> None:
    """H9: an omitted temperature is the model's, one that is sent is the request's."""
    live = await start_server(spec="off", generation_config="temperature=0")
    body = {"prompt": PROMPT, "max_tokens": 24, "seed": 5}
    texts = {}
    for name, more in (("omitted", {}), ("greedy", {"temperature": 0.0}), ("sampled", {"temperature": 2.0})):
        texts[name] = (await live.post("/v1/completions", {**body, **more})).json()["choices"][0]["text"]
    assert texts["omitted"] == texts["greedy"] != texts["sampled"]


async def test_without_speculation_its_families_are_absent(start_server: Start) -> None:
    live = await start_server(spec="off")
    page = await live.metrics()
    assert not [name for name in page if "spec_decode" in name]
    assert (await live.post("/rehearsal/speculation", {"enabled": True})).status_code == 409


@pytest.mark.parametrize(("spec", "name"), [("off", "metrics_off.txt"), ("draft:k=4", "metrics_draft.txt")])
async def test_every_vllm_series_of_a_real_server_is_there(start_server: Start, spec: str, name: str) -> None:
    """Names and labels, but for families of hardware this server has not: device FLOPs, KV connectors, images."""
    live = await start_server(spec=spec, served_model_name="tiny", max_model_len=2048)
    await live.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4})
    ours = set(await live.metrics())
    lines = (CAPTURED / name).read_text().splitlines()
    theirs = {line.rsplit(" ", 1)[0] for line in lines if line.startswith("vllm:")}
    absent = ("estimated_", "external_prefix_", "mm_cache_", "prompt_tokens_cached_by_source", "cache_config_info")
    expected = {series for series in theirs if not series[5:].startswith(absent)}
    assert expected <= ours
    assert {s for s in ours if s.startswith("vllm:") and "cache_config_info" not in s} == expected
