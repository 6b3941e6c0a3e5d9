"""What the hardware under a server tells: canonical names with their units, and one look at it.

Sources are GPU exporters' pages (`server_adapters.gpu_exporters`), NVML and the server's own processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["gauge", "counter"]
#: What a sum over the MIG instances of a GPU would mean: "whole" numbers are the physical GPU's and are repeated under
#: each instance; of "part" numbers each instance has its own.
Level = Literal["whole", "part", "process"]


@dataclass(frozen=True, slots=True)
class Quantity:
    kind: Kind
    level: Level
    meaning: str


#: Canonical names: bytes, watts, joules, ratios 0-1. Every source maps to these.
TELEMETRY: Mapping[str, Quantity] = {
    "memory_used_bytes": Quantity("gauge", "part", "GPU memory in use, without what the driver reserves where told"),
    "memory_reserved_bytes": Quantity("gauge", "part", "GPU memory reserved by driver and firmware"),
    "memory_total_bytes": Quantity("gauge", "part", "GPU memory there is"),
    "utilization_ratio": Quantity("gauge", "part", "share of time in which a kernel ran, on however much of the GPU"),
    "dram_active_ratio": Quantity("gauge", "part", "share of cycles in which memory moved data: bandwidth in use"),
    "memory_busy_ratio": Quantity("gauge", "part", "share of time in which memory was used at all: not bandwidth"),
    "power_watts": Quantity("gauge", "whole", "power draw of the GPU"),
    "energy_joules": Quantity("counter", "whole", "energy since the driver was loaded"),
    "process_rss_bytes": Quantity("gauge", "process", "resident memory of the server's processes, summed"),
    "process_cpu_seconds": Quantity("counter", "process", "CPU time of the server's processes"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of one device. `device`: its UUID without "GPU-", else whatever tells it apart on its source; of
    processes "server". `instance`: the MIG instance or partition whose own number this is; None = the whole device."""

    name: str
    device: str
    value: float
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """How one GPU can be named in a scenario: any of `names` (index, UUID), or one of them with "/instance"."""

    device: str
    instance: str | None
    names: frozenset[str]

    def is_one_of(self, wanted: Iterable[int | str]) -> bool:
        mine = {uuid_of(name) for name in self.names}
        mine |= {f"{name}/{self.instance}" for name in mine if self.instance is not None}
        return any(uuid_of(str(one)) in mine for one in wanted)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one source. `absent`: canonical name to why the source does not tell it."""

    source: str
    readings: tuple[Reading, ...]
    absent: Mapping[str, str] = field(default_factory=dict)


def uuid_of(text: str) -> str:
    """Exporters write the same UUID with and without its prefix."""
    return text.removeprefix("GPU-").lower()
