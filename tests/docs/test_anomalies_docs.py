"""docs/anomalies.md and docs/access.md against the code, and against what a real vLLM answered."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from loadgen.analyze import key_checks
from scripts.anomaly_table import ANSWERS, BEGIN, END, table
from server_adapters.anomalies import CATALOGUE, GROUPS

ROOT = Path(__file__).resolve().parents[2]
ANOMALIES = (ROOT / "docs" / "anomalies.md").read_text(encoding="utf-8")
ACCESS = (ROOT / "docs" / "access.md").read_text(encoding="utf-8")


def first_argument(folder: Path, function: str) -> set[str]:
    """Texts that calls of a function or method begin with."""
    found = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == function and isinstance(node.args[0].value, str):
                found.add(node.args[0].value)
    return found


def test_the_table_is_what_a_real_vllm_answered() -> None:
    """Every anomaly, what is expected, and the recorded answer (`python scripts/anomaly_table.py RUN`)."""
    answers = json.loads(ANSWERS.read_text())["answers"]
    assert ANOMALIES.split(BEGIN)[1].split(END)[0].strip() == table(answers).strip()
    assert answers.keys() == {name for name, one in CATALOGUE.items() if one.default}


def test_every_group_has_its_heading() -> None:
    assert re.findall(r"^### (\w+)$", ANOMALIES, re.MULTILINE) == list(GROUPS)


def test_every_event_is_documented() -> None:
    experiment = ROOT / "loadgen" / "experiment"
    events = first_argument(experiment / "anomalies", "note") | first_argument(experiment / "anomalies", "_note")
    events |= {name for name in first_argument(experiment, "_note") if name.startswith(("breaker", "engine"))}
    assert {"anomaly", "witness", "engine_dead", "breaker_open"} <= events
    told = set(re.findall(r"`(\w+)`", ANOMALIES.split("## Events")[1]))
    assert events <= told


def test_every_check_of_access_is_documented_and_exists() -> None:
    folder = ROOT / "loadgen" / "experiment" / "access"
    made = first_argument(folder, "_say") | {"key_missing", "key_wrong"}
    made |= {name for endpoint in ("completions", "chat") for name in key_checks(endpoint)}
    rows = {
        name
        for line in ACCESS.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert rows == made
