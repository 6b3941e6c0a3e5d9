"""Experiments that are more than a run, through the service: what the target's configuration allows, no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from loadgen.experiment import found_in
from loadgen.record import open_run
from loadgen.service.config import OutgoingKeys
from loadgen.service.elsewhere import pin, resolved
from loadgen.service.outgoing import Outgoing
from tests.service.conftest import LENGTHS, ROOT, MakeInside, Served, scenario

DRILL: dict[str, Any] = {
    "experiment": "drill",
    "arms": {"gateway": {"target": "one"}},
    "load": [{"kind": "concurrency", "concurrency": 2, "duration_s": 4}],
    "drill": {
        "switch": {"off": {"kind": "adapter"}, "on": {"kind": "adapter"}}, "before_s": 1, "after_s": 2, "back_s": 1,
        "window_requests": 3,
    },
}  # fmt: skip


def http(url: str) -> dict[str, Any]:
    return {**DRILL["drill"], "switch": {"off": {"kind": "http", "url": url}}}


def test_a_drill_and_a_look_at_access(served: Served) -> None:
    """Both on targets at once; what they found stands in the report, and the switch was pulled both ways.

    I6: what the server answered to that is in the log alone."""
    served.put("drill", scenario(**DRILL))
    served.put("access", scenario(experiment="access", arms={"base": {"target": "two"}}))
    drill, access = served.start("drill"), served.start("access")
    row = served.over(access)
    assert (row["state"], row["exit_code"], row["verdict"]) == ("finished", 99, "fail"), row  # it asks for no key
    found = json.loads((served.folder / "runs" / access / "access.json").read_bytes())
    faults = dict.fromkeys(check["check"] for check in found["checks"] if check["state"] == "fail")
    assert {"key_missing", "key_wrong"} <= set(faults)
    said = f"access: fail: {', '.join(faults)}; the report says why"
    assert (row["kind"], row["reason"], row["validity"]) == ("access", said, None)
    verdict = served.ask("GET", f"/api/v1/runs/{access}/verdict").json()
    assert (verdict["verdict"], verdict["reason"]) == ("fail", said)
    assert (verdict["validity"], verdict["validity_reason"]) == (None, "does not apply: an access check sends no load")
    assert {"key_missing", "transport", "cors"} <= {check["check"] for check in found["checks"]}
    assert served.ask("GET", f"/api/v1/runs/{access}/report.html").status_code == 200
    row = served.over(drill)
    assert row["state"] == "finished", row
    found = found_in(open_run(served.folder / "runs" / drill))
    assert found is not None
    assert (row["verdict"], row["kind"]) == (found.state, "drill")
    events = [json.loads(line) for line in (served.folder / "runs" / drill / "events.jsonl").read_text().splitlines()]
    switched = [(e["data"]["direction"], e["data"]["ok"], e["data"]["said"]) for e in events if e["name"] == "pulled"]
    assert switched == [(way, True, f"1 server has switched speculation {way}") for way in ("off", "on")]
    report = served.ask("GET", f"/api/v1/runs/{drill}/report.html", "eye").text
    assert "The load around the pulls of the switch" in report
    assert '{"enabled"' not in report.replace("&quot;", '"').replace("&#34;", '"')
    assert "switch off: answered: " in served.log()
    assert '{"enabled":false}' in served.log()


EXTRA: dict[str, dict[str, Any]] = {
    "drill": DRILL,
    "soak": {"load": [{"kind": "concurrency", "concurrency": 2, "duration_s": 600}]},
    "quality": {
        "arms": {"baseline": {"target": "one"}, "candidate": {"target": "two"}},
        "workload": {"endpoint": "chat", "tasks": [{"task_type": "code", **LENGTHS}]},
    },
    "anomalies": {"load": [{"kind": "concurrency", "concurrency": 2, "duration_s": 600}]},
}


async def test_every_experiment_is_planned_on_a_disposable_target(inside: MakeInside, tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    targets = {name: {"url": "http://127.0.0.1:9", "environment": "disposable"} for name in ("one", "two")}
    async with inside(targets=targets) as service:
        for kind in ("soak", "quality", "anomalies", "access", "drill"):
            text = scenario(**{**EXTRA.get(kind, {}), "experiment": kind})
            (tmp_path / "scenarios" / "odd.yaml").write_text(text)
            answer = await service.ask("POST", "/api/v1/scenarios/validate", "eye", json={"scenario": "odd"})
            assert answer.status_code == 200, answer.text
        assert any("drill: 1 s after the load began, off" in note for note in answer.json()["plan"]["notes"])


REFUSED: tuple[tuple[dict[str, Any], str, str], ...] = (
    (DRILL, "production", "drill may break a server and is refused on environment: production"),
    (DRILL, "staging", "on environment: staging it needs safety.disruptive: true"),
    (
        {"experiment": "anomalies"},
        "production",
        "anomalies may break a server and is refused on environment: production",
    ),
    (
        {**DRILL, "drill": http("http://169.254.169.254/off")},
        "disposable",
        "drill.switch.off.url: 169.254.169.254 is not among outgoing.hosts",
    ),
    (
        {**DRILL, "drill": {**DRILL["drill"], "switch": {"off": {"kind": "adapter", "urls": ["http://10.0.0.9"]}}}},
        "disposable",
        "drill.switch.off.urls.0: 10.0.0.9 is not among outgoing.hosts",
    ),
)


async def test_what_a_target_does_not_allow_is_refused(inside: MakeInside, tmp_path: Path) -> None:
    """I5, I8: the configuration says what may be done to a target, and who may be asked beside it."""
    (tmp_path / "scenarios").mkdir()
    kinds = ("production", "staging", "disposable")
    async with inside(targets={kind: {"url": "http://127.0.0.1:9", "environment": kind} for kind in kinds}) as service:
        for changes, target, said in REFUSED:
            (tmp_path / "scenarios" / "odd.yaml").write_text(scenario(**changes))
            arm = "gateway" if "drill" in changes else "base"
            answer = await service.ask("POST", "/api/v1/runs", json={"scenario": "odd", "arms": {arm: target}})
            assert answer.status_code == 422
            assert said in " ".join(answer.json()["problems"]), answer.text
        uploaded = await service.ask("PUT", "/api/v1/scenarios/mine", content=scenario(**DRILL))
        assert "an uploaded scenario names no files, commands or URLs" in uploaded.text


async def test_the_ready_drill_needs_a_target_that_knows_both_sides(inside: MakeInside, tmp_path: Path) -> None:
    """With the target of docs/drill.md it is planned; what a target lacks is said."""
    (example,) = re.findall(
        r"```yaml\n# in service.yaml\n(.*?)```", (ROOT / "docs" / "drill.md").read_text(), re.DOTALL
    )
    whole = yaml.safe_load(example)
    bare = {key: whole["targets"]["gateway"][key] for key in ("url", "environment")}
    async with inside(targets={**whole["targets"], "bare": bare}, outgoing=whole["outgoing"]) as service:
        (tmp_path / "scenarios" / "drill.yaml").write_bytes((ROOT / "scenarios" / "drill.yaml").read_bytes())
        path, body = "/api/v1/scenarios/validate", {"scenario": "drill", "arms": {"gateway": "gateway"}}
        answer = await service.ask("POST", path, "eye", json=body)
        assert answer.status_code == 200, answer.text
        answer = await service.ask("POST", path, "eye", json={**body, "arms": {"gateway": "bare"}})
        assert answer.status_code == 422
        said = " ".join(answer.json()["problems"])
        assert "metrics_urls" in said, said
        assert "served_by_header" in said, said


async def test_kill_switches_and_webhooks_are_connected_to_where_they_were_checked() -> None:
    """I8: what a name resolves to later does not matter, nor what the scenario says it resolves to."""
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.215.14"]

    outgoing = Outgoing(OutgoingKeys(hosts=["*.example.com"]), look_up)
    text = scenario(**{**DRILL, "drill": http("https://Switch.example.com/off"),
                       "canary": {"webhooks": [{"url": "https://hooks.example.com/x"}]}})  # fmt: skip
    assert await resolved(outgoing, text, "drill") == {"switch.example.com": "93.184.215.14"}
    assert await resolved(outgoing, text, "canary") == {"hooks.example.com": "93.184.215.14"}
    assert asked == ["switch.example.com", "hooks.example.com"]
    value: dict[str, Any] = {"drill": http("https://Switch.example.com/off"), "arms": {"a": {}}}
    value["drill"]["switch"]["off"]["resolve"] = {"switch.example.com": "127.0.0.1"}
    pin(value, "drill", {"switch.example.com": "93.184.215.14", "hooks.example.com": "93.184.215.15"})
    assert value["drill"]["switch"]["off"]["resolve"] == {"switch.example.com": "93.184.215.14"}
    adapter = {"drill": {"switch": {"off": {"kind": "adapter", "urls": ["http://s.example.com:1"]}}}, "arms": {"a": {}}}
    pin(adapter, "drill", {"s.example.com": "93.184.215.14"})
    assert adapter["arms"]["a"] == {"resolve": {"s.example.com": "93.184.215.14"}}
