"""Figures of a sweep's page. They take numbers with their intervals from the summary; the one line that is drawn from
its two coefficients is the cost of a step. What was not measured is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from loadgen.analyze import AdviceResult, BestKResult, CostResult, Curve, MaxRateResult, PointResult, SweepSummary
from loadgen.report.page import Cell, Figure, Point, Unit, plain, point
from loadgen.report.sweep_panels import (
    AXES,
    Line,
    Made,
    curve_panel,
    figure,
    palette,
    panel,
    places,
    richest,
    series_name,
    value_text,
    where_text,
    why_not,
)

BARS = "Bars: 95 % intervals over the visits of a level; hollow: no interval, as with fewer than three visits."
_PERCENTILES = {"p50": "P50", "p95": "P95", "p99": "P99", "mean": "mean"}


class Absent(NamedTuple):
    """A figure that is not there, and why."""

    title: str
    why: str


class _Kind(NamedTuple):
    """A panel of each axis: the first of `metrics` that has most numbers is drawn."""

    title: str
    metrics: tuple[str, ...]
    unit: Unit


CURVES = (
    _Kind("Net throughput, output tokens/s", ("net_tokens_per_s",), "number"),
    _Kind("Speedup", ("speedup",), "times"),
    _Kind("Time to first token (TTFT)", ("ttft_s_p95", "ttft_s_p50"), "s"),
    _Kind("Time per output token (TPOT)", ("tpot_s_p95", "tpot_s_p50", "tpot_s_mean"), "s"),
    _Kind("Total time of a response", ("total_time_s_p99", "total_time_s_p50"), "s"),
    _Kind("Acceptance", ("acceptance_rate",), "share"),
)
_PARTS = (
    _Kind("E, tokens per step", ("e_decode",), "times"),
    _Kind("c, cost of a step", ("c",), "times"),
    _Kind("E ÷ c, speed of decoding", ("speedup_decode",), "times"),
)
_CONTEXT = (
    _Kind("Generation speed P50, tokens/s", ("generation_speed_p50",), "number"),
    _Kind("Time to first token (TTFT) P50", ("ttft_s_p50",), "s"),
    _Kind("Share of the KV cache in use", ("kv_usage",), "share"),
    _Kind("Acceptance", ("acceptance_rate",), "share"),
)
#: Sentences under a figure; the others are findings
_SENTENCES = 3
_DRIFTS: Mapping[str, str] = {
    "net_tokens_per_s": "Net throughput, output tokens/s",
    "tpot_s_p50": "Time per output token (TPOT) P50",
    "ttft_s_p50": "Time to first token (TTFT) P50",
}
#: Colours of the search's outcomes
_OUTCOMES = {"pass": 0, "fail": 1, "inconclusive": 4}
#: Axes that a map may have beside the task types, in the order in which one is taken
_ACROSS = ("concurrency", "rate", "k", "input_len", "output_len", "temperature")


def sweep_figures(summary: SweepSummary) -> tuple[list[Figure], list[Absent]]:
    """Those of which anything was measured, in the order of the page, and the others with their reasons."""
    made = [_along(summary, axis) for axis, levels in summary.axes.items() if len(levels) > 1]
    makers: tuple[Callable[[SweepSummary], Figure | Absent], ...] = (
        _decomposition, _positions, _map, _best_k, _cost, _advice, _context, _search, _drift,
    )  # fmt: skip
    if not made:
        made.append(Absent("Curves", "no axis has two values or more"))
    made += [maker(summary) for maker in makers]
    return [f for f in made if isinstance(f, Figure)], [a for a in made if isinstance(a, Absent)]


def _or_absent(found: Figure, why: str) -> Figure | Absent:
    return found if found.panels else Absent(found.title, why)


def _curves(summary: SweepSummary, curves: Sequence[Curve], kinds: Sequence[_Kind]) -> tuple[list[Made], list[str]]:
    """A panel of each kind, and a sentence for each that has no number."""
    names = palette([c for c in curves if any(c.metric in kind.metrics for kind in kinds)], summary)
    panels, missing = [], []
    for kind in kinds:
        found = richest(curves, kind.metrics)
        if not found:
            missing.append(f"No {kind.title}: {why_not(summary, kind.metrics)}.")
            continue
        title = kind.title
        if len(kind.metrics) > 1:
            title += f" {_PERCENTILES[found[0].metric.rsplit('_', 1)[1]]}"
        panels.append(curve_panel(title, found, kind.unit, names, summary))
    return panels, missing


def _along(summary: SweepSummary, axis: str) -> Figure | Absent:
    panels, missing = _curves(summary, [c for c in summary.curves if c.axis == axis], CURVES)
    about = {p.arm for p in summary.points}
    marks = [s.sentence for s in summary.stops_paying if s.axis == axis]
    marks += [k.sentence for k in summary.knee if k.axis == axis and k.arm in about]
    caption = " ".join([*(f"{text}." for text in marks[:_SENTENCES]), BARS])
    found = figure(f"along-{axis}", f"Along {AXES[axis]}", caption, panels, missing)
    return _or_absent(found, summary.reasons.get("curves", "no visit has a number"))


def _decomposition(summary: SweepSummary) -> Figure | Absent:
    """Along k where it is an axis, else along the first axis that has costs."""
    title = "Where the speed comes from: decoding is E ÷ c times as fast"
    costs = [c for c in summary.curves if c.metric == "c"]
    if not costs:
        return Absent(title, _why_no_cost(summary))
    axes = {c.axis for c in costs}
    axis = "k" if "k" in axes else next(name for name in summary.axes if name in axes)
    about = {(c.arm, tuple(c.where.items())) for c in costs if c.axis == axis}
    curves = [c for c in summary.curves if c.axis == axis and (c.arm, tuple(c.where.items())) in about]
    panels, missing = _curves(summary, curves, _PARTS)
    caption = (
        "E: tokens per decode step; a server without speculation makes one. c: cost of a step beside the baseline's. "
        f"Decoding gains where E is above c. {BARS}"
    )
    return figure("decomposition", title, caption, panels, missing)


def _why_no_cost(summary: SweepSummary) -> str:
    told = (p.c.reason for p in summary.points if p.c is not None and p.c.reason)
    return next(told, None) or why_not(summary, ("c", "speedup"))


def _positions(summary: SweepSummary) -> Figure | Absent:
    """A panel a setting, those nearest to the baseline's first; a series a visit: so their scatter is seen."""
    title = "Acceptance by position in the draft"
    settings: dict[str, list[PointResult]] = {}
    for p in sorted(summary.points, key=lambda p: _away(p, summary)):
        if p.state == "done" and p.per_position.get(p.arm):
            settings.setdefault(where_text(p.values), []).append(p)
    panels = []
    for setting, visits in settings.items():
        most = max(len(p.per_position[p.arm]) for p in visits)
        categories = [str(i + 1) for i in range(most)]
        lines: list[Line] = []
        for i, p in enumerate(visits):
            points = {str(at + 1): point(n, "share") for at, n in enumerate(p.per_position[p.arm])}
            lines.append((f"visit {p.visit + 1}", i, points, False))
        panels.append(panel(setting, "position", categories, lines, "share"))
    caption = "Share of all rounds that drafted a token at this place in which it was accepted. Each visit by itself."
    why = "no visit has counts by position: no arm drafted, or its server does not tell them"
    return _or_absent(figure("positions", title, caption, panels), summary.reasons.get("curves", why))


