"""Figures of the page. They take numbers with their intervals from the summary, and compute none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from loadgen.analyze import Absent, AllSent, ComparisonRow, D, G, N, Rollback, Summary
from loadgen.report.page import Figure, Kind, Panel, Point, Series, Unit, bounded, drawn, joined, plain, point, ranged

#: A figure with more than these is not read any more: categories and series of a panel, panels of a figure
CATEGORIES, SERIES, PANELS = 24, 8, 6
ALL_SENT = "Percentiles of all requests sent: one that failed counts as never answered."
LATENCIES = (
    ("ttft_s", "Time to first token (TTFT)"),
    ("tpot_s", "Time per output token after the first (TPOT)"),
    ("total_time_s", "Total time of a response"),
)
QUANTILES = ("p50", "p95", "p99")
_OF: Mapping[str, Callable[[G], D]] = {
    "ttft_s": lambda g: g.stream.ttft_s,
    "tpot_s": lambda g: g.tpot_s,
    "total_time_s": lambda g: g.stream.total_time_s,
}
_BARS = "Bars: 95 % intervals."
_HOLLOW = "Hollow: no interval."
#: Places in the palette that do not change from run to run
_KINDS = {"ok": 0, "stream_error": 1}
_ALWAYS = ("scheduled", "sent")
_COUNTS = ("scheduled", "sent", "late", "dropped", "unsent", "capped_in_flight", "capped_rate")

#: Name, place in the palette, point of each category
Line = tuple[str, int, Mapping[str, Point | None]]
Made = tuple[Panel, str | None]


def figures(summary: Summary) -> list[Figure]:
    """Those of which anything was measured, in the order of the page."""
    made = (
        speedup(whole(summary), list(summary.arms)),
        _decomposition(summary),
        *(_latency(summary, *metric) for metric in LATENCIES),
        _throughput(summary),
        _acceptance(summary),
        _positions(summary),
        _rollback(summary),
        _outcomes(summary),
        _load(summary),
    )
    return measured(made)


def measured(made: Iterable[Figure]) -> list[Figure]:
    """Panels of which anything can be drawn."""
    kept = ((f, [p for p in f.panels if drawn(p)]) for f in made)
    return [Figure(f.id, f.title, f.caption, panels, f.note) for f, panels in kept if panels]


def whole(summary: Summary) -> list[ComparisonRow]:
    """Rows of whole stages; none where nothing is compared."""
    return [] if isinstance(summary.comparison, Absent) else whole_of(summary.comparison)


def whole_of(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    return [r for r in rows if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]


def level(of: ComparisonRow | G) -> str:
    """A stage's name, with its concurrency where the name does not say it."""
    stage = of.stage or "all"
    return stage if of.concurrency is None or str(of.concurrency) in stage else f"{stage} ({of.concurrency})"


def only(g: G, *keys: str) -> bool:
    """Whether exactly these selectors name the group."""
    selectors = ("task_type", "input_segment", "output_segment", "stage", "temperature", "top_p", "top_k")
    return {k for k in selectors if getattr(g, k) is not None} == set(keys)


def _stages(summary: Summary) -> dict[str, dict[str, G]]:
    """Groups of each arm by load; the whole arm where it has no stage."""
    found = {name: {level(g): g for g in arm.by if only(g, "stage")} for name, arm in summary.arms.items()}
    return {name: groups or {"all": summary.arms[name].overall} for name, groups in found.items()}


def _speculating(summary: Summary) -> list[str]:
    return [name for name, arm in summary.arms.items() if arm.overall.speculation.rounds.value]


def _union(keys: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(key for some in keys for key in some))


def _panel(
    title: str,
    axis: str,
    categories: Sequence[str],
    lines: Sequence[Line],
    unit: Unit,
    *,
    kind: Kind = "points",
    reference: float | None = None,
    wide: bool = False,
) -> Made:
    """Bounded; the sentence says what was left out."""
    shown, fewer = bounded(categories, CATEGORIES, f"places of «{axis}»")
    lines, less = bounded(lines, SERIES, "series")
    series = [Series(name, colour, [points.get(c) for c in shown]) for name, colour, points in lines]
    return Panel(title, axis, shown, series, unit, kind, reference, wide), joined((fewer, less))


