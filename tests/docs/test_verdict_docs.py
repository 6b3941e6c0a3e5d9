"""docs/verdict.md against the code: metrics, defaults, examples, numbers of the live windows."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from loadgen.analyze import METRICS as ANALYZED
from loadgen.analyze import SELECTORS as ANALYZED_SELECTORS
from loadgen.control import live
from loadgen.drive.live import KEPT
from loadgen.scenario import METRICS, SELECTORS, read_thresholds
from loadgen.verdict import default_thresholds

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "verdict.md").read_text(encoding="utf-8")


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w+) \| (yes)? ?\| (.*) \|$", TEXT, re.MULTILINE)
    assert rows == [(n, m.unit or "–", m.kind, "yes" if m.live else "", m.meaning) for n, m in METRICS.items()]


def test_a_threshold_can_ask_for_what_analyze_answers() -> None:
    """One closed list, in two rooms: the same names, and the same opinion of what is better."""
    assert set(METRICS) == set(ANALYZED)
    assert {n: m.lower_is_better for n, m in METRICS.items()} == {n: m.lower_is_better for n, m in ANALYZED.items()}
    assert set(SELECTORS) == {"arm", *ANALYZED_SELECTORS}
    assert all(f"`{selector}`" in TEXT for selector in SELECTORS)


def test_the_example_is_read() -> None:
    block = TEXT.split("```yaml\n")[1].split("```")[0]
    parsed = read_thresholds(yaml.safe_load(block)["thresholds"])
    assert [len(t.conditions) for t in parsed] == [2, 1, 1, 1, 1]
    assert parsed[-1].abort_on_fail


def test_defaults_are_listed() -> None:
    listed = re.findall(r"^\* `(.*)`$", TEXT.split("## Default thresholds")[1].split("##")[0], re.MULTILINE)
    assert listed == [str(t) for t in default_thresholds(2)]


def test_numbers_of_the_live_windows() -> None:
    told = " ".join(TEXT.split("## Live")[1].split("##")[0].split())
    assert f"at least {live.WINDOW_S:g} s long and holds at least {live.LEAST} requests" in told
    assert live.IN_A_ROW == 3
    assert f"at most {KEPT} requests each" in told
