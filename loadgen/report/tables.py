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
    significant,
    sparkline,
    with_n,
)


def _table(title: str, columns: Iterable[str], *, left: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        # never cut: a number that does not fit goes on in the next line
        table.add_column(column, justify="left" if i < left else "right", overflow="fold", no_wrap=i < left)
    return table


def _ms(d: D, *names: str) -> str:
    """Percentiles (or the mean) in milliseconds; the unit stands in the head of the column."""
    return _joined(d, names, 1e3)


def _s(d: D, *names: str) -> str:
    return _joined(d, names, 1.0)


def _joined(d: D, names: tuple[str, ...], factor: float) -> str:
    if d.n == 0:
        return DASH
    values = [getattr(d, name) for name in names]
    return " / ".join(DASH if v is None else significant(v * factor) for v in values)


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
        "By load (streaming, ok requests; p50 / p95, TPOT mean / p50 / p95)",
        ("stage", "arm", "n", "net tok/s", "goodput/s", "TTFT ms", "TPOT ms", "total s", "running"),
        left=2,
    )
    for name, g in _by_stage(summary, table):
        table.add_row(g.stage, name, *_latency_row(g), _running(g))
    return table


def by_task(summary: Summary) -> Table:
    """Which traffic is the tail."""
    table = _table(
        "By task type (as above)",
        ("task", "arm", "n", "net tok/s", "goodput/s", "TTFT ms", "TPOT ms", "total s", "queue + prefill ms"),
        left=2,
    )
    tasks = list(dict.fromkeys(g.task_type for a in summary.arms.values() for g in a.by if _only(g, "task_type")))
    for task in tasks:
        for name, arm in summary.arms.items():
            for g in (g for g in arm.by if _only(g, "task_type") and g.task_type == task):
                table.add_row(task, name, *_latency_row(g), _server(g))
        table.add_section()
    return table


def _latency_row(g: G) -> list[str]:
    return [
        count(g.stream.ttft_s.n),
        number(g.throughput.net_tokens_per_s.value),
        number(g.throughput.goodput_requests_per_s.value),
        _ms(g.stream.ttft_s, "p50", "p95"),
        _ms(g.tpot_s, "mean", "p50", "p95"),
        _s(g.stream.total_time_s, "p50", "p95"),
    ]


def _running(g: G) -> str:
    """Mean running batch of the server and on how many looks it rests."""
    running = g.conditions.batch_size_mean
    return DASH if running.value is None else f"{number(running.value)} [dim]n={running.n}[/dim]"


def _server(g: G) -> str:
    """The server's own medians: where a long TTFT comes from."""
    if g.server_queue_s.n == 0 and g.server_prefill_s.n == 0:
        return DASH
    return f"{_ms(g.server_queue_s, 'p50')} + {_ms(g.server_prefill_s, 'p50')}"


def stutter(summary: Summary) -> Table:
    """What a reader sees: the gaps between arrivals, and what each token took. Never the same number."""
    table = _table(
        "Chunks and tokens (a chunk is not a token; p50 / p99)",
        ("stage", "arm", "chunk gap ms", "n", "token latency ms", "n", "tokens/chunk", "jitter"),
        left=2,
    )
    for name, g in _by_stage(summary, table):
        table.add_row(
            g.stage,
            name,
            _ms(g.chunk_gap_s, "p50", "p99"),
            count(g.chunk_gap_s.n),
            _ms(g.token_latency_s, "p50", "p99"),
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
    table = _table(
        "From due (coordinated omission made visible)", ("arm", "n", "TTFT ms p50 / p95", "total s p50 / p95")
    )
    for name, arm in summary.arms.items():
        s = arm.overall.stream
        table.add_row(
            name,
            count(s.ttft_from_due_s.n),
            _ms(s.ttft_from_due_s, "p50", "p95"),
            _s(s.total_time_from_due_s, "p50", "p95"),
        )
    return table


def non_streaming(summary: Summary) -> Table | None:
    """Whole responses of requests that did not stream: never pooled with streaming ones."""
    rows = [(n, a.overall.non_stream.total_time_s) for n, a in summary.arms.items()]
    if not any(d.n for _, d in rows):
        return None
    table = _table("Not streamed: whole response time", ("arm", "n", "p50 / p95 / p99 / max s"))
    for name, d in rows:
        table.add_row(name, count(d.n), _s(d, "p50", "p95", "p99", "max"))
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
        "Where the time goes: decoding is E / c times faster (pooled means; no interval in this version)",
        (
            "stage",
            "candidate",
            "n",
            "E tok/step",
            "c step cost",
            "E / c",
            "net tok/s ratio",
            "running base / cand.",
            "like for like",
        ),
        left=2,
    )
    for row in rows:
        table.add_row(
            row.stage,
            row.candidate,
            count(row.speedup_decode.n),
            number(row.e_decode.value),
            number(row.c.value),
            ratio(row.speedup_decode.value),
            ratio(row.net_throughput_ratio.value),
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
