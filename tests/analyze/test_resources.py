"""Resources and cost from hand-made runs: every number against a hand calculation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from loadgen.analyze import Resources, Summary, analyze
from loadgen.observe import TelemetrySample
from loadgen.record import RunData
from server_adapters.base import Fact
from server_adapters.telemetry import Reading

ORIGIN_NS = 1_000_000_000_000
GIB = 2**30


def sample(at_s: float, arm: str, device: str = "a", source: str = "nvml", absent: dict[str, str] | None = None,
           **values: float) -> TelemetrySample:  # fmt: skip
    at = ORIGIN_NS + round(at_s * 1e9)
    told = tuple(Reading(n, "server" if n.startswith("process") else device, v) for n, v in values.items())
    return TelemetrySample(arm, source, at, at, None, told, absent or {})


def analyzed(run: Any, samples: Sequence[TelemetrySample]) -> Summary:
    data: RunData = run.data()
    return analyze(replace(data, telemetry=tuple(samples)))


@pytest.fixture
def one_arm(run: Any) -> Any:
    """A steady window from 1 to 5 s in which 4 requests of 10 tokens each ended; 40 tokens in 4 s."""
    run.segment(start=0.0, full=1.0, load_end=5.0, end=5.0)
    for i in range(4):
        run.request([(0.1 * (j + 1), 1) for j in range(10)], sent=1.0 + i)
    return run


def priced(run: Any, **telemetry: Any) -> None:
    run.scenario["arms"] = {name: {"telemetry": telemetry} for name in run.arms}


def test_energy_and_cost_of_a_window_by_hand(one_arm: Any) -> None:
    """600 W over 4 s are 2400 J; 40 tokens: 60 J each. 2 GPUs at 3.6 an hour are 0.002 a second; 10 tokens and 1
    request a second: 200 for a million tokens, 0.002 for a request."""
    priced(one_arm, price_per_gpu_hour=3.6, gpus=2)
    samples = [
        sample(t, "candidate", energy_joules=600.0 * t, power_watts=600.0, memory_used_bytes=(70 + (t == 3)) * GIB,
               utilization_ratio=0.8 if t > 2 else 0.6, dram_active_ratio=0.5)
        for t in range(7)
    ]  # fmt: skip
    found = analyzed(one_arm, samples).resources.arms["candidate"]
    use = found.overall
    assert use.window_s == 4.0
    assert use.memory_peak_bytes.value == 71 * GIB
    assert use.memory_peak_bytes.reason is not None
    assert "KV capacity" in use.memory_peak_bytes.reason
    assert use.utilization.value == pytest.approx((0.6 + 0.6 + 0.8 * 3) / 5)
    assert use.dram_active.value == 0.5
    assert use.power_watts.value == 600.0
    assert (use.energy_joules.value, use.energy_joules.low, use.energy_joules.high) == (2400.0, 2400.0, 2400.0)
    assert use.output_tokens.value == 40
    assert use.joules_per_output_token.value == 60.0
    assert use.cost_per_million_output_tokens.value == pytest.approx(200.0)
    assert use.cost_per_request.value == pytest.approx(0.002)
    assert found.background_power_watts.value == 600.0
    assert (found.devices, found.gpus.value, found.gpus.source) == (["a"], 2.0, "scenario")
    assert [w.segment for w in found.windows] == [0]
    assert found.stages[0].joules_per_output_token == use.joules_per_output_token


def test_bounds_of_energy_are_carried_to_the_token(one_arm: Any) -> None:
    """Samples every 2 s, the first at 0: 300 W; the window is from 1 to 5 s."""
    samples = [sample(t, "candidate", energy_joules=300.0 * t) for t in (0, 2, 4, 6)]
    use = analyzed(one_arm, samples).resources.arms["candidate"].overall
    joules = use.joules_per_output_token
    assert (joules.value, joules.low, joules.high) == (pytest.approx(30.0), 15.0, 45.0)


def test_without_telemetry_and_price_everything_is_absent_with_its_reason(one_arm: Any) -> None:
    found = analyzed(one_arm, []).resources.arms["candidate"]
    why = "the arm names no telemetry source (telemetry: nvml, gpu_metrics_urls or pid)"
    for name in ("memory_peak_bytes", "utilization", "dram_active", "power_watts", "energy_joules",
                 "joules_per_output_token", "process_rss_peak_bytes", "process_cpu_cores"):  # fmt: skip
        number = getattr(found.overall, name)
        assert (number.value, number.reason) == (None, why), name
    assert found.overall.cost_per_request.reason == "no price: the arm's telemetry has no price_per_gpu_hour"
    assert found.gpus.reason is not None
    assert "the server's metrics do not tell its KV capacity" in (found.kv_capacity_tokens.reason or "")
    assert found.windows == []


def test_a_price_alone_is_enough_for_cost_with_the_users_own_count_of_gpus(one_arm: Any) -> None:
    """A server may tell all GPUs of its machine: they are not what the arm pays for."""
    one_arm.arms["candidate"].environment["gpu.count"] = Fact(8, "/server_info")
    priced(one_arm, price_per_gpu_hour=1.8)
    found = analyzed(one_arm, []).resources.arms["candidate"]
    assert found.gpus.value is None
    assert "the number of GPUs is not known" in (found.overall.cost_per_request.reason or "")
    one_arm.arms["candidate"].facts["gpus"] = 4
    found = analyzed(one_arm, []).resources.arms["candidate"]
    assert found.overall.cost_per_million_output_tokens.value == pytest.approx(200.0)
    assert found.overall.cost_per_request.value == pytest.approx(0.002)


def test_no_gpu_tells_what_only_a_page_can(one_arm: Any) -> None:
    absent = {"dram_active_ratio": "NVML does not tell it"}
    samples = [sample(t, "candidate", absent=absent, power_watts=100.0) for t in range(7)]
    use = analyzed(one_arm, samples).resources.arms["candidate"].overall
    assert use.dram_active.reason == "nvml: NVML does not tell it"
    assert use.joules_per_output_token.value == pytest.approx(10.0)
    assert "power, integrated" in (use.joules_per_output_token.reason or "")


def test_cpu_servers_have_memory_and_cores(one_arm: Any) -> None:
    """1.5 cores: 1.5 CPU seconds a second."""
    samples = [
        sample(
            t, "candidate", source="pid 7", process_cpu_seconds=1.5 * t, process_rss_bytes=(3 if t == 4 else 2) * GIB
        )
        for t in range(7)
    ]
    use = analyzed(one_arm, samples).resources.arms["candidate"].overall
    assert use.process_cpu_cores.value == pytest.approx(1.5)
    assert use.process_rss_peak_bytes.value == 3 * GIB
    assert use.memory_peak_bytes.reason == "the arm's telemetry names no GPU source (nvml or gpu_metrics_urls)"


def test_energy_between_tokens_that_nobody_counted_is_no_energy_per_token(one_arm: Any) -> None:
    one_arm.request([(0.1, None), (0.2, None)], sent=2.0, output_len=None)
    samples = [sample(t, "candidate", energy_joules=300.0 * t) for t in range(7)]
    use = analyzed(one_arm, samples).resources.arms["candidate"].overall
    assert use.joules_per_output_token.value is None
    assert use.joules_per_output_token.reason == "1 requests have output that nobody counted"
    assert use.energy_joules.value == 1200.0


def test_a_window_without_samples_is_left_out_and_counted(one_arm: Any) -> None:
    """The second segment was not sampled: its tokens are not in the energy per token of the first."""
    one_arm.segment(1, start=10.0, full=10.0, load_end=14.0, end=14.0, block=1)
    one_arm.request([(0.1 * (j + 1), 1) for j in range(10)], sent=10.5, segment=1)
    samples = [sample(t, "candidate", energy_joules=600.0 * t) for t in range(7)]
    use = analyzed(one_arm, samples).resources.arms["candidate"].overall
    assert (use.joules_per_output_token.value, use.output_tokens.value) == (60.0, 40.0)
    for number in (use.energy_joules, use.output_tokens, use.joules_per_output_token):
        assert "1 of 2 windows left out: nvml: not sampled" in (number.reason or "")


def compared(run: Any, filled: Callable[..., None], watts: tuple[float, float], gpus: tuple[float, float],
             device: tuple[str, str] = ("a", "b"), blocks: int = 6) -> Resources:  # fmt: skip
    """The candidate's decode steps take half as long; `watts` and `gpus` of baseline and candidate."""
    run.arm("baseline", speculation=False, k=0, spec_method=None)
    run.arm("candidate")
    number, samples = 0, []
    for block in range(blocks):
        for arm, step in (("baseline", 0.1), ("candidate", 0.05)):
            filled(run, number, arm, block, [step + 0.001 * (block % 3)] * 4, steps=20, first_s=step)
            number += 1
    for arm, w, gpu in (("baseline", watts[0], device[0]), ("candidate", watts[1], device[1])):
        samples += [
            sample(t, arm, gpu, energy_joules=w * t, memory_used_bytes=70.0 * GIB) for t in range(10 * number + 2)
        ]
    run.scenario["arms"] = {
        arm: {"telemetry": {"price_per_gpu_hour": 3.6, "gpus": n}}
        for arm, n in zip(("baseline", "candidate"), gpus, strict=True)
    }
    for arm, tokens in (("baseline", 40_000.0), ("candidate", 30_000.0)):
        for i in range(10 * number):
            run.scrape(float(i) + 0.5, arm=arm, kv_capacity_tokens=tokens, running=1.0)
    found = analyzed(run, samples)
    findings = found.findings if isinstance(found.findings, list) else []
    run.found = {f.id: f.text for f in findings}
    return found.resources


