"""Where an output ends: EOS, stop ids, lengths (token by token) and stop strings (on the text of whole
rounds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from server_adapters.rehearsal.types import FinishReason, OutputFaults, SamplingParams

Cut = tuple[list[int], FinishReason | None, int | str | None]


class StopRule:
    """The end of one request's output: `cut` the new tokens of a step, then `search` the text for stop strings.

    Faults move it. After a stop the output goes on for `junk_after_stop` tokens and then ends with the reason of that
    stop; with `early_stop_at` it ends there as if it had stopped."""

    def __init__(self, params: SamplingParams, eos_id: int, faults: OutputFaults | None = None) -> None:
        self._eos_id = eos_id
        self._junk = None if faults is None else faults.junk_after_stop
        early = None if faults is None else faults.early_stop_at
        self._early = early is not None and early < params.max_tokens
        self._params = replace(params, max_tokens=max(1, early)) if early is not None and self._early else params
        self._stopped = False
        self._stop_reason: int | str | None = None
        self._searched_to = 0

    @property
    def has_strings(self) -> bool:
        """Whether the text is to be searched."""
        return bool(self._params.stop)

    def cut(self, tokens: Sequence[int], position: int, room: int) -> Cut:
        """As `trim`."""
        kept, reason, stop_id = trim(tokens, position, room, self._params, self._eos_id)
        if reason == "stop" and self._junk is not None:
            self._go_on(position + len(kept), stop_id)
            kept, reason, stop_id = trim(tokens, position, room, self._params, self._eos_id)
        if reason == "length" and (self._stopped or (self._early and position + len(kept) >= self._params.max_tokens)):
            return kept, "stop", self._stop_reason
        return kept, reason, stop_id

    def search(self, text: str, position: int) -> tuple[str, int] | None:
        """The stop string in the text of `position` tokens that was not searched before, and where the text ends. Text
        within `min_tokens` never stops."""
        if position < self._params.min_tokens:
            self._searched_to = len(text)
            return None
        found = find_stop(text, self._params.stop, self._searched_to)
        if found is not None and self._junk is not None:
            self._go_on(position, found[0])
            return None
        return found

    def _go_on(self, position: int, stop_reason: int | str | None) -> None:
        """It should have ended at `position`, and goes on: nothing but a length ends it any more."""
        assert self._junk is not None
        limit = min(self._params.max_tokens, position + max(1, self._junk))
        self._stopped, self._stop_reason, self._junk = True, stop_reason, None
        self._params = replace(self._params, ignore_eos=True, stop_token_ids=(), stop=(), max_tokens=limit)


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
