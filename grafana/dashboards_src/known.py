"""The series there are: our own families, what the rules record, and what the rules read of servers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import yaml

from loadgen.export import FAMILIES, LANE, RULE_FILES, rule_file

#: Every scraped series has these.
TARGET = frozenset({"job", "instance"})
_OF_SERVERS = TARGET | {"arm", "model_name", "speculation", "cluster", "le"}
_PROMETHEUS = {
    "up": TARGET | {"arm", "cluster", "speculation"},
    "ALERTS": TARGET | {"alertname", "alertstate", "severity", "scope", "arm", "model_name"},
}
_SERVER_METRIC = re.compile(r"\b((?:vllm:|sglang:|llamacpp:|lmdeploy:|trtllm_)\w+)")
_BY = re.compile(r"by \(([^)]*)\)")


@cache
def known_series() -> dict[str, frozenset[str]]:
    """Name to its labels."""
    return {**_own(), **_servers(), **_recorded(), **_PROMETHEUS}


@cache
def counters() -> frozenset[str]:
    """Series that only ever grow: nothing can be read from them without a rate."""
    own = {f.full_name for f in FAMILIES.values() if f.kind == "counter"}
    own |= {f"{f.full_name}_{end}" for f in FAMILIES.values() if f.kind == "histogram" for end in _ENDS}
    return frozenset(own | {name for name in _servers() if name.endswith(("_total", *(f"_{end}" for end in _ENDS)))})


def never_mixed(names: Iterable[str]) -> set[str]:
    """Labels of these series over whose values no sum has a meaning."""
    return {label for name in names for label in known_series().get(name, ()) if label in ("source", "stream")}


_ENDS = ("bucket", "sum", "count")


def _own() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for family in FAMILIES.values():
        labels = TARGET | {LANE} | set(family.labels)  # of the service
        if family.kind == "histogram":
            found |= {f"{family.full_name}_{end}": labels | ({"le"} if end == "bucket" else set()) for end in _ENDS}
        else:
            found[family.full_name] = labels
    return found


def _servers() -> dict[str, frozenset[str]]:
    text = "\n".join(rule_file(name) for name in RULE_FILES)
    return dict.fromkeys(_SERVER_METRIC.findall(text), _OF_SERVERS)


def _recorded() -> dict[str, frozenset[str]]:
    """Labels: those a rule groups by or adds; a rule over recorded series has theirs."""
    found: dict[str, frozenset[str]] = {}
    for group in yaml.safe_load(rule_file("recording.yml"))["groups"]:
        for rule in group["rules"]:
            labels = {label.strip() for by in _BY.findall(rule["expr"]) for label in by.split(",")}
            for name, theirs in list(found.items()):
                if name in rule["expr"]:
                    labels |= theirs
            found[rule["record"]] = found.get(rule["record"], frozenset()) | labels | set(rule.get("labels", ()))
    return found
