"""Tables of the page: every number of the figures, and those that no figure shows. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadgen.analyze import Absent, ComparisonRow, D, G, Metric, Summary
from loadgen.record import Manifest
from loadgen.report import stability
from loadgen.report.figures import level, whole_of
from loadgen.report.format import DASH, count, number, percent, seconds, share_range
from loadgen.report.page import SPACE, Cell, Row, Table, Unit, bounded, joined, shown, told
from loadgen.report.resources import page_tables

#: Rows of one table, and characters of one value
ROWS, WIDTH = 150, 120
_TONE = {"faster": "good", "slower": "bad", "not enough data": "warning", "inconclusive": "bad"}
_WEIGHT = {
    "inconclusive": "verdict is inconclusive",
    "declared": "declared by the scenario",
    "may_differ": "part of what is compared",
    "noted": "noted",
}
_OK = {
    True: (f"✓{SPACE}pass", "good"),
    False: (f"✗{SPACE}fail", "bad"),
    None: (f"?{SPACE}inconclusive", "warning"),
}
_COMPARED = (
    "load", "arm", "shown", "speedup", "of", "blocks", "requests", "E", "c", "E ÷ c", "running, base / arm",
    "acceptance", "rollback",
)  # fmt: skip


def tables(summary: Summary, manifest: Manifest) -> dict[str, list[Table]]:
    """By section of the page. Tables without rows are left out."""
    rows = [] if isinstance(summary.comparison, Absent) else summary.comparison
    made: dict[str, list[Table]] = {
        "comparison": compared(rows),
        "arms": [_arm(name, arm.overall, arm.by) for name, arm in summary.arms.items()],
        "failures": [_failures(summary)],
        "resources": page_tables(summary.resources),
        "stability": stability.page_tables(summary),
        "checks": [_disagreements(summary), _client(summary), _cache(summary), _prompts(summary)],
        "environment": [_differences(summary), _environment(manifest)],
        "conditions": [_conditions(summary.conditions)],
    }
    return {section: [t for t in found if t.rows] for section, found in made.items()}


def thresholds(verdict: Mapping[str, Any]) -> Table:
    """Each threshold of verdict.json."""
    kept, note = bounded([_threshold(t) for t in verdict.get("thresholds") or ()], ROWS, "thresholds")
    return Table("Thresholds", ("result", "threshold", "measured", "interval", "limit", "n"), kept, 2, note)


def _threshold(t: Mapping[str, Any]) -> Row:
    """`value`, `interval` and `limit` are in the same terms: multiples of the baseline, or the metric's unit."""
    word, tone = _OK[t.get("ok")]
    relative = t.get("relative")
    unit: Unit = "s" if t.get("unit") == "s" and relative != "ratio" else "number"
    than = {"ratio": " × baseline", "difference": " above baseline"}.get(relative or "", "")
    low, high = t.get("interval") or (None, None)
    interval = DASH if t.get("interval") is None else f"[{_bound(low, unit, '−∞')},{SPACE}{_bound(high, unit, '∞')}]"
    limit = f"{t.get('op') or ''} {shown(t.get('limit'), unit)}{than}".strip()
    n = f"{count(t.get('n'))} {t.get('n_unit') or ''}".strip()
    measured = Cell(shown(t.get("value"), unit), t.get("reason") or "")
    return Row([word, str(t.get("name")), measured, interval, limit.replace(" ", SPACE), n.replace(" ", SPACE)], tone)


def _bound(value: float | None, unit: Unit, absent: str) -> str:
    return absent if value is None else shown(value, unit)


def compared(rows: Sequence[ComparisonRow]) -> list[Table]:
    """Whole stages, their parts, and every number of both arms."""
    stages = whole_of(rows)
    return [_compared(stages), _parts(rows), _numbers(stages)]


def _compared(rows: Sequence[ComparisonRow]) -> Table:
    kept, note = bounded([_compared_row(r) for r in rows], ROWS, "rows")
    family = max((r.family for r in rows), default=1)
    words = f"Words hold for all {family} loads together; intervals are 95 % each." if family > 1 else None
    return Table("Each load beside the baseline", _COMPARED, kept, 3, joined((words, note)))


