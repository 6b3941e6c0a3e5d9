"""docs/metrics.md says of every metric what the registry says, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

from loadgen.export import FAMILIES, metrics_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_tables_are_the_registrys() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "metrics_docs.py", "--check"])
    assert done.returncode == 0, "run python scripts/metrics_docs.py"


def test_every_metric_has_a_row_with_name_type_labels_unit_and_meaning() -> None:
    rows = re.findall(r"^\| `(specload_\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(FAMILIES)
    for name, kind, labels, unit, meaning in rows:
        family = FAMILIES[name.removeprefix("specload_")]
        assert (kind, unit, meaning) == (family.kind, family.unit, family.meaning)
        assert tuple(re.findall(r"`(\w+)`", labels)) == family.labels
        assert name in metrics_table()


def test_the_page_names_no_metric_that_does_not_exist() -> None:
    named = set(re.findall(r"`(?:specload_)?([a-z_]+_(?:total|ratio|seconds|requests))`", PAGE))
    assert named <= set(FAMILIES)


def test_names_follow_the_conventions() -> None:
    """Counters end in _total and nothing else does; durations are seconds, shares ratios, never ms or percent."""
    for family in FAMILIES.values():
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert not re.search(r"_(ms|millis|percent|pct|share)(_|$)", family.name)
        assert family.name.endswith("_seconds") == (family.unit in ("s", "Unix s"))
        assert family.name.endswith("_ratio") == (family.unit == "ratio")
