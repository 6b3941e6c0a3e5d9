"""What a drill comes to: what failed, and what could not be seen (docs/drill.md, "The verdict")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loadgen.analyze.drill.lateness import proven
from loadgen.analyze.found.drill import DrillPull, Losses, Settled
from loadgen.analyze.summary import N

#: So many requests must have gone to the fallback after the last one that did not, or it may not have been the last.
LEAST_AFTER = 5
#: Share of the planned load after a pull from which on it counts as whole.
WHOLE = 0.8
#: From this share of it on, of time or of requests, it is the end of the load after a pull.
AT_THE_END = 0.95
#: Limits by the direction they are about.
_OFF, _ON = ("last_routed_s", "last_token_s"), ("acceptance_s",)


def failures(pulls: Sequence[DrillPull], limits: Mapping[str, float], planned_s: Mapping[str, float]) -> Iterator[str]:
    """Sentences, worst first. `planned_s`: load after a pull of each direction; one that was cut short says nothing of
    who had not moved yet."""
    yield from (f"{_name(p)} failed: {p.said}" for p in pulls if not p.ok)
    yield from (_lost(p) for p in pulls if p.losses.lost)
    for pull in pulls:
        if pull.until_s >= WHOLE * planned_s[pull.direction]:
            yield from _not_moved(pull)
    for pull in pulls:
        for key, value, limit in _limited(pull, limits):
            least = value.value if value.value is not None else value.low
            if least is not None and least > limit:
                yield f"{_name(pull)}: {key} {_seconds(value)} is above its limit of {limit:g} s"
        if "baseline_s" in limits:
            yield from (_late(pull, one) for one in pull.settled if proven(one.late))


def unseen(pulls: Sequence[DrillPull], limits: Mapping[str, float]) -> Iterator[str]:
    """Why it cannot be a pass, where nothing failed."""
    for pull in pulls:
        yield from _off_unseen(pull) if pull.direction == "off" else _on_unseen(pull)
        yield from _may_be_lost(pull)
        for key, value, limit in _limited(pull, limits):
            most = value.value if value.value is not None else value.high
            if most is None:
                least = "" if value.low is None else f"at least {value.low:.3g} s: "
                yield f"{_name(pull)}: {key} is not known: {least}{value.reason}"
            elif most > limit and (value.value is None and (value.low or 0.0) <= limit):
                yield f"{_name(pull)}: {key} {_seconds(value)}: it is not known on which side of {limit:g} s"
        if pull.direction == "off" and "baseline_s" in limits:
            yield from _unsettled(pull, limits["baseline_s"])


def _off_unseen(pull: DrillPull) -> Iterator[str]:
    """Where no server of a request is known, the end of rounds shows that speculation ended."""
    routed = pull.last_routed_s
    if routed is None or unbounded(routed):
        why = None if routed is None else routed.reason
        if unbounded(pull.last_round_s):
            yield f"{_name(pull)}: it cannot be seen when the last request was routed there: {why}"
    elif routed.value is not None and pull.routed.fallback_after_last < LEAST_AFTER and not list(_not_moved(pull)):
        followed = pull.routed.fallback_after_last
        yield f"{_name(pull)}: too few requests followed ({followed}) to know that it was the last"
    if all(one.at_s.value is None for one in pull.settled):
        reasons = "; ".join(dict.fromkeys(one.at_s.reason or "" for one in pull.settled))
        yield f"{_name(pull)}: it cannot be seen when latency was back at the fallback's level: {reasons}"


def unbounded(n: N | None) -> bool:
    """Neither a value nor an upper bound."""
    return n is None or (n.value is None and n.high is None)


def _may_be_lost(pull: DrillPull) -> Iterator[str]:
    """None may be lost, and it is not known that none was."""
    losses = pull.losses
    if losses.client_faults:
        yield f"{_name(pull)}: {losses.client_faults} requests failed on this machine: they may hide a loss"
    if losses.aborted:
        yield (
            f"{_name(pull)}: {losses.aborted} requests were cut by our own drain: whether they were answered is not "
            f"known, so {losses.lost} to {losses.lost_most} are lost"
        )


def _unsettled(pull: DrillPull, limit: float) -> Iterator[str]:
    """Neither back in time by its windows, nor proven to be late."""
    for one in pull.settled:
        at, name = one.at_s, f"baseline_s ({_word(one)})"
        if proven(one.late):
            continue
        if at.value is None:
            yield f"{_name(pull)}: {name} is not known: {at.reason}"
        elif at.high is None or at.high > limit:
            back = f"between {at.value:.3g} and {at.high:.3g} s" if at.high is not None else f"{at.value:.3g} s"
            yield f"{_name(pull)}: {name} {back} is not in time, and not proven to be late: {_chance(one)}"


def _chance(one: Settled) -> str:
    late = one.late
    if late is None or late.p is None:
        return "not tested" if late is None or late.reason is None else late.reason
    return f"chance gives what came after {late.after_s:g} s, too (p = {late.p:.2g})"


def _late(pull: DrillPull, one: Settled) -> str:
    late = one.late
    assert late is not None
    return (
        f"{_name(pull)}: {_word(one)} was still above the fallback's level after baseline_s = {late.after_s:g} s: "
        f"median {late.median:.3g} s of the next {late.n} requests, not {one.median:.3g} s (p = {late.p:.1g} in all "
        "tests of the drill)"
    )


def _word(one: Settled) -> str:
    return one.metric.removesuffix("_s").upper()


def _on_unseen(pull: DrillPull) -> Iterator[str]:
    seen = pull.acceptance_s
    if (seen is None or seen.high is None) and not _stayed_off(pull):
        yield f"{_name(pull)}: accepted tokens were not seen again: {None if seen is None else seen.reason}"


def _not_moved(pull: DrillPull) -> Iterator[str]:
    routed = pull.routed
    known = routed.speculating + routed.fallback
    if pull.direction == "off" and routed.speculating:
        if _to_the_end(pull):
            yield (
                f"{_name(pull)} moved nobody: all {routed.speculating} requests of known server that were sent in the "
                f"{pull.until_s:.3g} s after it were answered by the speculating side"
                if not routed.fallback
                else f"{_name(pull)} did not move everybody within {pull.until_s:.3g} s: {routed.speculating} of "
                f"{known} requests sent after it were answered by the speculating side, the last of them at the very "
                "end"
            )
    elif pull.direction == "off" and _still_drafting(pull):
        yield f"{_name(pull)}: the speculating servers went on drafting to the end ({pull.until_s:.3g} s after it)"
    elif pull.direction == "on" and _stayed_off(pull):
        yield f"{_name(pull)} brought nobody back: all {known} requests sent after it were answered by the fallback"


def _to_the_end(pull: DrillPull) -> bool:
    """Nobody is known to have gone to the fallback after the last one of the speculating side, and that was, as far as
    answers tell, at the very end."""
    routed = pull.routed
    told = routed.speculating + routed.fallback + routed.unknown
    return not routed.fallback_after_last and routed.unknown_after_last <= (1 - AT_THE_END) * told


def _still_drafting(pull: DrillPull) -> bool:
    """By counters alone: rounds were seen in the last scrape before the end."""
    last = pull.last_round_s
    known = pull.routed.speculating + pull.routed.fallback
    return not known and last is not None and last.high is not None and last.high >= AT_THE_END * pull.until_s > 0


def _stayed_off(pull: DrillPull) -> bool:
    return not pull.routed.speculating and pull.routed.fallback >= LEAST_AFTER


def _limited(pull: DrillPull, limits: Mapping[str, float]) -> Iterator[tuple[str, N, float]]:
    for key in _OFF if pull.direction == "off" else _ON:
        value: N | None = getattr(pull, key)
        if key in limits and value is not None:
            yield key, value, limits[key]


def _lost(pull: DrillPull) -> str:
    found: Losses = pull.losses
    kinds = ", ".join(f"{name} {n}" for name, n in found.by_outcome.items())
    text = f"{_name(pull)}: {found.lost} of {found.ended} requests were lost ({kinds}), the first {found.first_s:.2f} s"
    text += f" after it, {found.cut} of them with tokens already delivered"
    if found.lost_before:
        text += f"; {found.lost_before} of {found.before} had failed before the first pull, too"
    return f"{text}; {found.examples[0]}" if found.examples else text


def _seconds(value: N) -> str:
    """At least one bound is known."""
    if value.value is not None:
        return f"{value.value:.3g} s"
    if value.low is None or value.high is None:
        return f"at most {value.high:.3g} s" if value.low is None else f"at least {value.low:.3g} s"
    return f"between {value.low:.3g} and {value.high:.3g} s"


def _name(pull: DrillPull) -> str:
    return f"switch {pull.direction} (pull {pull.number + 1})"
