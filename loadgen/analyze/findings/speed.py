"""Rules about gain and loss: what speculation did to speed under each load."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analyze.comparison_text import place, times
from loadgen.analyze.findings.base import Facts, Rule, above, below, finding, of_row
from loadgen.analyze.summary import ComparisonRow, Finding, Metric, N

#: Acceptance that would let one expect a gain; a speedup shown to be below this is no gain worth having
HIGH_ACCEPTANCE, NO_GAIN = 0.6, 1.05
#: A latency is worth calling worse when it is shown to be more than this times the baseline's
WORSE = 1.05
#: Percentiles that may get worse while the mean gets better
_P99 = ("ttft_s", "total_time_s")
_NAMES = {"ttft_s": "TTFT", "total_time_s": "total time"}


def faster(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        if row.verdict_word == "faster":
            text = f"At {place(row)} {row.candidate} is faster: {_speed(row)}."
            yield finding(rule, text, _speeds(row), of_row(facts, row))


def slower(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Also of parts of a stage that is not slower as a whole: said as plainly as a gain."""
    lost = {(r.stage, r.candidate) for r in facts.stages if r.verdict_word == "slower"}
    for row in facts.rows:
        if row.verdict_word == "slower" and (row in facts.stages or (row.stage, row.candidate) not in lost):
            text = f"At {place(row)} {row.candidate} is slower than {row.baseline}: {_speed(row)}."
            yield finding(rule, text, _speeds(row), of_row(facts, row))


def no_difference(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        if row.verdict_word == "no difference shown":
            text = f"At {place(row)} no difference between {row.candidate} and {row.baseline} is shown: {_speed(row)}."
            yield finding(rule, text, _speeds(row), of_row(facts, row))


def too_few_blocks(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        if row.verdict_word == "not enough data":
            why = row.speedup.value.reason or "no interval"
            text = f"At {place(row)} the data do not say whether {row.candidate} is faster: {why}."
            yield finding(rule, text, {**_speeds(row), "blocks": float(row.blocks)}, of_row(facts, row))


def acceptance_high_no_gain(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Of stages and of tasks in them, beside a baseline that does not speculate: two arms that both do gain nothing
    over each other for another reason. Its cause must be shown: a step that costs more."""
    for row in (r for r in facts.rows if r.input_segment is None and r.output_segment is None):
        alpha = row.acceptance_rate.value
        if alpha is None or alpha < HIGH_ACCEPTANCE or not below(row.speedup.value, NO_GAIN):
            continue
        if not facts.estimates.sides[row.baseline].data.setting.plain or not above(row.c, 1):
            continue
        text = (
            f"At {place(row)} {alpha:.0%} of the drafts of {row.candidate} are accepted, and yet it gains nothing "
            f"({_speed(row)}): a decode step costs {times(row.c)} for {times(row.e_decode)} tokens; drafting is dear "
            "or the compute is saturated."
        )
        yield finding(rule, text, {"acceptance_rate": row.acceptance_rate, **_speeds(row)}, of_row(facts, row))


def gain_but_worse_p99(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        worse = [m for m in (row.metric(name, "p99") for name in _P99) if m is not None and above(m.ratio, WORSE)]
        if row.verdict_word != "faster" or not worse:
            continue
        tails = " and ".join(f"P99 of {_NAMES[m.name]} is {times(m.ratio)} of the baseline's" for m in worse)
        text = f"At {place(row)} {row.candidate} is faster on the whole ({_speed(row)}), but {tails}."
        numbers = {**_speeds(row), **{f"{m.name}_p99_ratio": m.ratio for m in worse}}
        yield finding(rule, text, numbers, of_row(facts, row))


def gain_gone_at_concurrency(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """The lowest level at which there is shown to be no gain worth having, after one with a gain."""
    for name in facts.candidates:
        levels = sorted(
            (r for r in facts.stages if r.candidate == name and r.concurrency is not None),
            key=_level,
        )
        gains = [r for r in levels if r.verdict_word == "faster" and not below(r.speedup.value, NO_GAIN)]
        if not gains:
            continue
        gone = [
            r for r in levels if (r.concurrency or 0) > (gains[0].concurrency or 0) and below(r.speedup.value, NO_GAIN)
        ]
        if gone:
            last = max((r for r in gains if (r.concurrency or 0) < (gone[0].concurrency or 0)), key=_level)
            text = (
                f"The gain of {name} is gone at concurrency {gone[0].concurrency}: {_speed(gone[0])}; at "
                f"{last.concurrency} it was {_speed(last)}."
            )
            numbers = {"concurrency": float(_level(gone[0])), "last_gain_concurrency": float(_level(last))}
            yield finding(rule, text, {**numbers, **_speeds(gone[0])}, of_row(facts, gone[0]))


def _level(row: ComparisonRow) -> int:
    return row.concurrency or 0


def ttft_up_throughput_up(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        up = [m for m in (row.metric("ttft_s", p) for p in ("p50", "p95")) if m is not None and above(m.ratio, WORSE)]
        if row.verdict_word == "faster" and up:
            told = " and ".join(f"{m.aggregate.upper()} of TTFT is {times(m.ratio)} of the baseline's" for m in up)
            text = (
                f"At {place(row)} {row.candidate} is faster ({_speed(row)}) but answers later: {told}. "
                "That suits batch work, not chat."
            )
            numbers = {**_speeds(row), **{f"ttft_s_{m.aggregate}_ratio": m.ratio for m in up}}
            yield finding(rule, text, numbers, of_row(facts, row))


def output_too_short_to_pay(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Total time gains in a longer output segment of the same load, and not in this one."""
    parts = [r for r in facts.rows if r.output_segment is not None]
    for row in parts:
        longer = [
            r for r in parts
            if (r.stage, r.task_type, r.candidate) == (row.stage, row.task_type, row.candidate)
            and _from(r) > _from(row) and above(r.speedup.total_time, 1)
        ]  # fmt: skip
        if longer and below(row.speedup.total_time, NO_GAIN):
            text = (
                f"At {place(row)} answers are too short for drafting to pay: total time is "
                f"{times(row.speedup.total_time)} as fast; with {longer[0].output_segment} tokens it is "
                f"{times(longer[0].speedup.total_time)}."
            )
            numbers = {
                "speedup_total_time": row.speedup.total_time,
                "longer_speedup_total_time": longer[0].speedup.total_time,
            }
            yield finding(rule, text, numbers, of_row(facts, row))


def _from(row: ComparisonRow) -> int:
    return int((row.output_segment or "0").rstrip("+").split("-")[0])


def stutter_up(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        gap: Metric | None = row.metric("chunk_gap_s", "p99")
        if gap is not None and above(gap.ratio, 1.2):
            text = (
                f"At {place(row)} the text of {row.candidate} comes in larger bursts: P99 of the gap between "
                f"arrivals is {times(gap.ratio)} of the baseline's."
            )
            yield finding(rule, text, {"chunk_gap_s_p99_ratio": gap.ratio}, of_row(facts, row))


def _speed(row: ComparisonRow) -> str:
    what = "net throughput" if row.speedup.kind == "net_throughput" else "speed per token"
    return f"{what} {times(row.speedup.value)}"


def _speeds(row: ComparisonRow) -> dict[str, float | N | None]:
    return {
        "speedup": row.speedup.value,
        "e_decode": row.e_decode,
        "c": row.c,
        "speedup_decode": row.speedup_decode,
    }
