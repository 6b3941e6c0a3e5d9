"""How long an answer is taken to last, where nothing has been measured yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """An answer begins after `first_token_s` and brings a token every `token_s` from then on. `source` says where that
    is from, and is shown beside everything that rests on it."""

    first_token_s: float
    token_s: float
    source: str

    def seconds(self, output_tokens: float) -> float:
        return self.first_token_s + output_tokens * self.token_s


ASSUMED = AnswerTime(0.5, 0.02, "if an answer begins after 0.5 s and streams at 50 tokens/s")
