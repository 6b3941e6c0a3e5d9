"""docs/method.md, "Validity" and "Self-check", and the code hold each other."""

import re
from pathlib import Path

from loadgen.analyze.validity import LIMITS, Limit, shown

DOC = Path(__file__).resolve().parents[2] / "docs" / "method.md"


def rows_under(heading: str) -> list[list[str]]:
    part = DOC.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:3] == "| `"]


def row(limit: Limit) -> list[str]:
    sign = "<" if limit.floor else ">"
    invalid = "–" if limit.invalid is None else f"{sign} {shown(limit, limit.invalid)}"
    return [f"`{limit.name}`", limit.scope, f"{sign} {shown(limit, limit.doubtful)}", invalid]


def test_every_limit_is_documented_in_order() -> None:
    assert [cells[:4] for cells in rows_under("Validity")] == [row(limit) for limit in LIMITS]


def test_every_number_with_a_limit_is_defined() -> None:
    defined = " ".join(cells[0] for cells in rows_under("Self-check"))
    for limit in LIMITS:
        assert f"`{limit.name}`" in defined or limit.name == "send_lag_p99_s", limit.name
    assert re.search(r"`send_lag_p50_s`, `_p99_s`", defined)


def test_a_limit_for_invalid_is_wider_than_the_one_for_doubtful() -> None:
    for limit in LIMITS:
        if limit.invalid is not None:
            assert (limit.invalid < limit.doubtful) == limit.floor
