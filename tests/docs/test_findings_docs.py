"""docs/findings.md and the rules hold each other; docs/method.md names every metric of a threshold."""

from pathlib import Path

from loadgen.analyze import METRICS, RULES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows(name: str, heading: str | None = None) -> list[list[str]]:
    text = (DOCS / name).read_text(encoding="utf-8")
    part = text if heading is None else text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:3] == "| `"]


def test_every_rule_is_documented_in_order_with_its_topic_and_severity() -> None:
    assert [cells[:3] for cells in rows("findings.md")] == [[f"`{r.id}`", r.topic, r.severity] for r in RULES]


def test_every_rule_says_when_it_holds_and_what_to_do() -> None:
    assert all(len(cells) == 5 and all(cells) for cells in rows("findings.md"))


def test_every_metric_is_documented_with_its_unit() -> None:
    documented = {cells[0].strip("`"): cells[1] for cells in rows("method.md", "Metrics of thresholds")}
    assert documented == {name: "–" if spec.unit == "1" else spec.unit for name, spec in METRICS.items()}
