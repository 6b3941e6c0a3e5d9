"""How a run ends, from what it found and how well it was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.analyze import ExperimentResult, Summary, Validity
from loadgen.experiment.ending import ending_of
from loadgen.experiment.single import RunResult
from loadgen.verdict import Verdict


def ended(kind: Any, found: Any, validity: Any = "invalid", verdict: Any = None) -> tuple[str, str | None]:
    summary = Summary.model_construct(
        arms={}, validity=Validity(state=validity, reasons=["invalid: the client was late"], client={})
    )
    told = ExperimentResult(kind=kind, run_id="r", state=found, reasons=[], findings=[], conditions={})
    judged = None if verdict is None else Verdict.model_construct(verdict=verdict)
    return ending_of(RunResult(Path("r"), summary, "finished", None, judged, told))


@pytest.mark.parametrize("kind", ["anomalies", "drill"])
def test_a_fault_stands_also_where_the_measurement_is_invalid(kind: str) -> None:
    """A dead server or a lost request is no matter of late stamps; a pass is."""
    assert ended(kind, "fail") == ("fail", "the measurement is invalid: the client was late")
    assert ended(kind, "pass")[0] == "inconclusive"
    assert ended(kind, "pass", verdict="fail")[0] == "fail"


def test_answers_and_open_doors_are_not_made_wrong_by_late_stamps() -> None:
    assert ended("quality", "pass") == ended("access", "pass") == ("pass", None)
    assert ended("quality", "inconclusive") == ("inconclusive", None)
