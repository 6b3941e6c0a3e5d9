"""Every mistake of other tools that comparison and operations answer for has a test that names it in its docstring."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
#: Numbers of the catalogue: C metrics of speculation, F statistics and reports (it has no F6 and F15), H comparisons
COMPARISON = {"C17", "C18", *(f"F{n}" for n in range(1, 20) if n not in (6, 15)), *(f"H{n}" for n in range(9, 21))}
#: D servers' counters, E the way to the server, G Prometheus and its rules (it has no G7 and G16)
OPERATIONS = {*(f"D{n}" for n in range(1, 7)), "E3", *(f"G{n}" for n in range(1, 27) if n not in (7, 16))}
#: I security of the service and of what runs leave behind (it has no I3)
SECURITY = {f"I{n}" for n in range(1, 10) if n != 3}
#: H what makes outputs differ, D29 what acceptance tells of them
QUALITY = {"H1", "H2", "H3", *(f"H{n}" for n in range(5, 12)), "D29"}
#: J what anomalies bring out: crashes, dead engines, roles, empty prompts, long contexts over hours
ROBUSTNESS = {f"J{n}" for n in range(1, 6)}


def named() -> dict[str, set[str]]:
    """Row -> the tests whose docstrings name it."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("test_*.py"):
        if file == Path(__file__):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for row in re.findall(r"\b[A-Z]\d{1,2}\b", ast.get_docstring(node) or ""):
                    found.setdefault(row, set()).add(f"{file.relative_to(TESTS)}::{node.name}")
    return found


def test_every_row_is_named_by_a_test() -> None:
    found = named()
    assert sorted((COMPARISON | OPERATIONS | SECURITY | QUALITY | ROBUSTNESS) - found.keys()) == []
