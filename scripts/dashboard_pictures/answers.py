"""A dashboard with Prometheus' answers: what the renderer draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
from layout import Box, box, grid_height, overlaps
from queries import Request, Variable, Window, built_in, chosen, options, requests, substituted, variable_query

GRID_PX = 1_468
SCRAPE_MS = 5_000
Json = dict[str, Any]


async def page(url: str, board: Json, times: Mapping[str, Any], others: Sequence[str], dark: bool) -> Json:
    """`times`: from_ms, to_ms and, of a run, the name of its scenario. Raises ValueError where panels overlap."""
    window = Window(int(times["from_ms"]), int(times["to_ms"]))
    async with httpx.AsyncClient(base_url=url, timeout=30) as prometheus:
        asking = _Asking(prometheus, window)
        run_id = await asking.run_id(times["scenario"]) if "scenario" in times else None
        variables = await asking.variables(board, run_id)
        panels = [await asking.panel(panel, variables) for panel in board["panels"]]
        marks = [mark for annotation in _annotations(board) for mark in await asking.marks(annotation, variables)]
    boxes = [Box(**panel["box"]) for panel in panels]
    if overlaps(boxes):
        raise ValueError(f"{board['title']}: panels overlap: {overlaps(boxes)}")
    shown = [{"label": v.label, "shown": v.shown} for v in variables.values() if not v.hidden]
    return {
        "title": board["title"], "links": list(others), "variables": shown, "from_ms": window.from_ms,
        "to_ms": window.to_ms, "range_text": _range_text(window), "width": GRID_PX, "height": grid_height(boxes),
        "dark": dark, "marks": marks, "panels": panels,
    }  # fmt: skip


class _Asking:
    def __init__(self, prometheus: httpx.AsyncClient, window: Window) -> None:
        self._prometheus, self._window = prometheus, window

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = (await self._prometheus.get(f"/api/v1/{path}", params=parameters)).json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        return answer["data"]

    async def vector(self, expr: str) -> list[Json]:
        found: list[Json] = (await self.get("query", query=expr, time=self._window.to_ms / 1000))["result"]
        return found

    async def run_id(self, scenario: str) -> str:
        found = await self.vector(
            f'last_over_time(specload_run_info{{scenario="{scenario}"}}[{_seconds(self._window)}])'
        )
        return str(found[0]["metric"]["run_id"])

    async def variables(self, board: Json, run_id: str | None) -> dict[str, Variable]:
        """In the board's order: a variable's query may name those before it."""
        variables: dict[str, Variable] = {}
        words = built_in(self._window, SCRAPE_MS, SCRAPE_MS)
        for model in board["templating"]["list"]:
            name, kind = model["name"], model["type"]
            if kind == "datasource":
                variables[name] = Variable(name, model.get("label") or name, ("Prometheus",), shown="Prometheus")
            elif kind == "query":
                query = model["query"] if isinstance(model["query"], str) else model["query"]["query"]
                found = await self._options(substituted(query, variables, words))
                found = options(found, model.get("regex") or "", int(model.get("sort") or 0))
                variables[name] = chosen(model, found, run_id if name == "run_id" else None)
            else:
                found = [part.strip() for part in str(model["query"]).split(",")]
                variables[name] = chosen(model, found)
        return variables

    async def _options(self, query: str) -> list[str]:
        kind, asked, label = variable_query(query)
        if kind == "labels":
            limits = {"start": self._window.from_ms / 1000, "end": self._window.to_ms / 1000}
            selector = {"match[]": asked} if asked else {}
            return list(await self.get(f"label/{label}/values", **limits, **selector))
        return [_written(sample) for sample in await self.vector(asked or "")]

    async def panel(self, panel: Json, variables: Mapping[str, Variable]) -> Json:
        """Titles and descriptions with variables put in, the box, and the answers."""
        place = box(panel["gridPos"], GRID_PX)
        words = built_in(self._window, SCRAPE_MS, SCRAPE_MS)
        told = {key: substituted(panel[key], variables, words) for key in ("title", "description") if panel.get(key)}
        asked = requests(panel, place.width, self._window, variables, SCRAPE_MS)
        results = [await self._answer(request) for request in asked]
        return {"panel": {**panel, **told}, "box": vars(place), "results": results}

    async def _answer(self, request: Request) -> Json:
        if request.step_s is None:
            series = (await self.get("query", query=request.expr, time=request.end_s))["result"]
        else:
            series = await self._range(request.expr, request.start_s, request.end_s, request.step_s)
        return {**vars(request), "series": series}

    async def _range(self, expr: str, start_s: float, end_s: float, step_s: float) -> list[Json]:
        found: list[Json] = (await self.get("query_range", query=expr, start=start_s, end=end_s, step=step_s))["result"]
        return found

    async def marks(self, annotation: Json, variables: Mapping[str, Variable]) -> list[Json]:
        """Lines of a Prometheus annotation: where the value is the time, each value once."""
        expr = substituted(annotation["expr"], variables, built_in(self._window, SCRAPE_MS, SCRAPE_MS))
        series = await self._range(expr, self._window.from_ms / 1000, self._window.to_ms / 1000, SCRAPE_MS / 1000)
        at_value = annotation.get("useValueForTime") in (True, "on")
        marks = {}
        for each in series:
            text = _labelled(annotation.get("textFormat") or "", each["metric"])
            for at_s, value in each["values"]:
                time_ms = float(value) if at_value else at_s * 1000
                marks[time_ms, text] = {"time_ms": time_ms, "text": text, "color": annotation["iconColor"]}
        return [mark for mark in marks.values() if self._window.from_ms <= mark["time_ms"] <= self._window.to_ms]


def _annotations(board: Json) -> list[Json]:
    return [each for each in board["annotations"]["list"] if each.get("enable") and each.get("expr")]


def _labelled(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), text)


def _written(sample: Json) -> str:
    labels = dict(sample["metric"])
    name = labels.pop("__name__", "")
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inside}}} {sample['value'][1]} {sample['value'][0] * 1000:.0f}"


def _seconds(window: Window) -> str:
    return f"{window.length_ms // 1000 + 1}s"


def _range_text(window: Window) -> str:
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (window.from_ms, window.to_ms))
    return f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC"
