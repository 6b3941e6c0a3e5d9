"""The dashboards in docs/dashboards.md: each panel in a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grafana.dashboards_src.interpolate import Dashboard

BEGIN, END = "<!-- from the dashboards: python -m grafana.dashboards_src -->\n", "<!-- end of the dashboards -->\n"


def with_tables(page: str, dashboards: Sequence[Dashboard]) -> str:
    """The page with the part between its two marks made anew."""
    before, _, rest = page.partition(BEGIN)
    lines = "\n".join(line for dashboard in dashboards for line in _lines(dashboard))
    return f"{before}{BEGIN}\n{lines}\n{END}{rest.partition(END)[2]}"


def _lines(dashboard: Dashboard) -> Iterator[str]:
    name = str(dashboard["title"]).removeprefix("specload / ")
    yield f"### {name}\n"
    yield f"{dashboard['description']}\n"
    yield "| row | panel | what it shows |"
    yield "|---|---|---|"
    row = ""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            row = str(panel["title"])
            continue
        yield f"| {row} | {panel['title']} | {panel['description']} |"
        row = ""
    yield ""
