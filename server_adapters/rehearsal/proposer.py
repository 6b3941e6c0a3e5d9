"""Prompt lookup: propose what followed the last time the same few tokens were seen (vLLM's `ngram`)."""

from __future__ import annotations

from collections.abc import Iterable


class NGramProposer:
    """Drafts from one request's own tokens, in a time that does not depend on their number.

    The longest n-gram of `lookup_min`..`lookup_max` tokens that ends the text and occurred before wins, at
    its earliest occurrence; the proposal is what followed it, up to k tokens, and empty where nothing
    matches."""

    def __init__(self, prompt_token_ids: Iterable[int], lookup_min: int, lookup_max: int) -> None:
        self._sizes = range(lookup_min, lookup_max + 1)
        self._tokens: list[int] = []
        self._follows: dict[tuple[int, ...], int] = {}
        self.extend(prompt_token_ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        """Append tokens; the n-grams before each of them now have a follower."""
        tokens, follows = self._tokens, self._follows
        for token in token_ids:
            length = len(tokens)
            for size in self._sizes:
                if size > length:
                    break
                follows.setdefault(tuple(tokens[length - size :]), length)
            tokens.append(token)

    def propose(self, k: int) -> list[int]:
        """At most k tokens."""
        tokens = self._tokens
        for size in reversed(self._sizes):
            at = self._follows.get(tuple(tokens[-size:])) if size <= len(tokens) else None
            if at is not None:
                return tokens[at : at + k]
        return []
