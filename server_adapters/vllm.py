"""vLLM, 0.8.5 to 0.32."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import httpx

from server_adapters.base import (
    Ask,
    Capabilities,
    Chunk,
    CollectionError,
    Endpoint,
    Fact,
    MetricsPage,
    NextToken,
    Prompt,
    Said,
    Sampling,
    Target,
    TargetError,
)
from server_adapters.next_token import next_by_ids, next_by_text
from server_adapters.openai import OpenAIAdapter, model_facts, prompt_field, response_format
from server_adapters.openai_chunks import read_chunk
from server_adapters.probing import Trial, ask_json, ask_server, choose_model, list_models, shown, try_stream
from server_adapters.vllm_environment import (
    counts_artefact,
    from_fingerprint,
    from_labels,
    select,
    spec_k,
    spec_method,
)
from server_adapters.vllm_families import VllmPage, read_page
from server_adapters.vllm_notes import notes_for
from server_adapters.vllm_per_request import read_spec, read_timings
from server_adapters.vllm_tokenizer import token_ids

_SERVER_INFO = "/server_info?config_format=json"
_CACHE_SALT_SINCE = (0, 9)
_STRUCTURED_OUTPUTS_SINCE = (0, 11)  # before it, the same was called guided_json


class VllmAdapter(OpenAIAdapter):
    """The OpenAI API with vLLM's request extras, per-request statistics and counters.

    One engine step gives one chunk, unless the server coalesces (docs/method.md, "Sources").
    """

    name = "vllm"
    health_path: str | None = "/health"
    reserved = OpenAIAdapter.reserved | {
        "top_k", "min_tokens", "ignore_eos", "cache_salt", "return_token_ids", "structured_outputs", "guided_json"
    }  # fmt: skip
    features: Mapping[str, frozenset[str]] = {
        "stream_usage": frozenset(),
        "continuous_usage": frozenset({"stream_usage"}),
        "token_ids": frozenset(),
        "cache_salt": frozenset(),
    }
    #: An answer that ends at once would show nothing.
    probe_sampling = Sampling(ignore_eos=True)

    def __init__(self) -> None:
        self._fingerprints: dict[str, str] = {}

    def parse_metrics(self, text: str) -> MetricsPage:
        return read_page(text).page

    async def probe(self, client: httpx.AsyncClient, target: Target, endpoint: Endpoint | None = None) -> Capabilities:
        cards = await list_models(client, target)
        model = choose_model(cards, target)
        trial = await try_stream(client, target, self, model, endpoint)
        if trial.fingerprint is not None:
            self._fingerprints[target.url] = trial.fingerprint
        version = await _version(client, target)
        pages, failures = await _pages(client, target)
        info = await _server_info(client, target)
        tokenize = await self.count_tokens(client, target, "one two", "completions") is not None
        capabilities = dataclasses.replace(
            self._capabilities(cards, model, trial),
            version=version,
            cache_salt="cache_salt" in trial.accepted and _since(version, _CACHE_SALT_SINCE),
            tokenize=tokenize,
            dev_mode=info is not None,
            **_observed(trial),
            **_speculation(pages, info, target.spec_method),
        )
        notes = notes_for(
            capabilities,
            failures,
            timings=any(c.timings is not None for c in trial.chunks),
            cached=any(c.cached_tokens is not None for c in trial.chunks),
            v0_speculation=any(p.v0_speculation for p in pages),
            declared=target.spec_method is not None,
        )
        return dataclasses.replace(capabilities, notes=(*capabilities.notes, *notes))

    async def environment(self, client: httpx.AsyncClient, target: Target) -> dict[str, Fact]:
        """What the server tells; the fingerprint where this adapter's probe of the target has seen one."""
        cards = await list_models(client, target)
        model = choose_model(cards, target)
        version, info = await _version(client, target), await _server_info(client, target)
        pages, _ = await _pages(client, target)
        facts = {"engine.name": Fact("vllm", "adapter"), **model_facts(cards, model)}
        if version is not None:
            facts["engine.version"] = Fact(version, "/version")
        facts |= from_fingerprint(self._fingerprints.get(target.url)) | await token_ids(client, target, model)
        facts |= _told_by_metrics(pages)
        if info is None:
            return facts
        return facts | select(info)

    async def count_tokens(
        self, client: httpx.AsyncClient, target: Target, prompt: Prompt, endpoint: Endpoint
    ) -> int | None:
        body = prompt_field(prompt, endpoint) | ({} if target.model is None else {"model": target.model})
        count = (await ask_json(client, target, "/tokenize", body) or {}).get("count")
        return count if type(count) is int and count >= 0 else None

    async def next_tokens(
        self, client: httpx.AsyncClient, target: Target, ask: Ask, said: Said, top: int, capabilities: Capabilities
    ) -> tuple[NextToken, ...]:
        if said.token_ids is not None and capabilities.tokenize:
            return await next_by_ids(client, target, ask, said.token_ids, top)
        return await next_by_text(client, target, ask, said.text, top, continues=True)

    def _read(self, payload: Mapping[str, Any]) -> Chunk:
        metrics = payload.get("metrics")
        if not isinstance(metrics, dict):
            return read_chunk(payload)
        return read_chunk(payload, read_spec(metrics), read_timings(metrics))

    def _neutral(self) -> dict[str, Any]:
        # A model's generation_config.json may set any of these for requests that leave them out (H9).
        return {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_p": 0.0}

    def _particular(self, ask: Ask, capabilities: Capabilities) -> dict[str, Any]:
        sampling = ask.sampling
        fields: dict[str, Any] = {
            "top_k": sampling.top_k,
            "min_tokens": sampling.min_tokens,
            "ignore_eos": sampling.ignore_eos,
        }
        if capabilities.token_ids:
            fields["return_token_ids"] = True
        if ask.cache_salt and capabilities.cache_salt:
            fields["cache_salt"] = ask.cache_salt
        if ask.stream and capabilities.stream_usage and capabilities.continuous_usage:
            fields["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if ask.json_schema is not None:
            fields |= _structured(ask.json_schema, ask.endpoint, capabilities.version)
        return fields


def _structured(schema: Mapping[str, Any], endpoint: Endpoint, version: str | None) -> dict[str, Any]:
    if endpoint == "chat":
        return {"response_format": response_format(schema)}
    if version is None or _since(version, _STRUCTURED_OUTPUTS_SINCE):
        return {"structured_outputs": {"json": schema}}
    return {"guided_json": schema}


def _since(version: str | None, first: tuple[int, int]) -> bool:
    """Whether `version` is `first` or newer. Unknown fields are ignored by vLLM, so only the version tells."""
    found = re.match(r"v?(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= first


def _observed(trial: Trial) -> dict[str, Any]:
    """What really came back, whatever was accepted: vLLM ignores fields it does not know."""
    bearing = [c for c in trial.chunks if c.has_output or c.token_ids]
    spec = next((c.spec for c in trial.chunks if c.spec is not None), None)
    usage = any(c.completion_tokens is not None for c in trial.chunks)
    level = None if spec is None else ("summary" if spec.step_accepted is None else "detailed")
    return {
        "continuous_usage": bool(bearing) and bearing[0].completion_tokens is not None,
        "token_ids": bool(bearing) and bearing[0].token_ids is not None,
        "per_request_spec": level or ("none" if usage else None),
    }


def _speculation(pages: list[VllmPage], info: Mapping[str, Any] | None, declared: str | None) -> dict[str, Any]:
    k = max((p.k for p in pages if p.k is not None), default=None)
    return {
        "metrics": bool(pages),
        "speculation": any(p.speculation for p in pages) if pages else None,
        "k": k if k is not None else spec_k(info),
        "spec_method": spec_method(info),
        "counts_artefact": counts_artefact(info, declared),
    }


def _told_by_metrics(pages: list[VllmPage]) -> dict[str, Fact]:
    """Speculation by its counters, and the cache's configuration."""
    if not pages:
        return {}
    told = _speculation(pages, None, None)
    facts = {"speculation.on": Fact(told["speculation"], "/metrics")}
    if told["k"] is not None:
        facts["speculation.k"] = Fact(told["k"], "/metrics positions")
    return facts | from_labels(pages[0].cache_labels)


async def _version(client: httpx.AsyncClient, target: Target) -> str | None:
    version = (await ask_json(client, target, "/version") or {}).get("version")
    return version if isinstance(version, str) else None


async def _server_info(client: httpx.AsyncClient, target: Target) -> dict[str, Any] | None:
    info = await ask_json(client, target, _SERVER_INFO)
    return info if info is not None and isinstance(info.get("vllm_config"), dict) else None


async def _pages(client: httpx.AsyncClient, target: Target) -> tuple[list[VllmPage], list[str]]:
    """Pages that can be read, and a sentence for each that cannot."""
    pages: list[VllmPage] = []
    failures: list[str] = []
    for url in target.metrics_urls:
        try:
            response = await ask_server(client, target, "GET", url)
            if response.status_code != 200:
                raise CollectionError("not_metrics", f"HTTP {response.status_code}")
            pages.append(read_page(response.text))
        except (CollectionError, TargetError) as error:
            failures.append(f"no server counters from {shown(url)}: {error}")
    return pages, failures
