"""Pages of GPU exporters as canonical readings: dcgm-exporter, nvidia_gpu_exporter, AMD device-metrics-exporter.

Units: DCGM tells MiB and millijoules, AMD megabytes (MiB), percent and microjoules, nvidia_gpu_exporter base units.
Labels of pods, containers and jobs come and go, and an exporter repeats a shared GPU under each of them: a number is
keyed by GPU and MIG instance alone, and one that is there twice is the same number twice, never a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server_adapters.base import CollectionError
from server_adapters.exposition import Sample, read_samples
from server_adapters.telemetry import TELEMETRY, Device, Look, Reading, uuid_of

#: DCGM's blanks (dcgm_structs.h): not found, not supported, no permission, as integers and as doubles.
_BLANK_INT, _BLANK_DOUBLE = 0x7FFFFFFFFFFFFFF0, 2.0**47
_MIB = 2.0**20
#: A share of counted cycles may come out a little above 1.
_MOST_RATIO = 1.05


@dataclass(frozen=True, slots=True)
class _Family:
    """canonical name and factor of a wire name; of two wire names of one quantity the earlier in its table counts."""

    name: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class _Exporter:
    """`prefix` is what its families begin with; `absent`: quantities it can only tell when told to."""

    name: str
    prefix: str
    families: Mapping[str, _Family]
    absent: Mapping[str, str]


_DCGM = _Exporter(
    "dcgm-exporter", "DCGM_FI_",
    {
        "DCGM_FI_DEV_FB_USED": _Family("memory_used_bytes", _MIB),
        "DCGM_FI_DEV_FB_RESERVED": _Family("memory_reserved_bytes", _MIB),
        "DCGM_FI_DEV_FB_TOTAL": _Family("memory_total_bytes", _MIB),
        "DCGM_FI_DEV_GPU_UTIL": _Family("utilization_ratio", 0.01),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": _Family("utilization_ratio"),
        "DCGM_FI_PROF_DRAM_ACTIVE": _Family("dram_active_ratio"),
        "DCGM_FI_DEV_MEM_COPY_UTIL": _Family("memory_busy_ratio", 0.01),
        "DCGM_FI_DEV_POWER_USAGE": _Family("power_watts"),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _Family("energy_joules", 1e-3),
    },
    {"dram_active_ratio": "dcgm-exporter does not export DCGM_FI_PROF_DRAM_ACTIVE (add it to its counters file)"},
)  # fmt: skip
_NVIDIA_SMI = _Exporter(
    "nvidia_gpu_exporter", "nvidia_smi_",
    {
        "nvidia_smi_memory_used_bytes": _Family("memory_used_bytes"),
        "nvidia_smi_memory_reserved_bytes": _Family("memory_reserved_bytes"),
        "nvidia_smi_memory_total_bytes": _Family("memory_total_bytes"),
        "nvidia_smi_utilization_gpu_ratio": _Family("utilization_ratio"),
        "nvidia_smi_utilization_memory_ratio": _Family("memory_busy_ratio"),
        "nvidia_smi_power_draw_watts": _Family("power_watts"),
        "nvidia_smi_energy_joules_total": _Family("energy_joules"),
    },
    {"dram_active_ratio": "nvidia_gpu_exporter does not tell memory bandwidth; a dcgm-exporter does"},
)  # fmt: skip
_AMD = _Exporter(
    "AMD device-metrics-exporter", "gpu_",
    {
        "gpu_used_vram": _Family("memory_used_bytes", _MIB),
        "gpu_total_vram": _Family("memory_total_bytes", _MIB),
        "gpu_gfx_activity": _Family("utilization_ratio", 0.01),
        "gpu_umc_activity": _Family("memory_busy_ratio", 0.01),
        "gpu_package_power": _Family("power_watts"),
        "gpu_power_usage": _Family("power_watts"),
        "gpu_average_package_power": _Family("power_watts"),
        "gpu_energy_consumed": _Family("energy_joules", 1e-6),
    },
    {"dram_active_ratio": "AMD's exporter tells how often memory was busy (gpu_umc_activity), not its bandwidth"},
)  # fmt: skip
_SHARED = "only some of the GPU's MIG instances are the arm's: power and energy are of the whole GPU"
EXPORTERS = (_DCGM, _NVIDIA_SMI, _AMD)


def read_gpu_page(text: str, devices: Sequence[int | str] = ()) -> Look:
    """One page, of the first exporter whose families are on it; only `devices` (index, UUID, index/MIG instance),
    where any are named. Raises CollectionError: no metrics page, none of an exporter, or without one of `devices`."""
    samples = read_samples(text, _wanted)
    for exporter in EXPORTERS:
        mine = [sample for sample in samples if _family(exporter, sample.name) is not None]
        if mine:
            return _look(exporter, mine, devices)
    raise CollectionError(
        "families_missing",
        "a metrics page without families of a GPU exporter (DCGM_FI_…, nvidia_smi_…, gpu_… of AMD's)",
    )


def _wanted(name: str) -> bool:
    return any(_family(exporter, name) is not None for exporter in EXPORTERS)


def _family(exporter: _Exporter, name: str) -> str | None:
    """The exporter's own name of a sample: AMD's may carry a site's prefix."""
    if name in exporter.families:
        return name
    if exporter is _AMD:
        return next((known for known in exporter.families if name.endswith(f"_{known}")), None)
    return None


