"""Were the arms asked the same, with caches alike, on servers of their own? From the records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from loadgen.analyze.arms import ArmData, reference_of
from loadgen.analyze.columns import Bools, Floats, Ints, floats, ints, labels, strings
from loadgen.analyze.environment import declared_by, judged
from loadgen.analyze.environment_rules import CACHE_APART, FIRST_LINE_TOKENS, FOREIGN_SHARE
from loadgen.analyze.frames import MEASURE
from loadgen.analyze.reconcile import NOT_IDLE
from loadgen.analyze.summary import CacheHits, Difference, Equality, N, PromptMismatch, PromptTokens, Reconciliation
from loadgen.analyze.values import COUNTERS, PER_REQUEST, absent, exact, ratio
from loadgen.analyze.windows import SegmentWindow
from loadgen.record import RunData

EXAMPLES = 5


def equality(run: RunData, arms: Mapping[str, ArmData], reconciliation: Sequence[Reconciliation]) -> Equality:
    return Equality(
        prompt_tokens=prompt_token_mismatches(run),
        cache_hits=[hits for name, data in arms.items() for hits in _cache_hits(name, data)],
        foreign_share={name: _foreign(name, reconciliation) for name in arms},
    )


def equality_differences(run: RunData, found: Equality) -> list[Difference]:
    """What of it keeps a verdict from being reached."""
    declared = declared_by(run.manifest.scenario)
    return [*_unequal_prompts(found, declared), *_unequal_caches(run, found, declared), *_not_ours(found, declared)]


def prompt_token_mismatches(run: RunData) -> list[PromptTokens]:
    """Prompt tokens of every arm against the baseline's, case by case (same stage and case), measured requests only.

    Where the same text is not the same number of tokens, template or tokenizer differ.
    """
    names = list(run.manifest.arms)
    base = reference_of(run)
    wanted = np.asarray(strings(run.requests, "phase") == MEASURE, dtype=np.bool_)
    table = run.requests.filter(wanted)
    arm, length = strings(table, "arm"), floats(table, "input_len")
    codes = labels(table, "case_id")
    keys = ints(table, "stage_index")[0] * (int(codes.max(initial=0)) + 1) + codes
    told = ~np.isnan(length)
    same = _same_text(run)
    cases = strings(table, "case_id"), strings(table, "stage")
    rows = {name: np.flatnonzero(np.asarray(arm == name, dtype=np.bool_) & told) for name in names}
    return [_pair(name, base, rows, keys, length, cases, same=same) for name in names if name != base]


def _same_text(run: RunData) -> bool:
    """False where some prompts carry a unique first line, because their server takes no cache salt."""
    workload = run.manifest.scenario.get("workload") or {}
    salted = [facts.capabilities.get("cache_salt") for facts in run.manifest.arms.values()]
    return workload.get("cache", "cold") != "cold" or all(salted)


def _pair(
    name: str, base: str, rows: Mapping[str, Ints], keys: Ints, length: Floats, cases: tuple[Any, Any], *, same: bool
) -> PromptTokens:
    first, at = np.unique(keys[rows[base]], return_index=True)
    mine = rows[name]
    place = np.searchsorted(first, keys[mine])
    both = np.zeros(len(mine), dtype=np.bool_)
    inside = place < len(first)
    both[inside] = first[place[inside]] == keys[mine[inside]]
    mine, other = mine[both], rows[base][at[place[both]]] if both.any() else np.zeros(0, np.int64)
    if not len(mine):
        reason = f"no case has a prompt token count both in {name} and in {base}"
        return PromptTokens(arm=name, baseline=base, cases=0, mismatched=0, same_text=same, reason=reason)
    apart = length[mine] - length[other]
    bad = np.flatnonzero(apart != 0)
    _, once = np.unique(keys[mine[bad]], return_index=True)
    examples = [
        PromptMismatch(case_id=str(cases[0][mine[i]]), stage=str(cases[1][mine[i]]), baseline=int(length[other[i]]),
                       arm=int(length[mine[i]]))
        for i in bad[np.sort(once)[:EXAMPLES]]
    ]  # fmt: skip
    return PromptTokens(
        arm=name, baseline=base, cases=len(np.unique(keys[mine])), mismatched=len(once), same_text=same,
        median_difference=float(np.median(apart)), examples=examples,
    )  # fmt: skip


def _unequal_prompts(found: Equality, declared: Mapping[str, Sequence[str]]) -> Iterator[Difference]:
    for pair in found.prompt_tokens:
        apart = pair.median_difference or 0.0
        if not pair.mismatched or (not pair.same_text and abs(apart) <= FIRST_LINE_TOKENS):
            continue
        example = pair.examples[0]
        text = (
            f"{pair.mismatched} of {pair.cases} cases have another number of prompt tokens in {pair.arm} than in "
            f"{pair.baseline}, such as {example.arm} for {example.baseline}: template, tokenizer or text differ"
        )
        values = {pair.baseline: example.baseline, pair.arm: example.arm}
        yield judged("requests.prompt_tokens", values, [pair.arm], declared, text)


def _cache_hits(name: str, data: ArmData) -> Iterator[CacheHits]:
    """Prompt tokens found in the prefix cache, of those asked for, of each stage and repeat (H13: it bends a sweep)."""
    frame = data.frame
    places = {(w.phase.stage_index, w.phase.repeat_idx): w.phase.stage for w in data.windows}
    for (stage_index, repeat), stage in sorted(places.items()):
        windows = [w for w in data.windows if (w.phase.stage_index, w.phase.repeat_idx) == (stage_index, repeat)]
        share = _counted(windows)
        if isinstance(share, str):
            rows = (frame.stage_index == stage_index) & (frame.repeat_idx == repeat)
            share = _told(frame.cached_tokens, frame.input_len, rows, share)
        yield CacheHits(arm=name, stage=stage, repeat_idx=repeat, share=share)


def _counted(windows: Sequence[SegmentWindow]) -> N | str:
    """Why not, where a window's counters are not whole or do not hold it."""
    for window in windows:
        counters = window.counters
        if counters.incomplete or counters.restarts:
            doubts = "; ".join(counters.incomplete) or f"{counters.restarts} restarts inside the window"
            return f"the counters of segment {window.phase.segment} are not whole ({doubts})"
        for name in ("prefix_cache_queries", "prefix_cache_hits"):
            if name not in counters.deltas:
                return f"the counters do not hold {name} ({counters.absent.get(name, 'not on the page')})"
    hits, asked = (
        sum(w.counters.deltas[name] for w in windows) for name in ("prefix_cache_hits", "prefix_cache_queries")
    )
    if asked <= 0:
        return "the server counted no prompt token"
    return exact(hits / asked, int(asked), COUNTERS)


