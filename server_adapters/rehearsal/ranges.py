"""Values that vLLM 0.32 refuses with 400 before anything is scheduled, with its words and the `param` it names. Types
were checked before; what the engine cannot do is refused after."""

from __future__ import annotations

import math

from server_adapters.rehearsal.errors import ApiError
from server_adapters.rehearsal.protocol import Asked

MOST_SEQUENCES = 16384


def check_ranges(asked: Asked, vocab_size: int) -> None:
    """ApiError for the first value that is out of its range."""
    _check_temperature(asked.temperature)
    top_p = asked.top_p
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise _named("top_p", top_p, f"top_p must be in (0, 1], got {top_p}.")
    _check_ids("stop_token_ids", [i for i in asked.stop_token_ids or () if not 0 <= i < vocab_size], vocab_size)
    _check_bias(asked, vocab_size)
    for wrong, message in _unnamed(asked):
        if wrong:
            raise ApiError(message)


def _unnamed(asked: Asked) -> list[tuple[bool, str]]:
    """What vLLM refuses without naming the parameter."""
    top_k, min_p, n = asked.top_k, asked.min_p, asked.n
    stops = (asked.stop,) if isinstance(asked.stop, str) else asked.stop or ()
    penalties = [
        (name, value)
        for name in ("presence_penalty", "frequency_penalty")
        if (value := getattr(asked, name)) is not None and not -2.0 <= value <= 2.0
    ]
    repetition = asked.repetition_penalty
    return [
        (n < 1, f"n must be at least 1, got {n}."),
        (n > MOST_SEQUENCES, f"n must be at most {MOST_SEQUENCES}, got {n}."),
        (n > 1 and asked.temperature == 0.0, f"n must be 1 when using greedy sampling, got {n}."),
        (top_k is not None and top_k < -1, f"top_k must be 0 (disable), or at least 1, got {top_k}."),
        (min_p is not None and not 0.0 <= min_p <= 1.0, f"min_p must be in [0, 1], got {min_p}."),
        *((True, f"{name} must be in [-2, 2], got {value}.") for name, value in penalties),
        (
            repetition is not None and repetition <= 0,
            f"repetition_penalty must be greater than zero, got {repetition}.",
        ),
        (not all(stops), "stop cannot contain an empty string."),
        (asked.min_tokens < 0, f"min_tokens must be greater than or equal to 0, got {asked.min_tokens}."),
    ]


def check_min_tokens(min_tokens: int, max_tokens: int) -> None:
    """ApiError where fewer tokens are allowed than wanted."""
    if min_tokens > max_tokens:
        raise ApiError(f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.")


def _check_temperature(value: float | None) -> None:
    if value is None:
        return
    if not math.isfinite(value):
        raise _named("temperature", value, f"temperature must be a finite number, got {value}.")
    if value < 0.0:
        raise _named("temperature", value, f"temperature must be non-negative, got {value}.")
    if value > 2.0:
        raise _named("temperature", value, f"temperature must be in [0, 2], got {value}.")


def _check_bias(asked: Asked, vocab_size: int) -> None:
    ids, odd = [], []
    for key in asked.logit_bias or ():
        try:
            ids.append(int(key))
        except ValueError:
            odd.append(key)
    if odd:
        message = f"logit_bias contains key(s) that cannot be converted to integer token IDs: {odd}"
        raise _named("logit_bias", odd, message)
    _check_ids("logit_bias", [i for i in ids if not 0 <= i < vocab_size], vocab_size)


def _check_ids(param: str, unknown: list[int], vocab_size: int) -> None:
    if unknown:
        message = f"token_id(s) {unknown} in {param} contain out-of-vocab token ids. Vocabulary size: {vocab_size}"
        raise _named(param, unknown, message)


def _named(param: str, value: object, message: str) -> ApiError:
    return ApiError(f"{message} (parameter={param}, value={value})", param=param)
