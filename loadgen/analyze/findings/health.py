"""Rules about the servers being there at all."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analyze.findings.base import Facts, Rule, finding, of_arms
from loadgen.analyze.summary import Finding


def engine_away(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for one in facts.outages:
        gone = (
            "it was not back when the run ended" if one.away_s is None else f"it served again after {one.away_s:.3g} s"
        )
        text = (
            f"The engine of {one.arm} died under load ({one.how}): detected {one.detected_s:.2g} s after the first "
            f"failure, {one.failed} requests failed meanwhile, and {gone}."
        )
        numbers = {"detected_s": one.detected_s, "away_s": one.away_s, "failed": float(one.failed)}
        yield finding(rule, text, numbers, of_arms(facts, one.arm))
