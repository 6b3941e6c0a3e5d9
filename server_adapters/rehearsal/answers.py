"""The JSON of answers: chunks, whole bodies, usage and per-request metrics, with vLLM 0.32's fields in its order."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from server_adapters.rehearsal.config import SpecMetrics
from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import RequestOutput, RequestTimes, SpecStats

Endpoint = Literal["completions", "chat"]


_SPEC_FIELDS = (
    "mean_acceptance_length", "draft_acceptance_rate", "acceptance_histogram", "num_spec_steps",
    "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Card:
    """What every payload of one answer carries."""

    id: str
    created: int
    model: str
    fingerprint: str
    endpoint: Endpoint
    prompt_token_ids: Sequence[int]
    return_token_ids: bool
    tokens_as_ids: bool = False


@dataclass(frozen=True, slots=True)
class MetricsLevel:
    """Which parts of `metrics` the server gives."""

    timing: bool
    spec: SpecMetrics
    prompt_details: bool


class TextStream:
    """Text of an output as its tokens come. Incomplete characters wait for the rest; with stop strings the last
    characters are held back, since they may be the beginning of one."""

    __slots__ = ("_decoder", "_held", "_keep", "_sent", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._keep = max(map(len, stop)) - 1 if stop else 0
        self._held = ""
        self._sent = 0

    def feed(self, token_ids: Sequence[int], final: RequestOutput | None) -> str:
        """Text to send now. `final.text_end` cuts at a stop string."""
        self._held += self._decoder.decode(self._tokenizer.decode_bytes(token_ids), final is not None)
        if final is None:
            ready = len(self._held) - self._keep
        elif final.text_end is not None:
            ready = final.text_end - self._sent
        else:
            ready = len(self._held)
        if ready <= 0:
            return ""
        text, self._held = self._held[:ready], self._held[ready:]
        self._sent += ready
        return text


def usage_object(num_prompt: int, num_output: int, num_cached: int | None = None) -> dict[str, Any]:
    """Usage; cached tokens where the server tells them."""
    usage: dict[str, Any] = {
        "prompt_tokens": num_prompt,
        "total_tokens": num_prompt + num_output,
        "completion_tokens": num_output,
    }
    if num_cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": num_cached}
    return usage


def metrics_object(output: RequestOutput, level: MetricsLevel) -> dict[str, Any]:
    """The `metrics` of an answer, empty where the server gives none. Milliseconds.

    A request that ended on a stop string has no statistics of speculation, as in vLLM."""
    metrics = timing_object(output.times, output.num_output_tokens) if level.timing else {}
    if output.spec is not None and level.spec != "none" and not isinstance(output.stop_reason, str):
        metrics["speculative_decoding"] = spec_object(output.spec, detailed=level.spec == "detailed")
    return metrics


def timing_object(times: RequestTimes, num_output: int) -> dict[str, Any]:
    """Times of one request. `time_to_first_token_ms` counts from the first scheduling: the prefill."""
    scheduled, first, last = times.first_scheduled_s, times.first_token_s, times.last_token_s
    if scheduled is None or first is None or last is None:
        return {}
    told: dict[str, Any] = {
        "time_to_first_token_ms": (first - scheduled) * 1000,
        "generation_time_ms": (last - first) * 1000,
        "queue_time_ms": (scheduled - times.arrival_s) * 1000,
    }
    if num_output > 1:
        told["mean_itl_ms"] = (last - first) / (num_output - 1) * 1000
    if last > scheduled:
        told["tokens_per_second"] = num_output / (last - scheduled)
    return told


def spec_object(spec: SpecStats, *, detailed: bool) -> dict[str, Any]:
    """`speculative_decoding`; the arrays are there only where there were rounds."""
    rounds, drafted, accepted = spec.num_spec_steps, spec.num_draft_tokens, spec.num_accepted_tokens
    told: dict[str, Any] = {
        "mean_acceptance_length": 1.0 + accepted / rounds if rounds else 1.0,
        "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
        "acceptance_histogram": spec.acceptance_histogram,
        "num_spec_steps": rounds,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": spec.num_spec_tokens,
    }
    if detailed and rounds:
        told |= {"per_step_accepted": spec.per_step_accepted, "per_step_drafted": spec.per_step_drafted}
    return told


def running_usage(card: Card, num_output: int) -> dict[str, Any]:
    """Usage on a chunk that is not the last; a chat's names one more field."""
    usage = usage_object(len(card.prompt_token_ids), num_output)
    return usage if card.endpoint == "completions" else {**usage, "completion_tokens_details": None}


