"""The gauges of a sweep are its summary's numbers, with their places as labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from loadgen.analyze import BestKResult, Curve, CurvePoint, Interval, KneeResult, SweepSummary
from loadgen.errors import StorageError
from loadgen.export import Metrics, tell_sweep, write_sweep_openmetrics

WHERE = {"k": 4, "temperature": 0.7}


def one(value: float | None) -> Interval:
    return Interval(value=value, n=3, source="client", unit="visits", method="t", reason=None if value else "not found")


def made() -> SweepSummary:
    at = [CurvePoint(level=n, value=one(v), visits=[v]) for n, v in ((1, 1.5), (8, 0.9), (64, None))]
    curve = Curve(axis="concurrency", where=WHERE, metric="speedup", arm="candidate", unit="1", lower_is_better=False,
                  points=at)  # fmt: skip
    knees = [KneeResult(axis="concurrency", where=WHERE, arm=arm, knee=one(v), saturated=None, sentence="")
             for arm, v in (("baseline", 12.5), ("candidate", None))]  # fmt: skip
    best = BestKResult(where={}, metric="net_tokens_per_s", k=0, not_worse=[0], value=one(9.0), sentence="")
    empty = {
        name: [] for name in ("points", "stops_paying", "cost", "advice", "decay", "max_rate", "drift", "findings")
    }
    return SweepSummary.model_validate(
        {
            "sweep_id": "sw", "name": "n", "objective": "latency", "plan_hash": "h", "finished": True, "axes": {},
            "arms": [], "baseline": {}, "totals": {"done": 3}, "seconds": 1.0, "curves": [curve], "knee": knees,
            "best_k": [best], "reasons": {}, "conditions": {}, **empty,
        }
    )  # fmt: skip


def test_levels_and_shapes_are_gauges_and_what_is_not_known_is_none() -> None:
    told = Metrics()
    tell_sweep(told, made())
    at = {"sweep_id": "sw", "axis": "concurrency", "where": "k=4,temperature=0.7"}
    assert told.value("sweep_speedup_ratio", **at, level="1", arm="candidate") == 1.5
    assert told.value("sweep_speedup_ratio", **at, level="8", arm="candidate") == 0.9
    assert told.value("sweep_speedup_ratio", **at, level="64", arm="candidate") is None
    assert told.value("sweep_knee", **at, arm="baseline") == 12.5
    assert told.value("sweep_knee", **at, arm="candidate") is None
    assert told.value("sweep_best_k", sweep_id="sw", where="") == 0.0


def test_the_file_is_openmetrics(tmp_path: Path) -> None:
    file = tmp_path / "sweep.om"
    samples = write_sweep_openmetrics(made(), file)
    families = list(text_string_to_metric_families(file.read_text()))
    assert samples == sum(len(family.samples) for family in families) == 5
    assert "specload_sweep_visits" in {family.name for family in families}
    with pytest.raises(StorageError, match="cannot be written"):
        write_sweep_openmetrics(made(), tmp_path / "none" / "sweep.om")
