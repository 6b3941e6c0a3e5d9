"""Metrics for Prometheus: live while a run drives load, and as files."""

from loadgen.export.buckets import LATENCY_EDGES_S, latency_edges
from loadgen.export.families import FAMILIES, Family
from loadgen.export.live import RunMetrics, task_types
from loadgen.export.openmetrics import openmetrics_lines, write_openmetrics
from loadgen.export.server import Exporter
from loadgen.export.store import Metrics
from loadgen.export.table import metrics_table
from loadgen.export.textfile import write_textfile

__all__ = [
    "FAMILIES",
    "LATENCY_EDGES_S",
    "Exporter",
    "Family",
    "Metrics",
    "RunMetrics",
    "latency_edges",
    "metrics_table",
    "openmetrics_lines",
    "task_types",
    "write_openmetrics",
    "write_textfile",
]