def _told(cached: Floats, asked: Floats, rows: Bools, uncounted: str) -> N:
    told = rows & ~np.isnan(cached) & (asked > 0)
    if not told.any():
        return absent(f"{uncounted}, and the responses do not tell cached tokens")
    return ratio(float(cached[told].sum()), float(asked[told].sum()), PER_REQUEST, "no prompt tokens")


def _unequal_caches(run: RunData, found: Equality, declared: Mapping[str, Sequence[str]]) -> Iterator[Difference]:
    """The stage and repeat in which the arms' shares are furthest apart."""
    cache = (run.manifest.scenario.get("workload") or {}).get("cache", "cold")
    limit = CACHE_APART[cache if cache in CACHE_APART else "cold"]
    shares: dict[tuple[str, int], dict[str, float]] = {}
    for hits in found.cache_hits:
        if hits.share.value is not None:
            shares.setdefault((hits.stage, hits.repeat_idx), {})[hits.arm] = hits.share.value
    apart = {place: max(told.values()) - min(told.values()) for place, told in shares.items()}
    place = max(apart, key=lambda p: apart[p], default=None)
    if place is None or apart[place] <= limit:
        return
    worst, (stage, repeat) = shares[place], place
    warm = max(worst, key=lambda name: worst[name])
    told = ", ".join(f"{name} {share:.1%}" for name, share in worst.items())
    text = (
        f"in {stage}, repeat {repeat}, the prefix cache held {told} of the prompt tokens, more than {limit:.0%} apart: "
        f"the cache of {warm} was warm"
    )
    yield judged("requests.cache_hit_share", worst, [warm], declared, text)


def _foreign(name: str, reconciliation: Sequence[Reconciliation]) -> N:
    """The server's output tokens that are not ours, of all it made in the measured windows."""
    rows = [r for r in reconciliation if r.arm == name and r.name == "output_tokens"]
    usable = [r for r in rows if r.ok is not None or r.note == NOT_IDLE]
    pairs = [
        (r.server - r.client - r.tolerance, r.server) for r in usable if r.server is not None and r.client is not None
    ]
    if not pairs:
        return absent("the server's tokens of no window could be counted")
    note = f"{len(rows) - len(pairs)} of {len(rows)} windows could not be counted" if len(rows) > len(pairs) else None
    more, made = sum(max(0.0, m) for m, _ in pairs), sum(s for _, s in pairs)
    return ratio(more, made, COUNTERS, "the server made no token", note=note)


def _not_ours(found: Equality, declared: Mapping[str, Sequence[str]]) -> Iterator[Difference]:
    values = {name: share.value for name, share in found.foreign_share.items()}
    for name, value in values.items():
        if not value:
            continue
        text = f"{value:.1%} of the tokens that {name} made in the measured windows were not for us"
        if value > FOREIGN_SHARE:
            yield judged("load.foreign", values, [name], declared, f"{text}: others used the server")
        else:
            yield Difference(key="load.foreign", values=values, rule="noted", text=text)
