"""What a drill has found, as tables and a figure. Nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadgen.analyze import CourseBin, DrillPull, DrillResult, ExperimentResult, Losses, Settled
from loadgen.report.format import DASH, count, number, seconds, sparkline
from loadgen.report.page import Cell, Figure, Panel, Row, Series, Table, Unit, plain, told

_OFF, _ON = "▼", "▲"
_NOT_KNOWN = "requests/s, server not known"


def drill_tables(found: ExperimentResult) -> Sequence[Table]:
    """Of every pull what moved and what was lost, and the course of the load."""
    if not isinstance(found, DrillResult):
        return ()
    off = [p for p in found.pulls if p.direction == "off"]
    on = [p for p in found.pulls if p.direction == "on"]
    return [_moved(off, found), _back(on), _lost(found.pulls), _course(found)]


def _moved(pulls: Sequence[DrillPull], found: DrillResult) -> Table:
    head = ("switched off", "at", "took", "last request routed", "last token", "last round", "TTFT at the fallback's",
            "TPOT at the fallback's", "longest TTFT")  # fmt: skip
    rows = [
        _row(p, [told(p.last_routed_s, "s"), told(p.last_token_s, "s"), told(p.last_round_s, "s"), *_levels(p)])
        for p in pulls
    ]
    how = f"{found.known_by or 'not at all'} ({found.known_note})"
    note = f"Seconds from the pull. How a request's server is known: {how}"
    return Table("Away from speculation", head, rows, note=note)


def _back(pulls: Sequence[DrillPull]) -> Table:
    head = ("switched on", "at", "took", "first request routed", "acceptance seen", "TTFT settled", "TPOT settled",
            "longest TTFT")  # fmt: skip
    rows = [_row(p, [told(p.first_routed_s, "s"), told(p.acceptance_s, "s"), *_levels(p)]) for p in pulls]
    return Table("Back to speculation", head, rows)


def _row(pull: DrillPull, cells: Sequence[str | Cell]) -> Row:
    name = Cell(f"pull {pull.number + 1}" if pull.ok else f"pull {pull.number + 1}: FAILED", pull.said)
    return Row([name, seconds(pull.at_s), seconds(pull.took_s), *cells], "" if pull.ok else "bad")


def _levels(pull: DrillPull) -> list[Cell]:
    return [*(_level(one) for one in pull.settled), told(pull.longest_ttft_s, "s")]


def _level(one: Settled) -> Cell:
    shown = told(one.at_s, "s")
    if one.low is None or one.high is None:
        return shown
    band = f"median {seconds(one.median)}, windows from {seconds(one.low)} to {seconds(one.high)} (n = {one.n})"
    return Cell(shown.text, "; ".join(filter(None, (shown.why, band, _late(one)))))


def _late(one: Settled) -> str:
    late = one.late
    if late is None:
        return ""
    after = f"above it after {seconds(late.after_s)}"
    if late.p is None:
        return f"{after}: not tested ({late.reason})"
    return (
        f"{after}: p = {late.p:.2g}, median {seconds(late.median)} of the {count(late.n)} requests that stand out most"
    )


def _lost(pulls: Sequence[DrillPull]) -> Table:
    head = ("requests", "lost, by outcome", "ended", "in flight at the pull", "ok", "lost", "lost with tokens out",
            "cut by our drain", "failed on this machine", "lost before the first pull")  # fmt: skip
    rows = []
    for pull in pulls:
        lost = pull.losses
        kinds = ", ".join(f"{name} {n}" for name, n in lost.by_outcome.items()) or DASH
        cells: list[str | Cell] = [
            f"switch {pull.direction} {pull.number + 1}", Cell(kinds, "; ".join(lost.examples)), count(lost.ended),
            count(lost.in_flight), count(lost.ok), _least_most(lost), count(lost.cut), count(lost.aborted),
            count(lost.client_faults), f"{count(lost.lost_before)} of {count(lost.before)}",
        ]  # fmt: skip
        rows.append(Row(cells, "bad" if lost.lost else ""))
    note = "What our own drain cut or this machine failed may have been lost or not: then lost has a least and a most"
    return Table("Requests around each pull", head, rows, 2, note)


def _least_most(lost: Losses) -> str:
    least = count(lost.lost)
    return least if lost.lost == lost.lost_most else f"{least} to {count(lost.lost_most)}"


def _course(found: DrillResult) -> Table:
    course = found.course
    rows = [Row(["switch", _marks(found), "", ""])] if course else []
    for name, read, shown in _LINES:
        values = [read(piece) for piece in course]
        known = [value for value in values if value is not None]
        if known and (max(known) > 0 or name != _NOT_KNOWN):
            rows.append(Row([name, sparkline(values, low=0.0), shown(min(known)), shown(max(known))]))
    width = course[0].to_s - course[0].from_s if course else 0.0
    note = f"One sign is {width:g} s of the load; {_OFF} switched off, {_ON} on. Latencies: medians"
    return Table("Course of the load", ("number", "course", "least", "most"), rows, 2, note)


def _marks(found: DrillResult) -> str:
    marks = [" "] * len(found.course)
    for pull in found.pulls:
        for i, piece in enumerate(found.course):
            if piece.from_s <= pull.at_s < piece.to_s:
                marks[i] = _OFF if pull.direction == "off" else _ON
    return "".join(marks)


def _per_s(read: Callable[[CourseBin], int]) -> Callable[[CourseBin], float]:
    return lambda piece: read(piece) / (piece.to_s - piece.from_s)


_LINES: Sequence[tuple[str, Callable[[CourseBin], float | None], Callable[[float | None], str]]] = (
    ("requests/s to the speculating side", _per_s(lambda b: b.speculating), number),
    ("requests/s to the fallback", _per_s(lambda b: b.fallback), number),
    (_NOT_KNOWN, _per_s(lambda b: b.unknown), number),
    ("requests lost", lambda b: float(b.lost), count),
    ("TTFT", lambda b: b.ttft_s, seconds),
    ("TPOT", lambda b: b.tpot_s, seconds),
    ("accepted tokens/s", lambda b: b.accepted_per_s, number),
)


def drill_figures(found: ExperimentResult) -> Sequence[Figure]:
    """The same course to look at."""
    if not isinstance(found, DrillResult) or not found.course:
        return ()
    pulls = ", ".join(f"{p.direction} at {p.at_s:.1f} s" for p in found.pulls) or "none"
    by_server = [(name.removeprefix("requests/s "), read) for name, read, _ in _LINES[:3]]
    panels = [
        _panel(found, "Requests/s by server", "number", by_server),
        _panel(found, "Requests lost", "number", [("lost", _LINES[3][1])]),
        _panel(found, "Latency, medians", "s", [(name, read) for name, read, _ in _LINES[4:6]]),
        _panel(found, "Accepted tokens/s", "number", [("accepted", _LINES[6][1])]),
    ]
    caption = f"Time from the begin of the load. The switch was pulled: {pulls}."
    return [Figure("drill", "The load around the pulls of the switch", caption, panels)]


def _panel(
    found: DrillResult, title: str, unit: Unit, lines: Sequence[tuple[str, Callable[[CourseBin], float | None]]]
) -> Panel:
    course = found.course
    series = [
        Series(name, i, [None if (y := read(piece)) is None else plain(y, unit) for piece in course])
        for i, (name, read) in enumerate(lines)
    ]
    at = [piece.from_s for piece in course]
    return Panel(title, "s", [f"{s:g}" for s in at], series, unit, "lines", places=at)
