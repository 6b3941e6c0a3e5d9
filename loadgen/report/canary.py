"""A canary as tables and figures of a page, from canary.json and windows.jsonl (docs/canary.md). Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.report.format import DASH, INFINITE, count
from loadgen.report.page import Cell, Figure, Panel, Point, Row, Series, Table, Unit, drawn, plain, ranged, shown

#: Windows of a figure, and rows of a table, the newest.
WINDOWS, ROWS = 48, 50
_SHARES = frozenset({"acceptance", "rollback", "error_share"})
_TONES = {"fail": "bad", "doubtful": "warning"}
_KEPT = "canary.json keeps the newest 1,000"


def canary_tables(result: Mapping[str, Any]) -> list[Table]:
    """Checks, hooks that were called, changes of the state, probes: those that have rows, and always the checks."""
    made = (_hooks(result), _changes(result), _probes(result), _left_out(result))
    return [_checks(result), *(table for table in made if table.rows)]


def canary_figures(windows: Sequence[Mapping[str, Any]], *, older: bool = False) -> list[Figure]:
    """Each check's number by window, beside its limit. `older`: windows before these were left out by who read them."""
    kept = list(windows)[-WINDOWS:]
    told = {(c["check"], c["source"]): c for window in kept for c in window["checks"]}
    panels = [_panel(kept, name, source, check) for (name, source), check in told.items()]
    panels = [panel for panel in panels if drawn(panel)]
    if not panels:
        return []
    note = None
    if older or len(kept) < len(windows):
        note = f"The newest {len(kept)} windows are shown; all of them stand in windows.jsonl."
    caption = "Each window's number with its 95 % interval; dashed: the limit. A gap: no number in that window."
    return [Figure("windows", "Checks by window", caption, panels, note)]


def _checks(result: Mapping[str, Any]) -> Table:
    rows = []
    for check in result["checks"]:
        now, pooled, unit = check["reading"], check["pooled"], _unit(check["check"])
        side = "≤" if now["fails"] == "above" else "≥"
        cells: list[str | Cell] = [
            check["check"], check["source"], check["state"].replace("_", " "), f"{side} {_limit(now['limit'], unit)}",
            _number(now, unit), f"{count(now['n'])} {now['unit']}".rstrip(), now["result"].replace("_", " "),
            str(check["failing_windows"]), _number(pooled, unit), pooled["result"].replace("_", " "),
        ]  # fmt: skip
        rows.append(Row(cells, _TONES.get(check["state"], "")))
    head = ("check", "from", "state", "limit", "newest window", "n", "it shows", "failing in a row",
            "last windows together", "they show")  # fmt: skip
    return Table("Checks, with 95 % intervals", head, rows, 4)


def _hooks(result: Mapping[str, Any]) -> Table:
    calls = list(reversed(result["calls"]))
    rows = [
        Row(
            [_moment(c["at"]), c["hook"], c["result"].replace("_", " "), c["detail"], str(c["tries"])],
            "bad" if c["result"] in ("failed", "dropped") else "",
        )
        for c in calls[:ROWS]
    ]
    note = f"The newest {ROWS} of {len(calls)}; {_KEPT}." if len(calls) > ROWS else None
    dry = ", dry run: none was called" if result["dry_run"] else ""
    head = ("when (UTC)", "whom", "what came of it", "in words", "tries")
    return Table(f"Webhooks and kill switch, newest first{dry}", head, rows, 4, note)


def _changes(result: Mapping[str, Any]) -> Table:
    alerts = list(reversed(result["alerts"]))
    rows = [
        Row(
            [
                _moment(a["at"]), a["before"].replace("_", " "), a["state"].replace("_", " "),
                "; ".join(a["reasons"]) or DASH, str(a["window"]),
            ],
            _TONES.get(a["state"], ""),
        )
        for a in alerts[:ROWS]
    ]  # fmt: skip
    note = f"The newest {ROWS} of {result['alerts_in_all']}; {_KEPT}." if result["alerts_in_all"] > ROWS else None
    return Table("Changes of the state, newest first", ("when (UTC)", "from", "to", "why", "window"), rows, 4, note)


def _probes(result: Mapping[str, Any]) -> Table:
    outcomes = list(dict.fromkeys(key for counts in result["probes"].values() for key in counts))
    rows = [Row([arm, *(count(n.get(key, 0)) for key in outcomes)]) for arm, n in result["probes"].items()]
    return Table("Probes that ended, by outcome", ("arm", *outcomes), rows)


def _left_out(result: Mapping[str, Any]) -> Table:
    rows = [Row([one["check"], one["source"], one["reason"]]) for one in result["not_checked"]]
    return Table("Not checked", ("check", "from", "why"), rows, 3)


def _panel(windows: Sequence[Mapping[str, Any]], name: str, source: str, check: Mapping[str, Any]) -> Panel:
    unit = _unit(name)
    places = [next((c for c in w["checks"] if (c["check"], c["source"]) == (name, source)), None) for w in windows]
    points: list[Point | None] = [None if c is None else _point(c, unit) for c in places]
    limit: float = check["limit"]
    return Panel(f"{name} ({source})", "window's end (UTC)", [_moment(w["end"])[11:] for w in windows],
                 [Series(name, 0, points)], unit, "lines", limit)  # fmt: skip


def _point(check: Mapping[str, Any], unit: Unit) -> Point:
    value, low, high = check["value"], check["low"], check["high"]
    if value is None or low is None or high is None:
        why = "infinite" if "value" in check["infinite"] else check["reason"] or "no interval"
        return plain(value, unit, why)
    return ranged(value, low, high, unit)


def _number(reading: Mapping[str, Any], unit: Unit) -> str | Cell:
    """With its interval; or why it is not known."""

    def part(key: str) -> str:
        return INFINITE if key in reading["infinite"] else shown(reading[key], unit)

    if reading["value"] is None and "value" not in reading["infinite"]:
        return Cell(DASH, reading["reason"] or "no reason given")
    bounds = [part(key).removesuffix("×") for key in ("low", "high")]
    interval = "" if reading["low"] is None and "low" not in reading["infinite"] else f" [{bounds[0]}, {bounds[1]}]"
    return Cell(f"{part('value')}{interval}", reading["reason"] or "")


def _limit(value: float, unit: Unit) -> str:
    return shown(value, unit)


def _unit(check: str) -> Unit:
    return "share" if check in _SHARES else "number" if check == "restarts" else "times"


def _moment(at: str) -> str:
    return at[:19].replace("T", " ")
