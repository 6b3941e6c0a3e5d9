"""Samples of an arm's hardware over windows: exact numbers from hand-made samples."""

from collections.abc import Mapping

import pytest

from loadgen.observe import Measured, TelemetrySample, Tracks
from server_adapters.telemetry import Reading

S = 1_000_000_000


def sample(at_s: float, source: str = "nvml", reason: str | None = None, absent: Mapping[str, str] | None = None,
           **values: float | tuple[float, ...]) -> TelemetrySample:  # fmt: skip
    """A look in the middle of 20 ms; several values of a name are those of GPU a, b, …"""
    at = round(at_s * S)
    readings = [
        Reading(name, "abcdef"[i] if not name.startswith("process") else "server", value)
        for name, told in values.items()
        for i, value in enumerate(told if isinstance(told, tuple) else (told,))
    ]
    return TelemetrySample("x", source, at - S // 100, at + S // 100, reason, tuple(readings), absent or {})


def tracks(*samples: TelemetrySample) -> Tracks:
    return Tracks(samples, "x")


def known(found: Measured | str) -> Measured:
    assert isinstance(found, Measured), found
    return found


def test_peak_is_the_most_at_one_time_not_the_sum_of_peaks() -> None:
    found = tracks(
        sample(0, memory_used_bytes=(99.0, 99.0)),
        sample(1, memory_used_bytes=(10.0, 1.0)),
        sample(2, memory_used_bytes=(1.0, 10.0)),
        sample(3, memory_used_bytes=(7.0, 6.0)),
        sample(9, memory_used_bytes=(99.0, 99.0)),
    ).peak("memory_used_bytes", 1 * S, 3 * S)
    assert (known(found).value, known(found).n) == (13.0, 3)


def test_power_is_summed_and_ratios_are_averaged() -> None:
    both = tracks(*(sample(i, power_watts=(100.0 * i, 50.0), utilization_ratio=(0.2 * i, 0.0)) for i in range(1, 5)))
    assert known(both.mean("power_watts", 1 * S, 3 * S)).value == pytest.approx(200 + 50)
    assert known(both.mean("utilization_ratio", 1 * S, 3 * S)).value == pytest.approx(0.2)
    assert known(both.mean("power_watts", 1 * S, 3 * S)).n == 3


def test_energy_is_the_counters_and_interpolated_at_the_edges() -> None:
    """500 W from 0 to 10 s; the window is from 1.5 to 4.25 s."""
    energy = known(
        tracks(*(sample(i, energy_joules=1000.0 + 500 * i) for i in range(11))).energy(3 * S // 2, 17 * S // 4)
    )
    assert energy.value == pytest.approx(500 * 2.75)
    assert (energy.low, energy.high) == (1000.0, 2000.0)
    assert (energy.n, energy.how) == (3, "counter")


def test_two_gpus_energies_are_added_with_their_bounds() -> None:
    energy = known(
        tracks(*(sample(i, energy_joules=(10.0 * i, 20.0 * i)) for i in range(6))).energy(S // 2, 7 * S // 2)
    )
    assert (energy.value, energy.low, energy.high) == (pytest.approx(90), 60.0, 120.0)


def test_an_exporter_that_repeats_old_values_has_wide_bounds() -> None:
    """Collected every 4 s, looked at every second: the count is known at its changes alone."""
    stairs = tracks(*(sample(i, energy_joules=100.0 * (i // 4) * 4) for i in range(17)))
    energy = known(stairs.energy(6 * S, 10 * S))
    assert (energy.value, energy.low, energy.high, energy.n) == (400.0, 0.0, 800.0, 1)


def test_what_an_exporter_has_not_told_yet_is_no_end_of_a_window() -> None:
    """Collected every 4 s, 100 W: the last samples repeat the count of 12 s, so that at 15 s it is not known, and 400 J
    is no upper bound of the 500 J of the window."""
    stairs = [sample(i, energy_joules=100.0 * (i // 4) * 4) for i in range(16)]
    assert "nvml: the counter did not change any more after the window" in str(tracks(*stairs).energy(10 * S, 15 * S))
    with_power = [sample(i, energy_joules=100.0 * (i // 4) * 4, power_watts=100.0) for i in range(16)]
    energy = known(tracks(*with_power).energy(10 * S, 15 * S))
    assert (energy.value, energy.low, energy.high) == (pytest.approx(500.0), None, None)
    assert "did not change any more" in energy.how


def test_cpu_time_that_stands_still_is_a_process_that_did_nothing() -> None:
    idle = tracks(*(sample(i, "pid 7", process_cpu_seconds=float(min(i, 3))) for i in range(8)))
    assert known(idle.increase("process_cpu_seconds", 2 * S, 6 * S)).value == 1.0


def test_a_counter_that_was_reset_gives_way_to_integrated_power() -> None:
    """A driver that is loaded again counts from 0: never a negative energy."""
    seen = tracks(*(sample(i, energy_joules=v, power_watts=300.0) for i, v in enumerate((900.0, 1200.0, 100.0, 400.0))))
    energy = known(seen.energy(S, 3 * S))
    assert energy.value == pytest.approx(600.0)
    assert "reset" in energy.how
    assert (energy.low, energy.high) == (None, None)


def test_an_energy_counter_that_stands_still_is_no_energy_of_zero() -> None:
    """C10, D10: exporters tell a constant where the GPU has no counter: power is integrated, and without it nothing
    is known; 0 joules a token would be the best result there is. One of two GPUs is enough."""
    still = tracks(*(sample(i, energy_joules=50.0, power_watts=300.0) for i in range(6)))
    energy = known(still.energy(S, 3 * S))
    assert (energy.value, energy.how) == (
        pytest.approx(600.0), "power, integrated (nvml: the energy counter did not move)"
    )  # fmt: skip
    both = tracks(*(sample(i, energy_joules=(10.0 * i, 7.0)) for i in range(6)))
    found = both.energy(S, 3 * S)
    assert isinstance(found, str)
    assert "the energy counter did not move" in found


def test_without_a_counter_power_is_integrated_and_the_reason_is_kept() -> None:
    ramp = tracks(*(sample(i, absent={"energy_joules": "NVMLError_NotSupported: Not Supported"}, power_watts=100.0 * i)
                    for i in range(5)))  # fmt: skip
    energy = known(ramp.energy(S, 3 * S))
    assert energy.value == pytest.approx(400.0)
    assert energy.how == "power, integrated (nvml: NVMLError_NotSupported: Not Supported)"


def test_a_hole_in_the_power_is_no_energy() -> None:
    found = tracks(sample(0, power_watts=100.0), sample(20, power_watts=100.0)).energy(5 * S, 15 * S)
    assert isinstance(found, str)
    assert "20 s without a sample" in found


def test_edges_that_were_not_sampled_are_not_guessed() -> None:
    found = tracks(sample(1, energy_joules=1.0), sample(2, energy_joules=2.0)).increase("energy_joules", 0, 2 * S)
    assert found == "nvml: not sampled before and after the window"


def test_a_gpu_that_two_sources_tell_of_counts_once() -> None:
    page = "http://node:9400/metrics"
    both = tracks(
        *(sample(i, where, power_watts=watts) for i in range(3) for where, watts in ((page, 90.0), ("nvml", 100.0)))
    )
    assert known(both.mean("power_watts", 0, 2 * S)).value == 100.0
    assert both.devices == ("a",)


def test_a_place_that_the_arm_left_is_no_part_of_its_later_windows() -> None:
    """Arms that exchange their nodes: GPU a first, GPU b afterwards."""
    first = [sample(i, power_watts=100.0) for i in range(4)]
    later = [
        TelemetrySample("x", "other", i * S, i * S, None, (Reading("power_watts", "b", 300.0),)) for i in range(10, 14)
    ]
    moved = tracks(*first, *later)
    assert known(moved.mean("power_watts", 0, 3 * S)).value == 100.0
    assert known(moved.mean("power_watts", 10 * S, 13 * S)).value == 300.0
    assert (moved.devices_in(0, 3 * S), moved.devices_in(10 * S, 13 * S)) == (("a",), ("b",))


def test_a_server_that_was_started_again_is_another_process_of_the_same_server() -> None:
    old = [sample(i, "pid 7", process_cpu_seconds=float(i)) for i in range(4)]
    new = [sample(i, "pid 9", process_cpu_seconds=2.0 * (i - 10)) for i in range(10, 14)]
    both = tracks(*old, *new)
    assert known(both.increase("process_cpu_seconds", 0, 3 * S)).value == 3.0
    assert known(both.increase("process_cpu_seconds", 10 * S, 13 * S)).value == 6.0


def test_every_absence_has_its_own_reason() -> None:
    assert (
        tracks().why_not("power_watts")
        == "the arm names no telemetry source (telemetry: nvml, gpu_metrics_urls or pid)"
    )
    cpu = tracks(sample(0, "pid 1", process_rss_bytes=5.0))
    assert cpu.why_not("power_watts") == "the arm's telemetry names no GPU source (nvml or gpu_metrics_urls)"
    gone = tracks(sample(0, "http://n/metrics", reason="HTTP 500"))
    assert gone.mean("power_watts", 0, S) == "http://n/metrics: HTTP 500"
    assert gone.why_not("process_rss_bytes").startswith("the arm's telemetry names no process")
    late = tracks(sample(5, power_watts=1.0))
    assert late.mean("power_watts", 0, S) == "nvml: no sample in the window"
    assert late.peak("power_watts", 0, S) == "nvml: no sample of all its devices in the window"
