"""The roofline by hand, and what follows from it: E/c at batch 1, a gain that shrinks, a loss near saturation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from server_adapters.rehearsal.hardware import GPUS, MODELS, STEP_OVERHEAD_S, Roofline
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.simulate import Case, Simulation, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, SpeculationConfig

MakeCases = Callable[..., tuple[Case, ...]]
DRAFT = SpeculationConfig()


def test_memory_bound_pass_by_hand() -> None:
    """One token of 70B at context 1000 on 4 H100: 141.2 GB of weights and 1001 x 327,680 B over 4 x 2.68 TB/s."""
    roofline = Roofline("h100", "70b", None, 4)
    expected = (2 * 70.6e9 + 1001 * 327_680) / (4 * 0.8 * 3.35e12) + 80 * 14e-6
    assert roofline.forward_s(MODELS["70b"], 1, 1000, 1000) == pytest.approx(expected)


def test_compute_bound_pass_by_hand() -> None:
    """8192 prefill tokens of 8B on one A100: 2 operations per weight and token, 4 per layer, unit and position."""
    roofline = Roofline("a100", "8b", None)
    attended = 8192 * 4096
    operations = 2 * 8.03e9 * 8192 + 4 * 32 * 4096 * attended
    expected = operations / (0.6 * 312e12) + 32 * 2e-6
    assert roofline.forward_s(MODELS["8b"], 8192, attended, 0) == pytest.approx(expected)


@pytest.mark.parametrize("hardware", GPUS)
@pytest.mark.parametrize("target", ["8b", "27b", "70b"])
def test_presets_fit_and_leave_room_for_a_cache(hardware: str, target: str) -> None:
    if (hardware, target) == ("l4", "70b"):
        roofline = Roofline(hardware, target, "1b")
        assert roofline.tensor_parallel == 8
    roofline = Roofline(hardware, target, "0.5b")
    assert roofline.kv_capacity_tokens() > 16_000
    assert roofline.kv_capacity_tokens() < Roofline(hardware, target, None).kv_capacity_tokens(), "D: the draft's share"


def test_tensor_parallel_is_the_least_that_holds_the_weights() -> None:
    assert [Roofline(h, m, "1b").tensor_parallel for h, m in (("h100", "8b"), ("h100", "70b"), ("h200", "70b"))] == [
        1,
        4,
        2,
    ]


def _ramp(
    models: Models, make_cases: MakeCases, levels: tuple[int, ...], speculation: SpeculationConfig | None
) -> Simulation:
    stages = tuple(
        Stage(make_cases(max(6, level // 2), temperature=0.7, min_tokens=48, max_tokens=48), concurrency=level)
        for level in levels
    )
    config = EngineConfig(speculation=speculation, max_num_seqs=1024)
    return simulate(SimulationPlan({"arm": config}, stages), 3, models)


def _throughput(run: Simulation, stage: int) -> float:
    steps = [s for s in run.steps if s.stage == stage]
    return sum(s.emitted_tokens for s in steps) / sum(s.duration_s for s in steps)


def test_speedup_against_concurrency(models: Models, make_cases: MakeCases) -> None:
    levels = (1, 8, 32, 96, 256)
    off, on = (_ramp(models, make_cases, levels, s) for s in (None, DRAFT))
    speedups = [_throughput(on, i) / _throughput(off, i) for i in range(len(levels))]
    assert speedups[0] > 2.0
    assert speedups[-1] < 0.9, "a loss near compute saturation"
    for lower, higher in pairwise(speedups):
        assert higher < 1.03 * lower


def test_speedup_at_batch_1_is_e_over_c(models: Models, make_cases: MakeCases) -> None:
    """E from the rounds, c from the roofline of one context alone: neither is taken from the measured times."""
    off, on = (_ramp(models, make_cases, (1,), s) for s in (None, DRAFT))
    decode_tokens = sum(sum(r.chunk_tokens[1:]) for r in on.records)
    e_decode = decode_tokens / sum(len(r.chunk_tokens) - 1 for r in on.records)
    roofline, context = Roofline("h100", "70b", "1b"), 60
    target, draft = roofline.target, MODELS["1b"]
    plain_s = roofline.forward_s(target, 1, context, context) + STEP_OVERHEAD_S
    round_s = roofline.forward_s(target, 5, 5 * context, context) + STEP_OVERHEAD_S
    round_s += 4 * roofline.forward_s(draft, 1, context, context)
    decode_time = [sum(r.chunk_times_s[-1] - r.chunk_times_s[0] for r in run.records) for run in (off, on)]
    tokens = [sum(sum(r.chunk_tokens[1:]) for r in run.records) for run in (off, on)]
    speedup = (tokens[1] / decode_time[1]) / (tokens[0] / decode_time[0])
    assert speedup == pytest.approx(e_decode / (round_s / plain_s), rel=0.02)
