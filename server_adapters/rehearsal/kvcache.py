"""KV blocks: a pool with reference counts, and a prefix cache over full blocks (vLLM's block-hash chain).

A freed block keeps its content until it is needed for something else, least recently freed first, so a
prefix may be found long after its request ended. The salt enters the first hash of the chain, and through
it all others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from zlib import crc32


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens."""

    def __init__(self, num_blocks: int, block_size: int, *, caching: bool) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.caching = caching
        self._references = [0] * num_blocks
        self._hashes: list[int | None] = [None] * num_blocks
        self._by_hash: dict[int, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_free(self) -> int:
        """Blocks no request holds (they may still carry cached content)."""
        return len(self._free)

    def allocate(self, count: int) -> list[int] | None:
        """`count` blocks to write, or None (and nothing taken) where there are fewer."""
        if count > len(self._free):
            return None
        taken = []
        for _ in range(count):
            block, _ = self._free.popitem(last=False)
            self._forget(block)
            self._references[block] = 1
            taken.append(block)
        return taken

    def share(self, blocks: Sequence[int]) -> None:
        """Take one more reference to each cached block."""
        for block in blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Give references back, the end of a sequence first, so that prefixes live longest."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None

    def lookup(self, hashes: Sequence[int]) -> list[int]:
        """Blocks of the longest cached prefix of a hash chain."""
        found = []
        for block_hash in hashes:
            block = self._by_hash.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def publish(self, block: int, block_hash: int) -> None:
        """Make a full block findable; the first block of a content stays the one that is found."""
        if self.caching and self._hashes[block] is None and block_hash not in self._by_hash:
            self._hashes[block] = block_hash
            self._by_hash[block_hash] = block

    def clear(self) -> bool:
        """Forget all cached content; False (and nothing done) while a block is held."""
        if len(self._free) < self.num_blocks:
            return False
        self._by_hash.clear()
        self._hashes = [None] * self.num_blocks
        return True

    def _forget(self, block: int) -> None:
        block_hash = self._hashes[block]
        if block_hash is not None:
            del self._by_hash[block_hash]
            self._hashes[block] = None


def extend_chain(hashes: list[int], token_ids: Sequence[int], upto: int, block_size: int, salt: str | None) -> None:
    """Append to `hashes` the hash of every full block of the first `upto` tokens that it lacks.

    A hash covers its block and everything before it; sequences of integers hash alike in every process.
    """
    previous = hashes[-1] if hashes else (0 if salt is None else crc32(salt.encode()) + 1)
    for start in range(len(hashes) * block_size, upto - block_size + 1, block_size):
        previous = hash((previous, *token_ids[start : start + block_size]))
        hashes.append(previous)
