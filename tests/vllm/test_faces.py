"""The rehearsal engine's face beside a real vLLM's: routes, fields, order of events, metric families, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from loadgen.analyze import analyze
from loadgen.experiment import RunOptions, run_scenario
from loadgen.record import open_run
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchedServer
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server_sync

pytestmark = pytest.mark.vllm

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "def add(numbers):"}]
PROMPT = {"prompt": "def add(numbers):\n    total = 0", "temperature": 0, "max_tokens": 12, "ignore_eos": True}
TALK = {"messages": HELLO, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
FULL = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
IDS = {"return_token_ids": True}
#: Families of what this engine has not: FLOP estimates, KV connectors, images.
NOT_OURS = ("vllm:estimated_", "vllm:external_prefix_", "vllm:mm_cache_", "vllm:prompt_tokens_cached_by_source")

Pair = tuple[httpx.Client, httpx.Client]


def face_of(spec: str) -> Iterator[httpx.Client]:
    config = RehearsalConfig(
        spec=spec, model="8b", speed=20.0, served_model_name="tiny", max_model_len=2048, dev_mode=spec != "off"
    )
    with rehearsal_server_sync(config) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def drafting(vllm_draft: LaunchedServer) -> Iterator[Pair]:
    with httpx.Client(base_url=vllm_draft.url, timeout=60) as real:
        for ours in face_of("draft:k=4"):
            yield real, ours


@pytest.fixture(scope="module")
def plain(vllm_off: LaunchedServer) -> Iterator[Pair]:
    with httpx.Client(base_url=vllm_off.url, timeout=60) as real:
        for ours in face_of("off"):
            yield real, ours


def shape(value: Any) -> Any:
    if isinstance(value, dict) and "text_offset" in value:
        return list(value)  # the keys of its top_logprobs are tokens
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    return None


def order(body: str) -> list[str]:
    """Shapes of a stream's events, without repetitions."""
    found: list[str] = []
    for block in body.split("\n\n"):
        text = block.removeprefix("data: ")
        if text.startswith("{"):
            text = json.dumps(shape(json.loads(text)))
        if text and (not found or found[-1] != text):
            found.append(text)
    return found


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "completions": (COMPLETIONS, PROMPT),
    "completions ids": (COMPLETIONS, {**PROMPT, **IDS}),
    "completions stream": (COMPLETIONS, {**PROMPT, "stream": True}),
    "completions usage": (COMPLETIONS, {**PROMPT, **USAGE}),
    "completions full": (COMPLETIONS, {**PROMPT, **FULL, **IDS}),
    "chat": (CHAT, TALK),
    "chat ids": (CHAT, {**TALK, **IDS}),
    "chat stream": (CHAT, {**TALK, "stream": True}),
    "chat usage": (CHAT, {**TALK, **USAGE}),
    "chat full": (CHAT, {**TALK, **FULL, **IDS}),
    "logprobs": (COMPLETIONS, {**PROMPT, **IDS, "logprobs": 2}),
    "logprobs stream": (COMPLETIONS, {**PROMPT, **FULL, **IDS, "logprobs": 0}),
    "chat logprobs": (CHAT, {**TALK, "logprobs": True, "top_logprobs": 3}),
    "chat logprobs stream": (CHAT, {**TALK, **USAGE, "logprobs": True, "top_logprobs": 1}),
    "chat logprobs alone": (CHAT, {**TALK, "logprobs": True}),
    "stop string": (COMPLETIONS, {**PROMPT, "stop": "e", "max_tokens": 300}),
    "min_p of greedy": (COMPLETIONS, {**PROMPT, "min_p": 0.1}),
    "one token": (COMPLETIONS, {**PROMPT, "max_tokens": 1}),
    "no content": (CHAT, {"messages": [{"role": "user"}], "max_tokens": 1}),
    "empty content, unknown role": (CHAT, {"messages": [{"role": "wizard", "content": ""}], "max_tokens": 1}),
    "null content of the assistant": (CHAT, {"messages": [{"role": "assistant", "content": None}], "max_tokens": 1}),
    "what nobody knows": (COMPLETIONS, {**PROMPT, "model": "", "best_of": 2, "foo": 1, "priority": 5, "top_k": 10**9}),
    "beyond the room": (COMPLETIONS, {**PROMPT, "prompt": [5] * 2040}),
    "one token usage": (COMPLETIONS, {**PROMPT, **USAGE, "max_tokens": 1}),
    "tokenize": ("/tokenize", {"prompt": "one two"}),
    "tokenize chat": ("/tokenize", {"messages": HELLO}),
    "detokenize": ("/detokenize", {"tokens": [5, 6]}),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("which", ["drafting", "plain"])
