"""Thresholds: k6's grammar, and limits relative to the baseline of the same window (docs/verdict.md).

ttft_s{task_type:code,arm:candidate}: p(95)<0.5, max<=4
tpot_s: p(95)<=1.05 * baseline
total_time_s{stage:c8}: p(99) - baseline<=0.25
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter, model_validator

from loadgen.scenario.base import Model, PositiveInt, SomeSeconds, refuse
from loadgen.scenario.metrics import AGGREGATES, LIVE_SELECTORS, METRICS, SELECTORS

Operator = Literal["<", "<=", ">", ">="]
Relative = Literal["ratio", "difference"]
FORM = "write it as metric{key:value}: aggregate<limit, like ttft_s{task_type:code}: p(95)<0.5"

_SHAPE = re.compile(r"\s*([^\s{}:]+)\s*(?:\{([^{}]*)\})?\s*:(.*)", re.DOTALL)
_SELECTOR = re.compile(r"([a-z_]+)\s*:\s*([^\s,:{}]+)")
_CONDITION = re.compile(r"([a-z]+(?:\s*\([^()]*\)|[0-9.]*))\s*(-\s*baseline)?\s*(<=|>=|<|>|=+|!=+)\s*(.*)", re.DOTALL)
_PERCENTILE = re.compile(r"p\s*\(\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*\)")
_UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = rf"[+-]?{_UNSIGNED}"
_ABSOLUTE = re.compile(_NUMBER)
_TIMES = re.compile(rf"(?:({_NUMBER})\s*\*\s*baseline|baseline(?:\s*\*\s*({_NUMBER}))?)")
_PLUS = re.compile(rf"baseline\s*([+-])\s*({_UNSIGNED})")
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*(ms|us|s|%)")
_OPERATORS: dict[str, Operator] = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}
_UNITS = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "%": 1e-2}


class ThresholdError(ValueError):
    """A sentence: what is wrong with a threshold, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One limit on one aggregate ("p95", "avg", "max", "rate", "value"). `relative` "ratio": the limit is a multiple
    of the baseline's aggregate; "difference": it is added to it; None: it stands by itself, in the metric's unit."""

    aggregate: str
    op: Operator
    limit: float
    relative: Relative | None = None

    @property
    def upper(self) -> bool:
        """Whether the limit is one from above."""
        return self.op in ("<", "<=")

    def __str__(self) -> str:
        name = f"p({self.aggregate[1:]})" if re.fullmatch(r"p[0-9.]+", self.aggregate) else self.aggregate
        if self.relative == "difference":
            return f"{name} - baseline{self.op}{_text(self.limit)}"
        return f"{name}{self.op}{_text(self.limit)}{' * baseline' if self.relative else ''}"


@dataclass(frozen=True, slots=True)
class Threshold:
    """`where`: only requests of these labels. `min_samples`: fewer say nothing. `abort_on_fail`: three failing live
    windows in a row end the run, the first of them beginning not before `delay_abort_eval_s` of measured load."""

    metric: str
    where: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]
    min_samples: int | None = None
    abort_on_fail: bool = False
    delay_abort_eval_s: float = 0.0

    def selector(self, key: str) -> str | None:
        return dict(self.where).get(key)

    def named(self, condition: Condition) -> str:
        return f"{self._subject()}: {condition}"

    def _subject(self) -> str:
        return self.metric + (f"{{{','.join(f'{k}:{v}' for k, v in self.where)}}}" if self.where else "")

    def __str__(self) -> str:
        return f"{self._subject()}: {', '.join(map(str, self.conditions))}"


def parse_threshold(text: str) -> Threshold:
    """Read one threshold. `str()` of the result reads as the same threshold.

    Raises ThresholdError: what is wrong, what is allowed, what was perhaps meant.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise ThresholdError(f"is no threshold: {FORM}")
    metric, where, rest = shape.groups()
    if metric not in METRICS:
        raise ThresholdError(f"{metric} is no metric{_guess(metric, METRICS)}")
    conditions = tuple(_condition(metric, part) for part in rest.split(","))
    twice = next((one for i, one in enumerate(conditions) if one in conditions[:i]), None)
    if twice is not None:
        raise ThresholdError(f"the condition {twice} stands twice: write it once")
    return Threshold(metric, _where(where) if where is not None else (), conditions)