def _figure(id_: str, title: str, caption: str, panels: Sequence[Made]) -> Figure:
    kept, fewer = bounded(panels, PANELS, "panels")
    return Figure(id_, title, caption, [p for p, _ in kept], joined((*(s for _, s in kept), fewer)))


def _by_level(rows: Sequence[ComparisonRow], arms: Sequence[str], title: str, of: Callable[[ComparisonRow], N]) -> Made:
    """A factor of the comparison by load and candidate."""
    lines: list[Line] = [
        (arm, colour, {level(r): point(of(r), "times") for r in rows if r.candidate == arm})
        for colour, arm in enumerate(arms)
        if any(r.candidate == arm for r in rows)
    ]
    return _panel(title, "load", _union([[level(r) for r in rows]]), lines, "times", reference=1.0)


def speedup(rows: Sequence[ComparisonRow], arms: Sequence[str]) -> Figure:
    """`rows` of whole stages; a candidate's colour is its place among `arms`."""
    whys: dict[str, list[str]] = {}
    for r in rows:
        whys[r.speedup.why] = list(dict.fromkeys([*whys.get(r.speedup.why, []), level(r)]))
    told = "; ".join(f"{', '.join(levels[:CATEGORIES])}: {why}" for why, levels in whys.items())
    caption = f"Above 1 the candidate is faster than {rows[0].baseline}. {told}. {_BARS} {_HOLLOW}" if rows else ""
    panels = [
        _by_level(rows, arms, "Speedup", lambda r: r.speedup.value),
        _by_level(rows, arms, "of time per token (TPOT)", lambda r: r.speedup.tpot),
        _by_level(rows, arms, "of whole responses", lambda r: r.speedup.total_time),
    ]
    return _figure("speedup", "Speedup by load", caption, panels)


_PARTS = (
    ("e_decode", "E, tokens per step"),
    ("c", "c, cost of a step"),
    ("speedup_decode", "E ÷ c, speed of decoding"),
)
_FROM_WHERE = "Where the speed comes from: decoding is E ÷ c times as fast"
_E_AND_C = (
    "E: tokens per decode step, candidate ÷ baseline. c: cost of a step, candidate ÷ baseline. "
    "Decoding gains where E is above c. "
)


def _decomposition(summary: Summary) -> Figure:
    if rows := whole(summary):
        return decomposition(rows, list(summary.arms))
    pooled, panels = summary.decomposition, []
    for key, name in _PARTS:
        lines: list[Line] = [
            (arm, colour, {r.stage: point(getattr(r, key), "times") for r in pooled if r.candidate == arm})
            for colour, arm in enumerate(summary.arms)
            if any(r.candidate == arm for r in pooled)
        ]
        panels.append(_panel(name, "load", _union([[r.stage for r in pooled]]), lines, "times", reference=1.0))
    return _figure("decomposition", _FROM_WHERE, f"{_E_AND_C}Pooled means without intervals.", panels)


def decomposition(rows: Sequence[ComparisonRow], arms: Sequence[str]) -> Figure:
    """As `speedup`."""
    made = [_by_level(rows, arms, name, lambda r, key=key: getattr(r, key)) for key, name in _PARTS]  # type: ignore[misc]
    return _figure("decomposition", _FROM_WHERE, f"{_E_AND_C}{_BARS} {_HOLLOW}", made)


