"""What the arms used and what that costs (docs/resources.md)."""

from __future__ import annotations

from pydantic import Field

from loadgen.analyze.summary.base import Model, N
from loadgen.analyze.summary.compared import Interval


class WindowUse(Model):
    """Of one arm, over steady windows: one (`segment` says which), all of a stage, or all. `window_s`: their seconds.

    Memory, utilisation and power are of all its GPUs together: bytes and watts summed, ratios averaged. `energy_joules`
    has as `low` and `high` what it certainly lies between; `output_tokens` are those that arrived in the windows
    whose energy is known, as in net throughput.
    """

    stage: str | None
    segment: int | None = None
    repeat_idx: int | None = None
    window_s: float
    memory_peak_bytes: N
    memory_total_bytes: N
    utilization: N
    dram_active: N
    memory_busy: N
    power_watts: N
    energy_joules: N
    output_tokens: N
    joules_per_output_token: N
    process_rss_peak_bytes: N
    process_cpu_cores: N


class ResourceUse(WindowUse):
    """With the cost of a whole stage or arm, in the currency of the price."""

    cost_per_million_output_tokens: N
    cost_per_request: N


class ArmResources(Model):
    """`background_power_watts`: mean power between the segments, when nothing was asked; it is part of every energy
    here. `kv_capacity_tokens`: what the KV caches of all its engines hold."""

    sources: list[str]
    devices: list[str]
    gpus: N
    price_per_gpu_hour: N
    kv_capacity_tokens: N
    background_power_watts: N
    overall: ResourceUse
    stages: list[ResourceUse]
    windows: list[WindowUse] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class ResourceDelta(Model):
    """A candidate beside the baseline at one load. `joules_ratio`, `cost_ratio`: per output token, candidate ÷
    baseline, of paired design blocks; above 1 = dearer. Differences: candidate − baseline."""

    stage: str
    candidate: str
    baseline: str
    kv_capacity_difference_tokens: N
    kv_capacity_ratio: N
    memory_peak_difference_bytes: N
    joules_ratio: Interval
    cost_ratio: Interval
    sentence: str


class Resources(Model):
    arms: dict[str, ArmResources] = Field(default_factory=dict)
    comparison: list[ResourceDelta] = Field(default_factory=list)
