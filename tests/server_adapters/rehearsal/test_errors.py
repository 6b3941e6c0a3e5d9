"""Error statuses and bodies of every route: facts of vLLM 0.32 (its table of errors), and the key of /v1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from server_adapters.rehearsal.streaming import EVENT_HEADERS

CAPTURED = Path(__file__).parents[2] / "data" / "vllm_0.32"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello"}]
Start = Callable[..., Awaitable[Any]]

#: What is asked, and the parameter that vLLM names: it names none of those that its sampling parameters refuse.
BAD_REQUESTS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "no room": (COMPLETIONS, {"prompt": [1] * 128, "max_tokens": 4}, "max_tokens"),
    "too long": (COMPLETIONS, {"prompt": [1] * 129, "max_tokens": 4}, "input_tokens"),
    "too long stream": (COMPLETIONS, {"prompt": [1] * 129, "stream": True}, "input_tokens"),
    "too long chat": (CHAT, {"messages": [{"role": "user", "content": "a b " * 100}]}, "input_tokens"),
    "max_tokens beyond the model": (CHAT, {"messages": HELLO, "max_tokens": 129}, "max_tokens"),
    "max_tokens beyond the model, of a completion": (COMPLETIONS, {"prompt": "a", "max_tokens": 129}, "max_tokens"),
    "too long and max_tokens beyond": (COMPLETIONS, {"prompt": [1] * 200, "max_tokens": 129}, "max_tokens"),
    "too many characters": (COMPLETIONS, {"prompt": "a b " * 20_000}, "input_text"),
    "too many characters of a chat": (CHAT, {"messages": [{"role": "user", "content": "a b " * 20_000}]}, "input_text"),
    "max_completion_tokens 0": (CHAT, {"messages": HELLO, "max_completion_tokens": 0, "max_tokens": 5}, "max_tokens"),
    "temperature beyond": (COMPLETIONS, {"prompt": "a", "temperature": 2.01}, "temperature"),
    "min_p": (COMPLETIONS, {"prompt": "a", "temperature": 0, "min_p": 1.5}, None),
    "presence_penalty beyond": (COMPLETIONS, {"prompt": "a", "presence_penalty": 2.5}, None),
    "repetition_penalty": (COMPLETIONS, {"prompt": "a", "repetition_penalty": 0}, None),
    "stop": (COMPLETIONS, {"prompt": "a", "stop": ["b", ""]}, None),
    "stop ids": (COMPLETIONS, {"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids"),
    "bias of an unknown token": (COMPLETIONS, {"prompt": "a", "logit_bias": {"999999": 1}}, "logit_bias"),
    "bias of a word": (COMPLETIONS, {"prompt": "a", "logit_bias": {"abc": 1}}, "logit_bias"),
    "min_tokens below 0": (COMPLETIONS, {"prompt": "a", "min_tokens": -1}, None),
    "empty list of an empty prompt": (COMPLETIONS, {"prompt": [[]]}, None),
    "surrogate": (COMPLETIONS, {"prompt": "a\ud800"}, None),
    "surrogate in a chat": (CHAT, {"messages": [{"role": "user", "content": "a\ud800"}]}, None),
    "empty salt": (COMPLETIONS, {"prompt": "a", "cache_salt": ""}, "cache_salt"),
    "max_tokens 0": (COMPLETIONS, {"prompt": "a", "max_tokens": 0}, "max_tokens"),
    "max_tokens -1": (COMPLETIONS, {"prompt": "a", "max_tokens": -1}, "max_tokens"),
    "temperature": (COMPLETIONS, {"prompt": "a", "temperature": -1}, "temperature"),
    "top_p": (COMPLETIONS, {"prompt": "a", "top_p": 2}, "top_p"),
    "top_k": (COMPLETIONS, {"prompt": "a", "top_k": -2}, None),
    "n 0": (COMPLETIONS, {"prompt": "a", "n": 0}, None),
    "n 2 greedy": (COMPLETIONS, {"prompt": "a", "n": 2, "temperature": 0}, None),
    "n 2": (COMPLETIONS, {"prompt": "a", "n": 2}, "n"),
    "n beyond": (COMPLETIONS, {"prompt": "a", "n": 10**6}, None),
    "min_tokens": (COMPLETIONS, {"prompt": "a", "min_tokens": 5, "max_tokens": 4}, None),
    "logprobs": (COMPLETIONS, {"prompt": "a", "logprobs": 21}, "logprobs"),
    "empty prompt": (COMPLETIONS, {"prompt": ""}, "prompt"),
    "no prompt": (COMPLETIONS, {}, "prompt"),
    "null prompt": (COMPLETIONS, {"prompt": None}, "prompt"),
    "no tokens": (COMPLETIONS, {"prompt": []}, None),
    "two prompts": (COMPLETIONS, {"prompt": ["a", "b"]}, "prompt"),
    "no messages": (CHAT, {"messages": []}, None),
    "token id": (COMPLETIONS, {"prompt": [10**6]}, None),
    "schema": (CHAT, {"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format"),
    "penalty": (COMPLETIONS, {"prompt": "a", "presence_penalty": 0.5}, "presence_penalty"),
    "stream options": (COMPLETIONS, {"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
async def test_bad_requests(start_server: Start, name: str) -> None:
    """All are 400 before a stream begins, and the engine never sees them (C14)."""
    live = await start_server(max_model_len=128)
    path, body, param = BAD_REQUESTS[name]
    content = json.dumps(body).encode()  # ASCII: httpx would not send a surrogate
    answer = await live.http.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("BadRequestError", 400, param)
    assert (await live.truth())["counters"]["engine_steps"] == 0


@pytest.mark.parametrize("field", [{"min_p": 0.1}, {"logit_bias": {"1": 1.0}}])
async def test_what_vllm_refuses_with_speculation(start_server: Start, field: dict[str, Any]) -> None:
    live = await start_server()
    answer = await live.post(COMPLETIONS, {"prompt": "a", **field})
    assert answer.status_code == 400
    assert answer.json() == json.loads((CAPTURED / "error_400_logit_bias.json").read_text())


@pytest.mark.parametrize(
    ("content", "param"),
    [(b"{bad", "body.1"), (b'{"prompt": 3}', "body.prompt"), (b'{"prompt": "a", "max_tokens": "x"}', "body.max_tokens"),
     (b"[]", "body"), (b"", "body"), (b"null", "body"), (b'{"prompt": [-1]}', "body.prompt.0"),
     (b'{"prompt": "a", "n": null}', "body.n"), (b'{"prompt": "a", "stop": ["a", "b", "c", "d", "e"]}', "body.stop")],
)  # fmt: skip
async def test_wrong_types_and_broken_json(start_server: Start, content: bytes, param: str) -> None:
    live = await start_server()
    answer = await live.http.post(COMPLETIONS, content=content, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"], error["param"]) == (400, "Bad Request", 400, param)
    assert " validation error" in error["message"]


async def test_other_shapes_of_errors(start_server: Start) -> None:
    """C9: {"detail": …}, not {"error": …}."""
    live = await start_server()
    headers = {"content-type": "application/json"}
    answers = [
        await live.http.post(COMPLETIONS, content=b'{"prompt": "\xff"}', headers=headers),
        await live.http.get("/v1/nothing"),
        await live.http.get(COMPLETIONS),
    ]
    assert [(a.status_code, a.json()) for a in answers] == [
        (400, {"detail": "There was an error parsing the body"}),
        (404, {"detail": "Not Found"}),
        (405, {"detail": "Method Not Allowed"}),
    ]


@pytest.mark.parametrize(
    ("media_type", "status"),
    [("text/plain", 400), ("application/vnd.api+json", 400), (None, 400), ("multipart/form-data", 400),
     ("APPLICATION/JSON", 200), ("application/json; charset=utf-8", 200)],
)  # fmt: skip
async def test_the_type_of_a_body(start_server: Start, media_type: str | None, status: int) -> None:
    live = await start_server()
    headers = {"content-type": media_type} if media_type else {}
    answer = await live.http.post(COMPLETIONS, content=b'{"prompt": "a", "max_tokens": 1}', headers=headers)
    assert answer.status_code == status
    if status == 400:
        error = answer.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("Bad Request", None, 400)
        assert "Only 'application/json' is allowed" in error["message"]


@pytest.mark.parametrize(
    ("message", "status"),
    [({"role": "user"}, 200), ({"role": "user", "content": ""}, 200), ({"role": "wizard", "content": "a"}, 200),
     ({"role": "assistant", "content": None}, 200), ({"role": "user", "content": None}, 400),
     ({"role": "user", "content": 3}, 400), ({"content": "a"}, 400)],
)  # fmt: skip
async def test_odd_messages(start_server: Start, message: dict[str, Any], status: int) -> None:
    """An unknown role and no content are the template's affair."""
    live = await start_server()
    assert (await live.post(CHAT, {"messages": [message], "max_tokens": 1})).status_code == status


