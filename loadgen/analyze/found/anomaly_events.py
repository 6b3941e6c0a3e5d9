"""The events of one arm's anomalies, put together again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadgen.analyze.outages import Outage
from loadgen.record import Event


@dataclass(frozen=True)
class Sent:
    """One anomaly that was sent once, and what followed. `data`: of the event `anomaly`. `seen`: what became of the
    probe after it, None: the run ended before. `down`, `let_go`: data of those events. `outage`: the breaker saw the
    engine die after it began and before the next one did."""

    name: str
    begun_ns: int
    ended_ns: int
    data: Mapping[str, Any]
    seen: str | None
    down: Mapping[str, Any] | None
    let_go: Mapping[str, Any] | None
    outage: Outage | None = None


@dataclass(frozen=True)
class Told:
    """`quiet`: data of the event `quiet_over`, None where it never was. `unfinished`: anomalies that the run ended in.
    `probes`: of the catalogue and the time before it, `asked`: of all times. `busy`: what ran and waited in the time
    before, and when. `suspects`: data of that event, None where nothing came to be tried again; `again`: the tries."""

    sent: tuple[Sent, ...]
    skipped: tuple[Mapping[str, Any], ...]
    quiet: Mapping[str, Any] | None
    quiet_ns: int | None
    all_sent_ns: int | None
    last_ns: int | None
    unfinished: tuple[str, ...]
    witnesses: tuple[Event, ...] = ()
    probes: tuple[Event, ...] = ()
    asked: tuple[Event, ...] = ()
    busy: tuple[tuple[int, float], ...] = ()
    suspects: Mapping[str, Any] | None = None
    again: tuple[Mapping[str, Any], ...] = ()


def told_of(events: Sequence[Event], arm: str, outages: Sequence[Outage] = ()) -> Told:
    mine = [e for e in events if e.data.get("arm") == arm]
    named: dict[str, list[Event]] = {}
    for event in mine:
        named.setdefault(event.name, []).append(event)
    after = {
        kind: {(e.data["after"], e.data["repeat"]): e.data for e in named.get(kind, ())}
        for kind in ("probe", "down", "let_go")
    }
    sent = [_sent(e, after) for e in named.get("anomaly", ())]
    begins = [one.begun_ns for one in sent]
    for outage in outages:
        if (at := bisect_right(begins, outage.first_ns) - 1) >= 0:
            sent[at] = replace(sent[at], outage=outage)
    begun = [str(e.data["name"]) for e in named.get("anomaly_begins", ())]
    quiet = next(iter(named.get("quiet_over", ())), None)
    all_sent = next(iter(named.get("all_sent", ())), None)
    return Told(
        sent=tuple(sent),
        skipped=tuple(e.data for e in named.get("anomaly_skipped", ())),
        quiet=None if quiet is None else quiet.data,
        quiet_ns=None if quiet is None else quiet.at_ns,
        all_sent_ns=None if all_sent is None else all_sent.at_ns,
        last_ns=max((e.at_ns for e in mine), default=None),
        unfinished=tuple(begun[len(sent) :]),
        witnesses=tuple(named.get("witness", ())),
        probes=tuple(e for e in named.get("probe", ()) if e.data["repeat"] >= 0),
        asked=(*named.get("witness", ()), *named.get("probe", ())),
        busy=tuple((e.at_ns, float(e.data["busy"])) for e in named.get("busy", ())),
        suspects=next((e.data for e in named.get("suspects", ())), None),
        again=tuple(e.data for e in named.get("again", ())),
    )


def _sent(event: Event, after: Mapping[str, Mapping[tuple[str, int], Mapping[str, Any]]]) -> Sent:
    key = (event.data["name"], event.data["repeat"])
    probe = after["probe"].get(key)
    return Sent(
        name=str(event.data["name"]),
        begun_ns=event.at_ns,
        ended_ns=int(event.data["ended_ns"]),
        data=event.data,
        seen=None if probe is None else str(probe["seen"]),
        down=after["down"].get(key),
        let_go=after["let_go"].get(key),
    )
