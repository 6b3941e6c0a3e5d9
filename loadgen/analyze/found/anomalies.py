"""Anomalies under load: from the run directory to anomalies.json (docs/anomalies.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from loadgen.analyze.columns import Bools, Ints, strings
from loadgen.analyze.conditions import of_run
from loadgen.analyze.found.anomaly_events import Sent, Told, told_of
from loadgen.analyze.found.anomaly_models import (
    AnomaliesArm,
    AnomaliesResult,
    AnomalyRow,
    AnomalySkipped,
    Bystander,
    ServerMemory,
    WitnessCounts,
)
from loadgen.analyze.found.anomaly_words import findings_of, reasons_of
from loadgen.analyze.found.base import State, worst_state
from loadgen.analyze.found.bystanders import (
    LOAD_LEVEL,
    Compared,
    Silences,
    Span,
    adjusted,
    blocks_of,
    failed,
    load_compared,
    silences,
    witnesses_compared,
)
from loadgen.analyze.found.foreign_requests import foreign_requests
from loadgen.analyze.found.invalid import invalid_because
from loadgen.analyze.found.let_go import InFlight, foreign, foreign_after, goes_on, in_flight, seen_after
from loadgen.analyze.found.retried import retried_of, untried
from loadgen.analyze.frames import Frame, frame_of
from loadgen.analyze.outages import outages_of
from loadgen.analyze.windows import windows_of
from loadgen.observe import Measured, Tracks, tracks_of
from loadgen.record import Event, RunData

#: A request that fails so long after an anomaly's end is still its bystander.
AFTER_NS = 1_000_000_000
_WORST = ("failed", "new", "same")


def anomalies_found(run: RunData) -> AnomaliesResult:
    """Of a run whose scenario is experiment: anomalies, also of one that was ended early."""
    keys = run.manifest.scenario.get("anomalies") or {}
    invalid = invalid_because(run)
    arms = [_arm(run, name, keys, invalid) for name in run.manifest.arms]
    reasons = [reason for arm in arms for state, reason in reasons_of(arm, keys) if state == "fail"]
    reasons += [reason for arm in arms for state, reason in reasons_of(arm, keys) if state != "fail"]
    return AnomaliesResult(
        run_id=run.manifest.run_id,
        state=worst_state(arm.state for arm in arms),
        reasons=reasons,
        findings=[finding for arm in arms for finding in findings_of(arm, keys)],
        conditions=dict(of_run(run)),
        arms=arms,
    )


def _arm(run: RunData, name: str, keys: dict[str, Any], invalid: str | None) -> AnomaliesArm:
    frame, facts = _frame(run, name), run.manifest.arms[name]
    told = told_of(run.events, name, outages_of(run.events, frame))
    rows = np.arange(frame.n)
    before, during = _spans(run, frame, told)
    quiet, ours = silences(frame, rows), in_flight(frame, told.asked)
    looks = [look for look in told.busy if look[0] >= before[0]]
    others = foreign(looks, ours) if looks else None
    refused = None if others is None else foreign_after(told.sent, ours)
    finished = foreign_requests(windows_of(run, frame), _asked_by_load(run, name), told)
    alone = others == 0 and refused is None and not finished
    retried = retried_of(told)
    found = AnomaliesArm(
        arm=name,
        adapter=facts.adapter,
        replica=facts.replicas[0] if facts.replicas else "",
        state="inconclusive",
        before_s=(before[1] - before[0]) / 1e9,
        during_s=(during[1] - during[0]) / 1e9,
        chosen=_chosen(told, keys),
        sent=len(told.sent),
        rows=[
            row.model_copy(update={"again": retried.get(row.name, [])})
            for row in _rows(told, Beside(frame, rows, quiet, ours if alone else None))
        ],
        skipped=[
            AnomalySkipped(name=str(s["name"]), reason=str(s["reason"]), unknown=bool(s.get("unknown")))
            for s in told.skipped
        ],
        bystanders=_bystanders(
            told, frame, rows, before, during, keys, level=LOAD_LEVEL / len(run.manifest.arms), times=invalid is None
        ),
        witnesses=_counts(told.witnesses, int((told.quiet or {}).get("witnesses", 0))),
        probes=_counts(told.probes, int((told.quiet or {}).get("probe_answers", 0) > 0)),
        silence_before_s=quiet.longest(before),
        invalid=invalid,
        foreign_looks=others,
        foreign_after=refused,
        foreign_requests=finished,
        untried=list(dict.fromkeys(untried(told))),
        memory=_memory(tracks_of(run.telemetry, [name])[name], before, told, during, keys),
    )
    states: list[State] = [state for state, _ in reasons_of(found, keys)]
    return found.model_copy(update={"state": worst_state(states) if states else "pass"})


def _frame(run: RunData, name: str) -> Frame:
    """Of the replica that the anomalies were sent to, where there are several."""
    replicas = run.manifest.arms[name].replicas
    if len(replicas) > 1:
        mine = run.requests.filter(strings(run.requests, "replica") == replicas[0])
        if mine.num_rows:
            return frame_of(mine, name)
    return frame_of(run.requests, name)


def _asked_by_load(run: RunData, arm: str) -> int:
    """Of all the arm's replicas."""
    return int((strings(run.requests, "arm") == arm).sum())


