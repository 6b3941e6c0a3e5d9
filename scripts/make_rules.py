"""Writes grafana/prometheus/{recording,canary,run}.yml from loadgen/export/rules."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from loadgen.export import RULE_FILES, rule_file  # noqa: E402

FOLDER = ROOT / "grafana" / "prometheus"

if __name__ == "__main__":
    for name in RULE_FILES:
        (FOLDER / name).write_text(rule_file(name), encoding="utf-8")
        print(f"wrote {FOLDER / name}")
