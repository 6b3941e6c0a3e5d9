"""The committed dashboards and Grafana's provisioning files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.dashboards_src.__main__ import generated, main
from grafana.dashboards_src.frame import read_back
from grafana.dashboards_src.interpolate import panels, variables
from grafana.dashboards_src.lint import TAG, UID

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "grafana"
NAMES = ["ab.json", "canary.json", "run.json", "sweep.json"]
#: Panels that pictures can be made of without a Grafana server.
KINDS = {"timeseries", "stat", "table", "heatmap", "bargauge"}


def test_the_committed_files_are_what_the_code_makes() -> None:
    assert main(["--check"]) == 0
    assert [path.name for path in generated()] == ["run.json", "ab.json", "sweep.json", "canary.json", "dashboards.md"]


def test_check_names_a_stale_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stale = {path: text + " " if path.name == "run.json" else text for path, text in generated().items()}
    monkeypatch.setattr("grafana.dashboards_src.__main__.generated", lambda: stale)
    assert main(["--check"]) == 1
    assert "grafana/dashboards/run.json: not what" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_grafana_s_own_model_loses_nothing(name: str, committed: dict[str, Any]) -> None:
    """A key that Grafana does not know would be dropped by the way there and back."""
    assert read_back(committed[name]) == committed[name]
    renamed = json.loads(json.dumps(committed[name]).replace('"gridPos"', '"gridpos"'))
    assert read_back(renamed) != renamed


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_of_a_kind_that_can_be_shown_and_fills_its_lines(name: str, committed: dict[str, Any]) -> None:
    lines: dict[int, int] = {}
    for panel in panels(committed[name]):
        assert panel["type"] in KINDS
        lines[panel["gridPos"]["y"]] = lines.get(panel["gridPos"]["y"], 0) + panel["gridPos"]["w"]
    assert set(lines.values()) == {24}


def test_no_other_installation_s_data_source(committed: dict[str, Any]) -> None:
    """G3, G4: a uid or a chosen value of elsewhere shows nothing here."""
    for dashboard in committed.values():
        assert set(re.findall(r'"uid": "([^"]+)"', json.dumps(dashboard))) == {dashboard["uid"], UID}
        assert "${DS_" not in json.dumps(dashboard)
        assert all(not variable.get("current") for variable in variables(dashboard))


def test_they_link_to_each_other(committed: dict[str, Any]) -> None:
    assert len({dashboard["uid"] for dashboard in committed.values()}) == len(NAMES)
    for dashboard in committed.values():
        (link,) = dashboard["links"]
        assert (link["type"], link["tags"], dashboard["tags"]) == ("dashboards", [TAG], [TAG])


def test_the_data_source_knows_the_scrape_interval() -> None:
    """G2: $__rate_interval is made of it."""
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    prometheus = yaml.safe_load((GRAFANA / "prometheus/prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
    assert all("scrape_interval" not in job for job in prometheus["scrape_configs"])
    assert source["url"] == "$PROMETHEUS_URL"


def test_the_dashboards_are_found_where_the_docs_mount_them() -> None:
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/specload.yaml").read_text())["providers"]
    assert not provider["allowUiUpdates"]
    assert f"`{provider['options']['path']}`" in (ROOT / "docs/dashboards.md").read_text()


def test_the_docs_tell_every_panel(committed: dict[str, Any]) -> None:
    page = (ROOT / "docs/dashboards.md").read_text()
    for dashboard in committed.values():
        for panel in panels(dashboard):
            assert f"| {panel['title']} | {panel['description']} |" in page
