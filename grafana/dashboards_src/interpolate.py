"""Variables in queries, put in as Grafana does for a Prometheus data source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Dashboard = Mapping[str, Any]
#: $name, ${name}, ${name:format}, [[name]]
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\]")
#: Of one value of a variable that can have several; within a string of PromQL a backslash is written twice.
_SPECIAL = re.compile(r"([\\^$*+?.()|{}\[\]/])")


def built_in(scrape_s: float, range_s: float, interval_s: float) -> dict[str, str]:
    """Grafana's own variables. `scrape_s`: the data source's timeInterval; `interval_s`: between two points."""
    rate_s = max(interval_s + scrape_s, 4 * scrape_s)
    return {
        "__interval": f"{interval_s:g}s",
        "__rate_interval": f"{rate_s:g}s",
        "__range": f"{range_s:g}s",
        "__range_s": f"{range_s:g}",
    }


def chosen(variable: Mapping[str, Any], values: Sequence[str]) -> str:
    """What stands in the query for these values; none of a variable that includes All: all of them."""
    if not variable.get("includeAll") and not variable.get("multi"):
        (value,) = values
        return value.replace("\\", "\\\\").replace('"', '\\"')
    if not values:
        return str(variable["allValue"])
    escaped = [_SPECIAL.sub(r"\\\\\1", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """Raises KeyError for a variable that is not among `values`."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2] or found[3]], text)


def variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    return list(dashboard["templating"]["list"])


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """All that show something: without the rows' headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def placeholders(dashboard: Dashboard) -> dict[str, str]:
    """For looking at queries without data: each variable has its own name as value, which a matcher shows."""
    return built_in(1, 600, 1) | {v["name"]: placeholder(v["name"]) for v in variables(dashboard)}


def placeholder(name: str) -> str:
    return f"variable_{name}"
