"""What a server would say next: shapes of both endpoints, and the ways an answer is continued."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

from server_adapters import adapter_named
from server_adapters.base import Ask, Endpoint, Prompt, Said, Sampling, Target, TargetError
from server_adapters.next_token import read_tokens, token_of
from server_adapters.probing import NOTHING_KNOWN
from server_adapters.rehearsal.config import RehearsalConfig

COMPLETION = {"choices": [{"logprobs": {
    "tokens": [" a"], "token_logprobs": [-3.0], "top_logprobs": [{" b": -0.5, " c": -1.5}], "text_offset": [0],
}}]}  # fmt: skip
CHAT = {"choices": [{"logprobs": {"content": [{
    "token": " a", "logprob": -0.4, "top_logprobs": [{"token": " a", "logprob": -0.4}, {"token": "b", "logprob": -2.0}],
}]}}]}  # fmt: skip


def ask(endpoint: Endpoint, prompt: Prompt = "Say one", model: str = "tiny") -> Ask:
    return Ask(endpoint, model, prompt, 1, Sampling(), False, "again-1", cache_salt="again-1")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (COMPLETION, [(" a", {" a": -3.0, " b": -0.5, " c": -1.5})]),
        (CHAT, [(" a", {" a": -0.4, "b": -2.0})]),
        ({"choices": [{"logprobs": None}]}, []),
        ({"choices": [{"logprobs": {"tokens": ["token_id:7", "token_id:8"], "token_logprobs": [-1.0, -0.1],
                                    "top_logprobs": [{"token_id:7": -1.0, "token_id:12": -2.0}, None]}}]},
         [(7, {7: -1.0, 12: -2.0}), (8, {8: -0.1})]),
    ],
)  # fmt: skip
def test_top_log_probabilities_of_both_shapes(body: dict[str, Any], said: list[Any]) -> None:
    assert [(one.chosen, one.tops) for one in read_tokens(body, 1)] == said


@pytest.mark.parametrize("body", [COMPLETION, CHAT])
@pytest.mark.parametrize(("finish", "asked", "ends"), [("stop", 1, True), ("length", 1, False), ("stop", 2, False)])
def test_which_token_ends_an_answer_is_told_where_one_was_asked_for(
    body: dict[str, Any], finish: str, asked: int, ends: bool
) -> None:
    choice = {**body["choices"][0], "finish_reason": finish}
    assert [one.ends for one in read_tokens({"choices": [choice]}, asked)] == [ends]


def test_a_token_is_found_by_its_id_or_as_the_longest_beginning_of_the_text() -> None:
    assert token_of({7: -1.0, 8: -2.0}, 7, "anything") == 7
    assert token_of({" a": -1.0, " ab": -2.0, "": -9.0}, None, " abc") == " ab"
    assert token_of({7: -1.0}, 9, "x") is None
    assert token_of({" a": -1.0}, None, "") is None


def test_a_chat_is_continued_as_the_server_generates_it(rehearsal: Callable[..., AbstractContextManager[str]]) -> None:
    """By ids and by text: what the engine told while it generated is what it tells when it is asked again."""
    messages = ({"role": "user", "content": "Tell a story about an old man near the water."},)
    with rehearsal(RehearsalConfig(speed=1000.0)) as url, httpx.Client(base_url=url) as client:
        model = client.get("/v1/models").json()["data"][0]["id"]
        body = {"model": model, "messages": messages, "max_tokens": 12, "temperature": 0, "logprobs": True,
                "top_logprobs": 5, "return_token_ids": True}  # fmt: skip
        choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
        ids, told = choice["token_ids"], choice["logprobs"]["content"]
        for at in (0, 4, 11):
            (one,) = asyncio.run(_next(url, model, messages, tuple(ids[:at])))
            tops = one.tops
            assert one.chosen == ids[at]
            assert max(tops, key=lambda token: tops[token]) == ids[at]
            likeliest = sorted(one["logprob"] for one in told[at]["top_logprobs"])[-4:]
            assert sorted(tops.values())[-4:] == pytest.approx(likeliest)


async def _next(url: str, model: str, messages: Any, said: tuple[int, ...]) -> Any:
    target, adapter = Target(url, (f"{url}/metrics",), model, {}), adapter_named("vllm")
    async with httpx.AsyncClient(timeout=10) as client:
        capabilities = await adapter.probe(client, target, "chat")
        assert capabilities.tokenize
        return await adapter.next_tokens(client, target, ask("chat", messages, model), Said(said, ""), 4, capabilities)


class Answers:
    """Keeps what was asked; tokenizes to `ids`, and tells `body`."""

    def __init__(self, ids: Any, body: dict[str, Any], status: int = 200) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._ids, self._body, self._status = ids, body, status

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.url.path, json.loads(request.content)))
        if request.url.path == "/tokenize":
            return httpx.Response(200, json={"tokens": self._ids})
        return httpx.Response(self._status, json=self._body)

    async def next(self, adapter: str, one: Ask, said: Said, tokenize: bool = True) -> Any:
        known = dataclasses.replace(NOTHING_KNOWN, tokenize=tokenize, cache_salt=True)
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.handle)) as client:
            target = Target("http://s:1", (), None, {})
            return await adapter_named(adapter).next_tokens(client, target, one, said, 20, known)


async def test_by_ids_the_prompt_is_the_servers_own() -> None:
    server = Answers([1, 2, 3], COMPLETION)
    await server.next("vllm", ask("chat"), Said((8, 9), "not sent"))
    (path, tokenized), (there, body) = server.asked
    assert (path, tokenized) == ("/tokenize", {"model": "tiny", "messages": [{"role": "user", "content": "Say one"}]})
    assert there == "/v1/completions"
    assert (body["prompt"], body["logprobs"], body["max_tokens"]) == ([1, 2, 3, 8, 9], 20, 1)
    assert (body["return_tokens_as_token_ids"], body["cache_salt"]) == (True, "again-1")


async def test_by_text_a_chat_of_vllm_goes_on_with_its_last_message() -> None:
    server = Answers([], CHAT)
    await server.next("vllm", ask("chat"), Said(None, "One, "), tokenize=False)
    ((path, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert body["messages"][-1] == {"role": "assistant", "content": "One, "}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)


async def test_completions_of_any_server_are_continued_by_text() -> None:
    server = Answers([], COMPLETION)
    (one,) = await server.next("openai", ask("completions"), Said(None, " and two"))
    assert one.tops == {" a": -3.0, " b": -0.5, " c": -1.5}
    ((path, body),) = server.asked
    assert (path, body["prompt"], body["logprobs"]) == ("/v1/completions", "Say one and two", 5)


@pytest.mark.parametrize(
    ("adapter", "endpoint", "ids", "body", "status", "said"),
    [
        ("openai", "chat", [], CHAT, 200, "cannot go on with an answer that has begun"),
        ("vllm", "chat", None, COMPLETION, 200, "gave no token ids of the prompt"),
        ("vllm", "chat", [1], {"error": {"message": "too many", "code": 400}}, 400, "answered 400: too many"),
        ("vllm", "chat", [1], {"choices": [{"logprobs": None}]}, 200, "told no log probabilities"),
        ("vllm", "chat", [1], {"choices": []}, 200, "cannot be read"),
        ("vllm", "chat", [1], {"choices": [{"logprobs": {"content": 7}}]}, 200, "cannot be read"),
    ],
)
async def test_a_server_that_cannot_tell_says_why(
    adapter: str, endpoint: Endpoint, ids: Any, body: dict[str, Any], status: int, said: str
) -> None:
    with pytest.raises(TargetError, match=said):
        await Answers(ids, body, status).next(adapter, ask(endpoint), Said((4,), "four"))