def _where(text: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for part in text.split(","):
        pair = _SELECTOR.fullmatch(part.strip())
        if pair is None:
            raise ThresholdError(f"{{{text}}} is no selector: write {{key:value,key:value}}, like {{arm:candidate}}")
        key, value = pair.groups()
        if key not in SELECTORS:
            raise ThresholdError(f"{key} is no selector{_guess(key, SELECTORS)}")
        if key in found:
            raise ThresholdError(f"the selector {key} stands twice: write one threshold for each of its values")
        found[key] = value
    return tuple(found.items())


def _condition(metric: str, text: str) -> Condition:
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise ThresholdError(f'"{text.strip()}" is no condition: {FORM}')
    aggregate, minus, op, limit = found.groups()
    if op not in _OPERATORS:
        raise ThresholdError(f"{op} is no limit of a measured number: write <, <=, > or >=")
    name = _aggregate(metric, aggregate)
    value, relative = _limit(limit.strip())
    if minus:
        if relative:
            raise ThresholdError(f'"{text.strip()}" names the baseline twice: write p(95) - baseline<=0.05')
        relative = "difference"
    if relative and METRICS[metric].versus_baseline:
        raise ThresholdError(f"{metric} compares with the baseline by itself: its limit is a number, like value>=1")
    if relative and name == "max":
        raise ThresholdError("max against the baseline has no interval: write p(99), or a limit of its own")
    if relative == "ratio" and value <= 0:
        raise ThresholdError(f"{_text(value)} * baseline is no limit: the factor must be above 0")
    return Condition(name, _OPERATORS[op], value, relative)


def _aggregate(metric: str, text: str) -> str:
    kind = METRICS[metric].kind
    allowed = AGGREGATES[kind]
    if text in allowed:
        return "p50" if text == "med" else text
    percentile = _PERCENTILE.fullmatch(text)
    if percentile and kind == "distribution":
        if not 0 < float(percentile[1]) < 100:
            raise ThresholdError(f"{text} is no percentile: write p(N) with N between 0 and 100")
        return f"p{_text(float(percentile[1]))}"
    shown = ("p(N)", *allowed) if kind == "distribution" else allowed
    meant = re.fullmatch(r"p\s*\(?([0-9.]+)\)?", text)
    if percentile is None and meant and "(" in text and kind == "distribution":
        raise ThresholdError(
            f"{text} is no percentile: write p(N) with N between 0 and 100 and at most three decimals, like p(99.9)"
        )
    if meant and kind == "distribution":
        raise ThresholdError(f"{text} is no aggregate: write p({meant[1]})")
    raise ThresholdError(f"{text} is no aggregate of {metric}; allowed: {', '.join(shown)}")


def _limit(text: str) -> tuple[float, Relative | None]:
    relative: Relative | None
    if _ABSOLUTE.fullmatch(text):
        value, relative = float(text), None
    elif found := _TIMES.fullmatch(text):
        value, relative = float(found[1] or found[2] or 1), "ratio"
    elif found := _PLUS.fullmatch(text):
        value, relative = float(found[1] + found[2]), "difference"
    elif found := _WITH_UNIT.fullmatch(text):
        meant = _text(round(float(found[1]) * _UNITS[found[2]], 12))
        raise ThresholdError(f"{text}: limits have no unit of their own (seconds, shares 0–1): write {meant}")
    else:
        raise ThresholdError(
            f'"{text}" is no limit: write a number, 1.05 * baseline, or baseline + 0.05 (in the metric\'s unit)'
        )
    if not isfinite(value):
        raise ThresholdError(f'"{text}" is no limit: it must be a finite number')
    return value, relative


def _text(value: float) -> str:
    """The shortest text that reads as the same number."""
    return repr(value).removesuffix(".0")


def _guess(word: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    close = difflib.get_close_matches(word, names, n=1)
    return f"{f'; did you mean {close[0]}?' if close else ';'} allowed: {', '.join(names)}"


def _parses(text: str) -> str:
    parse_threshold(text)
    return text


ThresholdText = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_parses)]


class ThresholdKeys(Model):
    """A threshold with more to say of it than its text."""

    threshold: ThresholdText = Field(description="like the text alone: ttft_s{task_type:code}: p(95)<0.5")
    min_samples: PositiveInt | None = Field(
        None, description="fewer samples than this are inconclusive, whatever the interval says"
    )
    abort_on_fail: bool = Field(False, description="three failing live windows in a row end the run")
    delay_abort_eval_s: SomeSeconds = Field(0.0, description="measured load before live windows begin to count")

    @model_validator(mode="before")
    @classmethod
    def _quoted(cls, value: Any) -> Any:
        """YAML reads an unquoted threshold as a mapping of its first half to its second."""
        if isinstance(value, dict) and len(value) == 1:
            (key, rest), *_ = value.items()
            if isinstance(key, str) and isinstance(rest, str) and key not in cls.model_fields:
                refuse([((), f'put the threshold in quotes: "{key}: {rest}"')])
        return value

    @model_validator(mode="after")
    def _watchable(self) -> ThresholdKeys:
        if not self.abort_on_fail:
            if self.delay_abort_eval_s:
                refuse([(("delay_abort_eval_s",), "has no meaning without abort_on_fail: true")])
            return self
        parsed = parse_threshold(self.threshold)
        if not METRICS[parsed.metric].live:
            live = ", ".join(name for name, metric in METRICS.items() if metric.live)
            refuse([(("abort_on_fail",), f"{parsed.metric} is not known while the run goes on; allowed: {live}")])
        if unknown := [key for key, _ in parsed.where if key not in LIVE_SELECTORS]:
            allowed = ", ".join(LIVE_SELECTORS)
            refuse([(("abort_on_fail",), f"{unknown[0]} is not known while the run goes on; allowed: {allowed}")])
        return self


def _form(value: Any) -> str:
    return "keys" if isinstance(value, dict | ThresholdKeys) else "text"


ThresholdItem = Annotated[
    Annotated[ThresholdText, Tag("text")] | Annotated[ThresholdKeys, Tag("keys")], Discriminator(_form)
]
_ITEMS: TypeAdapter[list[str | ThresholdKeys]] = TypeAdapter(list[ThresholdItem])


def read_thresholds(items: Sequence[Any]) -> tuple[Threshold, ...]:
    """The scenario's `thresholds`, as it stands in the model or in a manifest, parsed."""
    return tuple(_read(item) for item in _ITEMS.validate_python(list(items)))


def _read(item: str | ThresholdKeys) -> Threshold:
    if isinstance(item, str):
        return parse_threshold(item)
    parsed = parse_threshold(item.threshold)
    return Threshold(
        parsed.metric, parsed.where, parsed.conditions, item.min_samples, item.abort_on_fail, item.delay_abort_eval_s
    )
