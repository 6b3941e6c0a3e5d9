"""E / c between two arms, stage by stage (docs/method.md, "Where the time goes").

mean TPOT_baseline / mean TPOT_candidate = E / c, an identity of pooled means: TPOT is Σ decode time ÷
Σ decode tokens, E the ratio of the arms' tokens per decode step, c that of their mean step times, all of the same
cases: those with a decode time in both arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from loadgen.analyze.arms import ArmData
from loadgen.analyze.columns import Ints
from loadgen.analyze.conditions import running_mean
from loadgen.analyze.groups import Group, stage_groups
from loadgen.analyze.spec_counts import Steps, from_chunks
from loadgen.analyze.speculation import decode_steps
from loadgen.analyze.summary import Decomposition, N
from loadgen.analyze.values import absent, exact

#: Running batches further apart than this are not like for like
ALIKE = 1.10
#: Scrapes of the running batch below which nothing is said of it
LOOKS = 5


def decompose(
    arms: Mapping[str, ArmData], baseline: str | None, net: Mapping[tuple[str, str], N]
) -> list[Decomposition]:
    """One entry for each stage both arms have, each arm beside the baseline. `net`: net tokens/s by (arm, stage)."""
    if baseline is None or baseline not in arms:
        return []
    base = {g.windows[0].phase.stage_index: g for g in _stages(arms[baseline])}
    found = []
    for name, data in arms.items():
        if name == baseline:
            continue
        for group in _stages(data):
            other = base.get(group.windows[0].phase.stage_index)
            if other is not None:
                found.append(pair_of((name, data, group), (baseline, arms[baseline], other), net))
    return found


def _stages(data: ArmData) -> Sequence[Group]:
    return list(stage_groups(data.frame, data.windows))


Side = tuple[str, ArmData, Group]


def pair_of(candidate: Side, baseline: Side, net: Mapping[tuple[str, str], N]) -> Decomposition:
    runs = running_mean(candidate[2].windows), running_mean(baseline[2].windows)
    whole = candidate, baseline
    candidate, baseline = _same_cases(*whole)
    speedup = _speedup(candidate, baseline)
    e = _e_ratio((candidate, baseline), whole)
    c = _cost(e, speedup)
    alike = _alike(runs[0], runs[1])
    return Decomposition(
        stage=candidate[2].stage or "",
        concurrency=candidate[2].concurrency,
        candidate=candidate[0],
        baseline=baseline[0],
        e_decode=e,
        c=c,
        speedup_decode=speedup,
        net_throughput_ratio=_net_ratio(*(net.get((s[0], s[2].stage or "")) for s in (candidate, baseline))),
        baseline_running=runs[1],
        candidate_running=runs[0],
        like_for_like=alike,
        sentence=_sentence(e, c, speedup, baseline[1].setting.plain, alike, runs),
    )


def _pooled(side: Side) -> tuple[float, float, int]:
    """(Σ decode seconds, Σ decode tokens, requests) of the stage's ok streams."""
    frame, rows = side[1].frame, side[2].rows
    mine = rows[frame.ok[rows] & ~np.isnan(frame.decode_s[rows])]
    return float(frame.decode_s[mine].sum()), float(frame.decode_tokens[mine].sum()), len(mine)


def _speedup(candidate: Side, baseline: Side) -> N:
    (time_c, tokens_c, n_c), (time_b, tokens_b, n_b) = _pooled(candidate), _pooled(baseline)
    for (name, _, _), n in ((candidate, n_c), (baseline, n_b)):
        if n == 0:
            return absent(f"no ok stream of {name} has a decode time and a token count")
    return exact((time_b / tokens_b) / (time_c / tokens_c), min(n_c, n_b), "chunk")


def _same_cases(candidate: Side, baseline: Side) -> tuple[Side, Side]:
    """Of a stage: the rows of the cases (repeat and number in the stage) with a decode time in both arms. Arms that
    have no case in common (runs of different plans) keep theirs."""
    (mine, my_case), (theirs, their_case) = _ok(candidate), _ok(baseline)
    if not np.isin(my_case, their_case).any():
        return candidate, baseline
    my_timed = my_case[~np.isnan(candidate[1].frame.decode_s[mine])]
    their_timed = their_case[~np.isnan(baseline[1].frame.decode_s[theirs])]
    both = my_timed[np.isin(my_timed, their_timed)]
    return (
        (*candidate[:2], replace(candidate[2], rows=mine[np.isin(my_case, both)])),
        (*baseline[:2], replace(baseline[2], rows=theirs[np.isin(their_case, both)])),
    )


