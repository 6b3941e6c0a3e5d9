"""Prometheus text format to samples, with a firm no to pages that are something else.

prometheus_client reads the label syntax. It is given only sample lines somebody wants, without comments,
exemplars and time stamps: its own page parser renames series of counters, takes seconds for a large page, and
answers an empty list for an empty page (G23).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from server_adapters.base import CollectionError

_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*(?P<labels>\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?[ \t]*'
    r"(?<=[ \t}])(?P<value>[+-]?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan)))(?:[ \t].*)?"
)
_EXCERPT = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page. `name` is the wire name, suffix and all; `value` is finite."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_samples(text: str, wanted: Callable[[str], bool]) -> list[Sample]:
    """Samples whose wire name is `wanted`, in page order; NaN and infinite ones are absent values and left out.

    Raises CollectionError("not_metrics") for an empty page, HTML, or any line that is no sample, wanted or not:
    half a page must not pass for a whole one.
    """
    kept = [line for name, line in _sample_lines(text) if wanted(name)]
    return list(_parsed(kept))


def _sample_lines(text: str) -> Iterator[tuple[str, str]]:
    """(name, line without exemplar and time stamp) of every sample of the page."""
    seen = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line:
            continue
        if line.startswith("#"):
            seen = True
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or not (match["name"] or match["labels"]):
            raise CollectionError("not_metrics", _refusal(text, number, line))
        seen = True
        name = match["name"] or ""
        yield name, f"{name}{match['labels'] or ''} {match['value']}"
    if not seen:
        raise CollectionError("not_metrics", "the page is empty")


def _refusal(text: str, number: int, line: str) -> str:
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        return "the page is HTML or XML, not Prometheus text"
    return f"line {number} is not Prometheus text: {line[:_EXCERPT]!r}"


def _parsed(lines: list[str]) -> Iterator[Sample]:
    try:
        for family in text_string_to_metric_families("\n".join(lines)):
            for sample in family.samples:
                value = _finite(sample.value)
                if value is not None:
                    yield Sample(sample.name, sample.labels, value)
    except ValueError as error:
        raise CollectionError("not_metrics", f"not Prometheus text: {str(error)[:_EXCERPT]}") from None


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:  # an integer literal beyond the range of a double
        return None
    return number if math.isfinite(number) else None