def test_cost_up_although_faster(run: Any, filled: Callable[..., None]) -> None:
    """H17: twice as fast on three times the GPUs: 1.5 times as dear; the KV capacity tells what the draft takes where
    the memory in use is flat, and says that this is blind."""
    (row,) = compared(run, filled, (300.0, 300.0), (1.0, 3.0)).comparison
    assert row.cost_ratio.value == pytest.approx(1.5, rel=0.05)
    assert row.cost_ratio.low is not None
    assert row.cost_ratio.low > 1.4
    assert row.cost_ratio.high is not None
    assert row.cost_ratio.high < 1.6
    assert (row.kv_capacity_difference_tokens.value, row.kv_capacity_ratio.value) == (-10_000.0, 0.75)
    assert row.memory_peak_difference_bytes.value == 0.0
    assert "KV capacity" in (row.memory_peak_difference_bytes.reason or "")
    assert {"faster", "cost_up_although_faster", "kv_capacity_down"} <= run.found.keys()
    assert not {"cost_down", "cost_up"} & run.found.keys()
    assert "holds 10,000 tokens less than baseline's (0.75×)" in run.found["kv_capacity_down"]
    assert row.sentence.startswith(
        "candidate beside baseline: KV capacity -10,000 tokens (0.75×), cost per output token 1.5"
    )


