"""Tables of a sweep's page: every visit, and what the curves say together. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analyze import AdviceResult, PointResult, SweepSummary
from loadgen.report.format import DASH, number, seconds
from loadgen.report.page import IN_SWEEP, Cell, Row, Table, bounded, told
from loadgen.report.sweep_panels import AXES, value_text, where_text

#: Rows of one table
ROWS = 400
_TONES = {"failed": "bad", "skipped": "warning", "interrupted": "warning", "pending": "warning"}


def sweep_tables(summary: SweepSummary) -> list[Table]:
    """Those that have rows."""
    made = (_knees(summary), _stops(summary), _best(summary), _costs(summary), *map(_advice, summary.advice),
            _decay(summary), _rates(summary), _drift(summary))  # fmt: skip
    return [table for table in made if table.rows]


def visits(summary: SweepSummary) -> Table:
    """In the order they were made."""
    kept, note = bounded([_visit(p) for p in summary.points], ROWS, "visits", IN_SWEEP)
    head = ("nr", "point", "pass", "state", "validity", "took", "output tokens/s", "speedup", "run")
    return Table("Visits, in the order they were made", head, kept, 2, note)


def _visit(p: PointResult) -> Row:
    net = p.numbers.get("net_tokens_per_s", {}).get(p.arm)
    point = where_text(p.values) + (" (baseline)" if p.baseline else "")
    missing = p.reason or p.state
    return Row(
        [f"{p.number + 1}", point, f"{p.repeat + 1}", Cell(p.state, p.reason or ""), p.validity or DASH,
         seconds(p.took_s), Cell(DASH, missing) if net is None else told(net, "number"),
         Cell(DASH, missing) if p.speedup is None else told(p.speedup, "times"), p.directory or DASH],
        _TONES.get(p.state, ""),
    )  # fmt: skip


def _knees(summary: SweepSummary) -> Table:
    rows = [
        Row([AXES[k.axis], k.arm, where_text(k.where) or "all", told(k.knee, "number"),
             DASH if k.saturated is None else f"{k.saturated[0]:g} to {k.saturated[1]:g}"])
        for k in summary.knee
    ]  # fmt: skip
    return Table("Knee: where more load stops giving more", ("axis", "arm", "at", "knee", "saturated"), rows, 3)


def _stops(summary: SweepSummary) -> Table:
    rows = [Row([AXES[s.axis], s.arm, where_text(s.where) or "all", told(s.level, "number")])
            for s in summary.stops_paying]  # fmt: skip
    return Table("Where speculation stops paying", ("axis", "arm", "at", "level"), rows, 3)


def _best(summary: SweepSummary) -> Table:
    rows = [
        Row([where_text(b.where) or "all", b.metric.replace("_", " "), Cell(DASH, b.reason or "") if b.k is None
             else "off" if b.k == 0 else f"{b.k}", ", ".join(map(str, b.not_worse)) or DASH,
             told(b.value, "times" if b.metric == "speedup" else "number")])
        for b in summary.best_k
    ]  # fmt: skip
    return Table("Best draft length", ("at", "by", "k", "not shown to be worse", "value there"), rows, 2)


def _costs(summary: SweepSummary) -> Table:
    rows = [
        Row([where_text(c.where) or "all", told(c.intercept, "number"), told(c.per_draft, "number"),
             number(c.residual), told(c.draft_s, "s"), told(c.verify_s, "s")])
        for c in summary.cost
    ]  # fmt: skip
    head = ("at", "a", "b", "residual", "drafting at the largest k", "verifying")
    return Table("Cost of a step: 1 + a + b × k (estimates)", head, rows, 1)


def _advice(advice: AdviceResult) -> Table:
    at = where_text(advice.where)
    rows = [
        Row([f"{a.k}", told(a.e, "number"), told(a.measured_e, "number"), told(a.c, "times"), told(a.speedup, "times"),
             told(a.measured_speedup, "times"), Cell({True: "yes", False: "no", None: DASH}[a.agrees], a.reason or "")],
            "bad" if a.agrees is False else "")
        for a in advice.at
    ]  # fmt: skip
    head = ("k", "E predicted", "E measured", "c", "speedup predicted", "speedup measured", "agrees")
    return Table(f"Advice from k = {advice.k_max}{f' at {at}' if at else ''} ({advice.label})", head, rows)


def _decay(summary: SweepSummary) -> Table:
    rows = [
        Row([d.metric.replace("_", " "), d.arm, where_text(d.where) or "all", told(d.per_doubling, "share"),
             told(d.per_1k_tokens, "share"), DASH if d.limit is None else told(d.limit, "number")])
        for d in summary.decay
    ]  # fmt: skip
    head = ("number", "arm", "at", "each doubling of the input", "each 1,000 tokens", "drafter's limit (tokens)")
    return Table("Change with the length of the input", head, rows, 3)


def _rates(summary: SweepSummary) -> Table:
    rows = list(_runs_at_rates(summary))
    kept, note = bounded(rows, ROWS, "runs", IN_SWEEP)
    return Table("Search for the highest rate", ("arm", "at", "run", "requests/s", "outcome", "why"), kept, 2, note)


def _runs_at_rates(summary: SweepSummary) -> Iterator[Row]:
    for found in summary.max_rate:
        where = where_text(found.where) or "all"
        for i, v in enumerate(found.visits):
            yield Row([found.arm, where, f"{i + 1}", value_text(v.rate_per_s), v.outcome, v.why])
        limits = ", ".join(found.slo)
        why = found.reason or f"within {limits}"
        yield Row([found.arm, where, "result", told(found.rate_per_s, "number"), found.state, why])


def _drift(summary: SweepSummary) -> Table:
    words = {True: "drifted", False: "no drift shown", None: "not told"}
    rows = [Row([d.metric.replace("_", " "), d.arm, told(d.change, "times"), words[d.significant]],
                "warning" if d.significant else "") for d in summary.drift]  # fmt: skip
    return Table("The baseline point, last to first", ("number", "arm", "change", "that is"), rows, 2)
