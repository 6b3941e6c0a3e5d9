"""The table of docs/anomalies.md: `python scripts/anomaly_table.py [RUN]` writes it anew.

RUN: the directory of a run of `experiment: anomalies` on a real vLLM; its answers are then kept beside the tests first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from server_adapters.anomalies import CATALOGUE

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "anomalies.md"
ANSWERS = ROOT / "tests" / "data" / "anomalies" / "vllm_0.32.json"
BEGIN, END = "<!-- catalogue -->", "<!-- /catalogue -->"
_HEAD = "| anomaly | what is sent | expected | vLLM 0.32.0 |\n|---|---|---|---|"


def answers_of(run: Path) -> dict[str, Any]:
    """What each anomaly was answered with in a run."""
    found = json.loads((run / "anomalies.json").read_text())
    (arm,) = found["arms"]
    about = found["conditions"]["arms"][arm["arm"]]
    conditions = {key: about.get(key) for key in ("engine_version", "spec_method", "k")}
    return {"conditions": conditions, "answers": {row["name"]: row["got"] for row in arm["rows"]}}


def table(answers: Mapping[str, str]) -> str:
    """Markdown, a heading for each group."""
    parts: list[str] = []
    group = ""
    for one in CATALOGUE.values():
        if one.group != group:
            group = one.group
            parts.append(f"\n### {group}\n\n{_HEAD}")
        what = one.what.replace("|", "\\|")
        parts.append(f"| `{one.name}` | {what} | {one.expected.words()} | {answers.get(one.name, '–')} |")
    return "\n".join(parts) + "\n"


def with_table(text: str, answers: Mapping[str, str]) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(answers)}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str]) -> None:
    if arguments:
        ANSWERS.parent.mkdir(parents=True, exist_ok=True)
        ANSWERS.write_text(json.dumps(answers_of(Path(arguments[0])), indent=1) + "\n")
    answers = json.loads(ANSWERS.read_text())["answers"]
    DOCS.write_text(with_table(DOCS.read_text(encoding="utf-8"), answers), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
