"""Rounds, drafts, accepted tokens and decode steps of a group, by source (docs/method.md, "Sources").

per_request: the server's own statistics in the responses. chunk: the ledger, which knows decode steps and
emitted-accepted tokens, but neither drafted tokens nor which steps had a draft. counters: deltas over the
group's windows, with other people's traffic in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints, flat
from loadgen.analyze.counters import Counters
from loadgen.analyze.frames import Frame
from loadgen.analyze.values import CHUNK, COUNTERS, PER_REQUEST

#: Server tokens may differ from the client's by this share before its step count is no longer taken
TOKENS_AGREE = 0.01


@dataclass(frozen=True)
class Drafts:
    """D rounds, T drafted, A accepted, a_j by position. T or a_j None where the source does not tell.

    `output_tokens`: of the same requests. `note`: what is missing from it, or does not belong to it.
    """

    source: str
    requests: int
    rounds: float
    drafted: float | None
    accepted: float
    at_position: tuple[float, ...] | None
    output_tokens: float | None
    note: str | None = None


@dataclass(frozen=True)
class Steps:
    """Decode steps after the first output, and the tokens they emitted.

    `rounds`, `accepted`: D and A of the very same requests or window; None where its source knows none.
    `note`: what was left out.
    """

    source: str
    steps: float
    tokens: float
    rounds: float | None
    accepted: float | None
    note: str | None = None


def per_request(frame: Frame, rows: Ints) -> Drafts | None:
    """None if no ok request of the group has statistics."""
    stats = frame.stats
    ok = rows[frame.ok[rows]]
    mine = ok[stats.told[ok]]
    if not len(mine):
        return None
    missing = len(ok) - len(mine)
    drafted = stats.drafted[mine]
    output = frame.output_len[mine]
    return Drafts(
        source=PER_REQUEST,
        requests=len(mine),
        rounds=float(np.nansum(stats.rounds[mine])),
        drafted=None if np.isnan(drafted).any() else float(drafted.sum()),
        accepted=float(np.nansum(stats.accepted[mine])),
        at_position=_positions(frame, mine),
        output_tokens=None if np.isnan(output).any() else float(output.sum()),
        note=f"{missing} of {len(ok)} ok requests gave no statistics" if missing else None,
    )


def _positions(frame: Frame, rows: Ints) -> tuple[float, ...] | None:
    """a_j = rounds that accepted more than j, from the histograms; None if a request with rounds has none."""
    histogram = frame.stats.histogram
    if ((histogram.counts[rows] == 0) & (frame.stats.rounds[rows] > 0)).any():
        return None
    at = flat(histogram.offsets, rows)
    if not len(at):
        return ()
    exactly = np.bincount(histogram.place[at], weights=histogram.values[at])
    more = exactly[::-1].cumsum()[::-1]
    return tuple(float(a) for a in more[1:])


def from_counters(frame: Frame, rows: Ints, counters: Counters | None) -> Drafts | None:
    """None where the group has no counters of its own or the server none of the families."""
    if counters is None:
        return None
    rounds, drafted, accepted = (counters.get(n) for n in ("drafts", "draft_tokens", "accepted_tokens"))
    if rounds is None or drafted is None or accepted is None:
        return None
    return Drafts(
        source=COUNTERS,
        requests=len(rows),
        rounds=rounds,
        drafted=drafted,
        accepted=accepted,
        at_position=counters.by_position.get("accepted_at"),
        output_tokens=counters.get("generation_tokens"),
        note=_doubts(frame, rows, counters),
    )


def _doubts(frame: Frame, rows: Ints, counters: Counters) -> str | None:
    """Why the counters may not be those of our own requests alone."""
    doubts = list(counters.incomplete)
    generated = counters.get("generation_tokens")
    if generated is not None and not _ours(frame, rows, generated):
        seen = float(np.nansum(frame.output_len[rows]))
        doubts.append(f"the server generated {generated:.0f} tokens, {seen:.0f} came to us: other traffic is in it")
    return "; ".join(doubts) or None


def merged(frame: Frame, k: int | None) -> Bools:
    """Requests in which the server put several steps into a chunk: a chunk of more than k + 1 tokens after
    the first, or fewer chunks than rounds. Merging that stays below k + 1 cannot be seen."""
    ledgers = frame.ledgers
    fewer = ledgers.chunks < np.nan_to_num(frame.stats.rounds)
    found = frame.stream & (ledgers.chunks > 0) & fewer
    if k is not None:
        found |= frame.stream & (ledgers.largest > k + 1)
    return found


def countable(frame: Frame, chunk_unit: str) -> Bools:
    """Streams whose chunks are steps with known counts, every token told by a chunk."""
    ledgers = frame.ledgers
    complete = (ledgers.unknown_chunks == 0) & (ledgers.known_tokens == frame.output_len)
    found: Bools = frame.stream & frame.ok & (ledgers.chunks > 0) & complete & np.bool_(chunk_unit == "step")
    return found


def chunk_steps(frame: Frame) -> Floats:
    return np.maximum(frame.ledgers.chunks - 1, 0).astype(np.float64)


def tokens_after_first(frame: Frame) -> Floats:
    return frame.output_len - frame.first_tokens


def from_chunks(frame: Frame, rows: Ints, chunk_unit: str, k: int | None) -> Steps | str:
    """Or the reason why chunks tell no steps."""
    ok = rows[frame.ok[rows] & frame.stream[rows]]
    usable, joined = countable(frame, chunk_unit), merged(frame, k)
    mine = ok[usable[ok] & ~joined[ok]]
    if not len(mine):
        return _no_steps(frame, ok, usable, chunk_unit)
    told = frame.stats.told[mine].all()
    left_out = len(ok) - len(mine)
    note = None
    if left_out:
        note = f"{left_out} of {len(ok)} streams left out: {int(joined[ok].sum())} with merged chunks, the others "
        note += "without a count for every chunk"
    return Steps(
        source=CHUNK,
        steps=float(chunk_steps(frame)[mine].sum()),
        tokens=float(tokens_after_first(frame)[mine].sum()),
        rounds=float(np.nansum(frame.stats.rounds[mine])) if told else None,
        accepted=float(np.nansum(frame.stats.accepted[mine])) if told else None,
        note=note,
    )


def _no_steps(frame: Frame, ok: Ints, usable: Bools, chunk_unit: str) -> str:
    if not len(ok):
        return "no streaming request succeeded"
    if chunk_unit != "step":
        return "this server sends every token as a chunk of its own: chunks tell no steps"
    if not usable[ok].any():
        return "no stream has a token count for every chunk"
    return "the server merged chunks in every stream: chunks tell no steps"


def from_step_counters(frame: Frame, rows: Ints, counters: Counters | None) -> Steps | None:
    """The server's own count of decode outputs after a request's first; None where it cannot be trusted:
    something was missed, or its tokens are not ours."""
    if counters is None or not counters.whole:
        return None
    steps, generated = counters.get("output_events"), counters.get("generation_tokens")
    if not steps or generated is None or not _ours(frame, rows, generated):
        return None
    started = counters.get("ttft_count")
    if started is None:
        started = float((frame.output_len[rows] > 0).sum())
    return Steps(
        source=COUNTERS,
        steps=steps,
        tokens=generated - started,
        rounds=counters.get("drafts"),
        accepted=counters.get("accepted_tokens"),
    )


def _ours(frame: Frame, rows: Ints, generated: float) -> bool:
    """Unknown client counts cannot contradict the server's."""
    client = frame.output_len[rows]
    if np.isnan(client[frame.ok[rows]]).any():
        return True
    return abs(float(np.nansum(client)) - generated) <= TOKENS_AGREE * generated
