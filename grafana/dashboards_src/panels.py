"""Panels: one look for all of them. Heights and widths are of Grafana's grid of 24 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as m
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = c.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"

#: Grafana draws a line of zeros on an axis to 100, which is 10000 % of a share.
SMALL_SHARE = 0.05
#: Of the names beside large numbers: what Grafana chooses cannot be read where there are several.
NAME_PX = 12
#: Of a table's column, px; Grafana's own least of 150 hides columns of narrow panels.
COLUMN_PX = 60

Panel = Builder[m.Panel]
#: Value from which the colour holds; the first one has None.
Steps = Sequence[tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One query. `legend`: Grafana's format, `{{label}}`; of a table, the column's name. `unit`, `decimals`: of a
    table's column."""

    expr: str
    legend: str = ""
    unit: str = ""
    decimals: int | None = None


def lines(
    title: str, description: str, unit: str, *asks: Ask, width: int = 8, height: int = 8,
    low: float | None = 0, high: float | None = None, limits: Steps = (), exemplars: bool = False,
    decimals: int | None = None, reach: float | None = None, beside: bool = False,
) -> Panel:  # fmt: skip
    """Over time. `limits`: drawn as lines, coloured from there on. `reach`: what the axis reaches at least.
    `beside`: the legend is at the right, for many lines."""
    place = c.LegendPlacement.RIGHT if beside else c.LegendPlacement.BOTTOM
    panel = (
        timeseries.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit).span(width)
        .height(height).line_width(1).fill_opacity(0).show_points(c.VisibilityMode.AUTO)
        .legend(common.VizLegendOptions().display_mode(c.LegendDisplayMode.LIST).placement(place).show_legend(True).calcs([]))
        .tooltip(common.VizTooltipOptions().mode(c.TooltipDisplayMode.MULTI).sort(c.SortOrder.DESCENDING))
    )  # fmt: skip
    for ask, ref in zip(asks, _refs(), strict=False):
        panel.with_target(_target(ask, ref).range().exemplar(exemplars))
    if limits:
        panel.thresholds(_thresholds(limits))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(c.GraphThresholdsStyleMode.DASHED))
    if reach is None and unit == "percentunit" and low == 0 and high is None:
        reach = SMALL_SHARE
    if reach is not None:
        panel.axis_soft_max(reach)
    return _scaled(panel, low, high, decimals)


def number(
    title: str, description: str, unit: str, *asks: Ask, width: int = 4, height: int = 4, limits: Steps = (),
    words: Mapping[str, tuple[str, str]] | None = None, none: str = "no data", decimals: int | None = None,
    instant: bool = True, stacked: bool = False,
) -> Panel:  # fmt: skip
    """Now, large. `words`: text and colour instead of a value. `stacked`: below one another, for long names."""
    orientation = c.VizOrientation.HORIZONTAL if stacked else c.VizOrientation.AUTO
    panel = (
        stat.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit).span(width)
        .height(height).orientation(orientation).no_value(none).graph_mode(c.BigValueGraphMode.NONE)
        .color_mode(c.BigValueColorMode.VALUE).justify_mode(c.BigValueJustifyMode.AUTO).text_mode(c.BigValueTextMode.AUTO)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .text(common.VizTextDisplayOptions().title_size(NAME_PX)).thresholds(_thresholds(limits or ((None, GREY),)))
    )  # fmt: skip
    for ask, ref in zip(asks, _refs(), strict=False):
        panel.with_target(_target(ask, ref).instant() if instant else _target(ask, ref).range())
    if words:
        panel.mappings([_mapping(words)])
    return _scaled(panel, None, None, decimals)


def bars(
    title: str, description: str, unit: str, *asks: Ask, width: int = 8, height: int = 8, low: float | None = 0,
    high: float | None = None, limits: Steps = (), decimals: int | None = None,
) -> Panel:  # fmt: skip
    """Side by side, one value each."""
    panel = (
        bargauge.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit).span(width)
        .height(height).orientation(c.VizOrientation.HORIZONTAL).display_mode(c.BarGaugeDisplayMode.BASIC)
        .value_mode(c.BarGaugeValueMode.TEXT).show_unfilled(False)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .thresholds(_thresholds(limits or ((None, BLUE),)))
    )  # fmt: skip
    for ask, ref in zip(asks, _refs(), strict=False):
        panel.with_target(_target(ask, ref).instant())
    return _scaled(panel, low, high, decimals)


