"""The committed files are what the generator writes, are taken by Prometheus and Alertmanager, and have runbooks."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.export import FAMILIES, RULE_FILES, rule_file
from loadgen.export.rules.alerts import seconds

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
#: Of histograms, and of scrape targets.
OTHER_LABELS = ("le", "job", "instance")


def alerts() -> list[dict[str, Any]]:
    groups = [group for name in RULE_FILES for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.mark.parametrize("name", RULE_FILES)
def test_committed_rules_are_the_generated_ones(name: str) -> None:
    assert (PROMETHEUS / name).read_text(encoding="utf-8") == rule_file(name), "run: python scripts/make_rules.py"


def test_prometheus_and_alertmanager_take_the_files(asked: Callable[..., str]) -> None:
    asked("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)
    asked("promtool", "check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")
    asked("amtool", "check-config", "alertmanager.yml")


def test_scrapes_disturb_no_server() -> None:
    """G22: five seconds apart at least, given up before the next is due; rates see four of them."""
    times = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["global"]
    interval, timeout = (int(times[name].removesuffix("s")) for name in ("scrape_interval", "scrape_timeout"))
    assert interval >= 5
    assert timeout < interval
    windows = [
        seconds(w) for name in RULE_FILES for w in re.findall(r"rate\([^\[]+\[(\w+)\]", (PROMETHEUS / name).read_text())
    ]
    assert min(windows) >= 4 * interval


def test_every_alert_has_its_runbook_and_links_to_it() -> None:
    own = {"SpecloadTTFTHigh"}  # of `specload alerts`
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in alerts()} | own
    for rule in alerts():
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert (ROOT / rule["annotations"]["runbook_url"]).is_file()


@pytest.mark.parametrize("file", sorted(RUNBOOKS.glob("*.md")), ids=lambda file: file.stem)
def test_runbooks_have_their_parts(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"# {file.stem}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    for link in re.findall(r"\]\((\w+\.md)\)", text):
        assert (RUNBOOKS / link).is_file()


def test_alerts_keep_the_conventions() -> None:
    for rule in alerts():
        assert re.fullmatch(r"Specload[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert "{{" not in rule["annotations"]["summary"]


def test_rates_take_counters_and_no_ratio_is_averaged() -> None:
    """G8, D2, and sums before division."""
    for name in RULE_FILES:
        text = (PROMETHEUS / name).read_text()
        for metric in re.findall(r"\brate\(([a-z][\w:]*)", text):
            assert re.search(r"_(total|sum|count|bucket)$", metric), metric
        assert "_created" not in text
        assert not re.search(r"avg\w* ?(by|without)[^(]*\([^)]*\) ?\(\w*specload:\w+:ratio", text)


def test_the_table_of_alerts_names_them_all() -> None:
    """docs/alerts.md: severities and scopes of every alert, and no other."""
    table: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| \[(Specload\w+)\]\(runbooks/\1\.md\) \| ([a-z, ]+) \| ([a-z, ]+) \|", line)
        if row:
            table[row[1]] = {*row[2].split(", "), *row[3].split(", ")}
    found: dict[str, set[str]] = {}
    for rule in alerts():
        found.setdefault(rule["alert"], set()).update((rule["labels"]["severity"], rule["labels"]["scope"]))
    assert table == found


def test_a_run_in_progress_calls_nobody(asked: Callable[..., str]) -> None:
    route = ("config", "routes", "test", "--config.file=alertmanager.yml")
    assert asked("amtool", *route, "alertname=SpecloadRunInProgress").strip() == "nobody"
    assert asked("amtool", *route, "alertname=SpecloadSpecDecodeSilent").strip() == "team"


def test_rules_name_only_metrics_that_we_export() -> None:
    """Names and labels of our own metrics are those of docs/metrics.md."""
    known = {family.full_name: family for family in FAMILIES.values()}
    for name in RULE_FILES:
        for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"]:
            for rule in group["rules"]:
                for metric, labels in re.findall(r"\b(specload_\w+)(?:\{([^}]*)\})?", rule["expr"]):
                    family = known[re.sub(r"_(bucket|count|sum)$", "", metric)]
                    used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", labels or ""))
                    assert used <= {*family.labels, *OTHER_LABELS}, (metric, used)


def test_our_names_in_the_alerts_are_the_recorded_ones() -> None:
    recorded, used = set(), set()
    for name in RULE_FILES:
        for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"]:
            recorded |= {rule["record"] for rule in group["rules"] if "record" in rule}
            used |= {one for rule in group["rules"] for one in re.findall(r"specload:\w+:\w+", rule["expr"])}
    assert used <= recorded
