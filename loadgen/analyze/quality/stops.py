"""Which token ids end an answer, from the answers themselves."""

from __future__ import annotations

from collections.abc import Iterable

from loadgen.analyze.quality.types import Output


def stop_ids_of(outputs: Iterable[Output]) -> tuple[int, ...]:
    """Last ids of answers that ended with finish reason "stop" without a stop string, and which stand nowhere else in
    these answers. Ids that the server leaves out of its answers are not found."""
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
    return tuple(sorted(ends - inside))
