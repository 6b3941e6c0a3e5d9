"""NVML through the real library (nvidia-ml-py): its structures, its errors, its reference count; only the driver's own
shared object is replaced, as a machine without a GPU has none."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from loadgen.observe import gpu_facts
from loadgen.observe.nvml import NvmlReader

GIB = 2**30


class Driver:
    """What libnvidia-ml.so.1 would export; every function fills the caller's structures and returns a code."""

    def __init__(self, uuids: tuple[str, ...] = ("GPU-aaaa",)) -> None:
        self.uuids = uuids
        self.fails: dict[str, int] = {}
        self.missing: set[str] = set()
        self.energy_mj = 5_000_000
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.missing:
            raise AttributeError(name)
        work = getattr(type(self), "do_" + name, None)

        def call(*args: Any) -> int:
            self.asked.append(name)
            if name in self.fails:
                return self.fails[name]
            if work is not None:
                return int(work(self, *args) or 0)
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)

        return call

    def do_nvmlInitWithFlags(self, _flags: int) -> None: ...

    def do_nvmlShutdown(self) -> None: ...

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:
        if index.value >= len(self.uuids):
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        handle._obj.contents = ctypes.cast(ctypes.pointer(ctypes.c_uint(index.value)), pynvml.c_nvmlDevice_t).contents
        self.at = index.value
        return 0

    def do_nvmlDeviceGetHandleByUUID(self, uuid: ctypes.c_char_p, _handle: Any) -> int:
        name = (uuid.value or b"").decode()
        if name not in self.uuids:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        self.at = self.uuids.index(name)
        return 0

    def do_nvmlDeviceGetUUID(self, _handle: Any, buffer: Any, _size: Any) -> None:
        buffer.value = self.uuids[self.at].encode()

    def do_nvmlDeviceGetName(self, _handle: Any, buffer: Any, _size: Any) -> None:
        buffer.value = b"NVIDIA H100 80GB HBM3"

    def do_nvmlSystemGetDriverVersion(self, buffer: Any, _size: Any) -> None:
        buffer.value = b"570.86.15"

    def do_nvmlDeviceGetMemoryInfo_v2(self, _handle: Any, memory: Any) -> None:
        told: pynvml.c_nvmlMemory_v2_t = memory._obj
        assert told.version == pynvml.nvmlMemory_v2
        told.total, told.reserved, told.used = 80 * GIB, GIB, (self.at + 1) * 10 * GIB

    def do_nvmlDeviceGetMemoryInfo(self, _handle: Any, memory: Any) -> None:
        told: pynvml.c_nvmlMemory_t = memory._obj
        told.total, told.used = 80 * GIB, 11 * GIB

    def do_nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> None:
        told: pynvml.c_nvmlUtilization_t = rates._obj
        told.gpu, told.memory = 87, 41

    def do_nvmlDeviceGetPowerUsage(self, _handle: Any, milliwatts: Any) -> None:
        milliwatts._obj.value = 412_345

    def do_nvmlDeviceGetTotalEnergyConsumption(self, _handle: Any, millijoules: Any) -> None:
        millijoules._obj.value = self.energy_mj


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(pynvml, "nvmlLib", made)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    return made


def values(reader: NvmlReader) -> dict[tuple[str, str], float]:
    return {(r.name, r.device): r.value for r in reader.read().readings}


def test_every_number_in_its_unit(driver: Driver) -> None:
    assert values(NvmlReader([0])) == {
        ("memory_used_bytes", "aaaa"): 10 * GIB,
        ("memory_total_bytes", "aaaa"): 80 * GIB,
        ("memory_reserved_bytes", "aaaa"): GIB,
        ("utilization_ratio", "aaaa"): 0.87,
        ("memory_busy_ratio", "aaaa"): 0.41,
        ("power_watts", "aaaa"): 412.345,
        ("energy_joules", "aaaa"): 5000.0,
    }


def test_by_uuid_and_by_index_are_the_same_gpus(driver: Driver) -> None:
    driver.uuids = ("GPU-aaaa", "GPU-bbbb")
    assert values(NvmlReader([0, 1])) == values(NvmlReader(["GPU-aaaa", "GPU-bbbb"]))
    assert values(NvmlReader([1]))["memory_used_bytes", "bbbb"] == 20 * GIB