def test_cheaper_and_with_less_energy(run: Any, filled: Callable[..., None]) -> None:
    """The same GPUs and watts for twice the tokens: half of both."""
    (row,) = compared(run, filled, (300.0, 300.0), (1.0, 1.0)).comparison
    assert row.cost_ratio.value == pytest.approx(0.5, rel=0.05)
    assert row.joules_ratio.value == pytest.approx(0.5, rel=0.05)
    assert row.joules_ratio.unit == "blocks"
    assert {"cost_down"} <= run.found.keys()
    assert not {"cost_up_although_faster", "energy_up"} & run.found.keys()


def test_more_energy_for_the_same_text(run: Any, filled: Callable[..., None]) -> None:
    """Drafts that are thrown away: twice as fast at three times the power is 1.5 times the energy a token."""
    (row,) = compared(run, filled, (200.0, 600.0), (1.0, 1.0)).comparison
    assert row.joules_ratio.value == pytest.approx(1.5, rel=0.05)
    assert "energy_up" in run.found


def test_arms_on_one_gpu_are_said_and_energy_at_the_same_time_is_absent(run: Any, filled: Callable[..., None]) -> None:
    found = compared(run, filled, (300.0, 300.0), (1.0, 1.0), device=("a", "a"))
    assert found.arms["candidate"].notes
    assert "also those of baseline" in found.arms["candidate"].notes[0]
    assert found.arms["candidate"].overall.joules_per_output_token.value is not None  # they took turns
    run.segment(99, arm="baseline", start=0.0, full=0.0, load_end=500.0, end=500.0, block=99)
    samples = [sample(t, arm, energy_joules=100.0 * t) for arm in ("baseline", "candidate") for t in range(130)]
    both = analyzed(run, samples).resources.arms["candidate"].overall
    assert both.energy_joules.value is None
    assert both.energy_joules.reason == "baseline ran on the same GPU at the same time: its energy cannot be told apart"


