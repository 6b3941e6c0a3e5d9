"""What every rule is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from loadgen.analyze.estimates import Estimates
from loadgen.analyze.outages import Outage
from loadgen.analyze.summary import Arm, ComparisonRow, Finding, Interval, N, Resources

Severity = Literal["good", "info", "warning", "bad"]
Topic = Literal["latency", "throughput", "quality", "cost", "trust"]


@dataclass(frozen=True)
class Facts:
    """Everything a rule may look at. `run`: the summary's conditions."""

    estimates: Estimates
    arms: Mapping[str, Arm]
    rows: list[ComparisonRow]
    run: Mapping[str, Any]
    resources: Resources = field(default_factory=Resources)
    outages: tuple[Outage, ...] = ()

    @property
    def stages(self) -> list[ComparisonRow]:
        """Rows that are a whole stage."""
        return [r for r in self.rows if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]

    @property
    def candidates(self) -> list[str]:
        """Arms that may speculate: all but the baseline, or the only one."""
        return [name for name in self.estimates.arms if name != self.estimates.baseline]


@dataclass(frozen=True)
class Rule:
    """`topic`: what it is about, for the order under an objective."""

    id: str
    topic: Topic
    severity: Severity
    find: Callable[[Facts, Rule], Iterator[Finding]]


def finding(rule: Rule, text: str, numbers: Mapping[str, float | N | None], conditions: Mapping[str, Any]) -> Finding:
    """An `N` among the numbers gives its value, and its interval as _low and _high."""
    flat: dict[str, float | None] = {}
    for name, number in numbers.items():
        if isinstance(number, N):
            flat[name] = number.value
            if isinstance(number, Interval):
                flat |= {f"{name}_low": number.low, f"{name}_high": number.high}
        else:
            flat[name] = number
    return Finding(id=rule.id, text=text, numbers=flat, conditions=dict(conditions), severity=rule.severity)


def of_row(facts: Facts, row: ComparisonRow) -> dict[str, Any]:
    """The conditions of a row: load, part, arms and what they are."""
    labels = ("stage", "concurrency", "rate_per_s", "task_type", "input_segment", "output_segment")
    found: dict[str, Any] = {name: getattr(row, name) for name in labels if getattr(row, name) is not None}
    found |= {"design": row.design, "paired": row.paired, "blocks": row.blocks, "requests": row.requests}
    return found | of_arms(facts, row.candidate, row.baseline)


def of_arms(facts: Facts, *names: str) -> dict[str, Any]:
    """Model, engine, draft length and declared hardware of each arm."""
    arms = facts.run.get("arms") or {}
    keys = ("model", "engine_version", "speculation", "spec_method", "k", "facts")
    return {"arms": {name: {k: arms[name].get(k) for k in keys} for name in names if name in arms}}


def above(interval: N | None, limit: float) -> bool:
    """Shown to be above: the whole interval is."""
    return interval is not None and interval.low is not None and interval.low > limit


def below(interval: N | None, limit: float) -> bool:
    return interval is not None and interval.high is not None and interval.high < limit
