"""Blocks: none lost, none handed out twice, prefixes found as long as nobody needed their room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from server_adapters.rehearsal.kvcache import BlockPool, extend_chain


def test_allocation_is_all_or_nothing() -> None:
    pool = BlockPool(4, 16, caching=True)
    assert pool.allocate(5) is None
    assert pool.num_free == 4
    blocks = pool.allocate(3)
    assert blocks is not None
    assert len(set(blocks)) == 3
    assert pool.allocate(2) is None
    pool.release(blocks)
    assert pool.num_free == 4


def test_a_prefix_is_found_until_its_blocks_are_needed() -> None:
    pool = BlockPool(3, 2, caching=True)
    hashes: list[int] = []
    extend_chain(hashes, [1, 2, 3, 4, 5], 5, 2, None)
    assert len(hashes) == 2
    blocks = pool.allocate(2)
    assert blocks is not None
    for block, block_hash in zip(blocks, hashes, strict=True):
        pool.publish(block, block_hash)
    pool.release(blocks)
    assert pool.lookup(hashes) == blocks
    assert pool.allocate(1) == [2], "the block without content goes first"
    assert pool.allocate(1) == [blocks[1]], "then the end of the prefix"
    assert pool.lookup(hashes) == blocks[:1]


def test_shared_blocks_return_after_their_last_holder() -> None:
    pool = BlockPool(2, 2, caching=True)
    blocks = pool.allocate(1)
    assert blocks is not None
    pool.share(blocks)
    pool.release(blocks)
    assert pool.num_free == 1
    assert not pool.clear()
    pool.release(blocks)
    assert pool.num_free == 2
    assert pool.clear()


def test_chains_differ_by_any_earlier_token_and_by_salt() -> None:
    def chain(tokens: list[int], salt: str | None) -> list[int]:
        hashes: list[int] = []
        extend_chain(hashes, tokens, len(tokens), 2, salt)
        return hashes

    base = chain([1, 2, 3, 4], None)
    assert chain([1, 2, 3, 5], None)[0] == base[0]
    assert chain([1, 2, 3, 5], None)[1] != base[1]
    assert chain([9, 2, 3, 4], None)[1] != base[1]
    assert not set(chain([1, 2, 3, 4], "salt")) & set(base)
    grown = base[:1]
    extend_chain(grown, [1, 2, 3, 4], 4, 2, None)
    assert grown == base


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_no_block_is_lost_or_held_twice(actions: list[tuple[bool, int]]) -> None:
    pool = BlockPool(8, 4, caching=True)
    held: list[list[int]] = []
    for at, (take, amount) in enumerate(actions):
        if take:
            blocks = pool.allocate(amount)
            if blocks is not None:
                for block in blocks:
                    pool.publish(block, at * 100 + block)
                held.append(blocks)
        elif held:
            pool.release(held.pop(amount % len(held)))
        out = [b for blocks in held for b in blocks]
        assert len(out) == len(set(out))
        assert len(out) + pool.num_free == 8
