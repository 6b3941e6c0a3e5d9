"""What GPUs of this machine are, before any load."""

from __future__ import annotations

from collections.abc import Sequence

from server_adapters.base import Fact


def gpu_facts(devices: Sequence[int | str]) -> dict[str, Fact]:
    """Name, count and driver by NVML; see `loadgen.observe.nvml`."""
    from loadgen.observe import nvml  # slow to import, and few runs need it

    return nvml.gpu_facts(devices)