def test_answers_have_the_same_fields(request: pytest.FixtureRequest, which: str, name: str) -> None:
    real, ours = request.getfixturevalue(which)
    path, body = REQUESTS[name]
    theirs, mine = real.post(path, json=body), ours.post(path, json=body)
    assert (theirs.status_code, mine.status_code) == (200, 200)
    assert mine.headers["content-type"] == theirs.headers["content-type"]
    if body.get("stream"):
        assert order(mine.text) == order(theirs.text)
    else:
        assert json.dumps(shape(mine.json())) == json.dumps(shape(theirs.json()))


BAD: dict[str, tuple[str, Any]] = {
    "no room": (COMPLETIONS, {"prompt": [5] * 2048, "max_tokens": 4}),
    "too long": (COMPLETIONS, {"prompt": [5] * 2049, "max_tokens": 4}),
    "too long stream": (COMPLETIONS, {"prompt": [5] * 2049, "stream": True}),
    "max_tokens beyond the model": (CHAT, {**TALK, "max_tokens": 4000}),
    "max_tokens 0": (COMPLETIONS, {**PROMPT, "max_tokens": 0}),
    "max_tokens -1": (COMPLETIONS, {**PROMPT, "max_tokens": -1}),
    "temperature": (COMPLETIONS, {**PROMPT, "temperature": -1}),
    "top_p": (COMPLETIONS, {**PROMPT, "top_p": 2}),
    "n 0": (COMPLETIONS, {**PROMPT, "n": 0}),
    "n 2 greedy": (COMPLETIONS, {**PROMPT, "n": 2}),
    "min_tokens": (COMPLETIONS, {**PROMPT, "min_tokens": 20}),
    "logprobs": (COMPLETIONS, {**PROMPT, "logprobs": 21}),
    "logprobs of all": (COMPLETIONS, {**PROMPT, "logprobs": -1}),
    "logprobs below": (COMPLETIONS, {**PROMPT, "logprobs": -2}),
    "logprobs as text": (COMPLETIONS, {**PROMPT, "logprobs": "5"}),
    "logprobs as a fraction": (COMPLETIONS, {**PROMPT, "logprobs": 2.5}),
    "top_logprobs": (CHAT, {**TALK, "logprobs": True, "top_logprobs": 21}),
    "top_logprobs of all": (CHAT, {**TALK, "logprobs": True, "top_logprobs": -1}),
    "top_logprobs below": (CHAT, {**TALK, "logprobs": True, "top_logprobs": -2}),
    "top_logprobs alone": (CHAT, {**TALK, "top_logprobs": 2}),
    "logprobs of a chat": (CHAT, {**TALK, "logprobs": 3}),
    "empty prompt": (COMPLETIONS, {**PROMPT, "prompt": ""}),
    "no prompt": (COMPLETIONS, {}),
    "null prompt": (COMPLETIONS, {"prompt": None}),
    "no tokens": (COMPLETIONS, {"prompt": []}),
    "no messages": (CHAT, {"messages": []}),
    "token id": (COMPLETIONS, {"prompt": [10**6]}),
    "unknown model": (COMPLETIONS, {**PROMPT, "model": "nope"}),
    "unknown model chat": (CHAT, {**TALK, "model": "nope"}),
    "stream options": (COMPLETIONS, {**PROMPT, "stream_options": {"include_usage": True}}),
    "wrong type": (COMPLETIONS, {"prompt": 3}),
    "wrong type of max_tokens": (COMPLETIONS, {**PROMPT, "max_tokens": "x"}),
    "broken JSON": (COMPLETIONS, b"{bad"),
    "no UTF-8": (COMPLETIONS, b'{"prompt": "\xff"}'),
    "an array": (COMPLETIONS, b"[]"),
    "min_p": (COMPLETIONS, {**PROMPT, "min_p": 0.1, "temperature": 1}),
    "logit_bias": (COMPLETIONS, {**PROMPT, "logit_bias": {"5": 1.0}}),
    "bias of an unknown token": (COMPLETIONS, {**PROMPT, "logit_bias": {"999999": 1.0}}),
    "bias of a word": (COMPLETIONS, {**PROMPT, "logit_bias": {"abc": 1.0}}),
    "bias of a list": (COMPLETIONS, {**PROMPT, "logit_bias": [1]}),
    "min_p of 2": (COMPLETIONS, {**PROMPT, "min_p": 2}),
    "max_tokens beyond the model, of a completion": (COMPLETIONS, {**PROMPT, "max_tokens": 2049}),
    "too long and max_tokens beyond": (COMPLETIONS, {"prompt": [5] * 3000, "max_tokens": 4000}),
    "max_completion_tokens 0": (CHAT, {**TALK, "max_tokens": 5, "max_completion_tokens": 0}),
    "max_tokens a fraction": (COMPLETIONS, {**PROMPT, "max_tokens": 2.5}),
    "too many characters": (COMPLETIONS, {"prompt": "a b " * 200_000}),
    "too many characters of a chat": (CHAT, {"messages": [{"role": "user", "content": "a b " * 200_000}]}),
    "too many ids": (COMPLETIONS, {"prompt": [5] * 300_000}),
    "temperature beyond": (COMPLETIONS, {**PROMPT, "temperature": 2.01}),
    "temperature NaN": (COMPLETIONS, b'{"prompt": "a", "temperature": NaN}'),
    "temperature infinite": (COMPLETIONS, b'{"prompt": "a", "temperature": Infinity}'),
    "temperature as text": (COMPLETIONS, {**PROMPT, "temperature": "hot"}),
    "top_p 0": (COMPLETIONS, {**PROMPT, "top_p": 0}),
    "top_k": (COMPLETIONS, {**PROMPT, "top_k": -2}),
    "n below 0": (COMPLETIONS, {**PROMPT, "n": -1}),
    "n beyond": (COMPLETIONS, {**PROMPT, "n": 10**6, "temperature": 1}),
    "n null": (COMPLETIONS, {**PROMPT, "n": None}),
    "seed beyond": (COMPLETIONS, {**PROMPT, "seed": 2**64}),
    "stop empty": (COMPLETIONS, {**PROMPT, "stop": ""}),
    "stop of five": (COMPLETIONS, {**PROMPT, "stop": ["a", "b", "c", "d", "e"]}),
    "stop ids": (COMPLETIONS, {**PROMPT, "stop_token_ids": [10**7]}),
    "min_tokens below 0": (COMPLETIONS, {**PROMPT, "min_tokens": -1}),
    "presence_penalty": (COMPLETIONS, {**PROMPT, "presence_penalty": 3}),
    "repetition_penalty": (COMPLETIONS, {**PROMPT, "repetition_penalty": 0}),
    "token id below 0": (COMPLETIONS, {"prompt": [-1]}),
    "token id a fraction": (COMPLETIONS, {"prompt": [1.5]}),
    "an empty prompt in a list": (COMPLETIONS, {"prompt": [""]}),
    "no tokens in a list": (COMPLETIONS, {"prompt": [[]]}),
    "surrogate": (COMPLETIONS, b'{"prompt": "a\\ud800b"}'),
    "surrogate in a chat": (CHAT, b'{"messages": [{"role": "user", "content": "a\\ud800b"}]}'),
    "messages of text": (CHAT, {"messages": "hi"}),
    "a message that is a number": (CHAT, {"messages": [3]}),
    "a message without a role": (CHAT, {"messages": [{"content": "a"}]}),
    "null content": (CHAT, {"messages": [{"role": "user", "content": None}]}),
    "empty salt": (COMPLETIONS, {**PROMPT, "cache_salt": ""}),
    "priority": (COMPLETIONS, {**PROMPT, "priority": "x"}),
    "stream": (COMPLETIONS, {**PROMPT, "stream": "maybe"}),
    "suffix": (COMPLETIONS, {**PROMPT, "suffix": "x"}),
    "empty body": (COMPLETIONS, b""),
    "null": (COMPLETIONS, b"null"),
    "a number": (COMPLETIONS, b"3"),
    "two objects": (COMPLETIONS, b'{"prompt": "a"} {}'),
    "too deep": (COMPLETIONS, b'{"prompt": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
}


def refused(client: httpx.Client, path: str, body: Any) -> tuple[Any, ...]:
    """Status, shape, and of an error object its type, parameter and code."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    told = answer.json()
    error = told.get("error")
    parts = (error["type"], error["code"], named(error["param"])) if isinstance(error, dict) else ()
    return answer.status_code, json.dumps(shape(told)), *parts


def named(param: str | None) -> str | None:
    """The first three parts of a path: what follows names the server's own classes."""
    return None if param is None else ".".join(param.split(".")[:3])


@pytest.mark.parametrize("name", BAD)
def test_errors_are_the_same(drafting: Pair, name: str) -> None:
    real, ours = drafting
    assert refused(ours, *BAD[name]) == refused(real, *BAD[name])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/ping"),
        ("POST", "/ping"),
        ("GET", "/version"),
        ("GET", "/load"),
        ("GET", "/v1/models"),
        ("GET", "/metrics"),
        ("GET", "/server_info?config_format=json"),
        ("POST", "/reset_prefix_cache"),
        ("GET", COMPLETIONS),
        ("DELETE", CHAT),
        ("GET", "/nothing"),
    ],
)
@pytest.mark.parametrize("which", ["drafting", "plain"])
def test_routes_answer_alike(request: pytest.FixtureRequest, which: str, method: str, path: str) -> None:
    real, ours = request.getfixturevalue(which)
    theirs, mine = real.request(method, path), ours.request(method, path)
    assert mine.status_code == theirs.status_code
    assert mine.headers.get("content-type") == theirs.headers.get("content-type")
    if "server_info" not in path and mine.headers.get("content-type") == "application/json":
        assert json.dumps(shape(mine.json())) == json.dumps(shape(theirs.json()))


