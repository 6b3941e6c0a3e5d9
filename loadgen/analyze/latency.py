"""Latency and streaming pace of a group (docs/method.md, "Per request" and "Percentiles").

Only `ok` requests; streaming and non-streaming never pooled. Second view of per-request numbers:
failed and drain-cut requests as +∞.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loadgen.analyze.columns import Floats, Ints, spans, taken
from loadgen.analyze.counters import Counters
from loadgen.analyze.frames import Frame
from loadgen.analyze.percentiles import SMALLEST_N_P5, Ordered, described, distribution, nearest_rank
from loadgen.analyze.summary import D, N, NonStream, Stream
from loadgen.analyze.values import CHUNK, CLIENT, COUNTERS, PER_REQUEST, absent, exact
from loadgen.drive import UNKNOWN_TOKENS

NO_STREAM = "no streaming request succeeded"
NO_BODY = "no non-streaming request succeeded"
#: Minutes of the chunk gap that its drift is judged by, and gaps that make a minute's median
MINUTES, MINUTE_GAPS = 3, 20
NO_COUNTS = "the server told no token counts per chunk"


def stream(frame: Frame, rows: Ints) -> Stream:
    mine = rows[frame.stream[rows]]
    why = NO_STREAM if not frame.ok[mine].any() else "not measured on any request"
    return Stream(
        ttft_s=_per_request(frame, mine, frame.ttft_s, why),
        ttft_answer_s=_per_request(frame, mine, frame.ttft_answer_s, why),
        ttft_from_due_s=_per_request(frame, mine, frame.ttft_from_due_s, why),
        total_time_s=_per_request(frame, mine, frame.total_time_s, why),
        total_time_from_due_s=_per_request(frame, mine, frame.total_time_from_due_s, why),
    )


def non_stream(frame: Frame, rows: Ints) -> NonStream:
    mine = rows[~frame.stream[rows]]
    return NonStream(
        total_time_s=_per_request(frame, mine, frame.total_time_s, NO_BODY),
        total_time_from_due_s=_per_request(frame, mine, frame.total_time_from_due_s, NO_BODY),
        generation_speed=speed(frame, mine, NO_BODY)[0],
    )


def tpot(frame: Frame, rows: Ints) -> D:
    mine = rows[frame.stream[rows]]
    why = "no streaming request gave more tokens than its first chunk held, with a known count"
    found = _per_request(frame, mine, frame.tpot_s, why)
    ok = mine[frame.ok[mine]]
    without = int(np.isnan(frame.tpot_s[ok]).sum())
    notes = dict(found.reasons)
    if without and found.n:
        notes["n"] = f"{without} ok requests have none: no token after the first chunk, or no token count"
    assumed = int((frame.first_tokens_assumed[ok] & ~np.isnan(frame.tpot_s[ok])).sum())
    if assumed:
        notes["first_tokens"] = f"{assumed} requests do not tell what their first chunk held: 1 token is assumed"
    return found.model_copy(update={"reasons": notes})


def _per_request(frame: Frame, rows: Ints, numbers: Floats, why: str) -> D:
    ok = rows[frame.ok[rows]]
    values = numbers[ok]
    failures = len(rows) - len(ok)
    return distribution(values[~np.isnan(values)], per="request", source=CLIENT, reason=why, failures=failures)


def stream_speed(frame: Frame, rows: Ints) -> tuple[D, N]:
    return speed(frame, rows[frame.stream[rows]], NO_STREAM)


def speed(frame: Frame, rows: Ints, why: str) -> tuple[D, N]:
    """Tokens per second of a request, and its P5: the slow end."""
    ok = rows[frame.ok[rows]]
    values = frame.speed[ok]
    values = values[~np.isnan(values)]
    reason = "no ok request has a token count and a total time" if len(ok) else why
    found = distribution(values, per="request", source=CLIENT, reason=reason, unit="tokens/s")
    if len(values) < SMALLEST_N_P5:
        return found, absent(f"needs at least {SMALLEST_N_P5} samples, there are {len(values)}", len(values), CLIENT)
    return found, exact(nearest_rank(np.sort(values), 5), len(values), CLIENT)


def pace(frame: Frame, rows: Ints) -> dict[str, Any]:
    """chunk_gap_s, token_latency_s, tokens_per_chunk, jitter, jitter_between_minutes: keywords of `G`."""
    streams = rows[frame.stream[rows] & frame.ok[rows]]
    arrivals = frame.ledgers.arrivals
    why = "no request had a second arrival" if len(streams) else NO_STREAM
    gaps = arrivals.gap_s.of(streams)
    gap = described(gaps, per="arrival", source=CHUNK, reason=why)
    latency = described(arrivals.token_latency_s.of(streams), per="token", source=CHUNK, reason=gap.reason or NO_COUNTS)
    return {
        "chunk_gap_s": gap,
        "token_latency_s": _with_unknown(latency, int(arrivals.uncounted[streams].sum()), "arrivals"),
        "tokens_per_chunk": _tokens_per_chunk(frame, streams),
        "jitter": _jitter(gap),
        "jitter_between_minutes": _between_minutes(gaps.minute_medians(MINUTE_GAPS), gap),
    }


def _tokens_per_chunk(frame: Frame, streams: Ints) -> D:
    tokens = taken(frame.ledgers.tokens, spans(frame.ledgers.offsets, streams))
    times = np.bincount(tokens[tokens != UNKNOWN_TOKENS])
    why = NO_COUNTS if len(tokens) else NO_STREAM
    counts = Ordered(np.arange(len(times), dtype=np.float64), times)
    found = described(counts, per="chunk", source=CHUNK, reason=why, unit="tokens")
    return _with_unknown(found, len(tokens) - found.n, "chunks")


def _with_unknown(found: D, unknown: int, what: str) -> D:
    if not unknown or not found.n:
        return found
    note = f"{unknown} {what} of unknown token count are not in it"
    return found.model_copy(update={"reasons": {**found.reasons, "n": note}})


def _jitter(gap: D) -> N:
    if gap.p50 is None or gap.p99 is None:
        return absent(gap.reason or f"P99 of the chunk gap {gap.reasons['p99']}", gap.n, CHUNK)
    if gap.p50 <= 0:
        return absent("the median chunk gap is 0", gap.n, CHUNK)
    return exact(gap.p99 / gap.p50, gap.n, CHUNK)


def _between_minutes(medians: Floats, gap: D) -> N:
    """Coefficient of variation of the per-minute medians: sample standard deviation ÷ mean."""
    n = len(medians)
    if n < MINUTES:
        why = f"needs at least {MINUTES} minutes of {MINUTE_GAPS} gaps each, there are {n}"
        return absent(gap.reason or why, n, CHUNK)
    if medians.mean() <= 0:
        return absent("the median chunk gap is 0", n, CHUNK)
    return exact(float(medians.std(ddof=1) / medians.mean()), n, CHUNK)


def server_times(frame: Frame, rows: Ints, counters: Counters | None, why: dict[str, str]) -> dict[str, D]:
    """The server's own times: per request, else the mean of its counters. Its time per output token is the
    per-token one of finished requests, never its gaps between output events (C16)."""
    ok = rows[frame.ok[rows]]
    none = np.full(frame.n, np.nan)
    columns = {
        "server_ttft_s": ("ttft", none),
        "server_tpot_s": ("tpot", none),
        "server_queue_s": ("queue", frame.queue_s),
        "server_prefill_s": ("prefill", frame.prefill_s),
        "server_decode_s": ("decode", frame.server_decode_s),
        "draft_time_s": ("draft", frame.draft_s),
        "verify_time_s": ("verify", frame.verify_s),
    }
    return {
        key: _server_time(numbers[ok], counter, counters, why.get(key, "the server does not tell it per request"))
        for key, (counter, numbers) in columns.items()
    }


def _server_time(values: Floats, name: str, counters: Counters | None, reason: str) -> D:
    values = values[~np.isnan(values)]
    if len(values) or counters is None:
        return distribution(values, per="request", source=PER_REQUEST, reason=reason)
    total, count = counters.get(f"{name}_sum"), counters.get(f"{name}_count")
    if total is None or not count:
        return distribution(values, per="request", source=PER_REQUEST, reason=reason)
    only_mean = dict.fromkeys(("p50", "p90", "p95", "p99", "max"), "counters give the mean only")
    return D(n=int(count), per="request", source=COUNTERS, mean=total / count, reasons=only_mean)
