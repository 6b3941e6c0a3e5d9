"""docs/report.md and the page hold each other: sections and limits."""

import re
from pathlib import Path

from loadgen.report.figures import CATEGORIES, PANELS, SERIES
from loadgen.report.html import FINDINGS, SENTENCES
from loadgen.report.html_tables import ROWS, WIDTH

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "report.md").read_text()
TEMPLATE = (ROOT / "loadgen" / "report" / "templates" / "report.html").read_text()


def table(heading: str) -> dict[str, str]:
    part = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", part, re.MULTILINE)
    return dict(rows[1:])


def test_every_section_is_documented_and_in_order() -> None:
    titles = re.findall(r"<h2[^>]*>(?:Verdict: |This measurement is )?([^<{]*)", TEMPLATE)
    sections = list(table("Sections"))
    assert [s for s in sections if s not in ("Verdict", "This measurement")] == [
        t for t in titles if t and t != "No verdict"
    ]
    assert sections[:2] == ["Verdict", "This measurement"]


def test_limits_are_those_of_the_page() -> None:
    limits = table("Size")
    assert limits == {
        "places on an axis": f"{CATEGORIES}",
        "series of a panel": f"{SERIES}",
        "panels of a figure": f"{PANELS}",
        "rows of a table": f"{ROWS} (facts and conditions {2 * ROWS})",
        "characters of one fact": f"{WIDTH}",
        "findings": f"{FINDINGS}",
        "sentences by load": f"{SENTENCES}",
    }