def _away(p: PointResult, summary: SweepSummary) -> int:
    return sum(summary.baseline.get(name) != value for name, value in p.values.items() if name != "k")


def _map(summary: SweepSummary) -> Figure | Absent:
    """Task types down, an axis across; a panel a setting of the others."""
    title = "Speedup by task type"
    found = [c for c in (*summary.curves, *summary.by_task) if c.metric == "speedup" and "task_type" in c.where]
    axes = {c.axis for c in found}
    if not axes:
        return Absent(title, _why_no_map(summary))
    axis = next((name for name in _ACROSS if name in axes), next(iter(axes)))
    panels: dict[str, list[Curve]] = {}
    for curve in found:
        if curve.axis == axis:
            rest = {name: value for name, value in curve.where.items() if name != "task_type"}
            panels.setdefault(series_name(curve.arm, rest, summary.arms), []).append(curve)
    made = []
    for name, curves in panels.items():
        lines: list[Line] = [
            (str(c.where["task_type"]), i, {value_text(at.level): point(at.value, "times") for at in c.points}, False)
            for i, c in enumerate(curves)
        ]
        levels = [value_text(at.level) for at in curves[0].points]
        made.append(panel(name, AXES[axis], levels, lines, "times", kind="heat", reference=1.0))
    caption = "Above 1 speculation is faster; the colour is stronger the farther it is from 1."
    return figure("map", f"{title} and {AXES[axis]}", caption, made)


