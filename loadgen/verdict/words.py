"""Numbers of a threshold in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isinf

from loadgen.analyze import Estimate
from loadgen.scenario import Condition, Metric
from loadgen.verdict.model import Word

TOLD: Mapping[bool | None, Word] = {True: "pass", False: "fail", None: "inconclusive"}


def sentence(
    name: str,
    ok: bool | None,
    found: Estimate,
    condition: Condition,
    metric: Metric,
    reason: str | None,
    *,
    of_speedup: bool = False,
) -> str:
    """ "NAME: pass: 0.412 s [0.388 s, 0.437 s], limit 0.5 s, n = 480 requests", and why it is inconclusive.

    `of_speedup`: also of what it is one, with which its method begins."""
    if found.value is None:
        return f"{name}: {TOLD[ok]}: {reason}"
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f" [{_number(found.low, condition, metric)}, {_number(found.high, condition, metric)}]"
    limit = _number(condition.limit, condition, metric)
    kind = f", of {found.method.partition(':')[0]}" if of_speedup else ""
    why = f": {reason}" if reason else ""
    return (
        f"{name}: {TOLD[ok]}: {_number(found.value, condition, metric)}{interval}, limit {limit}, "
        f"n = {found.n:,} {found.unit}{kind}{why}"
    )


def because(found: Estimate, condition: Condition) -> str:
    """Why neither pass nor fail can be said of an estimate."""
    told = found.needs_n is None or str(found.needs_n) in (found.reason or "")
    more = "" if told else f"; at least {found.needs_n:,} {found.unit} are needed"
    if found.value is None:
        return f"{found.reason or 'there is no such number'}{more}"
    if found.low is None or found.high is None:
        return f"{found.reason or 'not enough data for an interval'}{more}"
    return joined("the interval holds the limit: more blocks or repeats would narrow it", noted(found)) or ""


def noted(found: Estimate) -> str | None:
    """What an estimate says beside its interval: what was left out of it, and why a limit is infinite."""
    if inf not in (found.value, found.low):
        return found.reason
    failed = "failed requests count as +∞, and this percentile falls among them"
    return failed if (found.reason or "").endswith("among failed requests") else joined(failed, found.reason)


def joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _number(value: float, condition: Condition, metric: Metric) -> str:
    if isinf(value):
        return "∞" if value > 0 else "-∞"
    if condition.relative == "ratio":
        return f"{value:.4g} × baseline"
    unit = metric.unit
    text = f"{value:.4g}{unit}" if unit == "×" else f"{value:.4g} {unit}".rstrip()
    return f"{value:+.4g} {unit}".rstrip() if condition.relative == "difference" else text