def _spans(run: RunData, frame: Frame, told: Told) -> tuple[Span, Span]:
    """The time before (from when the load stood), and that of the anomalies; empty ones where there was none."""
    windows = windows_of(run, frame)
    start = next((w.phase.full_ns or w.phase.started_ns for w in windows), 0)
    if told.quiet_ns is None:
        return (start, start), (start, start)
    load_end = max((w.phase.load_end_ns or w.whole[1] for w in windows), default=told.quiet_ns)
    end = min(told.all_sent_ns or told.last_ns or told.quiet_ns, load_end)
    return (min(start, told.quiet_ns), told.quiet_ns), (told.quiet_ns, max(end, told.quiet_ns))


def _chosen(told: Told, keys: dict[str, Any]) -> int:
    """What was to be sent: without those that cannot be made for this server."""
    if told.all_sent_ns is not None:
        return len(told.sent)
    chosen = int((told.quiet or {}).get("chosen", 0)) - len(told.skipped) * int(keys.get("repeat", 1))
    return max(len(told.sent) + len(told.unfinished), chosen)


@dataclass(frozen=True)
class Beside:
    """What was there beside the anomalies. `ours` None: others' requests ran on the server, too, or may have, so that
    what was left cannot be told from them."""

    frame: Frame
    rows: Ints
    quiet: Silences
    ours: InFlight | None


def _rows(told: Told, beside: Beside) -> list[AnomalyRow]:
    by_name = sorted(enumerate(told.sent), key=lambda pair: _first(told.sent, pair[1].name))
    return [_row([sent for _, sent in group], beside) for _, group in groupby(by_name, key=lambda pair: pair[1].name)]


def _first(sent: Sequence[Sent], name: str) -> int:
    return next(i for i, one in enumerate(sent) if one.name == name)


def _row(sent: Sequence[Sent], beside: Beside) -> AnomalyRow:
    unfit = sorted((s for s in sent if not s.data["fits"]), key=lambda s: bool(s.data.get("chance")))
    shown = next(iter(unfit), sent[0])
    downs = [s.down for s in sent if s.down is not None]
    outages = [s.outage for s in sent if s.outage is not None]
    away = [float(d["away_s"]) for d in downs if d["away_s"] is not None]
    away += [o.away_s for o in outages if o.away_s is not None]
    came_back = any(d["away_s"] is not None for d in downs)
    served = [s for s in sent if not (s.down or s.outage)]
    let_go = [s.let_go for s in served if s.let_go is not None]
    left = [s for s in served if s.data["group"] == "disconnect" or s.data["got"]["ended"] == "left"]
    spans = [(s.begun_ns, s.ended_ns + AFTER_NS) for s in sent]
    meanwhile = np.concatenate([_meanwhile(beside, span) for span in spans])
    seen = {s.seen for s in sent}
    return AnomalyRow(
        name=shown.name,
        group=str(shown.data["group"]),
        sent=len(sent),
        expected=str(shown.data["expected"]),
        source=str(shown.data["source"]),
        got=_got(shown.data),
        fits=not unfit,
        chance=bool(shown.data.get("chance")),
        seconds=max(float(s.data["got"]["s"]) for s in sent),
        message=str(shown.data["got"]["message"]),
        probe=next((word for word in _WORST if word in seen), None),
        died=any(o.sure for o in outages) or any(d["died"] for d in downs),
        down_s=max(away, default=None),
        ended=any(d["away_s"] is None for d in downs) or (any(o.away_s is None for o in outages) and not came_back),
        late=any(g["s"] is None and g["busy"] is not None for g in let_go),
        abandoned=beside.ours is not None
        and any(g["s"] is None and goes_on(g.get("looks", ()), beside.ours) for g in let_go),
        unseen=bool(left) and not any(seen_after(s.let_go) for s in left),
        let_go_s=max((float(g["s"]) for g in let_go if g["s"] is not None), default=None),
        bystanders=len(meanwhile),
        bystanders_failed=int(failed(beside.frame)[meanwhile].sum()),
        silence_s=max(beside.quiet.longest(span) for span in spans),
    )