def _compared_row(r: ComparisonRow) -> Row:
    kind = {"net_throughput": "net throughput", "tpot": "speed per token"}[r.speedup.kind]
    alike = {True: "", False: "different batches", None: ""}[r.like_for_like]
    running = Cell(f"{number(r.baseline_running.value)} / {number(r.candidate_running.value)}", alike)
    pairing = f"{r.blocks}{SPACE}{'paired' if r.paired else 'unpaired'}"
    cells: list[str | Cell] = [level(r), r.candidate, r.verdict_word, told(r.speedup.value, "times"), kind, pairing]
    cells += [count(r.requests), *(told(n, "times") for n in (r.e_decode, r.c, r.speedup_decode)), running]
    cells += [told(r.acceptance_rate, "share"), share_range(r.rollback_rate)]
    return Row(cells, _TONE.get(r.verdict_word, ""))


def _parts(rows: Sequence[ComparisonRow]) -> Table:
    parts = [r for r in rows if r.task_type or r.input_segment or r.output_segment]
    kept, note = bounded([_part(r) for r in parts], ROWS, "rows")
    head = ("load", "arm", "task", "input", "output", "shown", "requests", "per token", "whole response", "acceptance",
            "rollback")  # fmt: skip
    return Table("By task type and length (above 1: faster)", head, kept, 6, note)


def _part(r: ComparisonRow) -> Row:
    labels = [level(r), r.candidate, r.task_type or "all", r.input_segment or "all", r.output_segment or "all"]
    speeds = [told(r.speedup.value, "times"), told(r.speedup.total_time, "times"), told(r.acceptance_rate, "share")]
    cells: list[str | Cell] = [*labels, r.verdict_word, count(r.requests), *speeds, share_range(r.rollback_rate)]
    return Row(cells, _TONE.get(r.verdict_word, ""))


def _numbers(rows: Sequence[ComparisonRow]) -> Table:
    every = [(r, m) for r in rows for m in r.metrics]
    kept, note = bounded(every, ROWS, "rows")
    head = ("load", "arm", "number", "baseline", "candidate", "ratio", "difference")
    caption = "Both arms, percentiles of all requests sent (a failed one counts as never answered)"
    return Table(caption, head, [_number(r, m) for r, m in kept], 3, note)


def _number(r: ComparisonRow, m: Metric) -> Row:
    units: Mapping[str, Unit] = {"s": "s", "1": "share"}
    unit = units.get(m.unit, "number")
    name = f"{m.name} {m.aggregate}" + ("" if m.unit in units else f" ({m.unit})")
    difference: str | Cell = DASH if m.difference is None else told(m.difference, unit)
    cells = [told(m.baseline, unit), told(m.candidate, unit), told(m.ratio, "times"), difference]
    return Row([level(r), r.candidate, name, *cells])


def _arm(name: str, overall: G, by: Sequence[G]) -> Table:
    """Successful requests only: beside the figures' view of all sent."""
    kept, note = bounded([overall, *by], ROWS, "groups")
    head = ("group", "sent", "ok", "tokens/s", "goodput/s", "TTFT P50 / P95 / P99", "TPOT P50 / P95 / P99",
            "total P50 / P95 / P99", "tokens/step", "acceptance", "rollback")  # fmt: skip
    return Table(f"{name}: latencies of successful streamed requests, group by group", head, list(map(_group, kept)),
                 1, note)  # fmt: skip


def _group(g: G) -> Row:
    keys = ("stage", "concurrency", "task_type", "input_segment", "output_segment", "temperature", "top_p", "top_k")
    named = ", ".join(f"{k.removesuffix('_segment')} {getattr(g, k)}" for k in keys if getattr(g, k) is not None)
    s, rates = g.speculation, g.throughput
    latencies = [_quantiles(d) for d in (g.stream.ttft_s, g.tpot_s, g.stream.total_time_s)]
    cells: list[str | Cell] = [named or "all", count(g.requests.sent), count(g.requests.outcomes.get("ok", 0))]
    cells += [number(rates.net_tokens_per_s.value), number(rates.goodput_requests_per_s.value), *latencies]
    cells += [number(s.e_decode.value), percent(s.acceptance_rate.value), share_range(s.rollback_rate)]
    return Row(cells)


def _quantiles(d: D) -> str:
    return " / ".join(seconds(value) for value in (d.p50, d.p95, d.p99))


def _failures(summary: Summary) -> Table:
    rows = [
        Row([arm, f.outcome, "" if f.error_status is None else str(f.error_status), ", ".join(f.task_types),
             _cut(f.example or ""), count(f.n)], "bad")
        for arm, found in summary.arms.items()
        for f in found.failures
    ]  # fmt: skip
    kept, note = bounded(rows, ROWS, "causes")
    return Table("Requests that did not succeed", ("arm", "outcome", "status", "tasks", "said", "n"), kept, 5, note)


