"""One tokenizer for target and draft: known pieces, short fragments, then bytes. Every string survives a
round trip.

A piece is a run of text between two cuts of `_PIECES` (an optional space and a word, a run of spaces, a
symbol); pieces that are not in the vocabulary are covered from the left by the longest known fragments, and
what no fragment covers becomes UTF-8 bytes. Special tokens never come out of `encode`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_PIECES = re.compile(r" ?[A-Za-z]+|\d|\n+ *\"?|(?: ?[^\sA-Za-z\d]+)+| +|\s")
_MAX_FRAGMENT = 4
SPECIALS = ("<|eos|>", "<|user|>", "<|assistant|>", "<|system|>")


class Tokenizer:
    """Ids: EOS, the pieces of answers, and behind `output_size` what models only read: other specials,
    other pieces, fragments, bytes. `vocab_size` covers all of them."""

    def __init__(self, answers: Iterable[str], prompts: Iterable[str], *, fragments: int = 320) -> None:
        answer_counts, counts = _count_pieces(answers), _count_pieces(prompts)
        said = _ranked(answer_counts)
        read = [piece for piece in _ranked(counts) if piece not in answer_counts]
        counts.update(answer_counts)
        read += [f for f in _frequent_fragments(counts, fragments) if f not in counts]
        self.output_size = 1 + len(said)
        self.eos_id = 0
        self.user_id, self.assistant_id, self.system_id = range(self.output_size, self.output_size + 3)
        self._specials = dict(
            zip((self.eos_id, self.user_id, self.assistant_id, self.system_id), SPECIALS, strict=True)
        )
        self._first_byte = self.output_size + 3
        first_read = self._first_byte + 256
        self._ids = {piece: i for i, piece in enumerate(said, start=1)}
        self._ids.update({piece: i for i, piece in enumerate(read, start=first_read)})
        self._bytes = [b"", *(piece.encode() for piece in said), b"", b"", b""]
        self._bytes += [bytes([b]) for b in range(256)]
        self._bytes += [piece.encode() for piece in read]
        self._cache: dict[str, tuple[int, ...]] = {}
        self._longest = max(map(len, self._ids))

    @property
    def vocab_size(self) -> int:
        """Number of ids, specials included."""
        return len(self._bytes)

    @property
    def longest(self) -> int:
        """Characters of the longest token."""
        return self._longest

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Lone surrogates, which UTF-8 cannot carry, become "?"."""
        ids: list[int] = []
        for piece in _PIECES.findall(text):
            known = self._ids.get(piece)
            if known is not None:
                ids.append(known)
            else:
                ids.extend(self._encode_unknown(piece))
        return ids

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The UTF-8 bytes of some tokens; specials have none. A character may be cut at either end."""
        table = self._bytes
        return b"".join([table[i] for i in ids])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of some tokens; an incomplete character becomes U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def token_text(self, token_id: int) -> str:
        """One token for people: its text, or the name of a special."""
        return self._specials.get(token_id) or self.decode([token_id])

    def render_chat(self, messages: Iterable[tuple[str, str]]) -> list[int]:
        """Token ids of a chat, (role, content) pairs, up to where the assistant's answer begins."""
        roles = {"user": self.user_id, "assistant": self.assistant_id}
        ids: list[int] = []
        for role, content in messages:
            ids.append(roles.get(role, self.system_id))
            ids.extend(self.encode(content))
        ids.append(self.assistant_id)
        return ids

    def _encode_unknown(self, piece: str) -> tuple[int, ...]:
        cached = self._cache.get(piece)
        if cached is not None:
            return cached
        ids: list[int] = []
        at = 0
        while at < len(piece):
            for end in range(min(len(piece), at + self._longest), at, -1):
                known = self._ids.get(piece[at:end])
                if known is not None:
                    ids.append(known)
                    at = end
                    break
            else:
                ids.extend(self._first_byte + b for b in piece[at].encode("utf-8", errors="replace"))
                at += 1
        if len(self._cache) < 4096 and len(piece) < 64:
            self._cache[piece] = tuple(ids)
        return tuple(ids)


def _count_pieces(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_PIECES.findall(text))
    return counts


def _ranked(counts: Counter[str]) -> list[str]:
    return [piece for piece, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _frequent_fragments(counts: Counter[str], limit: int) -> list[str]:
    """The most frequent substrings of two to four letters of the known words, and every single letter."""
    found: Counter[str] = Counter()
    for piece in counts:
        word = piece.strip()
        if word.isalpha():
            for size in range(2, _MAX_FRAGMENT + 1):
                found.update(word[i : i + size] for i in range(len(word) - size + 1))
    ranked = sorted(found.items(), key=lambda item: (-item[1] * len(item[0]), item[0]))
    letters = [chr(c) for c in (*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1))]
    return letters + [fragment for fragment, _ in ranked[:limit] if fragment not in letters]