def test_our_server_info_is_a_part_of_theirs(drafting: Pair) -> None:
    """What an adapter reads of the configuration has the same name and place."""
    real, ours = (client.get("/server_info?config_format=json").json() for client in drafting)
    for section, fields in ours["vllm_config"].items():
        if section == "rehearsal_config":
            continue
        theirs = real["vllm_config"][section]
        assert set(fields) - {"num_speculative_tokens_per_batch_size"} <= set(theirs), section


@pytest.mark.parametrize("which", ["drafting", "plain"])
def test_metric_families_are_the_same(request: pytest.FixtureRequest, which: str) -> None:
    """Names, types and label names; their values are each server's own."""
    real, ours = request.getfixturevalue(which)
    for client in (real, ours):
        client.post(COMPLETIONS, json=PROMPT)
    theirs, mine = families(real), families(ours)
    assert {name: kind for name, kind in theirs.items() if not name.startswith(NOT_OURS)} == mine


def families(client: httpx.Client) -> dict[str, tuple[str, frozenset[str]]]:
    """Type and label names of every family of vLLM's; those of cache_config_info are a configuration."""
    kinds: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("# TYPE vllm:"):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif line.startswith("vllm:"):
            series, _, rest = line.partition("{")
            family = max((n for n in kinds if series.startswith(n)), key=len)
            labels.setdefault(family, set()).update(p.split("=")[0] for p in rest.rsplit("}", 1)[0].split(","))
    labels["vllm:cache_config_info"] = {"engine"}
    return {name: (kind, frozenset(labels[name])) for name, kind in kinds.items()}


