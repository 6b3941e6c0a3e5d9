"""Why anomalies are no pass, and what they showed, as sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from loadgen.analyze.found.anomaly_models import AnomaliesArm, AnomalyRow, Bystander
from loadgen.analyze.found.base import State
from loadgen.analyze.summary import Finding

#: Growth of memory below this is no leak, whatever its share.
SMALL_BYTES = 64e6
_NAMES = {
    "error_share": "the share of failed requests",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "witness_share": "the share of known requests that failed or were answered otherwise",
}

Reason = tuple[State, str]


def reasons_of(arm: AnomaliesArm, keys: Mapping[str, Any]) -> list[Reason]:
    """Faults first."""
    faults: list[Reason] = [("fail", f"{arm.arm}: {text}") for text in _faults(arm, keys)]
    return [*faults, *(("inconclusive", f"{arm.arm}: {text}") for text in _missing(arm))]


def _faults(arm: AnomaliesArm, keys: Mapping[str, Any]) -> Iterator[str]:
    for row in arm.rows:
        yield from _down(row)
    if arm.witnesses.crossed:
        yield (
            f"cross-talk: {arm.witnesses.crossed} of {arm.witnesses.asked} answers to known requests go on like "
            "another request's, or hold an anomaly's marker"
        )
    for row in arm.rows:
        yield from _row_faults(row, arm, keys)
    if _others(arm) is None:
        yield from _worse(arm)


def _others(arm: AnomaliesArm) -> str | None:
    """How it is known that the server was not ours alone; None: it is not known."""
    if arm.foreign_looks:
        return f"others' requests ran on the server in the time before ({arm.foreign_looks} looks)"
    if arm.foreign_after is not None:
        return f"after {arm.foreign_after}, which was refused and so left nothing, more ran and waited than was ours"
    if arm.foreign_requests:
        return f"the server finished at least {arm.foreign_requests} requests more than we sent it while the load ran"
    return None


def _worse(arm: AnomaliesArm) -> Iterator[str]:
    """What others' requests can do as well: they may come when the anomalies do. What was tried again is no such: its
    order was drawn."""
    for test in arm.bystanders:
        if test.alarm:
            yield _alarm(test)
    yield from _grown(arm)


def _down(row: AnomalyRow) -> Iterator[str]:
    if row.ended:
        yield f"{row.name} ended the server: it did not come back"
    elif row.died:
        yield f"{row.name} ended the server: it served again after {row.down_s:.3g} s"


def _row_faults(row: AnomalyRow, arm: AnomaliesArm, keys: Mapping[str, Any]) -> Iterator[str]:
    if not row.fits and not row.chance:
        yield _wrong(row)
    if row.abandoned:
        yield (
            f"after {row.name} more requests ran and waited than in the time before, and than were ours, for "
            f"{float(keys.get('abandon_s', 10)):g} s: what was left goes on"
        )
    confirmed = {one.symptom: one for one in row.again if one.state == "confirmed"}
    for symptom, one in confirmed.items():
        tries = f"again {one.shown} times of {one.sent}, and {one.shown_without} times of {one.without} without it"
        yield f"{_SEEN[symptom](row)}; {tries}"


def _wrong(row: AnomalyRow) -> str:
    said = f" ({row.message})" if row.message else ""
    return f"{row.name}: got {row.got}{said}, expected {row.expected}"


#: What an anomaly showed once, as the beginning of a sentence.
_SEEN: Mapping[str, Callable[[AnomalyRow], str]] = {
    "answer": _wrong,
    "failed": lambda row: f"after {row.name} the known-good request failed, though the server was alive",
    "new": lambda row: f"after {row.name} the known-good request was answered otherwise than ever before",
    "all_failed": lambda row: f"all requests that ended while {row.name} went on failed",
    "stall": lambda row: (
        f"no request ended for longer than the limit of a stall (anomalies.stall_s) while {row.name} went on"
    ),
}


def _alarm(test: Bystander) -> str:
    before, during, limit = (_shown(value, test.unit) for value in (test.before, test.during, test.limit))
    return (
        f"{_NAMES[test.name]} rose from {before} to {during} while anomalies were sent (allowed "
        f"{limit}; {test.n_before} blocks before, {test.n_during} during; p = {test.p:.2g}, corrected)"
    )


def _shown(value: float | None, unit: str) -> str:
    assert value is not None, "a test that alarms has its numbers"
    return f"{value:.2%}" if unit == "share" else f"{value * 1e3:.4g} ms"


def _grown(arm: AnomaliesArm) -> Iterator[str]:
    memory = arm.memory
    if memory.before is None or memory.after is None or memory.share is None:
        return
    if memory.share > memory.limit_share and memory.after - memory.before > SMALL_BYTES:
        yield (
            f"the server's memory grew by {(memory.after - memory.before) / 1e6:.0f} MB ({memory.share:.0%}) from "
            f"{memory.before / 1e6:.0f} MB over {arm.sent} anomalies (allowed {memory.limit_share:.0%})"
        )


def _missing(arm: AnomaliesArm) -> Iterator[str]:
    for one in arm.skipped:
        if one.unknown:
            yield f"{one.name} is not shown: {one.reason}"
    if arm.sent == 0:
        yield _nothing_sent(arm)
        return
    if arm.sent < arm.chosen:
        yield f"{arm.sent} of {arm.chosen} anomalies were sent before the load ended: a longer load.0.duration_s"
    if arm.witnesses.distinct < 2:
        yield f"{arm.witnesses.distinct} known requests have answers that are theirs alone: cross-talk cannot be told"
    if arm.probes.distinct == 0:
        yield "the known-good request was never answered in the time before"
    if arm.invalid is not None:
        yield f"the measurement is invalid, so no time is judged: {arm.invalid}"
    unfinished = [row.name for row in arm.rows if any(one.state == "unfinished" for one in row.again)]
    if open_ := [*unfinished, *arm.untried]:
        yield (
            f"what {_named(dict.fromkeys(open_))} showed was not tried again to the end, so it may be chance: a longer "
            "load.0.duration_s"
        )
    if unasked := [row.name for row in arm.rows if row.probe is None and not row.died and not row.ended]:
        yield f"the known-good request was not asked after {_named(unasked)}"
    yield from _left_unseen(arm)
    if (others := _others(arm)) is not None:
        yield from (f"{text}; it may be others' requests that did it: {others}" for text in _worse(arm))
    told = [t for t in arm.bystanders if t.p is not None]
    for name in ("error_share", "ttft_s", "witness_share"):
        test = next(t for t in arm.bystanders if t.name == name)
        if test.p is None and not (name == "ttft_s" and any(t.name == "tpot_s" for t in told)):
            yield f"{_NAMES[name]} cannot be judged: {test.reason}"


def _left_unseen(arm: AnomaliesArm) -> Iterator[str]:
    """Of what was left it is not known whether it goes on."""
    late = [row.name for row in arm.rows if row.let_go_s is None and not row.died and not row.ended and row.late]
    if arm.foreign_looks and late:
        yield (
            f"what {_named(late)} left cannot be told from others' requests, which ran on the server in the time "
            f"before as well ({arm.foreign_looks} looks)"
        )
    elif arm.foreign_after is not None or (arm.foreign_requests and late):
        yield f"what was left cannot be told from others' requests: {_others(arm)}"
    unseen = [row.name for row in arm.rows if row.unseen]
    if arm.foreign_looks is None and (names := list(dict.fromkeys([*unseen, *late]))):
        yield (
            f"whether what {_named(names)} left goes on cannot be seen: what runs and waits on the server was not told "
            f"in the time before (arms.{arm.arm}.metrics_urls)"
        )
    elif unseen:
        yield (
            f"whether what {_named(unseen)} left goes on cannot be seen: what runs and waits on the server was not "
            "told after it"
        )


def _nothing_sent(arm: AnomaliesArm) -> str:
    if arm.chosen > 0 or not arm.skipped:
        return "no anomaly was sent: the load ended before"
    why = "; ".join(f"{one.name}: {one.reason}" for one in arm.skipped[:3])
    more = f" and {len(arm.skipped) - 3} more" if len(arm.skipped) > 3 else ""
    return f"no anomaly was sent: none can be made for this server ({why}{more})"


def findings_of(arm: AnomaliesArm, keys: Mapping[str, Any]) -> Iterator[Finding]:
    conditions = {"arm": arm.arm, "before_s": arm.before_s, "during_s": arm.during_s}

    def one(name: str, text: str, severity: Any, **numbers: float | None) -> Finding:
        return Finding(id=name, text=f"{arm.arm}: {text}", numbers=numbers, conditions=conditions, severity=severity)

    refused = sum(row.fits for row in arm.rows)
    if arm.rows:
        yield one(
            "anomalies_answered", f"{refused} of {len(arm.rows)} anomalies were answered as they should be",
            "good" if refused == len(arm.rows) else "bad", right=refused, n=len(arm.rows),
        )  # fmt: skip
    if arm.witnesses.asked:
        counts = arm.witnesses
        yield one(
            "anomalies_witnesses",
            f"{counts.asked} known requests beside them: {counts.same} answered as before, {counts.new} otherwise, "
            f"{counts.crossed} with another's text, {counts.failed} not at all",
            "good" if counts.same == counts.asked else "bad" if counts.crossed else "info",
            asked=counts.asked, same=counts.same, new=counts.new, crossed=counts.crossed, failed=counts.failed,
        )  # fmt: skip
    once = [row.name for row in arm.rows if any(one.state == "refuted" for one in row.again)]
    if once:
        yield one(
            "anomalies_once", f"what was seen with these once was no different without them when it was tried again: "
            f"{_named(once)}", "info", n=len(once),
        )  # fmt: skip
    failures = sum(row.bystanders_failed for row in arm.rows)
    if failures:
        names = _named(row.name for row in arm.rows if row.bystanders_failed)
        yield one(
            "anomalies_bystanders", f"{failures} requests of the load failed while these went on: {names}", "warning",
            failed=failures,
        )  # fmt: skip


def _named(names: Iterable[str], most: int = 5) -> str:
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"
