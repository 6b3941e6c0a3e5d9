"""A sweep summary made by hand: k × concurrency of one server, with every part, for the tests that draw it.

Loaded by path (tests/report/conftest.py, tests/chromium/conftest.py): folders of tests are no packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.analyze import (
    AdviceAt,
    AdviceResult,
    BestKResult,
    CostResult,
    Curve,
    CurvePoint,
    DecayResult,
    Drift,
    DriftPoint,
    Finding,
    Interval,
    KneeResult,
    MaxRateResult,
    N,
    PointResult,
    RateVisit,
    StopsPaying,
    SweepSummary,
)

KS, LEVELS, LENGTHS, TASKS = [0, 2, 4], [1, 8, 64], [128, 1024, 8192], ["code", "short_qa"]
#: tokens/s of the server by k and concurrency
NET = {0: [50.0, 300.0, 900.0], 2: [90.0, 480.0, 950.0], 4: [110.0, 500.0, 800.0]}
NOT_DRAFTED = "speculation is off: no draft tokens"


def known(value: float, spread: float = 0.1) -> Interval:
    """With limits so far below and above."""
    return Interval(
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        n=3,
        source="client",
        unit="visits",
        method="t",
    )


def alone(value: float, reason: str = "one visit has no interval") -> Interval:
    return Interval(value=value, n=1, source="client", unit="visits", method="t", reason=reason)


def absent(reason: str) -> Interval:
    return Interval(value=None, n=0, source="none", unit="visits", method="none", reason=reason)


def curve(
    axis: str, where: Mapping[str, Any], metric: str, levels: Sequence[Any], values: Sequence[Interval], unit: str = "1"
) -> Curve:
    points = [CurvePoint(level=at, value=one, visits=[one.value]) for at, one in zip(levels, values, strict=True)]
    return Curve(
        axis=axis, where=dict(where), metric=metric, arm="server", unit=unit, lower_is_better=None, points=points
    )


def curves() -> list[Curve]:
    found = []
    for k in KS:
        where = {"k": k}
        net = [known(v) for v in NET[k]]
        found.append(curve("concurrency", where, "net_tokens_per_s", LEVELS, net, "tokens/s"))
        speedup = [known(v / base) for v, base in zip(NET[k], NET[0], strict=True)]
        found.append(curve("concurrency", where, "speedup", LEVELS, speedup))
        found.append(curve("concurrency", where, "ttft_s_p50", LEVELS, [known(0.02), known(0.05), known(1.5)], "s"))
        tpot = [known(1 / v * n) for v, n in zip(NET[k], LEVELS, strict=True)]
        found.append(curve("concurrency", where, "tpot_s_p95", LEVELS, tpot, "s"))
        found.append(
            curve("concurrency", where, "total_time_s_p50", LEVELS, [known(1.0), alone(2.0), absent("cut")], "s")
        )
    for i, level in enumerate(LEVELS):
        where = {"concurrency": level}
        found.append(curve("k", where, "net_tokens_per_s", KS, [known(NET[k][i]) for k in KS], "tokens/s"))
        found.append(curve("k", where, "e_decode", KS, [known(1.0, 0), known(2.2), known(2.9)], "tokens"))
        found.append(curve("k", where, "c", KS, [known(1.0, 0), known(1.3), known(1.6)]))
        found.append(curve("k", where, "speedup_decode", KS, [known(1.0, 0), known(2.2 / 1.3), known(2.9 / 1.6)]))
    acceptance = [known(0.8), known(0.6), known(0.0, 0)]
    found.append(curve("input_len", {}, "acceptance_rate", LENGTHS, acceptance))
    found.append(curve("input_len", {}, "generation_speed_p50", LENGTHS, [known(60.0), known(50.0), known(30.0)]))
    return found


def by_task() -> list[Curve]:
    return [
        curve("concurrency", {"k": 4, "task_type": task}, "speedup", LEVELS, [known(v) for v in values])
        for task, values in zip(TASKS, ([2.4, 1.9, 0.9], [1.8, 1.4, 0.8]), strict=True)
    ]


def visit(number: int, k: int, level: int, repeat: int, **keys: Any) -> PointResult:
    i = LEVELS.index(level)
    done = keys.get("state", "done") == "done"
    numbers = {
        "net_tokens_per_s": {"server": alone(NET[k][i])},
        "acceptance_rate": {"server": alone(0.7) if k else absent(NOT_DRAFTED)},
    }
    position = {"server": [N(value=0.9 - 0.1 * at - 0.01 * repeat, n=200, source="per_request") for at in range(k)]}
    base: dict[str, Any] = {
        "number": number,
        "index": KS.index(k) * 3 + i,
        "repeat": repeat,
        "visit": repeat,
        "values": {"k": k, "concurrency": level},
        "baseline": (k, level) == (0, 1),
        "state": "done",
        "arm": "server",
        "at_s": 60.0 * number,
        "took_s": 50.0,
        "validity": "valid",
        "directory": f"points/{number:03d}/run",
        "numbers": numbers if done else {},
        "per_position": position if done else {},
        "speedup": alone(NET[k][i] / NET[0][i]) if done else None,
        "c": alone(1 + 0.15 * k) if done else None,
    }
    return PointResult(**{**base, **keys})


def results() -> dict[str, Any]:
    at8 = {"concurrency": 8}
    cost = CostResult(
        where=at8,
        c={2: known(1.3), 4: known(1.6)},
        intercept=known(0.05),
        per_draft=known(0.14),
        residual=0.01,
        label="estimate",
        draft_s=alone(0.004),
        verify_s=alone(0.02),
        sentence="a decode step costs about 1 +0.05 +0.14 × k",
    )
    advised = [
        AdviceAt(k=0, e=known(1.0, 0), c=known(1.0, 0), speedup=known(1.0, 0)),
        AdviceAt(
            k=2,
            e=known(2.25),
            c=known(1.3),
            speedup=known(1.7),
            measured_e=known(2.2),
            measured_speedup=known(1.6),
            agrees=True,
        ),
        AdviceAt(k=4, e=known(2.9), c=known(1.6), speedup=known(1.8), measured_e=known(2.9), agrees=None),
    ]
    visits = [
        RateVisit(rate_per_s=rate, outcome=outcome, why=why)
        for rate, outcome, why in (
            (1.0, "pass", "held"),
            (8.0, "fail", "ttft_s p(95) 0.9 > 0.5"),
            (4.0, "inconclusive", "too few"),
            (4.0, "pass", "held"),
        )
    ]
    limit = Interval(value=8192, low=1024, high=8192, n=1, source="client", unit="levels", method="about 0")
    return {
        "knee": [
            KneeResult(
                axis="concurrency",
                where={"k": 2},
                arm="server",
                knee=known(20.0),
                saturated=(30.0, 64.0),
                sentence="throughput of server at k 2 bends at concurrency 20",
            )
        ],
        "stops_paying": [
            StopsPaying(
                axis="concurrency",
                where={"k": 4},
                arm="server",
                level=known(48.0),
                sentence="speculation of server at k 4 stops paying at concurrency 48",
            )
        ],
        "best_k": [
            BestKResult(
                where={"concurrency": 1},
                metric="net_tokens_per_s",
                k=4,
                not_worse=[4],
                value=alone(110.0),
                sentence="best draft length at concurrency 1: k = 4",
            ),
            BestKResult(
                where=at8,
                metric="net_tokens_per_s",
                k=4,
                not_worse=[2, 4],
                value=alone(500.0),
                sentence="best draft length at concurrency 8: k = 4; not told from it: k = 2",
            ),
        ],
        "cost": [cost],
        "advice": [
            AdviceResult(
                where=at8,
                k_max=4,
                source="replay",
                label="replay",
                at=advised,
                best=4,
                not_worse=[2, 4],
                sentence="advice from k = 4 at concurrency 8: k = 4",
            )
        ],
        "decay": [
            DecayResult(
                where={},
                arm="server",
                metric="acceptance_rate",
                per_doubling=known(-0.13, 0),
                per_1k_tokens=known(-0.1, 0),
                limit=limit,
                sentence="acceptance of server falls",
            )
        ],
        "max_rate": [
            MaxRateResult(
                where={},
                arm="server",
                slo=["ttft_s: p(95)<0.5"],
                state="resolved",
                rate_per_s=known(5.0),
                visits=visits,
                sentence="server holds 5 requests/s",
            )
        ],
        "drift": [
            Drift(
                metric="net_tokens_per_s",
                arm="server",
                change=known(0.99),
                significant=False,
                sentence="no drift",
                points=[DriftPoint(at_s=0.0, value=50.0), DriftPoint(at_s=240.5, value=49.5)],
            )
        ],
    }


def summary(**keys: Any) -> SweepSummary:
    """Every part is there; `keys` replace some."""
    points = [
        visit(0, 0, 1, 0),
        visit(1, 4, 1, 0),
        visit(2, 2, 1, 0),
        visit(3, 4, 1, 1),
        visit(4, 4, 64, 0, state="failed", reason="the server did not start", directory=None),
    ]
    finding = Finding(
        id="sweep_best_k",
        text="best draft length at concurrency 1: k = 4",
        numbers={"k": 4.0},
        conditions={"concurrency": 1},
        severity="info",
    )
    parts: dict[str, Any] = {
        "sweep_id": "20260101T000000Z-sweep-hand",
        "name": "hand",
        "objective": "throughput",
        "plan_hash": "ab" * 32,
        "finished": True,
        "axes": {"k": KS, "concurrency": LEVELS, "input_len": LENGTHS},
        "arms": ["server"],
        "baseline": {"k": 0, "concurrency": 1},
        "totals": {"done": 4, "failed": 1},
        "seconds": 300.0,
        "points": points,
        "curves": curves(),
        "by_task": by_task(),
        "findings": [finding],
        "reasons": {},
        "conditions": {"scenario_path": "hand.yaml", "overrides": ["seed=2"], "model": "tiny"},
        **results(),
    }
    return SweepSummary(**{**parts, **keys})


def empty() -> SweepSummary:
    """Nothing was measured yet."""
    reasons = {name: f"no {name} yet" for name in results()} | {"curves": "no visit has been measured"}
    lists: dict[str, Any] = {name: [] for name in results()}
    pending = visit(0, 0, 1, 0, state="pending", directory=None)
    return summary(
        points=[pending],
        curves=[],
        by_task=[],
        findings=[],
        reasons=reasons,
        finished=False,
        totals={"pending": 1},
        **lists,
    )