def _disagreements(summary: Summary) -> Table:
    checks = summary.reconciliation
    bad = [r for r in checks if r.ok is False]
    rows = [
        Row([r.arm, r.window, r.name, number(r.client), number(r.server), number(r.tolerance), _cut(r.note)], "warning")
        for r in bad
    ]
    kept, note = bounded(rows, ROWS, "disagreements")
    head = ("arm", "window", "number", "client", "server", "allowed", "note")
    return Table("Sources that disagree", head, kept, 3, note)


def agreement(summary: Summary) -> str:
    """How many numbers had two sources, and in how many both said the same."""
    states = [r.ok for r in summary.reconciliation]
    told, open_ = len(states) - states.count(None), states.count(None)
    more = f"; {count(open_)} could not be checked" if open_ else ""
    return f"Sources agree in {count(states.count(True))} of {count(told)} checks{more}."


def _client(summary: Summary) -> Table:
    rows = []
    for name, n in summary.validity.client.items():
        unit: Unit = "s" if name.endswith("_s") else "share" if "share" in name else "number"
        rows.append(Row([name, Cell(shown(n.value, unit), "" if n.value is not None else n.reason or ""), count(n.n)]))
    return Table("This client: was it the bottleneck?", ("measure", "value", "n"), rows)


def _cache(summary: Summary) -> Table:
    rows = [Row([c.arm, str(c.repeat_idx), told(c.share, "share")]) for c in summary.equality.cache_hits]
    kept, note = bounded(rows, ROWS, "rows")
    return Table("Prompt tokens found in the prefix cache", ("arm", "repeat", "share"), kept, 2, note)


def _prompts(summary: Summary) -> Table:
    rows = [
        Row([p.arm, count(p.cases), count(p.mismatched), Cell(number(p.median_difference), p.reason or "")],
            "warning" if p.mismatched else "")
        for p in summary.equality.prompt_tokens
    ]  # fmt: skip
    head = ("arm", "cases", "mismatched", "median difference (tokens)")
    return Table("Prompt tokens beside the baseline's, case by case", head, rows)


def _differences(summary: Summary) -> Table:
    """What keeps a verdict from being reached first."""
    order = list(_WEIGHT)
    found = sorted(summary.environment, key=lambda d: order.index(d.rule))
    arms = list(dict.fromkeys(arm for d in found for arm in d.values))
    rows = [
        Row([d.key, _WEIGHT[d.rule], *(_value(d.values.get(arm)) for arm in arms), d.text], _TONE.get(d.rule, ""))
        for d in found
    ]
    kept, note = bounded(rows, ROWS, "differences")
    return Table("What is not alike", ("fact", "rule", *arms, "why"), kept, 3 + len(arms), note)


def _environment(manifest: Manifest) -> Table:
    """Every captured fact of every arm."""
    arms = manifest.arms
    keys = sorted({key for facts in arms.values() for key in facts.environment})
    rows = []
    for key in keys:
        found = [facts.environment.get(key) for facts in arms.values()]
        cells = [Cell(DASH, "not captured") if f is None else Cell(_value(f.value), f.reason or "") for f in found]
        sources = ", ".join(dict.fromkeys(f.source for f in found if f is not None and f.source))
        rows.append(Row([key, *cells, sources]))
    kept, note = bounded(rows, 2 * ROWS, "facts")
    return Table("Environment of each arm", ("fact", *arms, "source"), kept, 2 + len(arms), note)


def _conditions(conditions: Mapping[str, Any]) -> Table:
    kept, note = bounded([Row([key, _cut(value)]) for key, value in _flat(conditions)], 2 * ROWS, "conditions")
    return Table("Every number holds under these, and is not extrapolated beyond them", ("condition", "value"), kept,
                 2, note)  # fmt: skip


def _flat(conditions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in conditions.items():
        if isinstance(value, Mapping) and key == "arms":
            for arm, facts in value.items():
                yield from ((f"{arm}: {k}", _value(v)) for k, v in facts.items() if k != "environment")
        elif isinstance(value, Mapping):
            yield key, ", ".join(f"{k} {_value(v)}" for k, v in value.items()) or DASH
        else:
            yield key, _value(value)


def _value(value: Any) -> str:
    """A fact as text; long ones are cut, all of them stand in summary.json and manifest.json."""
    if value is None or value == "" or value == [] or value == {}:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{k} {_value(v)}" for k, v in value.items()))
    return _cut("; ".join(map(_value, value)) if isinstance(value, list) else str(value))


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
