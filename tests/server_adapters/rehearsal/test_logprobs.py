"""Log probabilities: of the target's raw distribution, in vLLM 0.32's shapes, with and without speculation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from server_adapters.rehearsal.logprobs import LogprobsText
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.rows import token_logprobs
from server_adapters.rehearsal.sampler import SequenceSampler
from server_adapters.rehearsal.simulate import Case, Simulation
from server_adapters.rehearsal.types import (
    EngineConfig,
    SamplingParams,
    SpeculationConfig,
    Switches,
    TaskType,
    TokenLogprobs,
)

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "def add(numbers):"
HELLO = [{"role": "user", "content": "What is the capital of France?"}]
Start = Callable[..., Awaitable[Any]]


def test_of_a_distribution_by_hand() -> None:
    """Best first, the lowest id at ties; minus infinity for what cannot be said and for ids beyond."""
    p = np.array([0.125, 0.25, 0.0, 0.25, 0.375])
    logs = [math.log(x) if x else -math.inf for x in p]
    assert token_logprobs(p, 0, 2) == TokenLogprobs(0, logs[0], ((4, logs[4]), (1, logs[1])))
    assert token_logprobs(p, 3, 0) == TokenLogprobs(3, logs[3], ())
    assert [i for i, _ in token_logprobs(p, 2, 20).top] == [4, 1, 3, 0, 2]
    assert token_logprobs(p, 2, 1).logprob == token_logprobs(p, 99, 1).logprob == -math.inf


@pytest.mark.parametrize("task_type", ["long_form", "code"])
@pytest.mark.parametrize(
    "speculation",
    [None, SpeculationConfig(), SpeculationConfig(method="ngram")],
    ids=["plain", "draft", "ngram"],
)
def test_they_are_of_the_raw_target(models: Models, task_type: TaskType, speculation: SpeculationConfig | None) -> None:
    """Whatever temperature, truncation and masks do to the sampled distribution."""
    params = SamplingParams(temperature=1.4, top_p=0.9, top_k=30, min_tokens=20, logprobs=3)
    prompt = models.tokenizer.render_chat([("user", "Describe the harbour.")])
    sampler = SequenceSampler(models, task_type, prompt, params, 3, speculation, Switches())
    model, (node, _), breaks = models.target[task_type], models.start(task_type, prompt), 0
    seen = 0
    while seen < 300:
        emitted, _ = sampler.verify(*(sampler.propose(4) if speculation else ([], [])))
        assert [t.token_id for t in sampler.logprobs] == emitted
        for told in sampler.logprobs:
            p = model.probs(node)
            assert told.logprob == pytest.approx(math.log(p[told.token_id]), abs=1e-12)
            assert [q for _, q in told.top] == pytest.approx(np.log(np.sort(p)[::-1][:3]).tolist(), abs=1e-12)
            is_break = model.symbols.tables[told.token_id] is not None
            breaks = 0 if told.token_id == models.tokenizer.eos_id else breaks + is_break
            node = model.advance(node, model.symbols.symbol(told.token_id, breaks))
        seen += len(emitted)


def test_greedy_arms_tell_the_same(
    make_cases: Callable[..., tuple[Case, ...]], run_arm: Callable[..., Simulation]
) -> None:
    """With speculation and without; a simulated request that does not ask is told nothing."""
    cases = make_cases(3, temperature=0.0, logprobs=2)
    plain, fast = run_arm(EngineConfig(), cases), run_arm(EngineConfig(speculation=SpeculationConfig()), cases)
    told = {r.case_id: r.logprobs for r in plain.records}
    assert {r.case_id: r.logprobs for r in fast.records} == told
    for record in plain.records:
        assert record.logprobs is not None
        assert [t.token_id for t in record.logprobs] == record.token_ids
        assert all(t.top[0] == (t.token_id, t.logprob) for t in record.logprobs), "greedy says the best"
    silent = run_arm(EngineConfig(), make_cases(1))
    assert [r.logprobs for r in silent.records] == [None] * 4


def test_shapes_by_hand(models: Models) -> None:
    """The emitted token first; a completion has N more beside it, a chat N in all."""
    tokenizer = models.tokenizer
    (a,), (b,), (c,) = (tokenizer.encode(text) for text in (" the", "\n", " of"))
    told = [TokenLogprobs(a, -2.5, ((b, -0.5), (c, -1.0))), TokenLogprobs(b, -0.25, ((b, -0.25), (a, -math.inf)))]
    columns = LogprobsText(tokenizer, 2, chat=False)
    assert columns.feed(told) == {
        "text_offset": [0, 4],
        "token_logprobs": [-2.5, -0.25],
        "tokens": [" the", "\n"],
        "top_logprobs": [{" the": -2.5, "\n": -0.5, " of": -1.0}, {"\n": -0.25, " the": -9999.0}],
    }
    assert columns.feed([TokenLogprobs(0, -1.0, ())])["text_offset"] == [5], "offsets run on from chunk to chunk"
    entries = LogprobsText(tokenizer, 2, chat=True).feed(told)["content"]
    newline = {"token": "\n", "logprob": -0.5, "bytes": [10]}
    the = {"token": " the", "logprob": -2.5, "bytes": [32, 116, 104, 101]}
    assert entries[0] == {**the, "top_logprobs": [the, newline]}
    assert [t["token"] for t in entries[1]["top_logprobs"]] == ["\n", " the"]
    assert LogprobsText(tokenizer, 0, chat=True).feed(told)["content"][0]["top_logprobs"] == []


@pytest.mark.parametrize("more", [{}, {"stream_interval": 8}, {"stop": "return"}], ids=["steps", "interval", "stop"])
async def test_a_stream_tells_what_a_body_tells(start_server: Start, more: dict[str, Any]) -> None:
    live = await start_server()
    asked = {"prompt": PROMPT, "max_tokens": 60, "temperature": 0.9, "seed": 4, "logprobs": 2, **more}
    whole = (await live.post(COMPLETIONS, {**asked, "return_token_ids": True})).json()["choices"][0]
    events = await live.events({**asked, "return_token_ids": True})
    chunks = [e["choices"][0] for e in events[:-1]]
    assert all(len(c["logprobs"]["tokens"]) == len(c["token_ids"]) for c in chunks)
    for key, told in whole["logprobs"].items():
        assert [x for c in chunks for x in c["logprobs"][key]] == told
        assert len(told) == len(whole["token_ids"])
    tokens, offsets = whole["logprobs"]["tokens"], whole["logprobs"]["text_offset"]
    assert offsets == [len("".join(tokens[:i])) for i in range(len(tokens))]
    assert all(len(top) <= 3 for top in whole["logprobs"]["top_logprobs"])
    bare = (await live.post(COMPLETIONS, {k: v for k, v in asked.items() if k != "logprobs"})).json()["choices"][0]
    assert (bare["text"], bare["logprobs"]) == (whole["text"], None), "asking changes nothing"


async def test_a_chat_tells_them_for_each_token(start_server: Start) -> None:
    live = await start_server()
    asked = {"messages": HELLO, "max_tokens": 24, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    body = (await live.post(CHAT, asked)).json()
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == body["usage"]["completion_tokens"]
    text = "".join(entry["token"] for entry in content)
    assert text.removesuffix("<|eos|>") == body["choices"][0]["message"]["content"]
    assert all(bytes(entry["bytes"]).decode() == entry["token"] for entry in content)
    assert {len(entry["top_logprobs"]) for entry in content} == {2}
    events = await live.events(asked, CHAT)
    assert events[0]["choices"][0]["logprobs"] is None, "the role chunk has none"
    streamed = [x for e in events[1:-1] for x in e["choices"][0]["logprobs"]["content"]]
    assert streamed == content
    none = (await live.post(CHAT, {**asked, "top_logprobs": 0})).json()["choices"][0]["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in none] == [[]] * len(content)


async def test_they_hold_in_a_batch_of_others(start_server: Start) -> None:
    """Requests with and without, merged deltas: each keeps its own."""
    live = await start_server(speed=200.0)
    bodies = [
        {"prompt": f"{PROMPT} # {i}", "max_tokens": 40, "seed": i, "return_token_ids": True, "logprobs": top}
        for i, top in enumerate((None, 0, 5, 20) * 4)
    ]
    answers = await asyncio.gather(*(live.post(COMPLETIONS, body) for body in bodies))
    for body, answer in zip(bodies, answers, strict=True):
        choice = answer.json()["choices"][0]
        if body["logprobs"] is None:
            assert choice["logprobs"] is None
        else:
            texts = [live.server.runner.engine.tokenizer.token_text(i) for i in choice["token_ids"]]
            assert choice["logprobs"]["tokens"] == texts


@pytest.mark.parametrize(
    ("path", "more", "param"),
    [
        (COMPLETIONS, {"logprobs": 21}, "logprobs"),
        (COMPLETIONS, {"logprobs": -1}, "logprobs"),
        (COMPLETIONS, {"logprobs": -2}, "logprobs"),
        (COMPLETIONS, {"logprobs": "5"}, "logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": -2}, "top_logprobs"),
        (CHAT, {"top_logprobs": 2}, "top_logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": "x"}, "top_logprobs"),
    ],
)
async def test_more_than_there_are(start_server: Start, path: str, more: dict[str, Any], param: str) -> None:
    live = await start_server()
    answer = await live.post(path, {"prompt": "a", "messages": HELLO, **more})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "BadRequestError", param)
