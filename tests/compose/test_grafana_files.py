"""Grafana's files against what compose mounts. No Grafana runs here: tests/dashboards has the dashboards' own tests."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROVISIONING = ROOT / "grafana" / "provisioning"


def provisioned(kind: str, key: str) -> list[dict[str, Any]]:
    """Entries of every file of grafana/provisioning/KIND."""
    files = [yaml.safe_load(file.read_text()) for file in sorted((PROVISIONING / kind).glob("*.y*ml"))]
    assert files
    assert all(file["apiVersion"] == 1 for file in files)
    return [entry for file in files for entry in file[key]]


def test_the_data_source_is_the_prometheus_of_compose(services: dict[str, dict[str, Any]]) -> None:
    """G2, G3: a fixed uid; `timeInterval` is the scrape interval, which $__rate_interval is made of."""
    environment = services["grafana"]["environment"]
    (source,) = provisioned("datasources", "datasources")
    url = re.sub(r"\$\{?(\w+)\}?", lambda found: environment[found[1]], source["url"])
    host, port = url.removeprefix("http://").split(":")
    assert port in {text.split(":")[-1] for text in services[host]["ports"]}
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert re.fullmatch(r"[a-z-]+", source["uid"])
    scrape = yaml.safe_load((ROOT / "grafana/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape
    assert "secureJsonData" not in source


def test_dashboards_are_read_from_where_compose_mounts_them(services: dict[str, dict[str, Any]]) -> None:
    mounted = {target: source for source, target, *_ in (v.split(":") for v in services["grafana"]["volumes"])}
    assert mounted["/etc/grafana/provisioning"] == "./grafana/provisioning"
    (provider,) = provisioned("dashboards", "providers")
    assert provider["type"] == "file"
    assert provider["allowUiUpdates"] is False
    files = sorted((ROOT / mounted[provider["options"]["path"]]).glob("*.json"))
    dashboards = [json.loads(file.read_text()) for file in files]
    assert dashboards
    assert len({dashboard["uid"] for dashboard in dashboards}) == len(files)
