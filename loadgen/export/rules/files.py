"""Rule files as text: Prometheus' own, and the operator's PrometheusRule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from loadgen.export.rules.alerts import canary_alerts, run_alerts
from loadgen.export.rules.recording import recording
from loadgen.export.rules.types import Group, Limits, Windows

_FILES: Mapping[str, Callable[[Windows, Limits], list[Group]]] = {
    "recording.yml": recording,
    "canary.yml": canary_alerts,
    "run.yml": run_alerts,
}
#: The rule files of grafana/prometheus/.
RULE_FILES = tuple(_FILES)

_HEAD = "# Written by scripts/make_rules.py from loadgen/export/rules; change it there.\n"


def rule_file(name: str, windows: Windows = Windows(), limits: Limits = Limits()) -> str:  # noqa: B008
    """One of `RULE_FILES`. The alerts read what recording.yml records: load all three."""
    return _HEAD + as_yaml({"groups": _FILES[name](windows, limits)})


def as_prometheus_rule(groups: list[Group], name: str) -> str:
    """For Kubernetes with the Prometheus operator. `name`: of the object, as DNS names are."""
    return as_yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "specload"}},
            "spec": {"groups": groups},
        }
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