def _meanwhile(beside: Beside, span: Span) -> Ints:
    """In flight at any time of the span, and ended in it."""
    frame, rows = beside.frame, beside.rows
    return rows[(frame.sent[0] <= span[1])[rows] & ((frame.end[0] >= span[0]) & (frame.end[0] <= span[1]))[rows]]


def _got(data: Any) -> str:
    got = data["got"]
    words = {"closed": "closed", "timeout": "no answer", "left": "left", "refused": "no connection"}
    answer = "" if got["status"] is None else f"{got['status']} {got['shape']}"
    if got["ended"] == "answered":
        return answer
    return f"{answer}, {words[got['ended']]}" if answer else words[got["ended"]]


def _bystanders(
    told: Told, frame: Frame, rows: Ints, before: Span, during: Span, keys: dict[str, Any], *, level: float, times: bool
) -> list[Bystander]:
    """`times`: whether the load's times are judged."""
    blocks = blocks_of(before, during)
    known = _known_before(sorted((*told.witnesses, *told.probes), key=lambda e: e.at_ns), before[1])
    at_ns = np.array([e.at_ns for e in known], dtype=np.int64)
    tests = load_compared(frame, rows, blocks, float(keys.get("latency_ratio", 1.2)))
    tests.append(witnesses_compared(at_ns, _unusual(known, before[1]), blocks))
    p = adjusted(tests)
    return [_shown(one, p.get(one.name), level if times or one.unit != "s" else 0.0) for one in tests]


def _unusual(known: Sequence[Event], quiet_ns: int) -> Bools:
    """Which are not what their prompt was answered with most often in the time before; no answer is none of these, too.
    An answer of that time is held against the others of it: an unsteady prompt would else seem steadier before than
    afterwards."""
    before: dict[int, Counter[str]] = {}
    for e in known:
        if e.at_ns <= quiet_ns and e.data["digest"] is not None:
            before.setdefault(_prompt(e), Counter())[str(e.data["digest"])] += 1
    return np.array([_is_unusual(e, before, quiet_ns) for e in known], dtype=np.bool_)


def _is_unusual(event: Event, before: Mapping[int, Counter[str]], quiet_ns: int) -> bool:
    """An only answer is no unusual one."""
    if event.data["digest"] is None:
        return True
    mine = str(event.data["digest"])
    others = before[_prompt(event)].copy()
    if event.at_ns <= quiet_ns:
        others[mine] -= 1
    most = max(others.values())
    return most > 0 and mine != min(digest for digest, n in others.items() if n == most)


def _prompt(event: Event) -> int:
    """A witness's number; the known-good request is a prompt of its own."""
    return int(event.data.get("number", -1))


def _known_before(asked: Sequence[Event], quiet_ns: int) -> list[Event]:
    """Requests with a prompt that was answered in the time before."""
    numbers = {_prompt(e) for e in asked if e.at_ns <= quiet_ns and e.data["digest"] is not None}
    return [e for e in asked if _prompt(e) in numbers]


def _shown(one: Compared, p: float | None, level: float) -> Bystander:
    return Bystander(
        name=one.name, unit=one.unit, before=one.before, during=one.during, limit=one.limit, n_before=one.n_before,
        n_during=one.n_during, p=p, alarm=p is not None and p <= level, reason=one.reason,
    )  # fmt: skip


def _counts(events: Sequence[Event], distinct: int) -> WitnessCounts:
    seen = [str(e.data["seen"]) for e in events]
    later = [word for word in seen if word != "learned"]
    return WitnessCounts(
        distinct=distinct,
        learned=len(seen) - len(later),
        asked=len(later),
        **{word: later.count(word) for word in ("same", "new", "crossed", "failed")},
    )


def _memory(tracks: Tracks, before: Span, told: Told, during: Span, keys: dict[str, Any]) -> ServerMemory:
    """The last third of the time before against the last tenth of the anomalies and what came after them."""
    limit, name = float(keys.get("memory_share", 0.1)), "process_rss_bytes"
    first = tracks.mean(name, before[1] - (before[1] - before[0]) // 3, before[1])
    last_ns = max(told.last_ns or during[1], during[1])
    last = tracks.mean(name, during[1] - (during[1] - during[0]) // 10, last_ns)
    if not isinstance(first, Measured) or not isinstance(last, Measured):
        return ServerMemory(before=None, after=None, share=None, limit_share=limit, reason=tracks.why_not(name))
    grown = last.value - first.value
    return ServerMemory(
        before=first.value, after=last.value, share=grown / first.value if first.value else None, limit_share=limit
    )
