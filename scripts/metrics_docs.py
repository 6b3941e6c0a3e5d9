"""Writes the table of docs/metrics.md from the registry; `--check` only says whether it is there already.

python scripts/metrics_docs.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadgen.export import metrics_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- from the registry: scripts/metrics_docs.py -->\n", "<!-- end of the registry -->"


def with_table(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{metrics_table()}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    new = with_table(page)
    if "--check" in sys.argv:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
