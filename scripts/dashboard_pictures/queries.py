"""What Grafana asks Prometheus for, from a dashboard's JSON: intervals, variables, requests. Pure: no I/O.

Sources: Grafana's `rangeUtil.roundInterval` and its Prometheus data source (min step, `$__rate_interval`, escaping).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: (below so many ms, this many ms): Grafana's steps of a graph's interval.
ROUNDED_MS = (
    (10, 1), (15, 10), (35, 20), (75, 50), (150, 100), (350, 200), (750, 500), (1_500, 1_000), (3_500, 2_000),
    (7_500, 5_000), (12_500, 10_000), (17_500, 15_000), (25_000, 20_000), (45_000, 30_000), (90_000, 60_000),
    (210_000, 120_000), (450_000, 300_000), (750_000, 600_000), (1_050_000, 900_000), (1_500_000, 1_200_000),
    (2_700_000, 1_800_000), (5_400_000, 3_600_000),
)  # fmt: skip
ALL = "$__all"
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::(\w+))?\}|\[\[(\w+)\]\]")
_LABEL_VALUES = re.compile(r"^\s*label_values\(\s*(?:(.+)\s*,\s*)?([a-zA-Z_]\w*)\s*\)\s*$", re.DOTALL)
_QUERY_RESULT = re.compile(r"^\s*query_result\((.+)\)\s*$", re.DOTALL)


@dataclass(frozen=True)
class Window:
    """The dashboard's time range, whole milliseconds since 1970."""

    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms


@dataclass(frozen=True)
class Variable:
    """A chosen variable. `values`: what it stands for; several only where it is `multi` or All."""

    name: str
    label: str
    values: tuple[str, ...]
    #: Values are written as a regular expression: `multi` or `includeAll`.
    pattern: bool = False
    #: Written as it is in place of the values (the JSON's `allValue`).
    verbatim: str | None = None
    shown: str = ""
    hidden: bool = False

    def text(self, form: str | None = None) -> str:
        """As it is put into a query; `form` is what follows the colon in `${name:form}`."""
        if self.verbatim is not None:
            return self.verbatim
        if form == "raw" or (form is None and not self.pattern):
            return self.values[0] if len(self.values) == 1 else ",".join(self.values)
        if form in ("csv", "pipe"):
            return {"csv": ",", "pipe": "|"}[form].join(self.values)
        escaped = [_escaped(value) for value in self.values]
        return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


@dataclass(frozen=True)
class Request:
    """One target of a panel. `step_s` is None for an instant query, which is of `end_s`."""

    ref_id: str
    expr: str
    start_s: float
    end_s: float
    step_s: float | None
    legend: str
    table: bool


def rounded_ms(interval_ms: float) -> int:
    """The interval of a graph: one of Grafana's steps."""
    return next((step for below, step in ROUNDED_MS if interval_ms < below), 7_200_000)


