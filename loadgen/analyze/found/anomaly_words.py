"""Why anomalies are no pass, and what they showed, as sentences with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loadgen.analyze.found.anomaly_models import AnomaliesArm, AnomalyRow, Bystander
from loadgen.analyze.found.base import State
from loadgen.analyze.found.bystanders import FEWEST
from loadgen.analyze.summary import Finding

#: Growth of memory below this is no leak, whatever its share.
SMALL_BYTES = 64e6
_NAMES = {
    "error_share": "the share of failed requests",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "witness_share": "the share of known requests that were answered otherwise",
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
    for test in arm.bystanders:
        if test.alarm:
            yield _alarm(test)
    if arm.probes.new:
        yield (
            f"the known-good request was answered otherwise than ever before, twice in a row, after {arm.probes.new} "
            f"of {arm.probes.asked} anomalies: {_named(r.name for r in arm.rows if r.probe == 'new')}"
        )
    yield from _grown(arm)


def _down(row: AnomalyRow) -> Iterator[str]:
    if row.ended:
        yield f"{row.name} ended the server: it did not come back"
    elif row.died:
        yield f"{row.name} ended the server: it served again after {row.down_s:.3g} s"
    elif row.down_s is not None:
        yield f"after {row.name} the known-good request failed, though the server was alive ({row.down_s:.3g} s)"


def _row_faults(row: AnomalyRow, arm: AnomaliesArm, keys: Mapping[str, Any]) -> Iterator[str]:
    if not row.fits:
        said = f" ({row.message})" if row.message else ""
        yield f"{row.name}: got {row.got}{said}, expected {row.expected}"
    if row.abandoned:
        yield (
            f"after {row.name} more requests ran and waited than in the time before, for "
            f"{float(keys.get('abandon_s', 10)):g} s: what was left goes on"
        )
    if row.bystanders_failed >= 2 and row.bystanders_failed == row.bystanders and not (row.died or row.ended):
        yield f"all {row.bystanders} requests of the load that ended while {row.name} went on failed"
    limit = _stall_limit(arm, keys)
    if row.silence_s > limit and not (row.died or row.ended):
        yield (
            f"{row.name}: no token for any request in flight for {row.silence_s:.2f} s (limit {limit:.2f} s: "
            "anomalies.stall_s, or three times the longest such time before)"
        )


def _stall_limit(arm: AnomaliesArm, keys: Mapping[str, Any]) -> float:
    return max(float(keys.get("stall_s", 2.0)), 3 * arm.silence_before_s)


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
            yield f"{one.name} is not shown: {one.reason}, or leave it out (anomalies.exclude)"
    if arm.sent == 0:
        yield _nothing_sent(arm)
        return
    if arm.sent < arm.chosen:
        yield f"{arm.sent} of {arm.chosen} anomalies were sent before the load ended: a longer load.0.duration_s"
    if arm.witnesses.distinct < 2:
        yield f"{arm.witnesses.distinct} known requests have answers that are theirs alone: cross-talk cannot be told"
    if arm.probes.distinct == 0:
        yield "the known-good request was never answered in the time before"
    told = [t for t in arm.bystanders if t.p is not None]
    for name in ("error_share", "ttft_s"):
        test = next(t for t in arm.bystanders if t.name == name)
        if test.p is None and not (name == "ttft_s" and any(t.name == "tpot_s" for t in told)):
            yield f"{_NAMES[name]} cannot be judged: {test.reason or f'a test needs {FEWEST} blocks on either side'}"


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
    failures = sum(row.bystanders_failed for row in arm.rows)
    if failures:
        names = _named(row.name for row in arm.rows if row.bystanders_failed)
        yield one(
            "anomalies_bystanders", f"{failures} requests of the load failed while these went on: {names}", "warning",
            failed=failures,
        )  # fmt: skip


def _named(names: Iterator[str] | Any, most: int = 5) -> str:
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"