async def test_what_vllm_lets_pass(start_server: Start) -> None:
    live = await start_server(served_model_name="tiny")
    accepted: list[dict[str, Any]] = [
        {"model": ""}, {"model": None}, {"best_of": 2}, {"unknown": 1}, {"priority": 5}, {"seed": -5},
        {"temperature": 2.0}, {"top_k": 10**9}, {"top_k": -1}, {"logit_bias": {}}, {"x": "y" * 3_000_000},
    ]  # fmt: skip
    for more in accepted:
        assert (await live.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1, **more})).status_code == 200, more


async def test_bias_and_min_p_without_speculation(start_server: Start) -> None:
    """H10: the arm without speculation takes what the other refuses, and heeds it."""
    live = await start_server(spec="off")
    body = {"prompt": "def add(numbers):", "max_tokens": 12, "ignore_eos": True, "return_token_ids": True}

    async def ids(**more: Any) -> list[int]:
        answer = await live.post(COMPLETIONS, {**body, **more})
        found: list[int] = answer.json()["choices"][0]["token_ids"]
        return found

    greedy = await ids(temperature=0)
    assert await ids(temperature=0, logit_bias={"7": 500.0}) == [7] * 12
    assert greedy[0] not in await ids(temperature=0, logit_bias={str(greedy[0]): -100.0})
    assert await ids(temperature=1.0, seed=1, min_p=1.0) == greedy, "only the best is left"
    assert await ids(temperature=1.0, seed=1) != greedy


