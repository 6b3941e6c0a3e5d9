"""Sentences of a probe: which flag of the server would give better numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from server_adapters.base import Capabilities


def notes_for(
    found: Capabilities,
    failures: Sequence[str],
    *,
    timings: bool,
    cached: bool,
    v0_speculation: bool,
    declared: bool,
) -> tuple[str, ...]:
    """`failures`: metrics pages that cannot be read. `timings`, `cached`: the test request's answer told its times and
    cached tokens. `declared`: the user has named the speculation method."""
    return (
        *failures,
        *_tokens(found),
        *_speculation(found, v0_speculation, declared),
        *_details(found, timings=timings, cached=cached),
    )


def _tokens(found: Capabilities) -> Iterator[str]:
    if not found.token_ids and not found.continuous_usage:
        yield (
            "chunks carry no token counts, so tokens per chunk are not known: vLLM 0.10.2 and newer send token ids, "
            "older ones usage on every chunk"
        )
    if not found.tokenize:
        yield "prompts cannot be measured (/tokenize gave no answer), so prompt lengths are estimates"


def _speculation(found: Capabilities, v0_speculation: bool, declared: bool) -> Iterator[str]:
    if v0_speculation:
        yield (
            "speculation runs on the V0 engine, whose accepted counter includes tokens after a rejected one: its "
            "counters are not used; vLLM 0.11 and newer have comparable ones"
        )
    if not found.speculation:
        return
    if found.per_request_spec == "none":
        yield (
            "start the server with --per-request-spec-decode-metrics detailed (vLLM 0.29 and newer) for exact "
            "acceptance and rollback of every request; counters alone know neither task types nor requests"
        )
    elif found.per_request_spec == "summary":
        yield (
            "start the server with --per-request-spec-decode-metrics detailed instead of summary for exact rollback "
            "where drafts differ in length"
        )
    if found.spec_method is None and not declared:
        yield (
            "the speculation method cannot be read: name it with the arm's spec_method, or start a test server with "
            "VLLM_SERVER_DEV_MODE=1 (it opens administrative routes: not for production)"
        )


def _details(found: Capabilities, *, timings: bool, cached: bool) -> Iterator[str]:
    if not timings:
        yield (
            "start the server with --enable-per-request-metrics (vLLM 0.25.1 and newer) for the queue, prefill and "
            "decode time of every request"
        )
    if not cached:
        yield "start the server with --enable-prompt-tokens-details for the cached prompt tokens of every request"
