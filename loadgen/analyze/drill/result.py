"""A drill's run directory to what it has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from loadgen.analyze.arms import arm_data
from loadgen.analyze.conditions import of_run
from loadgen.analyze.drill.counters import watched
from loadgen.analyze.drill.course import course_of
from loadgen.analyze.drill.judging import failures, unbounded, unseen
from loadgen.analyze.drill.lateness import adjusted
from loadgen.analyze.drill.pulls import pull_found
from loadgen.analyze.drill.rows import rows_of, sides_of, without_straddlers
from loadgen.analyze.drill.seen import Pull, Seen
from loadgen.analyze.found.base import State
from loadgen.analyze.found.drill import DrillPull, DrillResult
from loadgen.analyze.summary import Finding
from loadgen.analyze.validity import validity
from loadgen.record import Event, PhaseRecord, RunData

MOST_NAMES = 20


def drill_of(run: RunData) -> DrillResult:
    """Pure. A run that was cut short keeps the pulls that were made, and is no pass."""
    keys: Mapping[str, Any] = run.manifest.scenario.get("drill") or {}
    phase = next((p for p in run.phases if p.phase == "measure"), None)
    pulls = _pulls(run, phase)
    limits = {key: float(value) for key, value in (keys.get("limits") or {}).items() if value is not None}
    seen = replace(_seen(run, keys, phase, pulls), baseline_s=limits.get("baseline_s"))
    found = adjusted([pull_found(seen, pull) for pull in pulls])
    planned_s = {"off": float(keys.get("after_s") or 0.0), "on": float(keys.get("back_s") or 0.0)}
    invalid = _invalid(run)
    judged = {} if invalid else limits
    failed = list(failures(found, judged, planned_s))
    open_ = [*_cut_short(run, keys, pulls), *invalid, *unseen(found, judged)]
    state: State = "fail" if failed else "inconclusive" if open_ else "pass"
    return DrillResult(
        run_id=run.manifest.run_id,
        state=state,
        reasons=[*failed, *open_],
        findings=list(_findings(found)),
        conditions=of_run(run),
        known_by=seen.sides.known_by,
        known_note=seen.sides.note,
        pulls=found,
        limits=limits,
        course=course_of(seen, pulls[-1].until_ns if pulls else seen.begin_ns),
        served_by=dict(Counter(str(s) for s in seen.rows.served_by if s is not None).most_common(MOST_NAMES)),
    )


def _pulls(run: RunData, phase: PhaseRecord | None) -> list[Pull]:
    made = [event for event in run.events if event.name == "pulled"]
    if not made:
        return []
    end_ns = _load_end(run, phase)
    ends = [*(after.at_ns for _, after in pairwise(made)), max(end_ns, made[-1].at_ns)]
    return [
        _pull(event, until_ns, last=i == len(made) - 1)
        for i, (event, until_ns) in enumerate(zip(made, ends, strict=True))
    ]


def _pull(event: Event, until_ns: int, *, last: bool) -> Pull:
    data = event.data
    return Pull(
        data["number"], data["direction"], event.at_ns, until_ns, last, data["took_s"], data["ok"], data["said"]
    )  # fmt: skip


def _load_end(run: RunData, phase: PhaseRecord | None) -> int:
    """Of a run that was killed: its last request."""
    if phase is not None and phase.load_end_ns is not None:
        return phase.load_end_ns
    rows = rows_of(run.requests)
    return int(rows.begin_ns[-1]) if len(rows) else 0


def _seen(run: RunData, keys: Mapping[str, Any], phase: PhaseRecord | None, pulls: Sequence[Pull]) -> Seen:
    rows = rows_of(run.requests)
    sources = next((event.data for event in run.events if event.name == "drill_servers"), {})
    model = next((arm.model for arm in run.manifest.arms.values()), "")
    speculating = watched(run.scrapes, sources.get("speculating", ()), model)
    first_ns = pulls[0].at_ns if pulls else 0
    begin_ns = phase.started_ns if phase is not None else int(rows.begin_ns[0]) if len(rows) else 0
    ours, theirs = (keys.get(side) or {} for side in ("speculating", "fallback"))
    names = ours.get("served_by") or (), theirs.get("served_by") or ()
    apart = bool(theirs.get("metrics_urls") or theirs.get("served_by"))
    sides = sides_of(rows, *names, first_ns, speculating.any)
    if sides.known_by == "statistics" and not apart:
        sides = without_straddlers(sides, rows, [pull.at_ns for pull in pulls if pull.direction == "on"])
    return Seen(
        rows=rows,
        sides=sides,
        speculating=speculating,
        apart=apart,
        window=int(keys.get("window_requests") or 10),
        begin_ns=begin_ns,
        first_pull_ns=first_ns,
    )


def _cut_short(run: RunData, keys: Mapping[str, Any], pulls: Sequence[Pull]) -> Iterator[str]:
    there_and_back = 1 if (keys.get("switch") or {}).get("on") is None else 2
    planned = int(keys.get("pulls") or 1) * there_and_back
    done = sum(pull.number < (keys.get("pulls") or 1) for pull in pulls)
    if done < planned:
        yield f"the drill was cut short: {done} of {planned} pulls were made"
    if run.manifest.state != "finished":
        why = f": {run.manifest.stop_reason}" if run.manifest.stop_reason else ""
        yield f"the run did not end as planned ({run.manifest.state}){why}"
    if any(event.name == "restoring" for event in run.events):
        yield "the drill ended while the switch was off, and switching back was tried once more"


def _invalid(run: RunData) -> list[str]:
    """Times of a client that could not keep up are not the servers'; who was lost, and who was moved, is known all the
    same."""
    arms = {name: arm_data(run, name) for name in run.manifest.arms}
    found = validity(run, {name: (data.frame, data.windows) for name, data in arms.items()}, ())
    worst = [reason.removeprefix("invalid: ") for reason in found.reasons if reason.startswith("invalid: ")]
    return [f"the measurement is invalid, so no time is judged: {worst[0]}"] if worst else []


def _findings(pulls: Sequence[DrillPull]) -> Iterator[Finding]:
    """What is worth a sentence, good or bad, beside the tables."""
    for pull in pulls:
        routed, rounds = pull.last_routed_s, pull.last_round_s
        yield from _by_rounds(pull)
        if pull.direction != "off" or routed is None or routed.value is None or rounds is None or rounds.low is None:
            continue
        token = pull.last_token_s
        ours = routed.value if token is None or token.value is None else max(token.value, routed.value)
        if rounds.low > ours + 1.0:
            yield Finding(
                id="drill_others_speculate",
                text=f"pull {pull.number + 1}: the speculating servers verified drafts until {rounds.low:.1f} s after "
                f"the switch, our own last token from there came after {ours:.1f} s: somebody else is still sent there",
                numbers={"last_round_s": rounds.low, "own_last_s": ours},
                conditions={"pull": pull.number},
                severity="warning",
            )


def _by_rounds(pull: DrillPull) -> Iterator[Finding]:
    """Nobody knows which request was the last: that speculation ended is shown by rounds, of everybody's requests."""
    rounds = pull.last_round_s
    most = None if rounds is None else rounds.value if rounds.value is not None else rounds.high
    if most is None or not unbounded(pull.last_routed_s):
        return
    yield Finding(
        id="drill_by_rounds",
        text=f"pull {pull.number + 1}: which request was the last is not known; by their counters the speculating "
        f"servers verified their last drafts {most:.3g} s after the switch at most",
        numbers={"last_round_s": most},
        conditions={"pull": pull.number},
        severity="info",
    )
