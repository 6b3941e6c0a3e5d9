"""Tables of anomalies.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadgen.analyze import AnomaliesArm, AnomaliesResult, AnomalyRow, ExperimentResult
from loadgen.report.format import DASH, percent, seconds
from loadgen.report.page import Cell, Row, Table

_HEAD = (
    "anomaly",
    "expected",
    "got",
    "known-good request after it",
    "times",
    "took",
    "gone after",
    "load failed",
    "silence",
    "tried again",
)


def anomaly_tables(found: ExperimentResult) -> Sequence[Table]:
    assert isinstance(found, AnomaliesResult)
    return [table for arm in found.arms for table in _tables(arm)]


def _tables(arm: AnomaliesArm) -> Iterator[Table]:
    skipped = "; ".join(f"{s.name}: {s.reason}" for s in arm.skipped)
    yield Table(
        f"{arm.arm}: anomalies ({arm.sent} of {arm.chosen} sent, {arm.before_s:.0f} s after the load began)", _HEAD,
        [_row(row) for row in arm.rows], 4, f"not sent: {skipped}" if skipped else None,
    )  # fmt: skip
    yield Table(
        f"{arm.arm}: the load beside them", ("number", "before", "during", "allowed", "blocks", "p"),
        [
            Row(
                [
                    test.name, _number(test.before, test.unit), _number(test.during, test.unit),
                    _number(test.limit, test.unit), f"{test.n_before} and {test.n_during}",
                    Cell(DASH, test.reason or "") if test.p is None else f"{test.p:.2g}",
                ],
                "bad" if test.alarm else "",
            )
            for test in arm.bystanders
        ],
    )  # fmt: skip
    yield Table(
        f"{arm.arm}: known requests", ("who", "in the time before", "same", "new", "another's text", "failed"),
        [
            Row([name, *map(str, (n.learned, n.same, n.new, n.crossed, n.failed))],
                "bad" if n.crossed else "warning" if n.new or n.failed else "")
            for name, n in (("witnesses", arm.witnesses), ("probes", arm.probes))
        ],
    )  # fmt: skip


def _row(row: AnomalyRow) -> Row:
    after = row.probe or DASH
    if row.ended:
        after = "server ended"
    elif row.down_s is not None:
        after = f"{'server ended, ' if row.died else ''}back after {row.down_s:.3g} s"
    states = {one.state for one in row.again}
    bad = (not row.fits and not row.chance) or row.ended or row.died or row.abandoned or "confirmed" in states
    gone = "not in time" if row.late else DASH if row.let_go_s is None else seconds(row.let_go_s)
    gone = "not seen" if row.unseen else gone
    beside = f"{row.bystanders_failed} of {row.bystanders}"
    return Row(
        [row.name, row.expected, row.got, after, str(row.sent), seconds(row.seconds), gone, beside,
         seconds(row.silence_s), _again(row)],
        "bad" if bad else "warning" if row.bystanders_failed or row.again or not row.fits else "",
    )  # fmt: skip


def _again(row: AnomalyRow) -> str:
    """ "stall: 5 of 5, without 0 of 9"."""
    tries = (
        f"{one.symptom}: {one.shown} of {one.sent}, without {one.shown_without} of {one.without}" for one in row.again
    )
    return "; ".join(tries) or DASH


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return DASH
    return percent(value) if unit == "share" else seconds(value)
