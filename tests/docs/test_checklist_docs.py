"""docs/checklist.md and the checklist hold each other: items, limits, files of evidence."""

import json
import re
from pathlib import Path

from loadgen.verdict import ITEMS, AuditEvidence, CanaryEvidence
from loadgen.verdict.checklist.assemble import MOST_DAYS
from loadgen.verdict.checklist.beside import SOAK_S
from loadgen.verdict.checklist.compared import DOCUMENTED, HALF_WIDTH, MOST_DOCUMENTED, REPEATS, VARIATION

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "checklist.md").read_text(encoding="utf-8")


def test_every_item_is_documented_in_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == [rule.name for rule in ITEMS]


def test_limits_are_those_of_the_rules() -> None:
    assert f"more than {MOST_DAYS} days old" in TEXT
    assert f"at least {SOAK_S / 60:.0f} minutes of steady load" in TEXT
    assert f"at least {REPEATS} repeats is at most {VARIATION:.0%}".replace("%", " %") in TEXT
    assert f"facts.{DOCUMENTED}`" in TEXT
    assert f"documents more ({MOST_DOCUMENTED:.0%} at most".replace("%", " %") in TEXT
    assert f"± {HALF_WIDTH * 100:.0f} points" in TEXT


def test_the_example_files_are_evidence() -> None:
    canary, audit = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))
    assert CanaryEvidence.model_validate(canary).share == 0.05
    assert AuditEvidence.model_validate(audit).rows == 1204
