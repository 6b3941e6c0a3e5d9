"""Where the faults of one request's output begin. `stopping` has those that move its end."""

from __future__ import annotations

from collections.abc import Sequence

from server_adapters.rehearsal.scheduler import SequenceState
from server_adapters.rehearsal.scripts import Garble, Loop


def begin_faults(sequence: SequenceState, running: Sequence[SequenceState], seed: int, output_size: int) -> None:
    """Begin what is due, before a step of the sequence. Nothing happens to a sequence without faults.

    `running`: every sequence of the engine, in its order. A sequence that is to be crossed with another waits for one
    where there is none. A fault begins once."""
    faults = sequence.request.faults
    if faults is None:
        return
    position = len(sequence.token_ids) - sequence.num_prompt
    if faults.cross_talk_at is not None and position >= faults.cross_talk_at and not sequence.crossed:
        other = _next_of(sequence, running)
        if other is not None:
            sequence.crossed = True
            sequence.sampler.adopt(other.sampler)
    sampler = sequence.sampler
    if sampler.script is not None:
        return
    if faults.garble_at is not None and position >= faults.garble_at:
        sampler.script = Garble(seed * 1_000_003 + sequence.key[1], output_size)
    elif faults.loop_at is not None and position >= max(faults.loop_at, 1):
        sampler.script = Loop(sequence.token_ids[-min(faults.loop_period, position) :], position)


def _next_of(sequence: SequenceState, running: Sequence[SequenceState]) -> SequenceState | None:
    """The next sequence in the engine's order that has an output; after the last comes the first."""
    others = [s for s in running if s is not sequence and s.times.first_token_s is not None]
    return next((s for s in others if s.key > sequence.key), others[0] if others else None)
