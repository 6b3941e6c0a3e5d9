"""A canary's tables and figure, cell by cell."""

from __future__ import annotations

from typing import Any

from loadgen.report import canary_figures, canary_tables


def reading(check: str = "speedup", **changes: Any) -> dict[str, Any]:
    base = {
        "check": check, "source": "probes", "result": "pass", "limit": 1.0, "fails": "below", "value": 1.5, "low": 1.25,
        "high": 2.0, "infinite": [], "n": 1500, "unit": "pairs", "reason": None,
    }  # fmt: skip
    return {**base, **changes}


def standing(now: dict[str, Any], pooled: dict[str, Any], state: str, failing: int = 0) -> dict[str, Any]:
    return {"check": now["check"], "source": now["source"], "state": state, "failing_windows": failing,
            "reading": now, "pooled": pooled}  # fmt: skip


def canary(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"checks": [], "calls": [], "alerts": [], "alerts_in_all": 0, "probes": {},
                            "not_checked": [], "dry_run": False}  # fmt: skip
    return {**base, **changes}


def test_checks() -> None:
    """Shares are percentages, factors times; infinite is a number, missing says why."""
    blind = reading("acceptance", value=None, low=None, high=None, result="no_data", n=0, reason="nothing drafted",
                    limit=0.4, source="counters", unit="drafted tokens")  # fmt: skip
    late = reading("tpot_p95_ratio", value=None, low=2.0, high=None, infinite=["value", "high"], fails="above",
                   result="fail", limit=1.25)  # fmt: skip
    (table,) = canary_tables(
        canary(checks=[standing(reading(), reading(n=9), "ok"), standing(blind, blind, "no_data"),
                       standing(late, reading(fails="above", result="unclear"), "fail", 3)])
    )  # fmt: skip
    assert table.caption == "Checks, with 95 % intervals"
    cells = [[c if isinstance(c, str) else c.text for c in row.cells] for row in table.rows]
    assert cells == [
        ["speedup", "probes", "ok", "≥ 1.00×", "1.50× [1.25, 2.00]", "1,500 pairs", "pass", "0", "1.50× [1.25, 2.00]",
         "pass"],
        ["acceptance", "counters", "no data", "≥ 40.0\xa0%", "–", "0 drafted tokens", "no data", "0", "–", "no data"],
        ["tpot_p95_ratio", "probes", "fail", "≤ 1.25×", "∞ [2.00, ∞]", "1,500 pairs", "fail", "3", "1.50× [1.25, 2.00]",
         "unclear"],
    ]  # fmt: skip
    assert table.rows[1].cells[4].why == "nothing drafted"  # type: ignore[union-attr]
    assert [row.tone for row in table.rows] == ["", "", "bad"]


def test_calls_changes_and_probes() -> None:
    """Newest first; a dry run says that nobody was called; what is too much to show is counted."""
    at = "2026-11-30T07:06:00.000Z"
    calls = [{"at": at, "event_id": "e", "hook": f"h{i}", "result": "dry_run", "tries": 0, "detail": "would"}
             for i in range(60)]  # fmt: skip
    alert = {"id": "a", "at": at, "window": 4, "before": "ok", "state": "no_data", "reasons": []}
    found = canary_tables(
        canary(calls=calls, dry_run=True, alerts=[alert], alerts_in_all=1, probes={"base": {"ok": 1200, "timeout": 2}},
               not_checked=[{"check": "restarts", "source": "counters", "reason": "no metrics page: base"}])
    )  # fmt: skip
    hooks, changes, probes, left_out = found[1:]
    assert hooks.caption == "Webhooks and kill switch, newest first, dry run: none was called"
    assert list(hooks.rows[0].cells) == ["2026-11-30 07:06:00", "h59", "dry run", "would", "0"]
    assert (len(hooks.rows), hooks.note) == (50, "The newest 50 of 60; canary.json keeps the newest 1,000.")
    assert list(changes.rows[0].cells) == ["2026-11-30 07:06:00", "ok", "no data", "–", "4"]
    assert (list(probes.head), list(probes.rows[0].cells)) == (["arm", "ok", "timeout"], ["base", "1,200", "2"])
    assert list(left_out.rows[0].cells) == ["restarts", "counters", "no metrics page: base"]


def test_the_figure_has_each_check_by_window_beside_its_limit() -> None:
    """A window without a number is a gap."""
    gap = reading(value=None, low=None, high=None, reason="too few")
    windows = [
        {"end": f"2026-11-30T07:{i:02}:00.000Z", "checks": [gap if i == 1 else reading(value=1.0 + i / 100)]}
        for i in range(60)
    ]
    assert canary_figures([]) == canary_figures([windows[1]]) == []
    (figure,) = canary_figures(windows[:3])
    (panel,) = figure.panels
    assert (panel.title, panel.reference, panel.kind, figure.note) == ("speedup (probes)", 1.0, "lines", None)
    assert panel.categories == ["07:00:00", "07:01:00", "07:02:00"]
    values = [None if p is None else (p.y, p.low, p.high) for p in panel.series[0].points]
    assert values == [(1.0, 1.25, 2.0), (None, None, None), (1.02, 1.25, 2.0)]
    (figure,) = canary_figures(windows)
    assert len(figure.panels[0].categories) == 48
    assert figure.note == "The newest 48 windows are shown; all of them stand in windows.jsonl."