def _why_no_map(summary: SweepSummary) -> str:
    if not any(p.by_task for p in summary.points) and "task_type" not in summary.axes:
        return "no point tells two task types apart"
    if not any(len(levels) > 1 for name, levels in summary.axes.items() if name != "task_type"):
        return "no axis beside task_type has two values or more"
    return "task types have a speedup where a baseline arm runs beside the candidate, or where task_type is an axis"


def _best_k(summary: SweepSummary) -> Figure | Absent:
    title = "Best draft length"
    told = [best for best in summary.best_k if best.k is not None]
    if not told:
        reasons = [best.reason or best.sentence for best in summary.best_k]
        return Absent(title, summary.reasons.get("best_k") or next(iter(reasons), "not measured"))
    along = next((name for name in summary.axes if name != "k" and len(summary.axes[name]) > 1), None)
    lines: dict[str, dict[str, Point | None]] = {}
    for best in told:
        rest = {name: value for name, value in best.where.items() if name != along and len(summary.axes[name]) > 1}
        at = value_text(best.where[along]) if along else "all"
        lines.setdefault(where_text(rest) or "best k", {})[at] = _k_point(best)
    levels = list(summary.axes[along]) if along else []
    categories, axis = ([value_text(v) for v in levels], AXES[along]) if along else (["all"], "setting")
    made = panel(
        "k, and what is not told from it", axis, categories,
        [(name, i, points, False) for i, (name, points) in enumerate(lines.items())], "number", kind="points",
        at=places(along, levels) if along else None,
    )  # fmt: skip
    caption = (
        "0: speculation off. Bars reach over the draft lengths that are not shown to be worse; hollow: there is no "
        "other, or there were too few visits to tell, which the table says."
    )
    return figure("best-k", title, caption, [made])


def _k_point(best: BestKResult) -> Point:
    others = ", ".join("off" if k == 0 else str(k) for k in best.not_worse if k != best.k)
    text = ("off" if best.k == 0 else f"{best.k}") + (f" (not told from {others})" if others else "")
    known = best.not_worse or [best.k or 0]
    return Point(float(best.k or 0), float(min(known)), float(max(known)), Cell(text, best.reason or ""))


def _cost(summary: SweepSummary) -> Figure | Absent:
    made = [_cost_panel(cost) for cost in summary.cost]
    caption = f"Cost of a decode step beside a plain one; the line 1 + a + b × k is an estimate. {BARS}"
    reasons = [cost.reason for cost in summary.cost if cost.reason]
    why = summary.reasons.get("cost") or next(iter(reasons), "no visit has a cost")
    return _or_absent(figure("cost", "Cost of a step by draft length", caption, made), why)


def _cost_panel(cost: CostResult) -> Made:
    ks = sorted(cost.c)
    lines: list[Line] = [("measured", 0, {str(k): point(cost.c[k], "times") for k in ks}, False)]
    a, b = cost.intercept.value, cost.per_draft.value
    if a is not None and b is not None:
        lines.append(("1 + a + b × k", 1, {str(k): plain(1 + a + b * k, "times") for k in ks}, True))
    at = places("k", ks)
    return panel(where_text(cost.where) or "all", AXES["k"], [str(k) for k in ks], lines, "times", reference=1.0, at=at)


