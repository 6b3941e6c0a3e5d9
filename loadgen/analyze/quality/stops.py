"""Which token ids end an answer, from the answers themselves."""

from __future__ import annotations

from collections.abc import Iterable

from loadgen.analyze.quality.types import Output


def stop_ids_of(outputs: Iterable[Output]) -> tuple[int, ...]:
    """Last ids of answers that ended with finish reason "stop" without a stop string. None where one of these stands
    anywhere else: the server then leaves out the id that ends an answer, and the last ones are ordinary tokens."""
    ends: set[int] = set()
    inside: set[int] = set()
    for one in outputs:
        if not one.token_ids:
            continue
        inside.update(one.token_ids[:-1])
        if one.finish_reason != "stop":
            inside.add(one.token_ids[-1])
        elif not one.stop:
            ends.add(one.token_ids[-1])
    return tuple(sorted(ends)) if ends.isdisjoint(inside) else ()
