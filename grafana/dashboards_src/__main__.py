"""Write the dashboards, or check them: python -m grafana.dashboards_src [--check]."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from grafana.dashboards_src import ab, canary, run, sweep
from grafana.dashboards_src.frame import Page, as_json

FOLDER = Path(__file__).resolve().parents[1] / "dashboards"
PAGES: dict[str, Callable[[], Page]] = {
    "run.json": run.page,
    "ab.json": ab.page,
    "sweep.json": sweep.page,
    "canary.json": canary.page,
}


def main() -> int:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(as_json(page()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
