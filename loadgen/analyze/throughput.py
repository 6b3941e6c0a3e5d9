"""Tokens per second of wall time, attributed by arrival (docs/method.md, "Throughput").

A token counts in the window its chunk arrived in: (start, end]. Tokens no chunk told of are spread in
equal shares over the request's chunks of unknown count, else counted at its last token; those of a
non-streaming answer at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.summary import N, Throughput
from loadgen.analyze.values import CHUNK, CLIENT, absent, at_least, exact
from loadgen.analyze.windows import SegmentWindow, Span, seconds

WINDOW_RULE = (
    "tokens by arrival time; steady: from when all load had started to the last moment new requests could "
    "start; run: from the start of each measured segment until it was drained; idle waits between are left out"
)


@dataclass(frozen=True)
class Flow:
    """Per request, how many of its tokens arrived in its segment's windows, and whether it ended there.

    `uncounted`: it has output, but nobody told how much. `spread`: tokens whose arrival is inferred.
    """

    total: Floats
    steady: Floats
    run: Floats
    ended_steady: Bools
    uncounted: Bools
    spread: Floats


def flow_of(frame: Frame, windows: Sequence[SegmentWindow]) -> Flow:
    steady = _edges(frame, {w.phase.segment: w.steady for w in windows})
    run = _edges(frame, {w.phase.segment: w.whole for w in windows})
    ledgers = frame.ledgers
    told = ledgers.known_tokens.astype(np.float64)
    total = np.where(np.isnan(frame.output_len), told, np.maximum(frame.output_len, told))
    rest = total - told
    share = np.divide(rest, ledgers.unknown_chunks, out=np.zeros(frame.n), where=ledgers.unknown_chunks > 0)
    weight = np.maximum(ledgers.tokens, 0) + np.where(ledgers.tokens < 0, share[ledgers.row], 0.0)
    at_end = np.where(ledgers.unknown_chunks > 0, 0.0, rest)
    unknown = np.isnan(frame.output_len) & ((ledgers.unknown_chunks > 0) | (frame.ok & (ledgers.chunks == 0)))
    return Flow(
        total=total,
        steady=_inside(frame, weight, at_end, steady),
        run=_inside(frame, weight, at_end, run),
        ended_steady=_within(frame.finished[0], steady, np.arange(frame.n)) & frame.finished[1],
        uncounted=unknown,
        spread=np.where(frame.stream, rest, 0.0),
    )


def _edges(frame: Frame, spans: Mapping[int, Span | None]) -> tuple[Ints, Ints]:
    """Per row, the start and end of its segment's window; an empty window where there is none."""
    start, end = np.zeros(frame.n, np.int64), np.zeros(frame.n, np.int64)
    for segment, span in spans.items():
        if span is not None:
            mine = frame.segment == segment
            start[mine], end[mine] = span
    return start, end


def _within(at: Ints, edges: tuple[Ints, Ints], row: Ints) -> Bools:
    inside: Bools = (at > edges[0][row]) & (at <= edges[1][row])
    return inside


def _inside(frame: Frame, weight: Floats, at_end: Floats, edges: tuple[Ints, Ints]) -> Floats:
    ledgers = frame.ledgers
    inside = _within(ledgers.at_ns, edges, ledgers.row)
    streamed = np.asarray(np.bincount(ledgers.row[inside], weights=weight[inside], minlength=frame.n), dtype=np.float64)
    last = np.where(frame.finished[1], frame.finished[0], frame.end[0])
    ended = _within(last, edges, np.arange(frame.n))
    return streamed + np.where(ended, at_end, 0.0)


def throughput(
    frame: Frame, flow: Flow, rows: Ints, windows: Sequence[SegmentWindow], slos: Mapping[str, Any]
) -> Throughput:
    """`slos`: the scenario's limits, seconds; null ones are not set."""
    steady = [w.steady for w in windows]
    why = next((w.steady_reason for w in windows if w.steady is None), "no measured segment was begun")
    net = rows[frame.net[rows]]
    failed = rows[~frame.net[rows]]
    good_requests, good_tokens = _goodput(frame, flow, rows, seconds(steady), why, slos)
    return Throughput(
        net_tokens_per_s=_net(flow, net, flow.steady, seconds(steady), why),
        net_tokens_per_s_run=_net(flow, net, flow.run, seconds([w.whole for w in windows]), "no time was measured"),
        goodput_requests_per_s=good_requests,
        goodput_tokens_per_s=good_tokens,
        wasted_tokens=int(flow.total[failed].sum()),
        wasted_uncounted_requests=int(flow.uncounted[failed].sum()),
        window_rule=WINDOW_RULE,
    )


def _net(flow: Flow, net: Ints, tokens: Floats, duration_s: float, why: str) -> N:
    if duration_s <= 0:
        return absent(why, len(net), CHUNK)
    rate = float(tokens[net].sum()) / duration_s
    uncounted = int(flow.uncounted[net].sum())
    if uncounted:
        reason = f"{uncounted} of {len(net)} requests have output that nobody counted: a lower bound only"
        return at_least(rate, reason, len(net), CHUNK)
    spread = float(flow.spread[net].sum())
    note = f"the arrival of {spread:.0f} tokens is inferred: no chunk told of them" if spread else None
    return exact(rate, len(net), CHUNK, note)


def _goodput(frame: Frame, flow: Flow, rows: Ints, duration_s: float, why: str, slos: Mapping[str, Any]) -> tuple[N, N]:
    limits = {name: float(limit) for name, limit in slos.items() if limit is not None}
    if not limits:
        none = absent("the scenario sets no SLO", source=CLIENT)
        return none, none
    if duration_s <= 0:
        nothing = absent(why, source=CLIENT)
        return nothing, nothing
    good = rows[met(frame, limits)[rows]]
    ended = int(flow.ended_steady[good].sum())
    tokens = float(flow.steady[good].sum())
    uncounted = int(flow.uncounted[good].sum())
    per_second = exact(tokens / duration_s, len(good), CLIENT)
    if uncounted:
        per_second = at_least(tokens / duration_s, f"{uncounted} requests have no token count", len(good), CLIENT)
    return exact(ended / duration_s, len(good), CLIENT), per_second


def met(frame: Frame, limits: Mapping[str, float]) -> Bools:
    """`ok` requests within every limit that applies to them.

    TTFT does not exist for non-streaming answers, TPOT not where no token followed the first chunk:
    such a limit does not apply. A number that should exist and is unknown is not met.
    """
    applies = {
        "ttft_s": frame.stream,
        "tpot_s": frame.stream & ~(frame.output_len <= frame.first_tokens),
        "total_time_s": np.ones(frame.n, dtype=np.bool_),
    }
    values = {"ttft_s": frame.ttft_s, "tpot_s": frame.tpot_s, "total_time_s": frame.total_time_s}
    good = frame.ok.copy()
    for name, limit in limits.items():
        good &= ~applies[name] | (values[name] <= limit)
    return good
