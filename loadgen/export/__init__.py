"""What leaves for Prometheus: metrics, live and as files, and the rules on them and on servers."""

from loadgen.export.buckets import LATENCY_EDGES_S, Counted, latency_edges, quantile
from loadgen.export.families import FAMILIES, LANE, Family
from loadgen.export.live import RunMetrics, task_types
from loadgen.export.openmetrics import openmetrics_lines, write_openmetrics
from loadgen.export.rules import (
    RULE_FILES,
    Burn,
    Limits,
    RunRules,
    Windows,
    as_prometheus_rule,
    as_yaml,
    rule_file,
    rules_of_run,
)
from loadgen.export.server import Exporter
from loadgen.export.store import Metrics, Series, family_of
from loadgen.export.sweep import tell_sweep, write_sweep_openmetrics
from loadgen.export.table import metrics_table
from loadgen.export.tally import ArmHow, ended_of, rollback_bounds
from loadgen.export.textfile import write_textfile
from loadgen.export.told import Changes, MetricsTeller, MetricsTold

__all__ = [
    "FAMILIES",
    "LANE",
    "LATENCY_EDGES_S",
    "RULE_FILES",
    "ArmHow",
    "Burn",
    "Changes",
    "Counted",
    "Exporter",
    "Family",
    "Limits",
    "Metrics",
    "MetricsTeller",
    "MetricsTold",
    "RunMetrics",
    "RunRules",
    "Series",
    "Windows",
    "as_prometheus_rule",
    "as_yaml",
    "ended_of",
    "family_of",
    "latency_edges",
    "metrics_table",
    "openmetrics_lines",
    "quantile",
    "rollback_bounds",
    "rule_file",
    "rules_of_run",
    "task_types",
    "tell_sweep",
    "write_openmetrics",
    "write_sweep_openmetrics",
    "write_textfile",
]