def _advice(summary: SweepSummary) -> Figure | Absent:
    made = [p for advice in summary.advice for p in _advice_panels(advice)]
    caption = (
        "Predicted by playing the accepted sequences of the largest k again at every smaller one; measured at those of "
        "the sweep. Bars of a prediction: its bounds, and its interval over the cases; of a measurement: 95 % "
        "intervals over the visits."
    )
    reasons = [advice.reason for advice in summary.advice if advice.reason]
    why = summary.reasons.get("advice") or next(iter(reasons), "nothing could be played again")
    return _or_absent(figure("advice", "The draft-length advisor beside the sweep", caption, made), why)


def _advice_panels(advice: AdviceResult) -> list[Made]:
    ks = [at.k for at in advice.at]
    setting = where_text(advice.where)
    made = []
    for title, predicted, measured in (
        ("E, tokens per step", {a.k: a.e for a in advice.at}, {a.k: a.measured_e for a in advice.at}),
        ("speedup", {a.k: a.speedup for a in advice.at}, {a.k: a.measured_speedup for a in advice.at}),
    ):
        lines: list[Line] = [
            (f"predicted ({advice.label})", 1, {str(k): point(predicted[k], "times") for k in ks}, True),
            ("measured", 0, {str(k): point(measured[k], "times") for k in ks}, False),
        ]
        name = f"{title}, {setting}" if setting else title
        made.append(panel(name, AXES["k"], [str(k) for k in ks], lines, "times", reference=1.0, at=places("k", ks)))
    return made


def _context(summary: SweepSummary) -> Figure | Absent:
    title = "How it goes with the length of the input"
    if not summary.decay:
        return Absent(title, summary.reasons.get("decay", "not measured"))
    panels, missing = _curves(summary, [c for c in summary.curves if c.axis == "input_len"], _CONTEXT)
    told = [f"{decay.sentence}." for decay in summary.decay[: len(_CONTEXT)]]
    return _or_absent(figure("context", title, " ".join([*told, BARS]), panels, missing), "no visit has a number")


def _search(summary: SweepSummary) -> Figure | Absent:
    made = [_search_panel(found) for found in summary.max_rate]
    told = " ".join(f"{found.sentence}." for found in summary.max_rate[:_SENTENCES])
    caption = f"Every run at a rate, in their order, by its outcome; the dashed line is the rate that was found. {told}"
    why = summary.reasons.get("max_rate") or next((f.reason for f in summary.max_rate if f.reason), "no run was made")
    return _or_absent(figure("search", "Search for the highest rate within the SLOs", caption, made), why)


def _search_panel(found: MaxRateResult) -> Made:
    categories = [str(i + 1) for i in range(len(found.visits))]
    lines: list[Line] = []
    for outcome, colour in _OUTCOMES.items():
        points: Mapping[str, Point | None] = {
            str(i + 1): Point(v.rate_per_s, None, None, Cell(f"{v.rate_per_s:g}/s: {v.why}"))
            for i, v in enumerate(found.visits)
            if v.outcome == outcome
        }
        if points:
            lines.append((outcome, colour, points, False))
    name = ", ".join(filter(None, (found.arm, where_text(found.where))))
    return panel(name, "run", categories, lines, "number", reference=found.rate_per_s.value)


def _drift(summary: SweepSummary) -> Figure | Absent:
    made = []
    for metric in dict.fromkeys(drift.metric for drift in summary.drift):
        drifts = [drift for drift in summary.drift if drift.metric == metric]
        times = sorted({at.at_s for drift in drifts for at in drift.points})
        unit: Unit = "s" if "_s_p" in metric else "number"
        lines: list[Line] = [
            (drift.arm, i, {_time(at.at_s): plain(at.value, unit) for at in drift.points}, False)
            for i, drift in enumerate(drifts)
        ]
        made.append(
            panel(_DRIFTS.get(metric, metric), "begin of the visit", [_time(t) for t in times], lines, unit, at=times)
        )
    caption = "The same point again and again: what changes here was not changed by the sweep."
    return _or_absent(figure("drift", "The baseline point over the time of the sweep", caption, made),
                      summary.reasons.get("drift", "not measured"))  # fmt: skip


def _time(at_s: float) -> str:
    return f"{at_s:.1f}"
