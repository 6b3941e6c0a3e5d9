"""What is around the panels: variables, annotations, links, and the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as m

from grafana.dashboards_src.panels import DATASOURCE, Panel
from grafana.dashboards_src.queries import series

TAG = "specload"
Variable = Builder[m.VariableModel]
Annotation = Builder[m.AnnotationQuery]


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Page:
    """One dashboard. `since` and `refresh` in Grafana's notation."""

    uid: str
    title: str
    description: str
    since: str
    refresh: str
    variables: Sequence[Variable]
    annotations: Sequence[Annotation]
    rows: Sequence[Row]


def as_json(page: Page) -> str:
    """What Grafana imports; the same text for the same page."""
    built = json.loads(json.dumps(_built(page), cls=JSONEncoder))
    return json.dumps(built, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def read_back(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """As Grafana's own model has it: what it does not know is gone."""
    read: dict[str, Any] = json.loads(json.dumps(m.Dashboard.from_json(dict(dashboard)), cls=JSONEncoder))
    return read


def _built(page: Page) -> m.Dashboard:
    board = (
        dash.Dashboard(page.title).uid(page.uid).description(page.description).tags([TAG]).readonly()
        .time(page.since, "now").refresh(page.refresh).timezone("browser").tooltip(m.DashboardCursorSync.CROSSHAIR)
        .link(
            dash.DashboardLink("specload").type(m.DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(False)
            .include_vars(True).keep_time(True).icon("dashboard").tooltip("The other specload dashboards")
        )
    )  # fmt: skip
    board.with_variable(_datasource())
    for variable in page.variables:
        board.with_variable(variable)
    for annotation in page.annotations:
        board.annotation(annotation)
    number = 0
    for row in page.rows:
        number += 1
        board.with_row(dash.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            board.with_panel(_numbered(panel, number))
    return board.build()


def _numbered(panel: Any, number: int) -> Panel:
    numbered: Panel = panel.id(number)
    return numbered


def _datasource() -> Variable:
    """`current` stays empty: a name or uid written there is another installation's."""
    return dash.DatasourceVariable("datasource").label("Data source").type("prometheus")


def choice(name: str, label: str, query: str, *, newest_first: bool = False) -> Variable:
    """One of the values there are in the time range."""
    sort = m.VariableSort.ALPHABETICAL_DESC if newest_first else m.VariableSort.ALPHABETICAL_ASC
    return _query(name, label, query, sort)


def choices(name: str, label: str, query: str, *, newest_first: bool = False) -> Variable:
    """Any of the values; all of them at first."""
    sort = m.VariableSort.ALPHABETICAL_DESC if newest_first else m.VariableSort.ALPHABETICAL_ASC
    return _query(name, label, query, sort).multi(True).include_all(True).all_value(".+")


def _query(name: str, label: str, query: str, sort: m.VariableSort) -> dash.QueryVariable:
    return (
        dash.QueryVariable(name).label(label).datasource(DATASOURCE).query(query)
        .refresh(m.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(sort)
    )  # fmt: skip


def marks(name: str, metric: str, text: str, colour: str, *matchers: str) -> Annotation:
    """Lines at the times that are the values of `metric`, from seconds to the milliseconds Grafana wants. `text`: in
    Grafana's legend format."""
    return (
        dash.AnnotationQuery().name(name).datasource(DATASOURCE).enable(True).hide(False).icon_color(colour)
        .expr(f"{series(metric, *matchers)} * 1000").step("5s").use_value_for_time(True)
        .title_format(name).text_format(text)
    )  # fmt: skip


def run_choice() -> Variable:
    return choice("run_id", "Run", "label_values(specload_run_info, run_id)", newest_first=True)


def arm_choices(run: str) -> Variable:
    return choices("arm", "Arm", f"label_values(specload_run_info{{{run}}}, arm)")


def source_choice() -> Variable:
    return choice("source", "Drafts counted by", 'label_values(specload_draft_tokens_total{arm=~"$arm"}, source)')
