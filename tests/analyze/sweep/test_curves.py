"""Curves beside those of single runs: the parts of the speed, and task types of a mix."""

from __future__ import annotations

import pytest

from loadgen.analyze import Interval, PointResult
from loadgen.analyze.sweep.curves import curves_of, task_curves
from loadgen.analyze.sweep.models import TaskNumbers
from loadgen.analyze.sweep.points import _beside

AXES = {"concurrency": [1, 8]}


def one(value: float) -> Interval:
    return Interval(value=value, n=1, source="client", unit="visits", method="t")


def point(level: int, repeat: int, **keys: object) -> PointResult:
    base: dict[str, object] = {
        "number": level + repeat, "index": 0, "repeat": repeat, "visit": repeat, "values": {"concurrency": level},
        "baseline": level == 1, "state": "done", "arm": "candidate",
    }  # fmt: skip
    return PointResult.model_validate({**base, **keys})


def test_task_types_of_a_mix_have_curves_of_their_own() -> None:
    speedups = {"code": {1: (2.0, 2.2, 2.1), 8: (1.5, 1.5, 1.6)}, "short_qa": {1: (1.2, 1.1, 1.3), 8: (0.8, 0.9, 0.9)}}
    made = [
        point(level, repeat, by_task={
            task: TaskNumbers(numbers={"acceptance_rate": {"candidate": one(0.5)}}, speedup=one(values[level][repeat]))
            for task, values in speedups.items()
        })
        for repeat in range(3) for level in (1, 8)
    ]  # fmt: skip
    found = {(c.where["task_type"], c.metric): c for c in task_curves(AXES, made)}
    assert set(found) == {(task, metric) for task in speedups for metric in ("speedup", "acceptance_rate")}
    curve = found["short_qa", "speedup"]
    assert (curve.axis, curve.arm) == ("concurrency", "candidate")
    assert curve.points[1].visits == [0.8, 0.9, 0.9]
    assert curve.points[1].value.value == pytest.approx((0.8 * 0.9 * 0.9) ** (1 / 3))
    assert curve.points[1].value.low is not None


def test_points_of_one_task_have_none() -> None:
    assert task_curves(AXES, [point(1, 0), point(8, 0)]) == []


def test_a_task_without_a_speedup_has_the_other_curves() -> None:
    """One arm alone, without a baseline to be compared with."""
    numbers = {"acceptance_rate": {"candidate": one(0.5)}}
    made = [point(level, 0, by_task={"code": TaskNumbers(numbers=numbers)}) for level in (1, 8)]
    assert [c.metric for c in task_curves(AXES, made)] == ["acceptance_rate"]


def test_e_is_c_times_the_speed_of_decoding_at_each_point() -> None:
    """Against the baseline's point of the same pass: E 3, time per token 20 ms against 30 ms."""

    def of(k: int, e: float, tpot_s: float, net: float) -> PointResult:
        numbers = {"e_decode": e, "tpot_s_mean": tpot_s, "net_tokens_per_s": net}
        told = {name: {"server": one(value)} for name, value in numbers.items()}
        return point(1, 0, arm="server", values={"k": k}, baseline=k == 0, numbers=told)

    both = [of(0, 1.0, 0.030, 100.0), of(4, 3.0, 0.020, 140.0)]
    found = curves_of({"k": [0, 4]}, [_beside(p, both) for p in both])
    at = {c.metric: [p.value.value for p in c.points] for c in found}
    assert at["speedup_decode"] == pytest.approx([1.0, 1.5])
    assert at["c"] == pytest.approx([1.0, 2.0])
    assert at["speedup"] == pytest.approx([1.0, 1.4])


def test_without_its_baseline_a_point_has_no_cost_and_says_so() -> None:
    numbers = {"e_decode": {"server": one(3.0)}, "tpot_s_mean": {"server": one(0.02)}}
    base = point(1, 0, arm="server", values={"k": 0}, baseline=True, state="failed", reason="gone")
    alone = point(1, 0, arm="server", values={"k": 4}, baseline=False, numbers=numbers)
    found = _beside(alone, [base, alone])
    assert found.c is not None
    assert (found.c.value, found.c.reason) == (None, "the baseline's point of the same pass was not measured")
