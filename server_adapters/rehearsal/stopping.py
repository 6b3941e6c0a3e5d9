"""Where an output ends: EOS, stop ids, lengths (token by token) and stop strings (on the text of whole
rounds)."""

from __future__ import annotations

from collections.abc import Sequence

from server_adapters.rehearsal.types import FinishReason, SamplingParams


def trim(
    tokens: Sequence[int], position: int, room: int, params: SamplingParams, eos_id: int
) -> tuple[list[int], FinishReason | None, int | None]:
    """Cut new tokens at the first that ends the output: (kept, finish reason, stop token id).

    `position` tokens were there before; `room` more fit the model's length. EOS has no stop id (as in vLLM).
    """
    limit = min(params.max_tokens - position, room)
    for at, token in enumerate(tokens, start=1):
        if position + at >= params.min_tokens:
            if token == eos_id and not params.ignore_eos:
                return list(tokens[:at]), "stop", None
            if token in params.stop_token_ids:
                return list(tokens[:at]), "stop", token
        if at >= limit:
            return list(tokens[:at]), "length", None
    return list(tokens), None, None


def find_stop(text: str, stops: Sequence[str], start: int) -> tuple[str, int] | None:
    """The stop string that occurs first at or after character `start`, and where it begins."""
    found = [(at, stop) for stop in stops if (at := text.find(stop, start)) >= 0]
    if not found:
        return None
    at, stop = min(found)
    return stop, at
