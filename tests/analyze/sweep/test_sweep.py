"""A sweep over k on the rehearsal engine in virtual time, from its runs to its summary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import pytest

from loadgen.analyze import Interval, PointRun, SweepSummary, analyze, analyze_sweep
from loadgen.analyze.sweep.drifting import drift_of
from loadgen.analyze.sweep.models import PointResult
from loadgen.analyze.sweep.whole import analyze_sweep as whole
from loadgen.plan import SweepPlan, SweepPoint
from loadgen.record import RunData
from server_adapters.rehearsal import EngineConfig, SpeculationConfig

KS, PASSES = (0, 2, 4), 2


class Simulated(Protocol):
    def run(self, arms: Any, stages: Any, **keys: Any) -> RunData: ...


def k_plan() -> SweepPlan:
    points = tuple(SweepPoint(KS.index(k), {"k": k}, k == 0, r, r) for r in range(PASSES) for k in KS)
    return SweepPlan({"k": list(KS)}, {"k": 0}, points, tuple(range(len(points))), "h")


@pytest.fixture(scope="module")
def made(simulated: Simulated) -> list[PointRun]:
    found = []
    for number, point in enumerate(k_plan().visits):
        k = int(point.values["k"])
        engine = EngineConfig(speculation=SpeculationConfig(num_speculative_tokens=k) if k else None)
        run = simulated.run({"server": engine}, [4], blocks=1, cases=24, seed=1 + point.repeat)
        facts = run.manifest.arms["server"].model_copy(update={"k": k})
        run = replace(run, manifest=run.manifest.model_copy(update={"arms": {"server": facts}}))
        found.append(PointRun(number, point, "server", "done", None, f"points/{number}", f"r{number}", 10.0 * number,
                              9.0, analyze(run), run))  # fmt: skip
    return found


def summary_of(made: list[PointRun]) -> SweepSummary:
    return analyze_sweep(k_plan(), made, sweep_id="s", name="k", objective="throughput", seconds=60.0, no_search="none")


@pytest.fixture(scope="module")
def summary(made: list[PointRun]) -> SweepSummary:
    return summary_of(made)


def net(made: list[PointRun], k: int, repeat: int) -> float:
    (one,) = [m for m in made if m.point.values["k"] == k and m.point.repeat == repeat]
    assert one.summary is not None
    value = one.summary.arms["server"].overall.throughput.net_tokens_per_s.value
    assert value is not None
    return value


def test_a_speedup_is_against_the_baseline_of_its_pass(made: list[PointRun], summary: SweepSummary) -> None:
    for point in summary.points:
        assert point.speedup is not None
        expected = net(made, int(point.values["k"]), point.repeat) / net(made, 0, point.repeat)
        assert point.speedup.value == pytest.approx(expected)
        assert "same pass" in point.speedup.method
    (curve,) = [c for c in summary.curves if c.metric == "speedup"]
    ratios = [math.log(net(made, 4, r) / net(made, 0, r)) for r in range(PASSES)]
    (at4,) = [p for p in curve.points if p.level == 4]
    assert at4.value.value == pytest.approx(math.exp(sum(ratios) / PASSES))
    assert at4.value.reason is not None
    assert "there are 2" in at4.value.reason, "two visits have no interval"
    assert at4.visits == pytest.approx([math.exp(x) for x in ratios])


def test_e_over_c_is_the_decode_speedup(made: list[PointRun], summary: SweepSummary) -> None:
    for point, one in zip(summary.points, made, strict=True):
        if point.baseline:
            continue
        (base,) = [m for m in made if m.point.baseline and m.point.repeat == point.repeat]
        assert one.summary is not None
        assert base.summary is not None
        tpot = [m.summary.arms["server"].overall.tpot_s.mean for m in (base, one) if m.summary is not None]
        assert point.e_decode is not None
        assert point.c is not None
        assert tpot[0] is not None
        assert tpot[1] is not None
        base_e = base.summary.arms["server"].overall.speculation.e_decode.value or 1.0
        assert (point.e_decode.value or 0) / base_e / (point.c.value or 1) == pytest.approx(tpot[0] / tpot[1])


def test_best_k_has_the_highest_net_throughput(made: list[PointRun], summary: SweepSummary) -> None:
    means = {k: sum(math.log(net(made, k, r)) for r in range(PASSES)) for k in KS}
    (best,) = summary.best_k
    assert best.k == max(means, key=lambda k: means[k])
    assert best.k in best.not_worse
    assert best.where == {}
    assert best.value.value == pytest.approx(math.exp(means[best.k] / PASSES))
    assert f"k = {best.k}" in best.sentence


def test_the_advisor_is_checked_by_the_sweep(summary: SweepSummary) -> None:
    """E(2), replayed from the runs at k = 4, against the runs at k = 2."""
    (advice,) = summary.advice
    assert (advice.k_max, advice.source, advice.label) == (4, "replay", "replay")
    at2 = next(at for at in advice.at if at.k == 2)
    assert at2.measured_e is not None
    assert at2.e.value is not None
    assert at2.e.low is not None
    assert at2.e.high is not None
    assert at2.e.value == pytest.approx(at2.measured_e.value, rel=0.1)
    assert at2.agrees is True


def test_a_step_costs_more_with_every_draft(summary: SweepSummary) -> None:
    (cost,) = summary.cost
    assert cost.label == "estimate"
    assert set(cost.c) == {2, 4}
    assert 1 < (cost.c[2].value or 0) < (cost.c[4].value or 0)
    assert (cost.per_draft.value or 0) > 0


def test_what_is_not_there_has_its_reason(summary: SweepSummary) -> None:
    assert set(summary.reasons) == {"knee", "stops_paying", "decay", "max_rate"}
    assert summary.knee == summary.stops_paying == summary.decay == []


def test_a_failed_visit_is_in_no_curve_and_is_said(made: list[PointRun]) -> None:
    lost = replace(made[1], state="failed", reason="server: ended early with status 1", summary=None, run=None)
    found = summary_of([made[0], lost, *made[2:]])
    (curve,) = [c for c in found.curves if c.metric == "net_tokens_per_s"]
    (at2,) = [p for p in curve.points if p.level == 2]
    assert at2.value.n == 1 or len(at2.visits) == 1
    assert found.totals == {"done": 5, "failed": 1}
    said = next(f for f in found.findings if f.id == "sweep_points_failed")
    assert "1 of 6 visits failed" in said.text
    assert "ended early with status 1" in said.text


def test_without_its_baseline_a_point_has_no_speedup(made: list[PointRun]) -> None:
    lost = replace(made[0], state="failed", reason="x", summary=None, run=None)
    found = summary_of([lost, *made[1:]])
    first = found.points[1]
    assert first.speedup is not None
    assert first.speedup.value is None
    assert first.speedup.reason == "the baseline's point of the same pass was not measured"


def test_a_sweep_that_measured_nothing_is_a_summary_too(made: list[PointRun]) -> None:
    nothing = [replace(m, state="skipped", reason="time budget", summary=None, run=None) for m in made]
    found = whole(k_plan(), nothing, sweep_id="s", name="k", objective="latency", seconds=0.0, no_search="none")
    assert (found.curves, found.best_k, found.finished) == ([], [], False)
    assert found.reasons["curves"] == "no visit has been measured"


def baseline_at(at_s: float, value: float) -> PointResult:
    one = Interval(value=value, n=1, source="client", unit="requests", method="")
    return PointResult(
        number=0, index=0, repeat=0, visit=0, values={"k": 0}, baseline=True, state="done", arm="server", at_s=at_s,
        numbers={"net_tokens_per_s": {"server": one}},
    )  # fmt: skip


def test_drift_is_the_line_through_the_baseline_visits() -> None:
    """Exact numbers: 100 falling by e^-0.001 a second over 100 s."""
    points = [baseline_at(at, 100 * math.exp(-0.001 * at)) for at in (0.0, 25.0, 50.0, 100.0)]
    (drift,) = drift_of(points)
    assert drift.change.value == pytest.approx(math.exp(-0.1))
    assert drift.change.low == pytest.approx(drift.change.high)
    assert drift.significant is True
    (two,) = drift_of(points[:2])
    assert (two.change.low, two.significant) == (None, None)
    assert "too few visits" in two.sentence
    assert drift_of(points[:1]) == []


def test_noise_is_no_drift() -> None:
    (drift,) = drift_of([baseline_at(at, v) for at, v in ((0.0, 100.0), (10.0, 104.0), (20.0, 97.0), (30.0, 101.0))])
    assert drift.significant is False
    assert "shows no drift" in drift.sentence