class Quiet:
    """A progress display that shows nothing."""

    def started(self, *_: Any) -> None: ...
    def segment(self, *_: Any) -> None: ...
    def ended(self, *_: Any) -> None: ...
    def live(self, *_: Any) -> None: ...
    def say(self, *_: Any) -> None: ...


def run_on(folder: Path, baseline: str, candidate: str) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Columns with a value, and sources of the numbers of speculation, of each arm."""
    tasks = [
        {"task_type": task, "input_len": {"kind": "fixed", "value": 64}, "output_len": {"kind": "fixed", "value": 24}}
        for task in ("short_qa", "code")
    ]
    content = {
        "version": 1,
        "name": "both",
        "environment": "disposable",
        "seed": 3,
        "arms": {
            "baseline": {"url": baseline, "speculation": "off"},
            "candidate": {"url": candidate, "speculation": "on"},
        },
        "repeats": 1,
        "comparison": {"blocks": 1},
        "workload": {"endpoint": "completions", "tasks": tasks},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": 6}],
        "warmup": {"warmup_requests": 1},
    }
    folder.mkdir()
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(content))
    result = asyncio.run(run_scenario(load_scenario(file), RunOptions(folder / "runs"), Quiet()))
    assert result.state == "finished"
    run = open_run(result.path)
    rows = run.requests.to_pylist()
    assert {row["outcome"] for row in rows} == {"ok"}
    arms = ("baseline", "candidate")
    told = {a: {k for r in rows if r["arm"] == a for k, v in r.items() if v is not None} for a in arms}
    summary = analyze(run)
    return told, {a: summary.arms[a].overall.speculation.acceptance_rate.source for a in arms}


def test_a_scenario_needs_no_change_but_the_urls(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, plain: Pair, drafting: Pair, tmp_path: Path
) -> None:
    """The same scenario fills the same columns from the same sources."""
    real = run_on(tmp_path / "real", vllm_off.url, vllm_draft.url)
    ours = run_on(tmp_path / "ours", str(plain[1].base_url), str(drafting[1].base_url))
    assert ours == real
