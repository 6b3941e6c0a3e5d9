"""PromQL, taken apart by promql-parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

#: How a matcher of equality reads.
EQUAL = "MatchOp.Equal"
RATES = frozenset({"rate", "irate", "increase"})


@dataclass(frozen=True, slots=True)
class Selected:
    """A selector where it stands. `around`: the nodes it is in, outermost first; `range_s`: of a range selector."""

    names: tuple[str, ...]
    matchers: tuple[tuple[str, str, str], ...]
    around: tuple[Any, ...]
    range_s: float | None

    @property
    def rated(self) -> bool:
        return bool(self.around) and _function(self.around[-1]) in RATES


def parsed(expr: str) -> Any:
    """Raises ValueError with the parser's words."""
    return promql.parse(expr)


def selectors(node: Any, around: tuple[Any, ...] = ()) -> Iterator[Selected]:
    if isinstance(node, promql.MatrixSelector):
        yield _selected(node.vector_selector, around, node.range.total_seconds())
    elif isinstance(node, promql.VectorSelector):
        yield _selected(node, around, None)
    else:
        for child in _children(node):
            yield from selectors(child, (*around, node))


def divisions(node: Any) -> Iterator[Any]:
    """The divisors of an expression."""
    if isinstance(node, promql.BinaryExpr) and str(node.op) == "/":
        yield node.rhs
    for child in _children(node):
        yield from divisions(child)


def guarded(divisor: Any) -> bool:
    """A number, or compared so that 0 drops out."""
    while isinstance(divisor, promql.ParenExpr):
        divisor = divisor.expr
    if isinstance(divisor, promql.NumberLiteral):
        return True
    return isinstance(divisor, promql.BinaryExpr) and str(divisor.op) == ">"


def kept(node: Any) -> frozenset[str] | None:
    """The labels that an aggregation keeps; None where it is none, or drops by name."""
    if not isinstance(node, promql.AggregateExpr):
        return None
    if node.modifier is None:
        return frozenset()
    return frozenset(node.modifier.labels) if "by" in str(node.modifier.type).lower() else None


def named_labels(node: Any) -> frozenset[str]:
    """Labels that a node itself names: by, on, group_left."""
    found: set[str] = set(kept(node) or ())
    modifier = getattr(node, "modifier", None) if isinstance(node, promql.BinaryExpr) else None
    if modifier is not None:
        found |= set(modifier.matching.labels if modifier.matching is not None else ())
        found |= set(modifier.group_labels or ())
    return frozenset(found)


def every_node(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from every_node(child)


def _children(node: Any) -> list[Any]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, (promql.AggregateExpr, promql.ParenExpr, promql.UnaryExpr, promql.SubqueryExpr)):
        return [node.expr]
    return []


def _function(node: Any) -> str | None:
    return node.func.name if isinstance(node, promql.Call) else None


def _selected(vector: Any, around: tuple[Any, ...], range_s: float | None) -> Selected:
    matchers = tuple((one.name, str(one.op), one.value) for one in vector.matchers.matchers)
    alike = [name for label, _, value in matchers if label == "__name__" for name in value.split("|")]
    return Selected(
        (vector.name,) if vector.name else tuple(alike),
        tuple(m for m in matchers if m[0] != "__name__"),
        around,
        range_s,
    )
