"""Tables of the terminal report. A table takes groups of the summary and shows them; it computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table

from loadgen.analyze import D, Decomposition, G, N, Reconciliation, Summary
from loadgen.report.format import (
    DASH,
    count,
    number,
    percent,
    ratio,
    seconds,
    share_range,
    sparkline,
    with_n,
)


def _table(title: str, columns: Iterable[str], *, left: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", no_wrap=True)
    return table


def _pair(d: D, low: str, high: str) -> str:
    if d.n == 0:
        return DASH
    return f"{seconds(getattr(d, low))} / {seconds(getattr(d, high))}"


def outcomes(summary: Summary) -> Table:
    """Asked against delivered, and how every request ended."""
    columns = ("arm", "scheduled", "sent", "ok", "not ok", "dropped", "unsent", "late", "wasted tok.")
    table = _table("Requests", columns)
    for name, arm in summary.arms.items():
        r = arm.overall.requests
        failed = ", ".join(f"{v} {k}" for k, v in r.outcomes.items() if v and k != "ok") or "0"
        table.add_row(
            name,
            count(r.scheduled),
            count(r.sent),
            count(r.outcomes.get("ok", 0)),
            failed,
            count(r.dropped),
            count(r.unsent),
            count(r.late),
            count(arm.overall.throughput.wasted_tokens),
        )
    return table


def _stages(groups: Iterable[G]) -> list[G]:
    return [g for g in groups if g.stage is not None and g.task_type is None]


def by_stage(summary: Summary) -> Table:
    """Latency and throughput of every arm at every load."""
    table = _table(
        "By load (streaming, ok requests)",
        ("stage", "arm", "n", "net tok/s", "TTFT p50 / p95", "TPOT p50 / p95", "total p50 / p95"),
        left=2,
    )
    for name, g in _by_stage(summary, table):
        table.add_row(
            g.stage,
            name,
            count(g.stream.ttft_s.n),
            number(g.throughput.net_tokens_per_s.value),
            _pair(g.stream.ttft_s, "p50", "p95"),
            _pair(g.tpot_s, "p50", "p95"),
            _pair(g.stream.total_time_s, "p50", "p95"),
        )
    return table


def stutter(summary: Summary) -> Table:
    """What a reader sees: the gaps between arrivals, and what each token took. Never the same number."""
    table = _table(
        "Chunks and tokens (a chunk is not a token)",
        ("stage", "arm", "chunk gap p50 / p99", "n", "token latency p50 / p99", "n", "tokens/chunk", "jitter"),
        left=2,
    )
    for name, g in _by_stage(summary, table):
        table.add_row(
            g.stage,
            name,
            _pair(g.chunk_gap_s, "p50", "p99"),
            count(g.chunk_gap_s.n),
            _pair(g.token_latency_s, "p50", "p99"),
            count(g.token_latency_s.n),
            number(g.tokens_per_chunk.mean),
            number(g.jitter.value),
        )
    return table


def _by_stage(summary: Summary, table: Table) -> Iterator[tuple[str, G]]:
    """(arm, group) stage by stage, a rule between stages."""
    stages = list(dict.fromkeys(g.stage for arm in summary.arms.values() for g in _stages(arm.by)))
    for stage in stages:
        for name, arm in summary.arms.items():
            yield from ((name, g) for g in _stages(arm.by) if g.stage == stage)
        table.add_section()


def from_due(summary: Summary) -> Table:
    """Latency from the time the schedule wanted: what a queue in front of us would hide."""
    table = _table("From due (coordinated omission made visible)", ("arm", "n", "TTFT p50 / p95", "total p50 / p95"))
    for name, arm in summary.arms.items():
        s = arm.overall.stream
        table.add_row(
            name,
            count(s.ttft_from_due_s.n),
            _pair(s.ttft_from_due_s, "p50", "p95"),
            _pair(s.total_time_from_due_s, "p50", "p95"),
        )
    return table


def non_streaming(summary: Summary) -> Table | None:
    """Whole responses of requests that did not stream: never pooled with streaming ones."""
    rows = [(n, a.overall.non_stream.total_time_s) for n, a in summary.arms.items()]
    if not any(d.n for _, d in rows):
        return None
    table = _table("Not streamed: whole response time", ("arm", "n", "p50", "p95", "p99", "max"))
    for name, d in rows:
        table.add_row(name, count(d.n), seconds(d.p50), seconds(d.p95), seconds(d.p99), seconds(d.max))
    return table


def speculation_by_task(summary: Summary) -> Table | None:
    rows = [
        (name, g)
        for name, arm in summary.arms.items()
        for g in [arm.overall, *(g for g in arm.by if _only(g, "task_type"))]
        if g.speculation.rounds.n or g.speculation.acceptance_rate.value is not None
    ]
    if not rows:
        return None
    sources = ", ".join(dict.fromkeys(g.speculation.acceptance_rate.source for _, g in rows))
    table = _table(
        f"Speculation by task type (α = accepted / drafted; source: {sources})",
        (
            "arm",
            "task",
            "drafted",
            "α",
            "rounds",
            "E verif.",
            "E emit.",
            "E decode",
            "covered",
            "rollback",
            "α by pos.",
        ),
        left=2,
    )
    for name, g in rows:
        s = g.speculation
        table.add_row(
            name,
            g.task_type or "all",
            count(s.drafted.value),
            percent(s.acceptance_rate.value),
            count(s.rounds.value),
            number(s.e_verified.value),
            number(s.e_emitted.value),
            number(s.e_decode.value),
            percent(s.draft_coverage.value),
            share_range(s.rollback_rate),
            sparkline([p.value for p in s.per_position], low=0, high=1),
        )
    return table


def rollback_by_length(summary: Summary) -> Table | None:
    """Rollback rate over input and output length segments."""
    rows = [
        (name, kind, segment, g)
        for name, arm in summary.arms.items()
        for g in arm.by
        for kind, segment in (("input", g.input_segment), ("output", g.output_segment))
        if segment is not None and g.task_type is None and g.speculation.rollback_rate.n
    ]
    if not rows:
        return None
    table = _table("Rollback by length (tokens)", ("arm", "of", "segment", "rollback", "exact", "α"), left=3)
    for name, kind, segment, g in rows:
        r = g.speculation.rollback_rate
        table.add_row(
            name,
            kind,
            segment,
            with_n(share_range(r), r),
            "yes" if r.exact else "interval",
            percent(g.speculation.acceptance_rate.value),
        )
    return table


def decomposition(rows: list[Decomposition]) -> Table | None:
    if not rows:
        return None
    table = _table(
        "Where the time goes: decoding is E / c times faster",
        (
            "stage",
            "candidate",
            "E tokens/step",
            "c step cost",
            "E / c",
            "running (base / cand.)",
            "like for like",
        ),
        left=2,
    )
    for row in rows:
        table.add_row(
            row.stage,
            row.candidate,
            number(row.e_decode.value),
            number(row.c.value),
            ratio(row.speedup_decode.value),
            f"{number(row.baseline_running.value)} / {number(row.candidate_running.value)}",
            {True: "yes", False: "[yellow]no[/yellow]", None: "not known"}[row.like_for_like],
        )
    return table


def disagreements(rows: list[Reconciliation]) -> Table | None:
    """Only what does not agree; the caller says how many checks there were."""
    bad = [r for r in rows if r.ok is False]
    if not bad:
        return None
    table = _table(
        "Sources that disagree",
        ("arm", "window", "number", "client", "server", "difference", "allowed", "note"),
        left=3,
    )
    for r in bad:
        table.add_row(
            r.arm,
            r.window,
            r.name,
            number(r.client),
            number(r.server),
            number(r.difference),
            number(r.tolerance),
        )
    return table


def client(facts: dict[str, N]) -> Table:
    """Was the client the bottleneck?"""
    table = _table("This client", ("measure", "value", "n"))
    for name, n in facts.items():
        table.add_row(name, _fact(name, n.value) if n.value is not None else DASH, count(n.n))
    return table


def _fact(name: str, value: float) -> str:
    """By the unit in the measure's name."""
    if name.endswith("_s"):
        return seconds(value)
    return percent(value) if "share" in name else number(value)


def _only(g: G, key: str) -> bool:
    keys = ("task_type", "input_segment", "output_segment", "stage", "temperature")
    return [k for k in keys if getattr(g, k) is not None] == [key]
