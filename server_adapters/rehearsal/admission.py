"""What makes a request impossible to serve."""

from __future__ import annotations

import math

from server_adapters.rehearsal.types import EngineConfig, EngineRequest, RequestError


def validate(request: EngineRequest, config: EngineConfig, vocab_size: int) -> None:
    """Raise RequestError, naming the field, for values outside their range or a prompt that leaves no
    room."""
    params, prompt = request.sampling, request.prompt_token_ids
    checks: tuple[tuple[bool, str, str | None], ...] = (
        (len(prompt) > 0, "prompt has no tokens", "prompt"),
        (
            len(prompt) < config.max_model_len,
            f"prompt of {len(prompt)} tokens leaves no room in a maximum length of {config.max_model_len}",
            "prompt",
        ),
        (_are_ids(prompt, vocab_size), f"Token id {max(prompt, default=0)} is out of vocabulary", None),
        (
            math.isfinite(params.temperature) and params.temperature >= 0.0,
            "temperature must be finite and not negative",
            "temperature",
        ),
        (0.0 < params.top_p <= 1.0, "top_p must be within (0, 1]", "top_p"),
        (0.0 <= params.min_p <= 1.0, "min_p must be within 0 and 1", "min_p"),
        (params.top_k >= -1, "top_k must be -1 or 0 (off) or at least 1", "top_k"),
        (params.max_tokens >= 1, "max_tokens must be at least 1", "max_tokens"),
        (
            0 <= params.min_tokens <= params.max_tokens,
            "min_tokens must be within 0 and max_tokens",
            "min_tokens",
        ),
        (all(params.stop), "stop strings must not be empty", "stop"),
        (_are_ids(params.stop_token_ids, vocab_size), "token id outside the vocabulary", "stop_token_ids"),
    )
    for ok, message, param in checks:
        if not ok:
            raise RequestError(message, param)


def _are_ids(ids: tuple[int, ...], vocab_size: int) -> bool:
    return not ids or (min(ids) >= 0 and max(ids) < vocab_size)