def test_a_driver_that_only_knows_the_first_memory_version_says_what_used_holds(driver: Driver) -> None:
    driver.missing = {"nvmlDeviceGetMemoryInfo_v2"}
    look = NvmlReader([0]).read()
    assert {r.name: r.value for r in look.readings}["memory_used_bytes"] == 11 * GIB
    assert look.absent["memory_reserved_bytes"] == "NVML memory v1: what the driver reserves is part of what is used"


@pytest.mark.parametrize(
    ("function", "code", "reason"),
    [
        (
            "nvmlDeviceGetTotalEnergyConsumption",
            pynvml.NVML_ERROR_NOT_SUPPORTED,
            "NVMLError_NotSupported: Not Supported",
        ),
        (
            "nvmlDeviceGetTotalEnergyConsumption",
            pynvml.NVML_ERROR_NO_PERMISSION,
            "NVMLError_NoPermission: Insufficient Permissions",
        ),
        ("nvmlDeviceGetTotalEnergyConsumption", pynvml.NVML_ERROR_UNKNOWN, "NVMLError_Unknown: Unknown Error"),
    ],
)
def test_a_call_that_fails_is_absent_with_nvmls_words(driver: Driver, function: str, code: int, reason: str) -> None:
    driver.fails = {function: code}
    look = NvmlReader([0]).read()
    assert look.absent["energy_joules"] == reason
    assert "power_watts" in {r.name for r in look.readings}


def test_what_one_of_two_gpus_does_not_tell_is_absent(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.uuids = ("GPU-aaaa", "GPU-bbbb")

    def only_the_first(self: Driver, _handle: Any, milliwatts: Any) -> int:
        milliwatts._obj.value = 100_000
        return 0 if self.at == 0 else int(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(Driver, "do_nvmlDeviceGetPowerUsage", only_the_first)
    look = NvmlReader([0, 1]).read()
    assert "power_watts" not in {r.name for r in look.readings}
    assert look.absent["power_watts"].startswith("NVMLError_NotSupported")


def test_a_gpu_that_is_not_there_costs_all_readings_not_some(driver: Driver) -> None:
    look = NvmlReader([0, 5]).read()
    assert look.readings == ()
    assert look.absent["memory_used_bytes"] == "GPU 5: NVMLError_InvalidArgument: Invalid Argument"


def test_a_lost_gpu_is_said_and_the_driver_is_initialised_again(driver: Driver) -> None:
    reader = NvmlReader([0])
    assert len(reader.read().readings) == 7
    driver.fails = {"nvmlDeviceGetHandleByIndex_v2": pynvml.NVML_ERROR_GPU_IS_LOST}
    assert reader.read().absent["power_watts"] == "GPU 0: NVMLError_GpuIsLost: GPU is lost"
    driver.fails = {}
    assert len(reader.read().readings) == 7
    assert driver.asked.count("nvmlInitWithFlags") == 2


def test_bandwidth_is_not_told_by_nvml(driver: Driver) -> None:
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in NvmlReader([0]).read().absent["dram_active_ratio"]


def test_energy_that_is_not_available_is_no_number(driver: Driver) -> None:
    driver.energy_mj = 2**64 - 1
    assert NvmlReader([0]).read().absent["energy_joules"] == "NVML: not available"


def test_without_the_driver_the_librarys_own_error_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real loader of the library, which finds no libnvidia-ml.so.1."""

    def nothing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", nothing)
    look = NvmlReader([0]).read()
    assert look.readings == ()
    assert look.absent["power_watts"] == "NVMLError_LibraryNotFound: NVML Shared Library Not Found"


def test_facts_of_the_gpus_for_the_environment(driver: Driver) -> None:
    driver.uuids = ("GPU-aaaa", "GPU-bbbb")
    facts = gpu_facts([0, 1])
    told = {"gpu.name": "NVIDIA H100 80GB HBM3", "gpu.count": 2, "gpu.driver": "570.86.15"}
    assert {key: fact.value for key, fact in facts.items()} == told
    assert {fact.source for fact in facts.values()} == {"NVML on this machine (telemetry.nvml)"}
    assert gpu_facts([2])["gpu.name"].reason == "NVMLError_InvalidArgument: Invalid Argument"