def duration_ms(text: str) -> int:
    """`15s`, `1m`, `500ms`; also with Grafana's `>` before it. Raises ValueError."""
    found = re.fullmatch(r">?\s*(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if found is None:
        raise ValueError(f"no duration: {text!r}")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def prometheus_duration(ms: float) -> str:
    return f"{ms / 1000:g}s" if ms % 1000 == 0 else f"{ms:g}ms"


def interval_ms(window: Window, points: int, least_ms: int) -> int:
    """`$__interval`: the range in `points` steps, rounded, and not below the data source's or the panel's least."""
    return max(rounded_ms(window.length_ms / points), least_ms)


def rate_interval_ms(interval: int, scrape_ms: int) -> int:
    """`$__rate_interval`: max($__interval + scrape interval, 4 × scrape interval)."""
    return max(interval + scrape_ms, 4 * scrape_ms)


def built_in(window: Window, interval: int, scrape_ms: int) -> dict[str, str]:
    seconds = round(window.length_ms / 1000)
    return {
        "__interval": prometheus_duration(interval),
        "__interval_ms": str(interval),
        "__rate_interval": prometheus_duration(rate_interval_ms(interval, scrape_ms)),
        "__range": f"{seconds}s",
        "__range_s": str(seconds),
        "__range_ms": str(window.length_ms),
        "__from": str(window.from_ms),
        "__to": str(window.to_ms),
    }


def substituted(text: str, variables: Mapping[str, Variable], words: Mapping[str, str]) -> str:
    """`text` with $name, ${name}, ${name:form} and [[name]] replaced; an unknown name stays as it is."""

    def replace(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[4]
        if name in words:
            return words[name]
        return variables[name].text(found[3]) if name in variables else found[0]

    return _VARIABLE.sub(replace, text)


def requests(
    panel: Mapping[str, Any], width_px: int, window: Window, variables: Mapping[str, Variable], scrape_ms: int
) -> list[Request]:
    """The requests of a panel that is `width_px` wide. A target that is hidden is none."""
    asked = []
    for target in panel.get("targets", []):
        if target.get("hide"):
            continue
        least = scrape_ms
        for given in (panel.get("interval"), target.get("interval")):
            least = max(least, duration_ms(substituted(given, variables, {}))) if given else least
        step = interval_ms(window, panel.get("maxDataPoints") or width_px, least) * target.get("intervalFactor", 1)
        instant = bool(target.get("instant")) and not target.get("range")
        start, end = (
            (window.to_ms, window.to_ms) if instant else (ms // step * step for ms in (window.from_ms, window.to_ms))
        )
        asked.append(
            Request(
                target.get("refId", "A"),
                substituted(target["expr"], variables, built_in(window, step, scrape_ms)),
                start / 1000,
                end / 1000,
                None if instant else step / 1000,
                target.get("legendFormat") or "",
                target.get("format") == "table",
            )
        )
    return asked


def variable_query(query: str) -> tuple[str, str | None, str]:
    """(kind, selector or expression, label): kind is `labels` or `result`. Raises ValueError for other functions."""
    if found := _LABEL_VALUES.match(query):
        return "labels", found[1], found[2]
    if found := _QUERY_RESULT.match(query):
        return "result", found[1], ""
    raise ValueError(f"neither label_values nor query_result: {query!r}")


def options(found: Sequence[str], regex: str, sort: int) -> list[str]:
    """A query variable's options: what `regex` (`/…/` or plain) finds, each once, in the order `sort` names."""
    if regex:
        pattern = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", regex.removeprefix("/").removesuffix("/")))
        matches = [match for text in found if (match := pattern.search(text))]
        found = [_captured(match) for match in matches]
    once = list(dict.fromkeys(found))
    if sort in (1, 2, 5, 6):
        once.sort(key=str.lower if sort > 4 else None, reverse=sort in (2, 6))
    if sort in (3, 4):
        once.sort(key=_number, reverse=sort == 4)
    return once


def chosen(model: Mapping[str, Any], found: Sequence[str], wanted: str | None = None) -> Variable:
    """The variable with `wanted` (or its JSON's current value, or All, or the first option) chosen."""
    name, many, every = model["name"], bool(model.get("multi")), bool(model.get("includeAll"))
    current = model.get("current") or {}
    values = [wanted] if wanted else _list(current.get("value"))
    values = [value for value in values if value == ALL or value in found]
    if not values:
        values = [ALL] if every else list(found[:1])
    hidden = model.get("hide") in (2, "hideVariable")
    label = model.get("label") or name
    if values == [ALL]:
        verbatim = model.get("allValue") or None
        return Variable(name, label, tuple(found), True, verbatim, "All", hidden)
    return Variable(name, label, tuple(values), many or every, None, " + ".join(values), hidden)


def _escaped(value: str) -> str:
    """For a regular expression inside a PromQL string, as the data source escapes: two backslashes for each one."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\" * 4))


def _captured(match: re.Match[str]) -> str:
    named = match.groupdict()
    return named.get("value") or named.get("text") or (match.group(1) if match.re.groups else match.group(0))


def _number(text: str) -> float:
    found = re.search(r"-?\d+(\.\d+)?", text)
    return float(found[0]) if found else -1.0


def _list(value: object) -> list[str]:
    if value in (None, ""):
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