async def test_two_live_requests_with_one_id(start_server: Start) -> None:
    """A25: both are served, and tell the id they were given."""
    live = await start_server(speed=1.0)
    body = {"prompt": "def add(numbers):", "max_tokens": 60, "ignore_eos": True}
    headers = {"x-request-id": "same"}
    answers = await asyncio.gather(*(live.post(COMPLETIONS, body, headers=headers) for _ in range(3)))
    assert [(a.status_code, a.json()["id"], a.json()["usage"]["completion_tokens"]) for a in answers] == [
        (200, "cmpl-same", 60)
    ] * 3
    assert len({t["request_id"] for t in (await live.truth())["requests"]}) == 3


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT, "/tokenize", "/detokenize"])
async def test_unknown_model(start_server: Start, path: str) -> None:
    live = await start_server(served_model_name="tiny")
    body = {"prompt": "a", "messages": HELLO, "tokens": [1]}
    answer = await live.post(path, {"model": "nope", **body})
    assert answer.status_code == 404
    assert answer.json() == json.loads((CAPTURED / "error_404_model.json").read_text())
    assert (await live.post(path, body)).status_code == 200, "a missing model is the served one"


async def test_output_is_capped_silently_at_the_model_length(start_server: Start) -> None:
    live = await start_server(max_model_len=64)
    answer = await live.post(COMPLETIONS, {"prompt": [1] * 60, "max_tokens": 30, "ignore_eos": True})
    assert answer.json()["usage"] == {
        "prompt_tokens": 60, "total_tokens": 64, "completion_tokens": 4, "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }  # fmt: skip
    assert answer.json()["choices"][0]["finish_reason"] == "length"


async def test_a_full_queue_is_503(start_server: Start) -> None:
    """J2: counts waiting and running requests; refused before the stream begins, without Retry-After."""
    live = await start_server(max_num_queued_reqs=2, speed=1.0)
    body = {"prompt": "a", "max_tokens": 200, "ignore_eos": True}
    answers = await asyncio.gather(*(live.post(COMPLETIONS, {**body, "stream": i % 2 == 0}) for i in range(6)))
    refused = [a for a in answers if a.status_code == 503]
    assert len(refused) == 4
    assert sum(a.status_code == 200 for a in answers) == 2
    assert {a.json()["error"]["type"] for a in refused} == {"Service Unavailable"}
    assert not any("retry-after" in a.headers for a in refused)
    series = 'vllm:admission_rejections_total{model_name="rehearsal-8b",reason="max_num_queued_reqs"}'
    assert (await live.metrics())[series] == 4


async def test_the_key_protects_v1_only(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REHEARSAL_TEST_KEY", "s3cret")
    live = await start_server(api_key_env="REHEARSAL_TEST_KEY")
    answer = await live.post(COMPLETIONS, {"prompt": "a"})
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    wrong = await live.http.get("/v1/models", headers={"authorization": "Bearer nope"})
    right = await live.http.get("/v1/models", headers={"authorization": "Bearer s3cret"})
    assert (wrong.status_code, right.status_code) == (401, 200)
    for path in ("/metrics", "/health", "/version", "/ping", "/load", "/server_info"):
        assert (await live.http.get(path)).status_code == 200


async def test_small_routes(start_server: Start) -> None:
    live = await start_server(dev_mode=False)
    ids = (await live.post("/tokenize", {"prompt": "Hello, wörld"})).json()
    assert ids["count"] == len(ids["tokens"])
    assert set(ids) == set(json.loads((CAPTURED / "tokenize.json").read_text()))
    assert (await live.post("/detokenize", {"tokens": ids["tokens"]})).json() == {"prompt": "Hello, wörld"}
    named = (await live.post("/tokenize", {"messages": HELLO, "return_token_strs": True})).json()
    assert named["token_strs"][0] == "<|user|>"
    assert (await live.post("/tokenize", {})).status_code == 400
    assert (await live.post("/detokenize", {"tokens": [10**6]})).status_code == 400
    assert (await live.http.get("/load")).json() == {"server_load": 0}
    assert (await live.http.get("/server_info")).status_code == 404, "only in development mode"
    models = (await live.http.get("/v1/models")).json()
    assert set(models["data"][0]) == set(json.loads((CAPTURED / "models.json").read_text())["data"][0])


async def test_prefix_cache_and_its_salt(start_server: Start) -> None:
    """A salt of its own misses; the same salt hits; a reset forgets."""
    live = await start_server(prompt_tokens_details=True)
    body = {"prompt": [5] * 64, "max_tokens": 1}

    async def cached(**more: Any) -> int:
        answer = (await live.post(COMPLETIONS, {**body, **more})).json()
        hit: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return hit

    assert [await cached(cache_salt="a"), await cached(cache_salt="b"), await cached(cache_salt="a")] == [0, 0, 48]
    assert (await live.post("/reset_prefix_cache", {})).json() == {"success": True}
    assert await cached(cache_salt="a") == 0


async def test_requests_are_counted_by_route_and_status(start_server: Start) -> None:
    live = await start_server()
    await live.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1})
    await live.post(COMPLETIONS, {"prompt": "a", "model": "x"})
    await live.http.get("/nothing")
    page = await live.metrics()
    assert page['http_requests_total{handler="/v1/completions",method="POST",status="2xx"}'] == 1
    assert page['http_requests_total{handler="/v1/completions",method="POST",status="4xx"}'] == 1
    assert page['http_requests_total{handler="none",method="GET",status="4xx"}'] == 1
    assert not [name for name in page if "/metrics" in name]


