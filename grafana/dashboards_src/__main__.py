"""Write the dashboards, or check them: python -m grafana.dashboards_src [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana.dashboards_src import run
from grafana.dashboards_src.frame import as_json

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    (ROOT / "grafana/dashboards/run.json").write_text(as_json(run.page()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
