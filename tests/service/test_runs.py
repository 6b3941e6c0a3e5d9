"""Runs over HTTP on rehearsal engines: asked for, watched, queued, stopped, read, deleted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from loadgen.record import open_run
from tests.service.conftest import LENGTHS, Served, scenario

TEXTS = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "fixed", "value": 60}}
LONG = {
    "load": [{"kind": "concurrency", "concurrency": 2, "cases": 5000}],
    "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **TEXTS}]},
}


def values(page: str) -> dict[str, float]:
    rows = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, value in rows}


def total(found: dict[str, float], name: str, *labels: str) -> float:
    return sum(v for k, v in found.items() if k.split("{")[0] == name and all(label in k for label in labels))


def test_a_run_is_asked_for_watched_and_read(served: Served) -> None:
    """G18: the service's page holds the run's last values, which are those of its records."""
    text = scenario(thresholds=["error_share: rate<0.5"])
    served.put("whole", text)
    check = served.ask("POST", "/api/v1/scenarios/validate", "eye", json={"scenario": "whole"})
    assert check.json()["plan"]["totals"]["requests"] == 6
    asked = served.ask(
        "POST", "/api/v1/runs", json={"scenario": "whole", "overrides": {"load.0.cases": 8}},
        headers={"Idempotency-Key": "once"},
    )  # fmt: skip
    run_id = asked.json()["id"]
    assert (asked.status_code, asked.headers["location"]) == (202, f"/api/v1/runs/{run_id}")
    events = served.events(run_id)
    assert [number for number, _, _ in events] == sorted((n for n, _, _ in events), key=lambda n: int(n.split(".")[1]))
    kinds = [kind for _, kind, _ in events]
    assert (kinds[0], kinds[-1]) == ("snapshot", "ended")
    assert {"begun", "segment", "look"} <= set(kinds)
    looks = [data for _, kind, data in events if kind == "look"]
    assert looks[-1]["arms"]["base"]["outcomes"] == {"ok": 8}
    row = served.run(run_id)
    asked_for = {"arms": {"base": "one"}, "overrides": {"load.0.cases": 8}, "started_by": "ops", "state": "finished"}
    assert {key: row[key] for key in asked_for} == asked_for
    assert row["verdict"] in ("pass", "inconclusive")
    path = served.folder / "runs" / run_id
    recorded = open_run(path)
    assert recorded.manifest.scenario_path == "whole.yaml"
    assert recorded.manifest.overrides == ["load.0.cases=8"]
    rows = [r for r in recorded.requests.to_pylist() if r["phase"] == "measure"]
    page = values(served.ask("GET", "/metrics").text)
    assert total(page, "specload_requests_total", 'outcome="ok"') >= len(rows) == 8
    lane = next(re.search(r'lane="(\d)"', k)[1] for k in page if run_id in k)  # type: ignore[index]
    mine = {k: v for k, v in page.items() if f'lane="{lane}"' in k}
    assert total(mine, "specload_sent_requests_total") == 8
    assert total(mine, "specload_ttft_seconds_sum") == pytest.approx(sum(r["ttft_s"] for r in rows))
    assert mine[f'specload_run_active{{lane="{lane}"}}'] == 0

    summary = served.ask("GET", f"/api/v1/runs/{run_id}/summary", "eye")
    assert summary.json() == json.loads((path / "summary.json").read_bytes())
    verdict = served.ask("GET", f"/api/v1/runs/{run_id}/verdict", "eye").json()
    assert verdict["details"] == json.loads((path / "verdict.json").read_bytes())
    assert (verdict["verdict"], verdict["exit_code"]) == (row["verdict"], row["exit_code"])
    report = served.ask("GET", f"/api/v1/runs/{run_id}/report.html", "eye")
    assert report.content == (path / "report.html").read_bytes()
    assert "sandbox" in report.headers["content-security-policy"]

    again = served.ask(
        "POST", "/api/v1/runs", json={"scenario": "whole", "overrides": {"load.0.cases": 8}},
        headers={"Idempotency-Key": "once"},
    )  # fmt: skip
    other = served.ask("POST", "/api/v1/runs", json={"scenario": "whole"}, headers={"Idempotency-Key": "once"})
    assert (again.json()["id"], other.status_code) == (run_id, 409)

    resumed = served.events(run_id, events[-3][0])
    assert [e[0] for e in resumed] == [e[0] for e in events[-2:]]
    assert [kind for _, kind, _ in served.events(run_id)] == ["snapshot"]
    live = served.ask("GET", f"/api/v1/runs/{run_id}/live", "eye").json()
    assert live["run"] == row
    assert live["looks"][-1] == looks[-1]

    audit = served.ask("GET", "/api/v1/audit").json()
    assert audit["broken_at"] is None
    mine = [e for e in audit["entries"] if e["subject"] == run_id]
    assert {(e["who"], e["action"], e["status"], e["detail"]) for e in mine} == {
        ("ops", "POST /api/v1/runs", 202, "whole on base=one")
    }


def test_one_run_on_a_target_at_a_time_and_others_beside_it(served: Served) -> None:
    served.put("long_one", scenario(**LONG))
    served.put("long_two", scenario(**LONG, arms={"base": {"target": "two"}}))
    text = scenario(workload={"endpoint": "completions", "tasks": [{"task_type": "short_qa", **LENGTHS}]})
    uploaded = served.ask("PUT", "/api/v1/scenarios/mine", content=text, headers={"Content-Type": "application/yaml"})
    assert uploaded.status_code == 201
    first, second = served.start("long_one"), served.start("long_one")
    beside, behind = served.start("long_two"), served.start("mine", arms={"base": "two"})
    assert served.ask("DELETE", "/api/v1/scenarios/mine").status_code == 204  # a run keeps the text that was asked for
    served.in_state(first, "running")
    served.in_state(beside, "running")
    assert {served.run(r)["state"] for r in (second, behind)} == {"queued"}
    listed = served.ask("GET", "/api/v1/runs", "eye", params={"state": ["queued", "running"], "limit": 3}).json()
    assert [row["id"] for row in listed["runs"]] == [behind, beside, second]
    rest = served.ask("GET", "/api/v1/runs", params={"state": ["queued", "running"], "before": listed["next"]}).json()
    assert ([row["id"] for row in rest["runs"]], rest["next"]) == ([first], None)
    on_two = served.ask("GET", "/api/v1/runs", params={"target": "two", "state": ["queued", "running"]}).json()
    assert {row["id"] for row in on_two["runs"]} == {beside, behind}
    assert served.ask("GET", "/api/v1/targets/one").json()["busy"] == first
    assert served.ask("DELETE", f"/api/v1/runs/{first}").status_code == 409

    assert served.ask("POST", f"/api/v1/runs/{second}/stop").json() == {"id": second, "how": "unqueued"}
    assert served.over(second)["state"] == "stopped"
    assert served.ask("POST", f"/api/v1/runs/{second}/stop").status_code == 409
    served.drives(first)
    assert served.ask("POST", f"/api/v1/runs/{first}/stop").json()["how"] == "drain"
    row = served.over(first)
    assert (row["state"], row["exit_code"], row["reason"]) == ("interrupted", 130, "interrupted by the user ops")
    manifest = open_run(served.folder / "runs" / first).manifest
    assert (manifest.state, manifest.stop_reason) == ("interrupted", "interrupted by the user ops")
    assert served.ask("GET", f"/api/v1/runs/{first}/summary").status_code == 200

    assert served.ask("POST", f"/api/v1/runs/{beside}/stop").json()["how"] == "drain"
    assert served.ask("POST", f"/api/v1/runs/{beside}/stop").json()["how"] == "cut"
    assert served.over(beside)["state"] == "interrupted"
    assert served.over(behind)["state"] == "finished"
    workload = open_run(served.folder / "runs" / behind).manifest.scenario["workload"]
    assert workload["tasks"][0]["task_type"] == "short_qa"
    compared = served.ask("GET", "/api/v1/compare", "eye", params={"first": first, "second": behind})
    assert compared.status_code == 200, compared.text
    assert set(compared.json()) == {"comparison", "verdict"}

    gone = served.ask("DELETE", f"/api/v1/runs/{first}").json()
    assert (gone["state"], gone["reason"]) == ("deleted", "deleted by ops")
    assert not (served.folder / "runs" / first).exists()
    assert served.ask("GET", f"/api/v1/runs/{first}/summary").status_code == 404
    assert first not in [r["id"] for r in served.ask("GET", "/api/v1/runs").json()["runs"]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"scenario": "small", "arms": {"base": "three"}},
            "arms.base: there is no target 'three'; there are: one, two",
        ),
        ({"scenario": "small", "overrides": {"arms.base.url": "http://a"}}, "arms.base.url cannot be overridden"),
        ({"scenario": "small", "overrides": {"load.0.cases": 0}}, "load.0.cases: must be at least 1"),
        ({"scenario": "small", "time_budget_s": 0.001}, "time"),
    ],
)
def test_what_cannot_be_run_is_refused_whole(served: Served, asked: dict[str, Any], said: str) -> None:
    answer = served.ask("POST", "/api/v1/runs", json=asked)
    assert answer.status_code == 422
    assert said in " ".join(answer.json()["problems"])


def test_a_scenario_beyond_the_targets_caps_is_refused(served: Served) -> None:
    served.put(
        "big", scenario(environment="production", load=[{"kind": "concurrency", "concurrency": 99, "cases": 200}])
    )
    answer = served.ask("POST", "/api/v1/runs", json={"scenario": "big"})
    assert answer.status_code == 422
    assert "99 is above safety.max_concurrency (64, environment: production)" in answer.json()["problems"][0]


def test_a_target_is_looked_at(served: Served) -> None:
    found = served.ask("POST", "/api/v1/targets/one/check").json()
    assert (found["usable"], found["found"]["speculation"], found["found"]["k"]) == (True, True, 4)
    assert served.ask("GET", "/api/v1/targets/three").status_code == 404


def test_what_to_scrape_is_told(served: Served, engines: dict[str, str]) -> None:
    found = served.ask("GET", "/sd", "eye").json()
    base = str(served.client.base_url)
    assert [f"{e['labels']['__scheme__']}://{e['targets'][0]}{e['labels']['__metrics_path__']}" for e in found] == [
        f"{base.rstrip('/')}/metrics", f"{engines['one']}/metrics", f"{engines['two']}/metrics",
    ]  # fmt: skip


def test_a_run_that_finds_no_server_says_so_in_our_own_words(served: Served) -> None:
    """I6: what was measured where is the log's; the row has the category."""
    served.put("model", scenario(arms={"base": {"target": "one", "speculation": "off"}}))
    row = served.over(served.start("model"))
    assert (row["state"], row["exit_code"]) == ("failed", 3)
    assert row["reason"] == "base: its speculation is not what the scenario says; details are in the service's log"
    assert served.ask("GET", f"/api/v1/runs/{row['id']}/summary").status_code == 404
    verdict = served.ask("GET", f"/api/v1/runs/{row['id']}/verdict").json()
    assert (verdict["verdict"], verdict["state"]) == (None, "failed")
