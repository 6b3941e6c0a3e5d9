"""Writes grafana/prometheus/{recording,canary,run}.yml from loadgen/export/rules."""

from pathlib import Path

from loadgen.export import RULE_FILES, rule_file

FOLDER = Path(__file__).resolve().parents[1] / "grafana" / "prometheus"

if __name__ == "__main__":
    for name in RULE_FILES:
        (FOLDER / name).write_text(rule_file(name), encoding="utf-8")
        print(f"wrote {FOLDER / name}")
