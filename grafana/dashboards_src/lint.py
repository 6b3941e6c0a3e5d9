"""Rules that every dashboard keeps: those of grafana/dashboard-linter that apply, and our own.

Where dashboard-linter asks for job and instance, ours have what a run has: run_id and arm (rule target-scoped).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana.dashboards_src.expressions import (
    EQUAL,
    divisions,
    every_node,
    guarded,
    kept,
    named_labels,
    parsed,
    selectors,
)
from grafana.dashboards_src.interpolate import Dashboard, interpolated, panels, placeholder, placeholders, variables
from grafana.dashboards_src.known import counters, known_series, never_mixed

UID = "${datasource}"
TAG = "specload"
#: Of Grafana's list (packages/grafana-data/src/valueFormats/categories.ts), those used here; suffix: takes any text.
UNITS = frozenset({"none", "short", "percentunit", "s", "reqps", "bytes", "dateTimeAsIso"})
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+),\s*(?P<label>\w+)\)")

#: (rule, dashboard, panel): why the rule does not hold there.
EXCEPTIONS: Mapping[tuple[str, str, str], str] = {
    ("target-scoped", "specload-canary", "Alerts firing"): "alerts that compare arms have no instance",
    ("target-scoped", "specload-canary", "Speedup between arms"): "the ratio of two arms' servers has no instance",
}


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    where: str
    what: str


#: What a rule says: (panel or other place, sentence).
Said = Iterator[tuple[str, str]]


def lint(dashboard: Dashboard, exceptions: Mapping[tuple[str, str, str], str] = EXCEPTIONS) -> list[Finding]:
    """What is wrong, rule by rule."""
    uid = str(dashboard["uid"])
    return [
        Finding(name, where, what)
        for name, rule in RULES.items()
        for where, what in rule(dashboard)
        if (name, uid, where) not in exceptions
    ]


def asked(dashboard: Dashboard) -> Iterator[tuple[str, str]]:
    """(panel or annotation, expression as written)"""
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            yield str(panel.get("title", panel["id"])), str(target["expr"])
    for annotation in dashboard["annotations"]["list"]:
        yield str(annotation["name"]), str(annotation["expr"])


def _trees(dashboard: Dashboard) -> Iterator[tuple[str, Any]]:
    """Expressions that can be read, with placeholders for variables."""
    values = placeholders(dashboard)
    for where, expr in asked(dashboard):
        try:
            yield where, parsed(interpolated(expr, values))
        except (KeyError, ValueError):
            continue  # target-promql says so


def _datasource_variable(dashboard: Dashboard) -> Said:
    found = [v for v in variables(dashboard) if v["type"] == "datasource"]
    if [(v["name"], v.get("label"), v.get("query")) for v in found] != [("datasource", "Data source", "prometheus")]:
        yield "variables", 'not exactly one data source variable "datasource", labelled "Data source", of prometheus'
    for variable in variables(dashboard):
        if variable.get("current"):
            yield str(variable["name"]), "a value is kept that another installation does not have"


def _multi_variables(dashboard: Dashboard) -> Said:
    for variable in variables(dashboard):
        if variable.get("multi") and not (variable.get("includeAll") and variable.get("allValue") == ".+"):
            yield str(variable["name"]), "multi, but All is not .+"


def _variable_queries(dashboard: Dashboard) -> Said:
    values = placeholders(dashboard)
    for variable in variables(dashboard):
        if variable["type"] != "query":
            continue
        found = _LABEL_VALUES.fullmatch(str(variable["query"]))
        if found is None:
            yield str(variable["name"]), "not label_values(metric, label)"
            continue
        try:
            selected = list(selectors(parsed(interpolated(found["selector"], values))))
        except (KeyError, ValueError) as error:
            yield str(variable["name"]), f"cannot be read: {error}"
            continue
        for name in (name for one in selected for name in one.names):
            if found["label"] not in known_series().get(name, ()):
                yield str(variable["name"]), f"{name} has no label {found['label']}"


def _reload(dashboard: Dashboard) -> Said:
    for variable in variables(dashboard):
        if variable["type"] == "query" and variable.get("refresh") != 2:
            yield str(variable["name"]), "not read again when the time range changes"


def _datasources(dashboard: Dashboard) -> Said:
    places = [(str(p.get("title", p["id"])), one) for p in panels(dashboard) for one in (p, *p.get("targets", ()))]
    places += [(str(v["name"]), v) for v in variables(dashboard) if v["type"] == "query"]
    places += [(str(a["name"]), a) for a in dashboard["annotations"]["list"]]
    for where, one in places:
        if (one.get("datasource") or {}).get("uid") != UID:
            yield where, f"its data source is not {UID}"


def _titles(dashboard: Dashboard) -> Said:
    if not dashboard.get("description"):
        yield "dashboard", "no description"
    for panel in panels(dashboard):
        if not panel.get("title") or not panel.get("description"):
            yield str(panel.get("title", panel["id"])), "no title or no description"


def _units(dashboard: Dashboard) -> Said:
    for panel in panels(dashboard):
        config = panel.get("fieldConfig", {})
        told = [config.get("defaults", {}).get("unit")]
        told += [p["value"] for o in config.get("overrides", ()) for p in o["properties"] if p["id"] == "unit"]
        for unit in told:
            if not (unit in UNITS or (isinstance(unit, str) and unit.startswith("suffix:"))):
                yield str(panel["title"]), f"unit {unit!r}"


def _targets(dashboard: Dashboard) -> Said:
    for panel in panels(dashboard):
        if not panel.get("targets"):
            yield str(panel["title"]), "asks nothing"


def _promql(dashboard: Dashboard) -> Said:
    values = placeholders(dashboard)
    for where, expr in asked(dashboard):
        try:
            parsed(interpolated(expr, values))
        except KeyError as error:
            yield where, f"no variable {error}"
        except ValueError as error:
            yield where, f"{error}: {expr}"


def _rate_intervals(dashboard: Dashboard) -> Said:
    """The text and not the parsed length: the same seconds written out are wrong in another installation."""
    for where, expr in asked(dashboard):
        written = expr.replace("[$__rate_interval]", "[1234s]")
        try:
            tree = parsed(interpolated(written, placeholders(dashboard)))
        except (KeyError, ValueError):
            continue
        for one in selectors(tree):
            if one.rated and one.range_s != 1234:
                yield where, f"a rate of {', '.join(one.names)} over another time than $__rate_interval"


def _counters(dashboard: Dashboard) -> Said:
    for where, tree in _trees(dashboard):
        for one in selectors(tree):
            for name in one.names:
                if (name in counters() or name.endswith("_total")) and not one.rated:
                    yield where, f"{name} is a counter, and not in rate or increase"


def _scoped(dashboard: Dashboard) -> Said:
    """Each selector is about what the variables choose: it has one of them in a matcher, or is joined with the chosen
    run by job and instance."""
    chosen = {placeholder(v["name"]) for v in variables(dashboard) if v["type"] == "query"}
    run, titles = placeholder("run_id"), {panel.get("title") for panel in panels(dashboard)}
    for where, tree in _trees(dashboard):
        found = list(selectors(tree))
        joined = any("specload_run_info" in one.names and run in str(one.matchers) for one in found)
        for one in found:
            limited = joined or any(value in chosen for _, _, value in one.matchers)
            if where in titles and not limited:
                yield where, f"{', '.join(one.names)} is not limited by any variable"


def _uneditable(dashboard: Dashboard) -> Said:
    if dashboard.get("editable") is not False:
        yield "dashboard", "editable: what is changed in Grafana is lost with the next start"


def _apart(dashboard: Dashboard) -> Said:
    """Sources of speculation count the same work, and streams and whole bodies are different things to time: one is
    chosen, or each stays a series of its own."""
    for where, tree in _trees(dashboard):
        for one in selectors(tree):
            for label in never_mixed(one.names) - {name for name, how, _ in one.matchers if how == EQUAL}:
                if any(label not in by for node in one.around if (by := kept(node)) is not None):
                    yield where, f"{', '.join(one.names)} is mixed over {label}"


def _known(dashboard: Dashboard) -> Said:
    for where, tree in _trees(dashboard):
        there: set[str] = set()
        for one in selectors(tree):
            for name in one.names:
                labels = known_series().get(name)
                if labels is None:
                    yield where, f"no metric {name}"
                    continue
                there |= labels
                for label in sorted({m[0] for m in one.matchers} - labels):
                    yield where, f"{name} has no label {label}"
        for label in sorted({label for node in every_node(tree) for label in named_labels(node)} - there):
            yield where, f"nothing has a label {label}"


def _divisors(dashboard: Dashboard) -> Said:
    for where, tree in _trees(dashboard):
        if not all(map(guarded, divisions(tree))):
            yield where, "divides by what can be 0: x / (y > 0) has no value then"


def _layout(dashboard: Dashboard) -> Said:
    taken: set[tuple[int, int]] = set()
    seen: set[object] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if taken & cells or at["x"] + at["w"] > 24:
            yield str(panel["title"]), "overlaps another panel, or the edge"
        if {panel["id"], panel["title"]} & seen:
            yield str(panel["title"]), "its id or title is another panel's"
        taken |= cells
        seen |= {panel["id"], panel["title"]}


def _links(dashboard: Dashboard) -> Said:
    if TAG not in dashboard["tags"]:
        yield "dashboard", f"no tag {TAG}, by which the others link to it"
    wanted = {"type": "dashboards", "tags": [TAG], "includeVars": True, "keepTime": True}
    if not any(wanted.items() <= link.items() for link in dashboard.get("links", ())):
        yield "dashboard", "no link to the others that keeps time and variables"


RULES: Mapping[str, Callable[[Dashboard], Said]] = {
    "template-datasource": _datasource_variable,
    "template-multi": _multi_variables,
    "template-label-promql": _variable_queries,
    "template-on-time-change-reload": _reload,
    "panel-datasource": _datasources,
    "panel-title-description": _titles,
    "panel-units": _units,
    "panel-no-targets": _targets,
    "target-promql": _promql,
    "target-rate-interval": _rate_intervals,
    "target-counter-agg": _counters,
    "target-scoped": _scoped,
    "uneditable-dashboard": _uneditable,
    "never-mixed": _apart,
    "known-series": _known,
    "guarded-divisors": _divisors,
    "layout": _layout,
    "links": _links,
}