def _ok(side: Side) -> tuple[Ints, Ints]:
    """Its ok rows, and which case of its stage each is."""
    frame, rows = side[1].frame, side[2].rows
    ok = rows[frame.ok[rows]]
    return ok, (frame.repeat_idx[ok] << 32) + frame.seq[ok]


def _e_ratio(pair: tuple[Side, Side], whole: tuple[Side, Side]) -> N:
    """Both arms' steps from the same kind of source where both have it. `whole`: with the cases that `pair` leaves out,
    where nothing tells the steps without them."""
    steps = _steps(pair)
    if any(isinstance(found, str) for found in steps):
        steps = _steps(whole)
    for (name, _, _), found in zip(pair, steps, strict=True):
        if isinstance(found, str):
            return absent(f"{name}: {found}")
        if found.steps <= 0 or found.tokens <= 0:
            return absent(f"{name}: no decode step", source=found.source)
    one, other = (s for s in steps if isinstance(s, Steps))
    source = one.source if one.source == other.source else f"{one.source}; {other.source}"
    notes = "; ".join(s.note for s in (one, other) if s.note)
    return exact((one.tokens / one.steps) / (other.tokens / other.steps), int(one.steps), source, notes or None)


def _steps(pair: tuple[Side, Side]) -> list[Steps | str]:
    found = [decode_steps(data.frame, group, data.setting) for _, data, group in pair]
    if len({steps.source for steps in found if isinstance(steps, Steps)}) > 1:
        chunks = [from_chunks(d.frame, g.rows, d.setting.facts.chunk_unit, d.setting.k) for _, d, g in pair]
        return found if any(isinstance(steps, str) for steps in chunks) else chunks
    return found


def _cost(e: N, speedup: N) -> N:
    if e.value is None or speedup.value is None:
        return absent(e.reason if e.value is None and e.reason else speedup.reason or "E is not known", source=e.source)
    return exact(e.value / speedup.value, e.n, e.source, e.reason)


def _net_ratio(candidate: N | None, baseline: N | None) -> N:
    if candidate is None or baseline is None or candidate.value is None or not baseline.value:
        reason = next((n.reason for n in (candidate, baseline) if n is not None and n.value is None), None)
        return absent(reason or "an arm has no net throughput at this stage")
    return exact(candidate.value / baseline.value, min(candidate.n, baseline.n), candidate.source)


def _alike(one: N, other: N) -> bool | None:
    """None where the batches are not known well enough to say."""
    if one.value is None or other.value is None or min(one.value, other.value) <= 0 or min(one.n, other.n) < LOOKS:
        return None
    return max(one.value, other.value) / min(one.value, other.value) <= ALIKE


def _sentence(e: N, c: N, speedup: N, plain: bool, alike: bool | None, runs: tuple[N, N]) -> str:
    """`plain`: the baseline's steps have one token each, so E is a number of tokens and not only a multiple."""
    if speedup.value is None:
        return f"Decoding cannot be compared: {speedup.reason}."
    pace = f"decoding is {speedup.value:.2f}× {'faster' if speedup.value >= 1 else 'as fast: slower'}"
    if e.value is None or c.value is None:
        text = f"{pace[0].upper()}{pace[1:]}; E and c are not known: {e.reason}."
    else:
        tokens = f"{e.value:.2f} tokens per step" if plain else f"{e.value:.2f}× the tokens per step"
        text = f"{tokens}, a step costs {c.value:.2f}× {'a plain one' if plain else 'as much'}, so {pace}."
    if alike is False:
        text += f" Not like for like: {runs[0].value:.1f} requests ran at once, {runs[1].value:.1f} in the baseline."
    elif alike is None:
        text += f" Whether both ran equal batches is not known ({min(r.n for r in runs)} scrapes inside)."
    return text
