"""The newest sample of each source of an arm's hardware as live metrics."""

from __future__ import annotations

from loadgen.export.store import Metrics
from loadgen.observe import TelemetrySample

#: canonical name -> metric; ratios are averaged over GPUs, the others summed
_GAUGES = {
    "memory_used_bytes": "gpu_memory_used_bytes",
    "utilization_ratio": "gpu_utilization_ratio",
    "dram_active_ratio": "gpu_dram_active_ratio",
    "power_watts": "gpu_power_watts",
    "process_rss_bytes": "server_resident_memory_bytes",
}


def tell_sample(told: Metrics, sample: TelemetrySample) -> None:
    source = "process" if sample.source.startswith("pid ") else sample.source  # started again it has another pid
    labels = {"arm": sample.arm, "source": source}
    told.set("telemetry_up", float(sample.reason is None), **labels)
    for name, metric in _GAUGES.items():
        values = [reading.value for reading in sample.readings if reading.name == name]
        total = sum(values) / (len(values) if name.endswith("_ratio") else 1) if values else None
        told.set(metric, total, **labels)
