"""Samples of the arms' hardware as live metrics."""

from loadgen.export import Metrics
from loadgen.export.hardware import tell_sample
from loadgen.observe import TelemetrySample
from server_adapters.telemetry import Reading


def sample(source: str, *readings: Reading, reason: str | None = None) -> TelemetrySample:
    return TelemetrySample("a", source, 0, 1, reason, readings)


def test_bytes_and_watts_are_summed_over_gpus_and_ratios_averaged() -> None:
    told, labels = Metrics(), {"arm": "a", "source": "nvml"}
    numbers = {"memory_used_bytes": (1.0, 2.0), "power_watts": (100.0, 300.0), "utilization_ratio": (0.2, 0.6)}
    tell_sample(
        told,
        sample("nvml", *(Reading(n, d, v) for n, both in numbers.items() for d, v in zip("xy", both, strict=True))),
    )
    assert told.value("gpu_memory_used_bytes", **labels) == 3.0
    assert told.value("gpu_power_watts", **labels) == 400.0
    assert told.value("gpu_utilization_ratio", **labels) == 0.4
    assert told.value("gpu_dram_active_ratio", **labels) is None
    assert told.value("telemetry_up", **labels) == 1.0


def test_what_a_sample_does_not_tell_any_more_has_no_series() -> None:
    told, labels = Metrics(), {"arm": "a", "source": "nvml"}
    tell_sample(told, sample("nvml", Reading("power_watts", "x", 100.0)))
    tell_sample(told, sample("nvml", reason="NVMLError_GpuIsLost: GPU is lost"))
    assert told.value("gpu_power_watts", **labels) is None
    assert told.value("telemetry_up", **labels) == 0.0


def test_a_process_that_was_started_again_is_the_same_series() -> None:
    told = Metrics()
    for pid in (7, 8):
        tell_sample(told, sample(f"pid {pid}", Reading("process_rss_bytes", "server", 5.0 * pid)))
    assert told.value("server_resident_memory_bytes", arm="a", source="process") == 40.0
