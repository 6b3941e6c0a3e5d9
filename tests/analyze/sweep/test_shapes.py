"""What curves of hand-made points say: knee, break-even, decay with the drafter's limit, best k of paired points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from loadgen.analyze import Interval
from loadgen.analyze.sweep.along_k import best_of, ladders
from loadgen.analyze.sweep.along_length import decays_of
from loadgen.analyze.sweep.along_load import breaks_of, knees_of
from loadgen.analyze.sweep.curves import curves_of, over_visits
from loadgen.analyze.sweep.models import PointResult
from loadgen.plan import SweepPlan

Numbers = Callable[[dict[str, Any], int], dict[str, dict[str, float]]]


def one(value: float, method: str = "") -> Interval:
    return Interval(value=value, n=1, source="client", unit="visits", method=method)


def points(axes: dict[str, list[Any]], repeats: int, numbers: Numbers) -> tuple[SweepPlan, list[PointResult]]:
    """Every setting in every pass, arm "candidate"; `numbers` (values, pass) -> metric -> arm -> value."""
    made = []
    settings: list[dict[str, Any]] = [{}]
    for axis, values in axes.items():
        settings = [{**setting, axis: value} for setting in settings for value in values]
    base = {axis: values[0] for axis, values in axes.items()}
    for repeat in range(repeats):
        for index, values in enumerate(settings):
            told = {m: {arm: one(v) for arm, v in arms.items()} for m, arms in numbers(values, repeat).items()}
            speedup = told.get("speedup", {}).get("candidate")
            made.append(
                PointResult(
                    number=len(made), index=index, repeat=repeat, visit=repeat, values=values, baseline=values == base,
                    state="done", arm="candidate", numbers=told, speedup=speedup,
                )
            )  # fmt: skip
    return SweepPlan(axes, base, (), (), "h"), made


LEVELS = [1, 2, 4, 8, 16, 32, 64]


def loaded(values: dict[str, Any], repeat: int) -> dict[str, dict[str, float]]:
    """Full at 16 users; speculation pays below 16 (ratio 2 at 1, halved every 16-fold)."""
    n, noise = values["concurrency"], 1 + 0.01 * repeat
    net = 50.0 * min(n, 16) * noise
    return {
        "net_tokens_per_s": {"baseline": net, "candidate": net * 2 * n**-0.25},
        "total_time_s_p50": {"baseline": n / net, "candidate": n / net},
        "speedup": {"candidate": 2 * n**-0.25 * (1 + 0.002 * repeat)},
    }


def test_knee_and_break_even_of_a_ladder() -> None:
    """H16: the speedup per level, and the level from which on there is none."""
    plan, done = points({"concurrency": LEVELS}, 3, loaded)
    base = next(k for k in knees_of(plan, done) if k.arm == "baseline")
    assert base.knee.value is not None
    assert 8 <= base.knee.value <= 32, "within one step of the grid"
    assert base.saturated is not None
    assert base.saturated[1] == 64
    assert "baseline bends at concurrency" in base.sentence
    (stops,) = breaks_of(plan, done)
    assert stops.level.value == pytest.approx(16, rel=0.02)
    assert stops.sentence.startswith("speculation of candidate stops paying at concurrency 16")


def test_each_setting_of_the_other_axes_has_its_own() -> None:
    plan, done = points({"temperature": [0.0, 1.0], "concurrency": LEVELS}, 1, loaded)
    assert [k.where for k in knees_of(plan, done) if k.arm == "baseline"] == [
        {"temperature": 0.0},
        {"temperature": 1.0},
    ]
    assert "at temperature 1" in [s.sentence for s in breaks_of(plan, done)][1]
    speedups = [c for c in curves_of(plan.axes, done) if c.metric == "speedup" and c.axis == "concurrency"]
    assert [c.where for c in speedups] == [{"temperature": 0.0}, {"temperature": 1.0}]
    assert [p.level for p in speedups[0].points] == LEVELS


def test_decay_and_the_drafters_limit_along_the_input() -> None:
    def numbers(values: dict[str, Any], repeat: int) -> dict[str, dict[str, float]]:
        n = values["input_len"]
        noise = 1 + 0.001 * repeat
        accepted = 0.7 * noise if n <= 2048 else 0.0
        return {
            "generation_speed_p50": {"candidate": 100 * (n / 512) ** math.log2(0.9) * noise},
            "acceptance_rate": {"candidate": accepted},
        }

    plan, done = points({"input_len": [512, 1024, 2048, 4096]}, 3, numbers)
    speed, acceptance = decays_of(plan, done)
    assert speed.per_doubling.value == pytest.approx(-0.1, abs=0.002)
    assert speed.per_doubling.low is not None
    assert "changes by -10 % each time the input doubles" in speed.sentence
    assert acceptance.limit is not None
    assert (acceptance.limit.low, acceptance.limit.high) == (2048, 4096)
    assert "the drafter's limit lies between 2048 and 4096" in acceptance.sentence


def test_paired_points_are_compared_by_their_speedup() -> None:
    """With a baseline arm beside each k the ratio within a run counts, not the throughput of different runs."""

    def numbers(values: dict[str, Any], repeat: int) -> dict[str, dict[str, float]]:
        k, drift = values["k"], 10.0**repeat
        ratio = {0: 1.0, 2: 1.5, 4: 1.2}[k]
        found = {"net_tokens_per_s": {"baseline": drift, "candidate": ratio * drift / (1 + k)}}
        return found | ({"speedup": {"candidate": ratio * (1 + 0.001 * repeat)}} if k else {})

    plan, done = points({"k": [0, 2, 4]}, 3, numbers)
    (along,) = ladders(plan, done)
    best = best_of(along)
    assert (best.metric, best.k, best.not_worse) == ("speedup", 2, [2])
    assert "k = 2" in best.sentence


def test_visits_make_the_interval() -> None:
    """Geometric mean of 1, 2, 4 is 2; t of 2 degrees of freedom is 4.303."""
    found = over_visits([1.0, 2.0, 4.0], "client")
    assert found.value == pytest.approx(2.0)
    half = 4.3027 * math.log(2) / math.sqrt(3)
    assert found.high == pytest.approx(2 * math.exp(half), rel=1e-3)
    assert found.low == pytest.approx(2 * math.exp(-half), rel=1e-3)
    none = over_visits([0.0, 2.0], "client")
    assert (none.value, none.low) == (1.0, None)