def rows(
    title: str, description: str, unit: str, *asks: Ask, order: Sequence[str], width: int = 24, height: int = 8,
    hidden: Sequence[str] = (), words: Mapping[str, tuple[str, str]] | None = None,
    widths: Mapping[str, int] | None = None,
) -> Panel:  # fmt: skip
    """A table: labels are columns, in this order, then each query's value under its legend. `words`: text and colour
    instead of the last query's values. `widths`: of columns, px; the others share the rest."""
    panel = (
        table.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit).span(width)
        .height(height).show_header(True).cell_height(c.TableCellHeight.SM).filterable(False).min_width(COLUMN_PX)
    )  # fmt: skip
    names = {}
    for ask, ref in zip(asks, _refs(), strict=False):
        panel.with_target(_target(ask, ref).format(PromQueryFormat.TABLE).instant())
        names["Value" if len(asks) == 1 else f"Value #{ref}"] = ask.legend
        if properties := _column(ask, words if ask is asks[-1] else None):
            panel.override_by_name(ask.legend, properties)
    for column, width_px in (widths or {}).items():
        panel.override_by_name(column, [m.DynamicConfigValue("custom.width", width_px)])
    if len(asks) > 1:
        panel.with_transformation(m.DataTransformerConfig("merge", options={}))
    options = {
        "excludeByName": dict.fromkeys(("Time", *hidden), True),
        "indexByName": {name: i for i, name in enumerate((*order, *names))},
        "renameByName": {name: legend for name, legend in names.items() if legend},
    }
    return panel.with_transformation(m.DataTransformerConfig("organize", options=options))


def _column(ask: Ask, words: Mapping[str, tuple[str, str]] | None) -> list[m.DynamicConfigValue]:
    """A mapping for the whole table would also turn a label "1" into its word."""
    properties = [m.DynamicConfigValue("unit", ask.unit)] if ask.unit else []
    if ask.decimals is not None:
        properties.append(m.DynamicConfigValue("decimals", ask.decimals))
    if words:
        properties.append(m.DynamicConfigValue("mappings", [_mapping(words)]))
        properties.append(m.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
    return properties


def density(title: str, description: str, unit: str, ask: Ask, *, width: int = 12, height: int = 8) -> Panel:
    """How many fell into each bucket, over time."""
    return (
        heatmap.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit).span(width)
        .height(height).with_target(_target(ask, "A").format(PromQueryFormat.HEATMAP).range())
        .calculate(False).filter_values(heatmap.FilterValueRange().le(1e-9)).show_legend()
        .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(c.AxisPlacement.LEFT))
        .color(heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Blues").steps(32).fill("blue"))
    )  # fmt: skip


def _scaled(panel: Any, low: float | None, high: float | None, decimals: int | None) -> Panel:
    if low is not None:
        panel.min(low)
    if high is not None:
        panel.max(high)
    if decimals is not None:
        panel.decimals(decimals)
    built: Panel = panel
    return built


def _target(ask: Ask, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(DATASOURCE).ref_id(ref).expr(ask.expr).legend_format(ask.legend)


def _refs() -> Sequence[str]:
    return [chr(ord("A") + i) for i in range(26)]


def _thresholds(steps: Steps) -> dash.ThresholdsConfig:
    whole = [m.Threshold(value, colour) for value, colour in steps]
    return dash.ThresholdsConfig().mode(m.ThresholdsMode.ABSOLUTE).steps(whole)


def _mapping(words: Mapping[str, tuple[str, str]]) -> m.ValueMap:
    return m.ValueMap(
        {value: m.ValueMappingResult(text, colour, index=i) for i, (value, (text, colour)) in enumerate(words.items())}
    )
