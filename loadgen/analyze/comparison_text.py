"""Sentences of the comparison: where speculation loses is said as plainly as where it wins."""

from __future__ import annotations

from loadgen.analyze.summary import ComparisonRow, Interval, Metric

_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "total_time_s": "total time", "chunk_gap_s": "chunk gap"}
#: Percentiles that a sentence names where they are shown to differ
_TOLD = (("ttft_s", "p95"), ("tpot_s", "p95"), ("total_time_s", "p99"), ("chunk_gap_s", "p99"))


def place(row: ComparisonRow) -> str:
    """ "c8, code, output 32-127" """
    parts = [row.stage, row.task_type]
    parts += [f"input {row.input_segment}"] if row.input_segment else []
    parts += [f"output {row.output_segment}"] if row.output_segment else []
    return ", ".join(p for p in parts if p)


def times(interval: Interval) -> str:
    """ "2.31× [2.20, 2.42]" """
    if interval.value is None:
        return "not known"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}× (no interval)"
    return f"{interval.value:.2f}× [{interval.low:.2f}, {interval.high:.2f}]"


def sentence(row: ComparisonRow) -> str:
    return " ".join(part for part in (_speed(row), _why(row), _tails(row), _alike(row)) if part)


def _speed(row: ComparisonRow) -> str:
    number = times(row.speedup.value)
    what = "net throughput" if row.speedup.kind == "net_throughput" else "speed per token"
    beside = f"{row.candidate} beside {row.baseline}"
    if row.verdict_word == "not enough data":
        return f"{beside}: not enough data ({row.speedup.value.reason or 'no interval'}); {what} {number}."
    if row.verdict_word == "no difference shown":
        return f"{beside}: no difference shown, {what} {number}, {row.blocks} blocks."
    return f"{beside}: {row.verdict_word}, {what} {number}, {row.blocks} blocks."


def _why(row: ComparisonRow) -> str:
    e, c, speedup = row.e_decode.value, row.c.value, row.speedup_decode.value
    if speedup is None:
        return ""
    pace = f"decoding is {speedup:.2f}× {'faster' if speedup >= 1 else 'as fast: slower'}"
    if e is None or c is None:
        return f"{pace[0].upper()}{pace[1:]}; E and c are not known: {row.e_decode.reason or row.c.reason}."
    parts = f"{e:.2f}× the tokens per step, a step costs {c:.2f}×"
    note = row.e_decode.reason or row.c.reason
    if note:  # E and c of other cases than the speed: their quotient is not exactly it
        return f"{pace[0].upper()}{pace[1:]}; {parts} ({note})."
    return f"{parts}, so {pace}."


def _tails(row: ComparisonRow) -> str:
    """Percentiles that are shown to be higher or lower: their intervals exclude 1."""
    told = [_tail(row.metric(name, aggregate)) for name, aggregate in _TOLD]
    parts = [part for part in told if part]
    return f"{'; '.join(parts)}." if parts else ""


def _tail(metric: Metric | None) -> str | None:
    if metric is None or metric.ratio.low is None or metric.ratio.high is None or metric.ratio.value is None:
        return None
    if metric.ratio.low <= 1 <= metric.ratio.high:
        return None
    word = "higher" if metric.ratio.value > 1 else "lower"
    return f"{_NAMES[metric.name]} {metric.aggregate.upper()} {word}, {times(metric.ratio)}"


def _alike(row: ComparisonRow) -> str:
    mine, theirs = row.candidate_running.value, row.baseline_running.value
    if row.like_for_like is False and mine is not None and theirs is not None:
        return f"Not like for like: {mine:.1f} requests ran at once, {theirs:.1f} in the baseline."
    return ""
