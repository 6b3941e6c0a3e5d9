"""experiment: soak, and loads that are none; with the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import ScenarioError
from loadgen.scenario import load_scenario

SOAK = {"experiment": "soak", "load": [{"kind": "concurrency", "concurrency": 2, "duration_s": 1800}]}


def test_a_steady_load_that_ends_by_time_is_a_soak(build) -> None:
    assert build(SOAK).experiment == "soak"
    assert build({**SOAK, "load.0.duration_s": 40, "repeats": 5}).passes == 5
    assert build({**SOAK, "load": [{"kind": "arrival_rate", "rate_per_s": 2, "duration_s": 600}]}).experiment == "soak"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"load.0.concurrency": {"start": 1, "end": 4}},
            "load.0.concurrency: experiment: soak needs a load that stands: a number, not a ramp",
        ),
        (
            {"load": [{"kind": "concurrency", "concurrency": 2, "cases": 9}]},
            "load.0.duration_s: is missing: experiment: soak ends by time",
        ),
        (
            {"load.0.duration_s": 60},
            "load.0.duration_s: 60 s over all repeats is too short for experiment: soak: drifts need at least 200 s "
            "(40 windows of 5 s), better half an hour",
        ),
    ],
)
def test_other_loads_are_refused(refused, changes, problem) -> None:
    assert [p for p in refused({**SOAK, **changes}) if p.startswith(problem)]


def test_the_problem_has_its_line(tmp_path: Path) -> None:
    text = """version: 1
name: short
environment: disposable
experiment: soak
arms: {baseline: {url: "http://127.0.0.1:1"}}
workload:
  tasks:
    - task_type: code
      input_len: {kind: fixed, value: 64}
      output_len: {kind: fixed, value: 32}
load:
  - kind: arrival_rate
    rate_per_s: 1
    duration_s: 30
"""
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ScenarioError, match=r"s\.yaml:14: load\.0\.duration_s: 30 s over all repeats is too short"):
        load_scenario(tmp_path / "s.yaml")
