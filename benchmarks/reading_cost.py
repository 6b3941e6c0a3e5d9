"""What it costs to read ended streams: µs a chunk and µs a request, event by event and in runs.

    python benchmarks/reading_cost.py [--repeats 300]

The streams have the shapes that vLLM 0.32 and benchmarks/truth_server send, in pieces of one chunk. Times are process
CPU, the least of `repeats` reads. µs a chunk is the difference between streams of 320 and of 64 chunks over 256; µs a
request is what is left of the one of 64: start, end, usage and the attempt. "whole" is a stream of 256 chunks over its
chunks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from loadgen.drive import Exchange, Sent, read_exchange
from loadgen.plan import Case
from loadgen.redact import Redactor
from server_adapters.base import Adapter, Sampling
from server_adapters.vllm import VllmAdapter

_CASE = Case(0, "measure", 0, "c0", 0, "short_qa", 32, 256, 7, 1, None, False, True)
_METRICS = {
    "time_to_first_token_ms": 33.28, "generation_time_ms": 98.27, "queue_time_ms": 0.036,
    "speculative_decoding": {
        "acceptance_histogram": [0, 0, 1, 0, 4], "num_spec_steps": 5, "num_accepted_draft_tokens": 18,
        "num_draft_tokens": 20, "num_spec_tokens": 4, "per_step_accepted": [4, 4, 4, 4, 2], "per_step_drafted": [4] * 5,
    },
}  # fmt: skip


class EventByEvent(VllmAdapter):
    """The adapter without its `parse_run`."""

    parse_run = None  # type: ignore[assignment]


def vllm_completions(chunks: int, tokens: int) -> Iterator[Any]:
    """As the vllm adapter asks: token ids and continuous usage."""
    head = {"id": "cmpl-9fe1d25aa0b6442d", "object": "text_completion", "created": 1795989929, "model": "tiny"}
    for i in range(chunks):
        choice = {
            "index": 0, "text": " the" * tokens, "logprobs": None,
            "finish_reason": "length" if i == chunks - 1 else None, "stop_reason": None,
            "prompt_token_ids": None if i else list(range(500, 532)), "token_ids": [1030 + i] * tokens,
        }  # fmt: skip
        yield {**head, "choices": [choice], "usage": _usage((i + 1) * tokens)}
    yield {**head, "choices": [], "usage": _usage(chunks * tokens), "metrics": _METRICS}


def vllm_chat(chunks: int, tokens: int) -> Iterator[Any]:
    head = {"id": "chatcmpl-8966c0e176c3", "object": "chat.completion.chunk", "created": 1795989930, "model": "tiny"}
    role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    yield {**head, "choices": [role], "prompt_token_ids": None, "prompt_text": None}
    for i in range(chunks):
        ending = {"finish_reason": "length", "stop_reason": None} if i == chunks - 1 else {"finish_reason": None}
        choice = {"index": 0, "delta": {"content": " the" * tokens}, "logprobs": None, **ending}
        yield {**head, "choices": [{**choice, "token_ids": [1030 + i] * tokens}], "usage": _usage((i + 1) * tokens)}
    yield {**head, "choices": [], "usage": _usage(chunks * tokens), "metrics": _METRICS}


def truth_completions(chunks: int, tokens: int) -> Iterator[Any]:
    head = {"id": "cmpl-00000001", "object": "text_completion", "created": 1795989929, "model": "tiny"}
    for i in range(chunks):
        choice = {
            "index": 0, "text": " the" * tokens, "logprobs": None,
            "finish_reason": "length" if i == chunks - 1 else None, "stop_reason": None, "token_ids": [7] * tokens,
        }  # fmt: skip
        stamps = {"seq": f"{i:08}", "sm": f"{i:019}", "sr": f"{i:019}"}
        yield {**head, "choices": [choice], "usage": None, **stamps}
    yield {**head, "created": 0, "choices": [], "usage": _usage(chunks * tokens)}


def _usage(completion: int) -> dict[str, int]:
    return {"prompt_tokens": 32, "total_tokens": 32 + completion, "completion_tokens": completion}


def exchange_of(documents: Iterator[Any]) -> Exchange:
    exchange = Exchange(sent_ns=1, headers_ns=2, end_ns=10**9, status=200, complete=True)
    for at, data in enumerate([*map(orjson.dumps, documents), b"[DONE]"]):
        exchange.body += b"data: " + data + b"\n\n"
        exchange.piece_ns.append(10_000_000 + at * 20_000_000)
        exchange.piece_end.append(len(exchange.body))
    return exchange


def read_us(exchange: Exchange, adapter: Adapter, repeats: int) -> float:
    sent = Sent(0, "base", "http://r", 0, 1, _CASE, "id", True, Sampling(), 256, 1, 1)
    redact, least = Redactor(), float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        read_exchange(exchange, sent, adapter, redact)
        least = min(least, time.process_time() - begun)
    return least * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="µs a chunk and a request of reading ended streams")
    parser.add_argument("--repeats", type=int, default=300, help="reads of each stream")
    repeats = parser.parse_args().repeats
    shapes: list[tuple[str, Callable[[int, int], Iterator[Any]], int]] = [
        ("vllm completions", vllm_completions, 1), ("vllm completions", vllm_completions, 4),
        ("vllm chat", vllm_chat, 1), ("vllm chat", vllm_chat, 4),
        ("truth server", truth_completions, 1), ("truth server", truth_completions, 4),
    ]  # fmt: skip
    print(f"{'stream':<17} {'tokens':>6}  {'way':<6} {'us/chunk':>8} {'us/request':>10} {'whole':>6}")
    for name, shape, tokens in shapes:
        for way, adapter in (("event", EventByEvent()), ("run", VllmAdapter())):
            short, long, usual = (read_us(exchange_of(shape(n, tokens)), adapter, repeats) for n in (64, 320, 256))
            chunk = (long - short) / 256
            row = f"{chunk:>8.2f} {short - chunk * 64:>10.1f} {usual / 256:>6.2f}"
            print(f"{name:<17} {tokens:>6}  {way:<6} {row}", flush=True)


if __name__ == "__main__":
    main()
