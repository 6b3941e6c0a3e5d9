"""Log probabilities in the JSON of both endpoints, as vLLM 0.32 writes them.

At every position the emitted token stands first and the most likely ones follow, best first, without it. Completions
show the emitted token and `logprobs` others, chats the first `top_logprobs` of that list: where the emitted token is
not among the best, a chat lacks the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import TokenLogprobs

#: What stands for minus infinity, which JSON has not.
LOWEST = -9999.0


class LogprobsText:
    """Log probabilities of one answer, chunk after chunk; `text_offset` counts characters of all tokens so far.
    `as_ids`: tokens are named by their ids (return_tokens_as_token_ids)."""

    __slots__ = ("_as_ids", "_chat", "_offset", "_tokenizer", "_top")

    def __init__(self, tokenizer: Tokenizer, top: int, *, chat: bool, as_ids: bool = False) -> None:
        self._tokenizer, self._top, self._chat, self._as_ids = tokenizer, top, chat, as_ids
        self._offset = 0

    def feed(self, told: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """The `logprobs` of a choice that holds these tokens."""
        return {"content": [self._entry(t) for t in told]} if self._chat else self._columns(told)

    def _columns(self, told: Sequence[TokenLogprobs]) -> dict[str, Any]:
        tokens = [self._name(t.token_id) for t in told]
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(token)
        # one entry for each text: tokens of the same text share it, as they do at vLLM
        top = [{self._name(i): _finite(p) for i, p in _emitted_first(t)[: self._top + 1]} for t in told]
        return {
            "text_offset": offsets,
            "token_logprobs": [_finite(t.logprob) for t in told],
            "tokens": tokens,
            "top_logprobs": top,
        }

    def _entry(self, told: TokenLogprobs) -> dict[str, Any]:
        top = [self._named(i, p) for i, p in _emitted_first(told)[: self._top]]
        return {**self._named(told.token_id, told.logprob), "top_logprobs": top}

    def _named(self, token_id: int, logprob: float) -> dict[str, Any]:
        text = self._tokenizer.token_text(token_id)
        return {"token": self._name(token_id), "logprob": _finite(logprob), "bytes": list(text.encode())}

    def _name(self, token_id: int) -> str:
        return f"token_id:{token_id}" if self._as_ids else self._tokenizer.token_text(token_id)


def _emitted_first(told: TokenLogprobs) -> list[tuple[int, float]]:
    return [(told.token_id, told.logprob), *(pair for pair in told.top if pair[0] != told.token_id)]


def _finite(logprob: float) -> float:
    return max(logprob, LOWEST)