def _latency(summary: Summary, metric: str, title: str) -> Figure:
    """By load and arm: from the comparison, with intervals, where it has the number; else from the arm."""
    stages, rows, panels = _stages(summary), whole(summary), []
    for q in QUANTILES:
        lines: list[Line] = []
        for colour, (arm, groups) in enumerate(stages.items()):
            points: dict[str, Point | None] = {at: _quantile(_OF[metric](g), q) for at, g in groups.items()}
            for r in rows:
                both = r.metric(metric, q)
                if both is not None and arm in (r.candidate, r.baseline):
                    found = point(both.candidate if arm == r.candidate else both.baseline, "s")
                    points[level(r)] = _better(found, points.get(level(r)))
            lines.append((arm, colour, points))
        panels.append(_panel(q.upper(), "load", _union(p for _, _, p in lines), lines, "s", wide=True))
    caption = f"Streamed responses. {ALL_SENT} Open triangle: a lower bound, the rank lies there."
    return _figure(metric, title, f"{caption} {_BARS} {_HOLLOW}", panels)


def _better(compared: Point | None, alone: Point | None) -> Point | None:
    """The comparison's, unless only the arm by itself has an interval of the same number."""
    if compared is None or alone is None:
        return compared or alone
    same = compared.y == alone.y and (compared.low, compared.high) == (None, None)
    return alone if same else compared


def _quantile(d: D, q: str) -> Point:
    """In the all-sent view where there is one. Intervals are of the ok view: the same where all requests are ok."""
    view: D | AllSent = d if d.all_sent is None else d.all_sent
    infinite = d.all_sent is not None and q in d.all_sent.infinite
    why = "among failed requests" if infinite else d.reasons.get(q) or d.reason or "too few samples"
    value = getattr(view, q)
    if value is None or q not in d.intervals or (d.all_sent is not None and d.all_sent.n != d.n):
        return plain(value, "s", why)
    low, high = d.intervals[q]
    return ranged(value, low, high, "s")


def _throughput(summary: Summary) -> Figure:
    stages, panels = _stages(summary), []
    for key, name in (
        ("net_tokens_per_s", "Output tokens per second"),
        ("goodput_requests_per_s", "Requests per second within every SLO"),
    ):
        lines: list[Line] = [
            (arm, i, {at: point(getattr(g.throughput, key), "number") for at, g in groups.items()})
            for i, (arm, groups) in enumerate(stages.items())
        ]
        panels.append(_panel(name, "load", _union(stages.values()), lines, "number"))
    caption = f"Of successful requests only, in the steady window of each load. {_HOLLOW}"
    return _figure("throughput", "Net throughput and goodput", caption, panels)


def _acceptance(summary: Summary) -> Figure:
    """By task; at each load with intervals where arms were compared."""
    rows = [] if isinstance(summary.comparison, Absent) else summary.comparison
    parts = [r for r in rows if r.task_type and not r.input_segment and not r.output_segment]
    panels = []
    for arm in _speculating(summary):
        mine = [r for r in parts if r.candidate == arm]
        lines: list[Line] = [
            (at, i, {r.task_type or "": point(r.acceptance_rate, "share") for r in mine if level(r) == at})
            for i, at in enumerate(dict.fromkeys(map(level, mine)))
        ]
        panels.append(_panel(arm, "task type", _union([[r.task_type or "" for r in mine]]), lines, "share"))
    caption = "Accepted ÷ drafted tokens: a mix of tasks is not one number."
    if parts:
        return _figure("acceptance", "Acceptance by task type and load", f"{caption} {_BARS}", panels)
    groups = {a: {g.task_type or "": g for g in summary.arms[a].by if only(g, "task_type")} for a in summary.arms}
    panel = _panel("all loads", "task type", _union(groups.values()), _of_groups(summary, groups, "acceptance_rate"),
                   "share")  # fmt: skip
    return _figure("acceptance", "Acceptance by task type", f"{caption} {_HOLLOW}", [panel])


def _of_groups(summary: Summary, groups: Mapping[str, Mapping[str, G]], name: str) -> list[Line]:
    """A number of the groups' speculation, of the arms that drafted."""

    def share(g: G) -> N | Rollback:
        found: N | Rollback = getattr(g.speculation, name)
        return found

    colours = list(summary.arms)
    return [
        (arm, colours.index(arm), {at: point(share(g), "share") for at, g in groups[arm].items()})
        for arm in _speculating(summary)
    ]


