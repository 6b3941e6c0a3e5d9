"""Rounds and counts that distort acceptance, as sentences "code: what was seen" (docs/method.md, "Flags")."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.groups import Group
from loadgen.analyze.spec_counts import Drafts, merged

#: Rounds without acceptance that are no chance any more
RUN_OF_REJECTIONS = 5
#: E_verified below this with so many rounds: drafting gains nothing (D19)
E_ONE, E_ONE_ROUNDS = 1.05, 20
#: α above this over so many drafted tokens: a loop in the output, or the target drafts for itself (D29)
ALPHA_ONE, ALPHA_ONE_DRAFTED = 0.98, 200


def flags(
    frame: Frame, group: Group, drafts: Drafts | None, speculation: bool | None, k: int | None, max_len: int | None
) -> list[str]:
    rows = group.rows[frame.ok[group.rows]]
    told = rows[frame.stats.told[rows]]
    found = [
        _flat_counters(frame, group, speculation),
        _merged(frame, rows, k),
        _phantom(frame, told),
        _zero_length(frame, told),
        _beyond_limit(frame, told, k, max_len),
        _too_long_for_drafter(frame, told),
        _identities(frame, told),
        *(_extremes(drafts) if drafts is not None else ()),
    ]
    return [flag for flag in found if flag is not None]


def _flat_counters(frame: Frame, group: Group, speculation: bool | None) -> str | None:
    """Speculation is on, tokens flow, and the counters do not move (D10)."""
    counters = group.counters
    if counters is None or not speculation or counters.get("drafts") != 0:
        return None
    tokens = float(np.nansum(frame.output_len[group.rows]))
    if tokens <= 0:
        return None
    drafted = float(np.nansum(frame.stats.drafted[group.rows]))
    if drafted > 0:
        why = f"the responses tell of {drafted:.0f} drafted tokens: other metrics page, or statistics disabled"
    else:
        why = "statistics disabled (--disable-log-stats), another server's page, or the drafter never proposes"
    return f"counters_flat: speculation is on and {tokens:.0f} tokens came, but no draft was counted; {why}"


def _merged(frame: Frame, rows: Ints, k: int | None) -> str | None:
    n = int(merged(frame, k)[rows].sum())
    return f"server_merged_chunks: {n} of {len(rows)} requests have chunks of several steps" if n else None


def _phantom(frame: Frame, told: Ints) -> str | None:
    """First round k drafted, 0 accepted, all but the last prompt token cached: placeholders, not drafts."""
    stats, first = frame.stats, frame.stats.by_round
    cached = told[frame.cached_tokens[told] >= np.maximum(frame.input_len[told] - 1, 1)]
    n = int(((first.first_drafted[cached] == stats.k[cached]) & (first.first_accepted[cached] == 0)).sum())
    if n:
        return f"phantom_rounds: {n} requests with the whole prompt cached begin with a wholly rejected round"
    summary = cached[~first.told[cached]]
    histogram = stats.histogram
    summary = summary[histogram.counts[summary] > 0]
    maybe = int((histogram.values[histogram.offsets[summary]] > 0).sum())
    if maybe:
        return f"phantom_rounds_possible: {maybe} requests had the whole prompt cached; per-round data would tell"
    return None


def _zero_length(frame: Frame, told: Ints) -> str | None:
    n = int(frame.stats.by_round.zero_length[told].sum())
    return f"zero_length_rounds: {n} rounds were counted without a draft token" if n else None


def _beyond_limit(frame: Frame, told: Ints, k: int | None, max_len: int | None) -> str | None:
    """Streams that end at the context limit with a run of rejected rounds: the drafter no longer fits."""
    if max_len is None or k is None:
        return None
    full = told[frame.input_len[told] + frame.output_len[told] >= max_len - k]
    n = int((frame.stats.by_round.nothing_at_end[full] >= RUN_OF_REJECTIONS).sum())
    if not n:
        return None
    return f"beyond_drafter: {n} requests reach the context limit of {max_len} tokens, their last rounds all rejected"


def _too_long_for_drafter(frame: Frame, told: Ints) -> str | None:
    """Prompts longer than every prompt with an accepted token, all of whose rounds are rejected."""
    stats = frame.stats
    some = told[stats.accepted[told] > 0]
    none = told[(stats.accepted[told] == 0) & (stats.rounds[told] >= RUN_OF_REJECTIONS)]
    if not len(some) or not len(none) or np.isnan(frame.input_len[told]).any():
        return None
    longest = float(frame.input_len[some].max())
    n = int((frame.input_len[none] > longest).sum())
    if not n:
        return None
    return f"beyond_drafter: all {n} requests with prompts beyond {longest:.0f} tokens had every draft rejected"


def _identities(frame: Frame, told: Ints) -> str | None:
    """Per request: Σh = D, Σ j·h_j = A, A ≤ T ≤ kD (D14, D16)."""
    stats = frame.stats
    histogram = stats.histogram
    rounds, accepted, drafted = stats.rounds[told], stats.accepted[told], stats.drafted[told]
    wrong = (accepted > drafted) | (drafted > stats.k[told] * rounds)
    with_histogram = histogram.counts[told] > 0
    sums = histogram.sums()[told]
    weighted = type(histogram)(histogram.values * histogram.place, histogram.offsets).sums()[told]
    wrong |= with_histogram & ((sums != rounds) | (weighted != accepted))
    n = int(wrong.sum())
    return f"identity_failed: the statistics of {n} of {len(told)} requests contradict themselves" if n else None


def _extremes(drafts: Drafts) -> list[str]:
    found = []
    if drafts.rounds >= E_ONE_ROUNDS and drafts.accepted <= (E_ONE - 1) * drafts.rounds:
        e = 1 + drafts.accepted / drafts.rounds
        found.append(f"no_acceptance: {e:.3f} tokens per verification in {drafts.rounds:.0f} rounds")
    drafted = drafts.drafted or 0.0
    if drafted >= ALPHA_ONE_DRAFTED and drafts.accepted >= ALPHA_ONE * drafted:
        found.append(
            f"acceptance_near_one: {drafts.accepted:.0f} of {drafted:.0f} drafts accepted: "
            "a repetition loop, or the target drafts for itself"
        )
    return found
