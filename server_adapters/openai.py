"""Any server that speaks the OpenAI API, with nothing assumed beyond it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import httpx
import orjson

from server_adapters.base import (
    Ask,
    Capabilities,
    Chunk,
    ChunkRun,
    CollectionError,
    Endpoint,
    Fact,
    HttpRequest,
    MetricsPage,
    NextToken,
    Prompt,
    Said,
    Sampling,
    ServerError,
    Target,
)
from server_adapters.exposition import read_samples
from server_adapters.next_token import OPENAI_MOST, next_by_text
from server_adapters.openai_chunks import read_chunk, read_error, read_http_error, read_object
from server_adapters.openai_plain import parse_run
from server_adapters.probing import NOTHING_KNOWN, Trial, choose_model, list_models, try_stream

PATHS: Mapping[Endpoint, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class OpenAIAdapter:
    """Completions and chat of the OpenAI API reference; no server counters, no token ids.

    A chunk may carry any number of tokens: nothing is known of the engine's steps, and nothing is regrouped.
    """

    name: str = "openai"
    health_path: str | None = None
    chunk_unit: Literal["step", "token"] = "step"
    #: Fields that `Sampling.extra` must not overwrite.
    reserved: frozenset[str] = frozenset(
        {"model", "prompt", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "stream",
         "stream_options", "response_format"}
    )  # fmt: skip
    #: Optional features a probe tries, each with the features it rests on.
    features: Mapping[str, frozenset[str]] = {"stream_usage": frozenset()}
    probe_sampling: Sampling = Sampling()

    def build(self, ask: Ask, capabilities: Capabilities) -> HttpRequest:
        """Bytes of a request. All sampling parameters are in it (H9), but an empty stop list and a seed of None,
        which servers refuse and which mean the same left out. ValueError where the API has no way to ask."""
        taken = sorted(self.reserved & ask.sampling.extra.keys())
        if taken:
            raise ValueError(f"sampling.extra may not set {', '.join(taken)}: the scenario has keys for them")
        body = {**self._neutral(), **ask.sampling.extra, **self._fields(ask, capabilities)}
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if ask.stream else "application/json",
            "Accept-Encoding": "identity",  # compression buffers streams (A26)
            "X-Request-Id": ask.request_id,
        }
        return HttpRequest(PATHS[ask.endpoint], headers, orjson.dumps(body, default=_plain))

    def parse_chunk(self, data: bytes) -> Chunk:
        return self._read(read_object(data))

    def parse_run(self, payloads: Sequence[bytes]) -> ChunkRun:
        return parse_run(payloads)

    def parse_body(self, data: bytes) -> Chunk:
        payload = read_object(data)
        if "choices" not in payload and read_error(payload, None) is None:
            raise ValueError("the answer has no choices")
        return self._read(payload)

    def parse_error(self, status: int, body: bytes) -> ServerError:
        return read_http_error(status, body)

    def parse_metrics(self, text: str) -> MetricsPage:
        read_samples(text, wanted=lambda name: False)
        raise CollectionError("families_missing", "the openai adapter knows no server counters; use adapter: vllm")

    async def probe(self, client: httpx.AsyncClient, target: Target, endpoint: Endpoint | None = None) -> Capabilities:
        cards = await list_models(client, target)
        model = choose_model(cards, target)
        trial = await try_stream(client, target, self, model, endpoint)
        return self._capabilities(cards, model, trial)

    async def environment(self, client: httpx.AsyncClient, target: Target) -> dict[str, Fact]:
        cards = await list_models(client, target)
        engine = Fact(None, None, "an OpenAI-compatible server does not tell what it is")
        return {"engine.name": engine, **model_facts(cards, choose_model(cards, target))}

    async def count_tokens(
        self, client: httpx.AsyncClient, target: Target, prompt: Prompt, endpoint: Endpoint
    ) -> int | None:
        return None

    async def next_tokens(
        self, client: httpx.AsyncClient, target: Target, ask: Ask, said: Said, top: int, capabilities: Capabilities
    ) -> tuple[NextToken, ...]:
        return await next_by_text(client, target, ask, said.text, min(top, OPENAI_MOST), continues=False)

    def _capabilities(self, cards: list[dict[str, Any]], model: str, trial: Trial) -> Capabilities:
        """What the model list and the test request told."""
        known = {f: f in trial.accepted for f in self.features}
        length = next((c.get("max_model_len") for c in cards if c["id"] == model), None)
        changes: dict[str, Any] = {
            **known,
            "models": tuple(c["id"] for c in cards),
            "max_model_len": length if type(length) is int else None,
            "notes": trial.notes,
        }
        return dataclasses.replace(NOTHING_KNOWN, **changes)

    def _read(self, payload: Mapping[str, Any]) -> Chunk:
        """An adapter that finds more than `read_chunk` in a plain payload (openai_plain.py) has a `parse_run` of its
        own."""
        return read_chunk(payload)

    def _neutral(self) -> dict[str, Any]:
        """Parameters sent with a neutral value unless the scenario says otherwise."""
        return {}

    def _fields(self, ask: Ask, capabilities: Capabilities) -> dict[str, Any]:
        sampling = ask.sampling
        fields: dict[str, Any] = {"model": ask.model, **prompt_field(ask.prompt, ask.endpoint)}
        fields |= {
            "max_tokens": ask.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stream": ask.stream,
        }
        if sampling.seed is not None:
            fields["seed"] = sampling.seed
        if sampling.stop:
            fields["stop"] = list(sampling.stop)
        if ask.stream and capabilities.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        return fields | self._particular(ask, capabilities)

    def _particular(self, ask: Ask, capabilities: Capabilities) -> dict[str, Any]:
        """Fields that only some servers have. Here: none, so what needs one is an error, not dropped."""
        sampling = ask.sampling
        wants = {"top_k": sampling.top_k != -1, "ignore_eos": sampling.ignore_eos, "min_tokens": sampling.min_tokens}
        for key, wanted in wants.items():
            if wanted:
                raise ValueError(
                    f"the OpenAI API has no {key}; use adapter: vllm, or sampling.extra if this server takes it"
                )
        if ask.json_schema is None:
            return {}
        if ask.endpoint == "completions":
            raise ValueError("the OpenAI API has structured output on the chat endpoint only; use endpoint: chat")
        return {"response_format": response_format(ask.json_schema)}


def prompt_field(prompt: Prompt, endpoint: Endpoint) -> dict[str, Any]:
    """`prompt` or `messages`, as the endpoint wants it. ValueError for messages on the completions endpoint."""
    if endpoint == "completions":
        if not isinstance(prompt, str):
            raise ValueError("chat messages cannot go to the completions endpoint; use endpoint: chat")
        return {"prompt": prompt}
    return {"messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def model_facts(cards: list[dict[str, Any]], model: str) -> dict[str, Fact]:
    """Facts of the served model from its entry of /v1/models."""
    card = next((c for c in cards if c["id"] == model), {})
    told = {"model.served_name": model, "model.weights": card.get("root"), "model.max_len": card.get("max_model_len")}
    return {key: Fact(value, "/v1/models") for key, value in told.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