def _positions(summary: Summary) -> Figure:
    arms = {name: summary.arms[name].overall.speculation for name in _speculating(summary)}
    places = [str(i + 1) for i in range(max((len(s.per_position) for s in arms.values()), default=0))]
    colours, panels = list(summary.arms), []
    for key, title in (
        ("per_position", "of all rounds that drafted it"),
        ("per_position_conditional", "where all before it were accepted"),
    ):
        lines: list[Line] = [
            (a, colours.index(a), {p: point(n, "share") for p, n in zip(places, getattr(s, key), strict=False)})
            for a, s in arms.items()
        ]
        panels.append(_panel(title, "position", places, lines, "share"))
    caption = "How often the token at this place of a draft was accepted: what a longer draft would still win."
    return _figure("positions", "Acceptance by position in the draft", f"{caption} {_HOLLOW}", panels)


def _rollback(summary: Summary) -> Figure:
    panels = []
    for key, title in (("input_segment", "by input length (tokens)"), ("output_segment", "by output length (tokens)")):
        groups = {a: {getattr(g, key): g for g in arm.by if only(g, key)} for a, arm in summary.arms.items()}
        lines = _of_groups(summary, groups, "rollback_rate")
        panels.append(_panel(title, "segment", _union(groups.values()), lines, "share"))
    caption = "Rounds with a rejected token ÷ rounds. Where steps were not told one by one, bars show bounds."
    return _figure("rollback", "Rollback by length", caption, panels)


def _outcomes(summary: Summary) -> Figure:
    made: list[Made] = []
    for arm, groups in _stages(summary).items():
        kinds = _union([k for k, n in g.requests.outcomes.items() if n] for g in groups.values())
        lines: list[Line] = [
            (kind, _KINDS.get(kind, i + len(_KINDS)), {
                at: plain(float(g.requests.outcomes.get(kind, 0)), "number") for at, g in groups.items()
            })
            for i, kind in enumerate(kinds)
        ]  # fmt: skip
        made.append(_panel(arm, "load", list(groups), lines, "number", kind="stack"))
    rows = [(r, r.metric("error_share", "value")) for r in whole(summary)]
    errors: list[Line] = []
    for colour, arm in enumerate(summary.arms):
        points = {level(r): point(m.candidate if arm == r.candidate else m.baseline, "share")
                  for r, m in rows if m is not None and arm in (r.candidate, r.baseline)}  # fmt: skip
        if points:
            errors.append((arm, colour, points))
    made.append(_panel("Requests that did not succeed", "load", _union(p for _, _, p in errors), errors, "share"))
    caption = "Drawn as shares of the requests sent; the table counts them. A 200 is no success: every answer is read."
    return _figure("outcomes", "How requests ended", caption, made)


def _load(summary: Summary) -> Figure:
    stages = _stages(summary)
    asked = {at: plain(g.concurrency, "number") for groups in stages.values() for at, g in groups.items()}
    closed = [at for at, p in asked.items() if p.y is not None]
    flying: list[Line] = [("asked", len(stages), asked)]
    flying += [
        (arm, i, {at: point(g.conditions.concurrency_mean, "number") for at, g in groups.items()})
        for i, (arm, groups) in enumerate(stages.items())
    ]
    panels = [_panel("Requests in flight, mean of steady windows", "load", closed, flying, "number")]
    for arm, groups in stages.items():
        counts: list[Line] = [
            (key.replace("_", " "), i, {at: plain(getattr(g.requests, key), "number", "not counted")
                                        for at, g in groups.items()})
            for i, key in enumerate(_COUNTS)
            if key in _ALWAYS or any(getattr(g.requests, key) for g in groups.values())
        ]  # fmt: skip
        panels.append(_panel(f"Requests of {arm}", "load", list(groups), counts, "number", kind="bars"))
    caption = "Asked load is not delivered load: what the scenario asked for, and what this client did. "
    caption += f"Late, dropped, unsent and capped requests are shown where there are any. {_HOLLOW}"
    return _figure("load", "Load asked and delivered", caption, panels)