def role_chunk(card: Card, usage: dict[str, Any] | None) -> dict[str, Any]:
    """The first chunk of a chat: no text, no token."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ids = list(card.prompt_token_ids) if card.return_token_ids else None
    told = {} if usage is None else {"usage": usage}
    prompt = {"prompt_token_ids": ids, "prompt_text": None}
    return {**_head(card, "chat.completion.chunk"), "choices": [choice], **told, **prompt}


def text_chunk(
    card: Card,
    text: str,
    token_ids: Sequence[int],
    final: RequestOutput | None,
    logprobs: dict[str, Any] | None,
    *,
    first: bool,
) -> dict[str, Any]:
    """A chunk with text, and with the finish reason where it is the last."""
    reason = final.finish_reason if final is not None else None
    ids = list(token_ids) if card.return_token_ids else None
    if card.endpoint == "completions":
        choice = {
            "index": 0,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": reason,
            "stop_reason": final.stop_reason if final is not None else None,
            "prompt_token_ids": list(card.prompt_token_ids) if first and card.return_token_ids else None,
            "token_ids": ids,
        }
        return {**_head(card, "text_completion"), "choices": [choice]}
    stop = {"stop_reason": final.stop_reason} if final is not None else {}
    framed = {"index": 0, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": reason, **stop}
    return {**_head(card, "chat.completion.chunk"), "choices": [{**framed, "token_ids": ids}]}


def usage_chunk(card: Card, usage: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """The last chunk of a stream with usage."""
    kind = "text_completion" if card.endpoint == "completions" else "chat.completion.chunk"
    chunk = {**_head(card, kind), "choices": [], "usage": usage, "system_fingerprint": card.fingerprint}
    return chunk | ({"metrics": metrics} if metrics else {})


def whole_body(
    card: Card,
    text: str,
    token_ids: Sequence[int],
    final: RequestOutput,
    logprobs: dict[str, Any] | None,
    level: MetricsLevel,
) -> Any:
    """A body that is not streamed."""
    metrics = metrics_object(final, level)
    told = _with_nulls(metrics) if metrics else None
    cached = {"cached_tokens": final.num_cached_tokens} if level.prompt_details else None
    usage = {
        **usage_object(final.num_prompt_tokens, final.num_output_tokens),
        "prompt_tokens_details": cached,
        "completion_tokens_details": None,
    }
    prompt_ids = list(card.prompt_token_ids) if card.return_token_ids else None
    ids = list(token_ids) if card.return_token_ids else None
    ending = {"finish_reason": final.finish_reason, "stop_reason": final.stop_reason, "token_ids": ids}
    transfer = {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": told}
    shared = {"service_tier": None, "system_fingerprint": card.fingerprint, "usage": usage}
    if card.endpoint == "completions":
        inner = {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "routed_experts": None}
        choice = {"index": 0, "text": text, "logprobs": logprobs, **ending, **inner}
        return {**_head(card, "text_completion"), "choices": [choice], **shared, **transfer}
    prompt = {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "prompt_text": None}
    answer = {"index": 0, "message": _message(text), "logprobs": logprobs, **ending, "routed_experts": None}
    return {**_head(card, "chat.completion"), "choices": [answer], **shared, **prompt, **transfer}


def _with_nulls(metrics: dict[str, Any]) -> dict[str, Any]:
    """A body names every field of `metrics`, a stream only those that are known."""
    timing = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
    spec = metrics.get("speculative_decoding")
    if spec is not None:
        spec = {"per_step_accepted": None, "per_step_drafted": None} | spec
        spec = {key: spec[key] for key in (*_SPEC_FIELDS, "per_step_accepted", "per_step_drafted")}
    return {**{key: metrics.get(key) for key in timing}, "speculative_decoding": spec}


def _message(text: str) -> dict[str, Any]:
    absent = ("refusal", "annotations", "audio", "function_call", "reasoning")
    return {"role": "assistant", "content": text, **dict.fromkeys(absent)}


def _head(card: Card, kind: str) -> dict[str, Any]:
    return {"id": card.id, "object": kind, "created": card.created, "model": card.model}