async def test_priority_holds_only_under_its_policy(start_server: Start) -> None:
    """Lower runs first, by body or header; first come first served ignores it."""
    for policy, expected in (("priority", ["urgent", "late"]), ("fcfs", ["late", "urgent"])):
        live = await start_server(scheduling_policy=policy, max_num_seqs=1, speed=1.0)
        ended: list[str] = []

        async def ask(name: str, headers: dict[str, str], priority: int, live: Any = live, ended: Any = ended) -> None:
            body = {
                "prompt": "a",
                "max_tokens": 400 if name == "first" else 2,
                "ignore_eos": True,
                "priority": priority,
            }
            await live.post(COMPLETIONS, body, headers=headers)
            ended.append(name)

        first = asyncio.ensure_future(ask("first", {}, 0))
        await live.truth_has("gauges", "num_requests_running")
        late = asyncio.ensure_future(ask("late", {}, 5))
        await live.truth_has("gauges", "num_requests_waiting")
        await ask("urgent", {"x-vllm-priority": "-1"}, 9)
        await asyncio.gather(first, late)
        assert ended == ["first", *expected]


async def test_request_ids_are_the_callers(start_server: Start) -> None:
    live = await start_server()
    answer = await live.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1}, headers={"x-request-id": "abc"})
    assert answer.json()["id"] == "cmpl-abc"
    assert (await live.truth())["requests"][0]["request_id"] == "abc"


def test_answers_are_not_buffered_by_proxies() -> None:
    """A26: headers of a stream."""
    assert httpx.Headers(EVENT_HEADERS)["x-accel-buffering"] == "no"
    assert httpx.Headers(EVENT_HEADERS)["cache-control"] == "no-cache"
    assert httpx.Headers(EVENT_HEADERS)["content-type"].startswith("text/event-stream")