def test_a_share_of_a_load_has_no_energy_per_token_and_no_cost(one_arm: Any) -> None:
    priced(one_arm, price_per_gpu_hour=3.6, gpus=2)
    data: RunData = one_arm.data()
    data.manifest.shard = "0/2"
    samples = tuple(sample(t, "candidate", energy_joules=600.0 * t) for t in range(7))
    use = analyze(replace(data, telemetry=samples)).resources.arms["candidate"].overall
    why = "this run is share 0/2 of the load: others asked the same GPUs meanwhile"
    assert (use.joules_per_output_token.value, use.joules_per_output_token.reason) == (None, why)
    assert (use.cost_per_request.value, use.cost_per_request.reason) == (None, why)
    assert use.energy_joules.value == 2400.0


def test_places_that_were_exchanged_at_different_prices_have_no_cost(run: Any, filled: Callable[..., None]) -> None:
    for number, arm in enumerate(("baseline", "candidate")):
        run.arm(arm)
        filled(number=number, run=run, arm=arm, block=0, step_s=[0.05] * 4, labels={"swapped": True})
    run.scenario["arms"] = {
        arm: {"telemetry": {"price_per_gpu_hour": price, "gpus": 1}}
        for arm, price in (("baseline", 1.0), ("candidate", 2.0))
    }
    found = analyzed(run, []).resources
    assert "different prices" in (found.arms["candidate"].overall.cost_per_request.reason or "")
    assert "different prices" in (found.comparison[0].cost_ratio.reason or "")


def test_a_kv_capacity_that_changed_has_both_ends(one_arm: Any) -> None:
    one_arm.segment(1, start=10.0, full=10.0, load_end=14.0, end=14.0, block=1)
    for at, tokens in ((2.0, 1000.0), (3.0, 1000.0), (11.0, 900.0)):
        one_arm.scrape(at, kv_capacity_tokens=tokens)
    kv = analyzed(one_arm, []).resources.arms["candidate"].kv_capacity_tokens
    assert (kv.low, kv.high) == (900.0, 1000.0)
    assert "differed" in (kv.reason or "")


def test_a_difference_and_a_ratio_keep_the_bounds_and_notes_of_both(run: Any, filled: Callable[..., None]) -> None:
    """The baseline's servers were started again with 1000 tokens less (39,000 in the mean of a window)."""
    for i in range(60, 122):
        run.scrape(float(i) + 0.25, arm="baseline", kv_capacity_tokens=38_000.0, running=1.0)
    (row,) = compared(run, filled, (300.0, 300.0), (1.0, 1.0)).comparison
    ratio, difference = row.kv_capacity_ratio, row.kv_capacity_difference_tokens
    assert ratio.value is not None
    assert 0.75 < ratio.value < 0.77
    assert (ratio.low, ratio.high) == (0.75, pytest.approx(30 / 39, rel=0.01))
    assert (difference.low, difference.high) == (-10_000.0, pytest.approx(-9_000.0, rel=0.01))
    assert "started again" in (ratio.reason or "")
    assert "started again" in (difference.reason or "")


def test_a_price_of_nothing_is_no_price(one_arm: Any) -> None:
    """A user's own fact is free text: 0 would make everything free, and a ratio of nothing by nothing."""
    one_arm.arms["candidate"].facts.update(gpus=4, price_per_gpu_hour=0)
    found = analyzed(one_arm, []).resources.arms["candidate"]
    assert found.price_per_gpu_hour.value is None
    assert found.overall.cost_per_request.value is None


def test_a_capacity_that_no_look_fell_on_is_not_called_untold(one_arm: Any) -> None:
    one_arm.scrape(20.0, kv_capacity_tokens=1000.0)
    kv = analyzed(one_arm, []).resources.arms["candidate"].kv_capacity_tokens
    assert kv.reason == "no look at every metrics page of the arm fell into a measured window"
