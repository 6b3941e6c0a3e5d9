"""docs/quality.md against the code: classes, standings, names of faults, figures, and lines as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from loadgen.analyze import FAMILY_LEVEL, MARGIN_FLOOR_NAT, NumericsCompared, largest_without_correction
from loadgen.analyze.found.quality_records import LEARNING
from loadgen.analyze.quality import SAMPLER_REACH, Kind
from loadgen.analyze.quality.cases import TWICE
from loadgen.analyze.quality.diagnosis import _LOOKS_LIKE, Fault
from loadgen.analyze.quality.ties import FEWEST_POSITIONS, NUMERICS_TIMES, WIDEST_NAT
from loadgen.analyze.quality.whole import STANDINGS
from loadgen.report.quality import _STANDINGS, _numerics

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "quality.md").read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())


def rows(head: str) -> list[list[str]]:
    """Cells of the table with this first cell in its head."""
    lines = TEXT.split(f"\n| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_class_has_a_row_in_the_order_of_the_names() -> None:
    assert {row[0].strip("`") for row in rows("class")} == set(get_args(Kind))


def test_every_standing_has_a_row_with_what_the_page_says() -> None:
    told = rows("standing")
    assert [(row[0].strip("`"), row[1]) for row in told] == [(name, _STANDINGS[name]) for name in STANDINGS]
    states = {row[0].strip("`"): row[3] for row in told}
    assert states == {
        "shown": "fail", "wrong_end": "inconclusive", "unsteady": "inconclusive", "between": "inconclusive",
        "unknown": "inconclusive", "once": "inconclusive", "passing": "–", "alike": "–",
    }  # fmt: skip


def test_faults_are_named_as_the_code_names_them() -> None:
    named = {name for row in rows("fault of the candidate") for name in re.findall(r"`(\w+)`", row[1])}
    assert "garbled" in named
    assert named <= set(get_args(Fault))


def test_lines_as_printed_are_what_is_printed() -> None:
    shown = NumericsCompared(arm="candidate", positions=230, p99_nat=0.1175, near_tie_nat=0.1, sure_nat=0.235)
    assert _numerics(shown) in FLAT
    assert f"19 of 45 cases {_LOOKS_LIKE['text_after_stop']}" in FLAT


def test_the_rule_of_near_ties_and_where_it_is_left_is_said() -> None:
    """A deviation that its page and the architecture both tell."""
    assert "a repeatable divergence that is not a near tie fails" in FLAT
    assert "deviates from it in one place" in FLAT
    assert (NUMERICS_TIMES, TWICE) == (2, 2)
    for said in (
        f"the larger of {MARGIN_FLOOR_NAT:g} nat and the P99",
        "beyond twice the P99 of how far the arms' gaps are apart",
        f"From fewer than {FEWEST_POSITIONS} positions numerics is not known",
        f"and then that is so up to {WIDEST_NAT:g} nat",
        f"Where it is more than {WIDEST_NAT:g} nat, the baseline itself parts",
        f"The level of the family is {100 * FAMILY_LEVEL:g} %",
        f"a detectable distance of {largest_without_correction():.3g}",
        f"a shift of {SAMPLER_REACH['mean_logprob']:g} nat or less",
    ):
        assert said in FLAT, said
    architecture = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert "**Quality: one deviation.**" in architecture
    assert "`between`" in architecture


def test_drafters_whose_acceptance_is_not_compared_are_named() -> None:
    told = TEXT.split("### Acceptance")[1].split("###")[0]
    assert set(LEARNING) <= set(re.findall(r"`(\w+)`", told))
