"""How far apart the log probabilities of two arms are where both say the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

#: Less than this is a server's word for minus infinity, nat.
_NOTHING_NAT = -1000.0
#: A token, by its id or its text. A place: the one that was chosen, and the log probabilities told there.
_Token = TypeVar("_Token", bound=Hashable)


def gaps_apart(
    baseline: Sequence[tuple[_Token, Mapping[_Token, float]]],
    candidate: Sequence[tuple[_Token, Mapping[_Token, float]]],
) -> list[float]:
    """By how much the gap between the baseline's two likeliest tokens is wider in the candidate (nat), at each place up
    to the first where they choose differently.

    Not at the first token: it comes from the prefill, where nothing is verified and both arms compute alike.
    """
    return list(_apart(baseline, candidate))


def _apart(
    baseline: Sequence[tuple[_Token, Mapping[_Token, float]]],
    candidate: Sequence[tuple[_Token, Mapping[_Token, float]]],
) -> Iterator[float]:
    for i, ((ours, base), (theirs, other)) in enumerate(zip(baseline, candidate, strict=False)):
        best = sorted(base, key=lambda token: -base[token])[:2]
        if i and len(best) == 2 and all(token in other for token in best):
            values = [top[token] for top in (base, other) for token in best]
            if min(values) > _NOTHING_NAT:
                yield (values[2] - values[3]) - (values[0] - values[1])
        if ours != theirs:
            return
