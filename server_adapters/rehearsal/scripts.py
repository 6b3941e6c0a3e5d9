"""Outputs that the target does not choose: what a broken server says instead. A script gives the token of every
position of an output, from the position on at which it began."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


class Loop:
    """The same tokens again and again. A drafter sees the loop as well and drafts it."""

    drafted = True

    def __init__(self, token_ids: Sequence[int], begin: int) -> None:
        self._token_ids, self._begin = tuple(token_ids), begin

    def tokens(self, position: int, count: int) -> list[int]:
        """The tokens of `count` positions."""
        period, first = len(self._token_ids), position - self._begin
        return [self._token_ids[(first + i) % period] for i in range(count)]


class Garble:
    """Random tokens, each of the `output_size` - 1 that are not EOS; seed and position decide which. No drafter
    foresees them."""

    drafted = False

    def __init__(self, seed: int, output_size: int) -> None:
        self._seed, self._output_size = seed, output_size

    def tokens(self, position: int, count: int) -> list[int]:
        """The tokens of `count` positions."""
        size = self._output_size - 1
        return [1 + crc32(f"{self._seed}/{at}".encode()) % size for at in range(position, position + count)]


Script = Loop | Garble
