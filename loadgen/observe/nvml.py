"""GPUs of this machine through NVML (nvidia-ml-py). Runs in the scraping process; a call that fails is a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from server_adapters.base import Fact
from server_adapters.telemetry import Look, Reading, uuid_of

#: NVML's own "not available" of 64-bit counts
_NOT_AVAILABLE = 2**64 - 1
_NO_DRAM = (
    "NVML does not tell memory bandwidth here; a dcgm-exporter does: gpu_metrics_urls, with DCGM_FI_PROF_DRAM_ACTIVE"
)


class NvmlReader:
    """Reads `devices` (indices or UUIDs, MIG ones too). Never raises: what fails is absent with NVML's own words.

    `used` is memory without what the driver reserves (NVML's memory v2); where only v1 is known it is with it, and
    `absent` says so.
    """

    def __init__(self, devices: Sequence[int | str]) -> None:
        self._devices = tuple(devices)
        self._initialised = False

    def read(self) -> Look:
        readings: list[Reading] = []
        absent = {"dram_active_ratio": _NO_DRAM}
        failed = self._init()
        for named in () if failed else self._devices:
            try:
                handle = _handle(named)
                device = uuid_of(_text(pynvml.nvmlDeviceGetUUID(handle)))
            except pynvml.NVMLError as error:
                failed = f"GPU {named}: {reason_of(error)}"
                break
            readings += _readings(handle, device, absent)
        if failed:  # half of an arm's GPUs would read as a smaller one
            self._initialised = False
            return Look("nvml", (), dict.fromkeys(_CALLS_OF, failed) | {"dram_active_ratio": _NO_DRAM})
        return Look("nvml", tuple(r for r in readings if r.name not in absent), absent)

    def _init(self) -> str | None:
        """Once; again after a failure, as a driver may have come back."""
        if self._initialised:
            return None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return reason_of(error)
        self._initialised = True
        return None


def reason_of(error: Exception) -> str:
    """ "NVMLError_NotSupported: Not Supported"."""
    return f"{type(error).__name__}: {error}"


def _handle(named: int | str) -> Any:
    if isinstance(named, int):
        return pynvml.nvmlDeviceGetHandleByIndex(named)
    return pynvml.nvmlDeviceGetHandleByUUID(named)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _readings(handle: Any, device: str, absent: dict[str, str]) -> list[Reading]:
    """One device. What one of several devices does not tell is absent of all: a sum over some is no sum."""
    found: list[Reading] = []
    for names, call in _CALLS:
        try:
            values = call(handle)
        except pynvml.NVMLError as error:
            absent |= dict.fromkeys(names, reason_of(error))
            continue
        for name in names:
            value = values.get(name)
            if isinstance(value, float):
                found.append(Reading(name, device, value))
            else:
                absent[name] = value or "NVML: not available"
    return found


def _memory(handle: Any) -> dict[str, float | str]:
    try:
        told = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch, pynvml.NVMLError_NotSupported):
        told = pynvml.nvmlDeviceGetMemoryInfo(handle)
        reserved: float | str = "NVML memory v1: what the driver reserves is part of what is used"
    else:
        reserved = float(told.reserved)
    return {
        "memory_used_bytes": float(told.used),
        "memory_total_bytes": float(told.total),
        "memory_reserved_bytes": reserved,
    }


def _utilisation(handle: Any) -> dict[str, float | str]:
    told = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization_ratio": told.gpu / 100, "memory_busy_ratio": told.memory / 100}


def _power(handle: Any) -> dict[str, float | str]:
    return {"power_watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3}


def _energy(handle: Any) -> dict[str, float | str]:
    told = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    return {} if told == _NOT_AVAILABLE else {"energy_joules": told / 1e3}


_CALLS: tuple[tuple[tuple[str, ...], Callable[[Any], dict[str, float | str]]], ...] = (
    (("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"), _memory),
    (("utilization_ratio", "memory_busy_ratio"), _utilisation),
    (("power_watts",), _power),
    (("energy_joules",), _energy),
)
_CALLS_OF = tuple(name for names, _ in _CALLS for name in names)


def gpu_facts(devices: Sequence[int | str]) -> dict[str, Fact]:
    """Name, count and driver of these GPUs, by the keys of docs/environment.md; with NVML's words where it fails."""
    try:
        pynvml.nvmlInit()
        names = [_text(pynvml.nvmlDeviceGetName(_handle(named))) for named in devices]
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return dict.fromkeys(("gpu.name", "gpu.count", "gpu.driver"), Fact(None, None, reason_of(error)))
    source = "NVML on this machine (telemetry.nvml)"
    told = {"gpu.name": ", ".join(dict.fromkeys(names)), "gpu.count": len(names), "gpu.driver": driver}
    return {key: Fact(value, source) for key, value in told.items()}
