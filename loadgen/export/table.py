"""The registry as the tables of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from loadgen.export.families import CANARY, CLIENT, HARDWARE, REQUESTS, RUN, SERVER, SERVICE, SPECULATION, SWEEP, Family

SECTIONS: dict[str, tuple[Family, ...]] = {
    "Requests": REQUESTS,
    "Speculation": SPECULATION,
    "Servers": SERVER,
    "GPUs and processes of the servers": HARDWARE,
    "The load generator itself": CLIENT,
    "The run": RUN,
    "A sweep": SWEEP,
    "A canary": CANARY,
    "The service": SERVICE,
}


def metrics_table() -> str:
    """Markdown: a section for each kind of thing, a row for each metric."""
    return "\n".join(f"### {title}\n\n{_table(families)}" for title, families in SECTIONS.items())


def _table(families: Iterable[Family]) -> str:
    rows = ["| metric | type | labels | unit | meaning |", "|---|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.full_name}` | {family.kind} | {labels} | {family.unit} | {family.meaning} |")
    return "\n".join(rows) + "\n"