def _look(exporter: _Exporter, samples: Sequence[Sample], devices: Sequence[int | str]) -> Look:
    found: dict[tuple[str, str, str | None], tuple[int, float]] = {}
    blank: dict[str, str] = {}
    asked, others = _chosen(exporter, samples, devices)
    shared = {device.device for device in asked.values()} & others
    order = {name: i for i, name in enumerate(exporter.families)}
    for sample in samples:
        wire = _family(exporter, sample.name) or sample.name
        family, device = exporter.families[wire], asked.get(_key(exporter, sample))
        part = TELEMETRY[family.name].level == "part"
        if device is None or (not part and device.device in shared):
            continue
        value = sample.value * family.factor
        if why := _unusable(family.name, sample.value, value):
            blank[family.name] = f"{exporter.name}: {why}"
            continue
        key = (family.name, device.device, device.instance if part else None)
        rank = order[wire]
        known = found.get(key)
        if known is None or rank < known[0] or (rank == known[0] and value > known[1]):
            found[key] = (rank, value)
    every = [Reading(name, device, value, part) for (name, device, part), (_, value) in found.items()]
    readings, some = _of_all(every, asked)
    absent = _absent(exporter, {r.name for r in readings}, blank) | some
    if shared:
        absent |= dict.fromkeys(("power_watts", "energy_joules"), _SHARED)
    return Look(exporter.name, readings, absent)


def _of_all(
    found: Sequence[Reading], asked: Mapping[tuple[str, str | None], Device]
) -> tuple[tuple[Reading, ...], dict[str, str]]:
    """Only what every device tells: a sum over some of them would read as less. A GPU that shows its MIG instances is
    these: its own line beside them is left out."""
    split = {device for device, instance in asked if instance is not None}
    parts = {key for key in asked if key[1] is not None or key[0] not in split}
    whole = {(device, None) for device, _ in asked}
    kept: list[Reading] = []
    absent: dict[str, str] = {}
    for name in dict.fromkeys(r.name for r in found):
        expected = parts if TELEMETRY[name].level == "part" else whole
        mine = [r for r in found if r.name == name and (r.device, r.instance) in expected]
        if len(mine) == len(expected):
            kept += mine
        else:
            absent[name] = f"only {len(mine)} of the {len(expected)} GPUs or MIG instances tell it"
    return tuple(sorted(kept, key=lambda r: (r.name, r.device, r.instance or ""))), absent


def _chosen(
    exporter: _Exporter, samples: Sequence[Sample], wanted: Sequence[int | str]
) -> tuple[dict[tuple[str, str | None], Device], set[str]]:
    """Devices asked for by their key, and those of which a part was not asked for."""
    every = {_key(exporter, sample): _device(exporter, sample.labels) for sample in samples}
    if not wanted:
        return every, set()
    missing = [one for one in wanted if not any(device.is_one_of([one]) for device in every.values())]
    if missing:
        names = sorted({name for device in every.values() for name in device.names})
        raise CollectionError("families_missing", f"devices {missing} are not on the page; it has {names}")
    asked = {key: device for key, device in every.items() if device.is_one_of(wanted)}
    return asked, {device.device for key, device in every.items() if key not in asked}


def _key(exporter: _Exporter, sample: Sample) -> tuple[str, str | None]:
    device = _device(exporter, sample.labels)
    return device.device, device.instance


def _unusable(name: str, told: float, value: float) -> str | None:
    """Why `told` is no number of its kind. `value`: the same in our unit."""
    if told < 0 or told >= _BLANK_INT or _BLANK_DOUBLE <= told <= _BLANK_DOUBLE + 3:
        return "this GPU does not support it (blank value)"
    if name.endswith("_ratio") and value > _MOST_RATIO:
        return f"{value:g} is no share: 0 to 1 was expected"
    return None


def _device(exporter: _Exporter, labels: Mapping[str, str]) -> Device:
    """A GPU is told apart by its UUID, else by host and number."""
    if exporter is _AMD:
        number, host = labels.get("gpu_id", ""), labels.get("hostname", "")
        part = labels.get("gpu_partition_id", "0")
        serial = labels.get("serial_number", "")
        return Device(f"{host}/{number}", None if part in ("", "0") else part, frozenset({number, serial}) - {""})
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    number, host = labels.get("gpu", ""), labels.get("Hostname", "")
    names = frozenset({number, uuid_of(uuid)}) - {""}
    return Device(uuid_of(uuid) or f"{host}/{number}", labels.get("GPU_I_ID") or None, names)


def _absent(exporter: _Exporter, told: set[str], blank: Mapping[str, str]) -> dict[str, str]:
    absent: dict[str, str] = {}
    for name, quantity in TELEMETRY.items():
        if quantity.level == "process" or name in told:
            continue
        if name in blank:
            absent[name] = blank[name]
        else:
            absent[name] = exporter.absent.get(name, f"not on the page of {exporter.name}")
    return absent
