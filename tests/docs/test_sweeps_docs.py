"""docs/sweeps.md and the code hold each other: axes, findings, files, limits."""

import re
from pathlib import Path

from loadgen.analyze.sweep import drifting, findings
from loadgen.experiment import sweep_results, sweep_state
from loadgen.report.sweep_panels import CATEGORIES, PANELS, SERIES
from loadgen.scenario import SweepAxes

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")


def names(heading: str) -> set[str]:
    part = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_axis_is_documented_and_exists() -> None:
    assert names("Axes") == set(SweepAxes.model_fields)


def test_every_finding_is_documented_and_exists() -> None:
    source = Path(findings.__file__).read_text(encoding="utf-8")
    assert names("Findings") == set(re.findall(r'"(sweep_[a-z_]+)"', source))


def test_every_file_of_the_directory_is_documented() -> None:
    assert {sweep_state.STATE, sweep_results.SUMMARY, sweep_results.PAGE} <= names("The directory")


def test_limits_of_the_page_are_those_of_the_code() -> None:
    flat = " ".join(TEXT.split())
    limits = f"at most {SERIES}, a figure at most {PANELS} panels, an axis at most {CATEGORIES} places"
    assert limits in flat


def test_limits_are_those_of_the_code() -> None:
    flat = " ".join(TEXT.split())
    assert f"changed by {drifting.NOTABLE:.0%} or more".replace("%", " %") in flat
    assert {3: "from three visits on"}[drifting.LEAST] in flat
