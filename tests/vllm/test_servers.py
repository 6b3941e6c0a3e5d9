"""The real servers are what the other tests take them for."""

import httpx
import pytest

from server_adapters.launch import LaunchedServer

pytestmark = pytest.mark.vllm

PROMPTS = [
    f"def find_{name}(items):\n    for item in items:\n        if item.{name} == {number}:\n            return item\n"
    for number, name in enumerate(("value", "index", "parser", "buffer", "stream", "node"))
]


def greedy(server: LaunchedServer, prompt: str) -> list[int]:
    """The 48 most likely token ids after `prompt`."""
    body = {
        "model": server.model,
        "prompt": prompt,
        "max_tokens": 48,
        "temperature": 0,
        "return_token_ids": True,
    }
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)
    choice = answer.raise_for_status().json()["choices"][0]
    assert choice["finish_reason"] == "length"
    ids: list[int] = choice["token_ids"]
    return ids


def positions(server: LaunchedServer) -> int:
    """Number of per-position acceptance series: the configured draft length, 0 without speculation."""
    text = httpx.get(f"{server.url}/metrics").text
    return sum(line.startswith("vllm:spec_decode_num_accepted_tokens_per_pos_total{") for line in text.splitlines())


def test_speculation_is_on_where_it_should_be(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, vllm_ngram: LaunchedServer
) -> None:
    assert [positions(server) for server in (vllm_off, vllm_draft, vllm_ngram)] == [0, 4, 4]


def test_greedy_output_is_the_same_with_and_without_speculation(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, vllm_ngram: LaunchedServer
) -> None:
    expected = [greedy(vllm_off, prompt) for prompt in PROMPTS]
    assert [greedy(vllm_draft, prompt) for prompt in PROMPTS] == expected
    assert [greedy(vllm_ngram, prompt) for prompt in PROMPTS] == expected


def test_about_seven_in_ten_drafts_are_accepted(vllm_draft: LaunchedServer) -> None:
    """Measured 0.70 on prompts like these: far from 0 and from 1, so that tests see both outcomes."""
    drafted = accepted = 0
    for prompt in PROMPTS:
        body = {"model": vllm_draft.model, "prompt": prompt, "max_tokens": 64, "temperature": 0}
        answer = httpx.post(f"{vllm_draft.url}/v1/completions", json=body, timeout=60).json()
        statistics = answer["metrics"]["speculative_decoding"]
        drafted += statistics["num_draft_tokens"]
        accepted += statistics["num_accepted_draft_tokens"]
    assert 0.4 < accepted / drafted < 0.9


def test_only_the_draft_server_has_development_routes(vllm_off: LaunchedServer, vllm_draft: LaunchedServer) -> None:
    assert httpx.get(f"{vllm_off.url}/server_info").status_code == 404
    info = httpx.get(f"{vllm_draft.url}/server_info", params={"config_format": "json"}, timeout=30)
    assert info.json()["vllm_config"]["speculative_config"]["num_speculative_tokens"] == 4
