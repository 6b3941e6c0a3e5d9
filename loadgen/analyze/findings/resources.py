"""Rules about what a gain costs: money, energy and room for requests (docs/resources.md)."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analyze.comparison_text import place, times
from loadgen.analyze.findings.base import Facts, Rule, above, below, finding, of_row
from loadgen.analyze.summary import ComparisonRow, Finding, ResourceDelta

#: Ratios that are worth a sentence: energy per token, and KV capacity
MORE_ENERGY, LESS_ROOM = 1.05, 0.95


def cost_up_although_faster(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row, delta in _pairs(facts):
        if row.verdict_word == "faster" and above(delta.cost_ratio, 1):
            text = (
                f"At {place(row)} {row.candidate} is faster, but each output token costs {times(delta.cost_ratio)} of "
                f"{row.baseline}'s: it takes more GPUs, or dearer ones, than the gain pays for."
            )
            yield finding(
                rule, text, {"cost_ratio": delta.cost_ratio, "speedup": row.speedup.value}, of_row(facts, row)
            )


def cost_up(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row, delta in _pairs(facts):
        if row.verdict_word != "faster" and above(delta.cost_ratio, 1):
            yield _costs(row, delta, rule, facts)


def cost_down(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row, delta in _pairs(facts):
        if below(delta.cost_ratio, 1):
            yield _costs(row, delta, rule, facts)


def _costs(row: ComparisonRow, delta: ResourceDelta, rule: Rule, facts: Facts) -> Finding:
    text = f"At {place(row)} an output token of {row.candidate} costs {times(delta.cost_ratio)} of {row.baseline}'s."
    if row.rate_per_s is not None:
        text += (
            " The load is an open loop: both arms are paid for while they wait, too, so it is the cost at this rate."
        )
    return finding(rule, text, {"cost_ratio": delta.cost_ratio}, of_row(facts, row))


def energy_up(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row, delta in _pairs(facts):
        if above(delta.joules_ratio, MORE_ENERGY):
            text = (
                f"At {place(row)} an output token of {row.candidate} takes {times(delta.joules_ratio)} the energy of "
                f"{row.baseline}'s."
            )
            yield finding(rule, text, {"joules_ratio": delta.joules_ratio}, of_row(facts, row))


def kv_capacity_down(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Once a candidate: the capacity does not depend on the load."""
    seen: set[str] = set()
    for row, delta in _pairs(facts):
        ratio, fewer = delta.kv_capacity_ratio.value, delta.kv_capacity_difference_tokens.value
        if ratio is None or fewer is None or ratio >= LESS_ROOM or row.candidate in seen:
            continue
        seen.add(row.candidate)
        text = (
            f"The KV cache of {row.candidate} holds {-fewer:,.0f} tokens less than {row.baseline}'s ({ratio:.2f}×): "
            "with the same memory flags that is what the draft takes, and fewer requests run at once before they wait."
        )
        yield finding(rule, text, {"kv_capacity_ratio": ratio, "difference_tokens": fewer}, of_row(facts, row))


def _pairs(facts: Facts) -> Iterator[tuple[ComparisonRow, ResourceDelta]]:
    deltas = {(d.stage, d.candidate): d for d in facts.resources.comparison}
    for row in facts.stages:
        if (row.stage, row.candidate) in deltas:
            yield row, deltas[row.stage, row.candidate]
