"""Write the dashboards and their tables in docs/dashboards.md, or check them: python -m grafana.dashboards_src "
"[--check]."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from grafana.dashboards_src import ab, canary, run, sweep
from grafana.dashboards_src.frame import Page, as_json
from grafana.dashboards_src.lint import lint
from grafana.dashboards_src.table import with_tables

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
DOCS = ROOT / "docs" / "dashboards.md"
PAGES: dict[str, Callable[[], Page]] = {
    "run.json": run.page,
    "ab.json": ab.page,
    "sweep.json": sweep.page,
    "canary.json": canary.page,
}


def generated() -> dict[Path, str]:
    """File to what it should hold."""
    texts = {FOLDER / name: as_json(page()) for name, page in PAGES.items()}
    tables = with_tables(DOCS.read_text(encoding="utf-8"), [json.loads(text) for text in texts.values()])
    return {**texts, DOCS: tables}


def main(arguments: list[str]) -> int:
    texts = generated()
    findings = [one for path, text in texts.items() if path != DOCS for one in lint(json.loads(text))]
    for one in findings:
        print(f"{one.rule}: {one.where}: {one.what}", file=sys.stderr)
    if "--check" not in arguments:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        return int(bool(findings))
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: not what python -m grafana.dashboards_src writes", file=sys.stderr)
    return int(bool(findings or stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
