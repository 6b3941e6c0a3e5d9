"""The HTML report as a document: its parts, absence with its reason, hostile names, size, and nothing from outside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from loadgen.analyze import Absent, Finding, Summary
from loadgen.cli.entry import app
from loadgen.experiment import judge_run
from loadgen.experiment.judging import judged_run
from loadgen.record import Manifest, open_run
from loadgen.report import RunProgress, render_html
from loadgen.report.figures import CATEGORIES, SERIES, figures, whole
from loadgen.report.html_tables import ROWS

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028\u202e\"'&{{7*7}}"
VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """Elements, texts and the contents of scripts. Fails where an element is not closed by its own end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headings: list[tuple[str, str]] = []
        self.scripts: dict[str, str] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            name = self.elements[-1][1].get("id") or "code"
            self.scripts[name] = self.scripts.get(name, "") + data
            return
        self.texts.append(data)
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            tag, text = self.headings[-1]
            self.headings[-1] = (tag, text + data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())

    def having(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def run() -> tuple[Summary, Manifest]:
    recorded = open_run(RUN)
    return judge_run(recorded).summary, recorded.manifest


@pytest.fixture(scope="module")
def html(run: tuple[Summary, Manifest]) -> str:
    return render_html(*run)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def renamed(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("candidate", HOSTILE).replace("short_qa", HOSTILE)
    if isinstance(value, dict):
        by_arm = not value.keys() & {"aggregate", "sentence", "stage"}
        return {renamed(key) if by_arm else key: renamed(item) for key, item in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


def test_the_verdict_comes_first_then_validity_then_the_rest(page: Page) -> None:
    assert [text for tag, text in page.headings if tag == "h2"] == [
        "Verdict: inconclusive", "This measurement is doubtful", "Findings", "Figures", "Comparison", "Arms",
        "Resources and cost", "Checks", "Environment", "Conditions", "How to reproduce",
    ]  # fmt: skip
    assert page.headings[0][0] == "h1"


def test_it_says_what_the_summary_says(page: Page, run: tuple[Summary, Manifest]) -> None:
    """F11: validity, failures and conditions beside the numbers."""
    summary, manifest = run
    assert isinstance(summary.verdict, dict)
    assert isinstance(summary.findings, list)
    said = [*summary.validity.reasons, *summary.verdict["reasons"], *(f.text for f in summary.findings)]
    said += [r.sentence for r in whole(summary)]
    said += [manifest.plan_hash, manifest.scenario_sha256, "specload run small.yaml", "vllm 0.32"]
    for words in said:
        assert " ".join(words.replace("\u00a0", " ").split()) in page.text


def test_what_is_not_known_is_a_dash(run: tuple[Summary, Manifest]) -> None:
    """C12, F2. Facts are left out here: servers say None of themselves."""
    summary, manifest = run
    arms = {name: facts.model_copy(update={"environment": {}}) for name, facts in manifest.arms.items()}
    bare = summary.model_copy(update={"environment": []})
    page = Page(render_html(bare, manifest.model_copy(update={"arms": arms})))
    assert "None" not in page.text
    assert "nan" not in page.text.split()
    assert "needs at least 100 samples, there are" in page.text
    assert len(page.having("sup")) > len([1 for tag, a in page.elements if tag == "ol"]) > 0


def test_figures_take_their_numbers_from_the_summary(page: Page, run: tuple[Summary, Manifest]) -> None:
    summary, _ = run
    drawn = {f["id"]: f for f in json.loads(page.scripts["data"])}
    panel = drawn["speedup"]["panels"][0]
    points = panel["series"][0]["points"]
    wanted = [(r.speedup.value.value, r.speedup.value.low, r.speedup.value.high) for r in whole(summary)]
    assert [(p["y"], p["low"], p["high"]) for p in points] == wanted
    assert (panel["categories"], panel["reference"]) == (["c2", "r6"], 1.0)
    at_c2 = drawn["ttft_s"]["panels"][0]["series"]
    metric = whole(summary)[0].metric("ttft_s", "p50")
    assert metric is not None
    assert [s["points"][0]["y"] for s in at_c2] == [metric.baseline.value, metric.candidate.value]
    assert set(drawn) == {f.id for f in figures(summary)} == {
        "speedup", "decomposition", "ttft_s", "tpot_s", "total_time_s", "throughput", "acceptance", "positions",
        "rollback", "outcomes", "load",
    }  # fmt: skip


@pytest.mark.parametrize(("all_sent", "bounds"), [(24, [0.25, 0.75]), (25, [None, None])])
def test_an_arm_by_itself_has_the_intervals_of_its_own_view(run, all_sent: int, bounds: list[float | None]) -> None:
    """F10: those of successful requests are not the interval of a percentile that counts failures."""
    summary, manifest = run
    arm = summary.arms["baseline"]
    d = arm.overall.stream.ttft_s
    assert d.all_sent is not None
    view = d.all_sent.model_copy(update={"n": all_sent, "p50": 0.5})
    found = d.model_copy(update={"n": 24, "p50": 0.5, "intervals": {"p50": (0.25, 0.75)}, "all_sent": view})
    stream = arm.overall.stream.model_copy(update={"ttft_s": found})
    alone = arm.model_copy(update={"overall": arm.overall.model_copy(update={"stream": stream}), "by": []})
    update = {"arms": {"baseline": alone}, "comparison": Absent(reason="one arm"), "decomposition": []}
    page = Page(render_html(summary.model_copy(update=update), manifest))
    drawn = {f["id"]: f for f in json.loads(page.scripts["data"])}
    point = drawn["ttft_s"]["panels"][0]["series"][0]["points"][0]
    assert [point["y"], point["low"], point["high"]] == [0.5, *bounds]
    assert ("500 ms [250 ms, 750 ms]" in page.text) == (bounds[0] is not None)


def test_every_figure_has_its_numbers_as_a_table(page: Page, run: tuple[Summary, Manifest]) -> None:
    panels = sum(len(f.panels) for f in figures(run[0]))
    plots = [d for d in page.having("div") if d.get("class") == "plot"]
    assert len(plots) == panels
    assert all(d.get("role") == "img" and d.get("aria-label") for d in plots)
    assert len(page.having("caption")) == len(page.having("table")) > panels
    assert all(th.get("scope") for th in page.having("th"))


def test_nothing_comes_from_outside(page: Page) -> None:
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} {name}"
            if name in ("src", "href", "action"):
                assert value is not None
                assert value.startswith("#") or value == "data:,", f"{tag} {name}={value}"
    policy = next(m["content"] for m in page.having("meta") if "Content-Security-Policy" in str(m.get("http-equiv")))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy.replace("http-equiv", "")
    assert "'unsafe-eval'" not in policy
    assert "unsafe" not in policy.split("style-src")[0]


def test_the_policy_names_exactly_the_scripts_that_run(page: Page) -> None:
    plotly = gzip.decompress(base64.b64decode(page.scripts["plotly"])).decode()
    assert "plotly.js v" in plotly[:200]
    policy = next(m["content"] for m in page.having("meta") if m.get("http-equiv")) or ""
    for script in (page.scripts["code"], plotly):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2


def test_hostile_names_are_text(run: tuple[Summary, Manifest]) -> None:
    """Server and scenario text is neither markup nor script nor template, and turns no line around."""
    summary = Summary.model_validate(renamed(run[0].model_dump(mode="json")))
    manifest = Manifest.model_validate(renamed(run[1].model_dump(mode="json")))
    html = render_html(summary, manifest)
    page = Page(html)
    assert len(page.having("script")) == 3
    assert page.having("img") == []
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>" in page.text
    assert "{{7*7}}" in page.text
    assert "\u2028" not in html
    assert "\u202e" not in html
    assert "<" not in page.scripts["data"]
    names = {s["name"] for f in json.loads(page.scripts["data"]) for p in f["panels"] for s in p["series"]}
    assert any(name.startswith("</script>") for name in names)


def test_absent_parts_say_why(run: tuple[Summary, Manifest]) -> None:
    update = {name: Absent(reason=f"no {name} because of the test") for name in ("verdict", "comparison", "findings")}
    page = Page(render_html(run[0].model_copy(update=update), run[1]))
    assert next(text for tag, text in page.headings if tag == "h2") == "No verdict"
    for name in update:
        assert f"no {name} because of the test" in page.text
    drawn = {f["id"]: f for f in json.loads(page.scripts["data"])}
    assert "speedup" not in drawn
    assert "decomposition" in drawn, "pooled, without intervals"
    assert drawn["acceptance"]["panels"][0]["categories"] == ["code", "short_qa"]
    assert "needs at least" in page.text, "why there is no percentile"


def test_a_minimal_verdict_is_enough(run: tuple[Summary, Manifest]) -> None:
    """verdict.json of other versions: only what its contract names."""
    verdict = {
        "verdict": "fail", "reasons": ["too slow"], "run_id": "r",
        "thresholds": [{"name": "speedup >= 1", "value": 0.81, "limit": 1.0, "ok": False, "n": 24,
                        "interval": [0.7, None]}],
    }  # fmt: skip
    page = Page(render_html(run[0].model_copy(update={"verdict": verdict}), run[1]))
    assert "✗ fail speedup >= 1 0.810 [0.700, ∞] 1.00 24" in page.text


def test_a_run_without_any_success_has_a_page(run: tuple[Summary, Manifest]) -> None:
    arms = {name: arm.model_copy(update={"by": []}) for name, arm in run[0].arms.items()}
    update = {"arms": arms, "comparison": Absent(reason="one arm"), "decomposition": [], "environment": []}
    page = Page(render_html(run[0].model_copy(update=update), run[1]))
    assert "No captured fact differs between arms." in page.text


def test_a_large_run_stays_small_and_says_what_it_leaves_out(run: tuple[Summary, Manifest]) -> None:
    """F13: a 100,000-request shape: many loads, tasks and segments, four candidates, thousands of checks."""
    summary, manifest = run
    arm = summary.arms["candidate"]
    group = next(g for g in arm.by if g.stage and not g.task_type)
    groups = [
        group.model_copy(update={"stage": f"c{n}", "concurrency": n, "task_type": task, "output_segment": segment})
        for n in range(1, 41)
        for task in (None, *(f"task {i}" for i in range(12)))
        for segment in (None, "0-31", "32-127")
    ]
    arms = {f"arm {i}": arm.model_copy(update={"by": groups}) for i in range(12)}
    row = whole(summary)[0]
    rows = [
        row.model_copy(update={"stage": f"c{n}", "concurrency": n, "candidate": f"arm {i}", "task_type": task})
        for i in range(1, 12)
        for n in range(1, 41)
        for task in (None, *(f"task {i}" for i in range(12)))
    ]
    findings = [
        Finding(
            id="f", text=f"finding {i} " + "x" * 300, numbers={"a": 1.5}, conditions={"stage": "c1"}, severity="bad"
        )
        for i in range(2000)
    ]
    update = {"arms": arms, "comparison": rows, "findings": findings, "reconciliation": summary.reconciliation * 500}
    html = render_html(summary.model_copy(update=update), manifest)
    assert len(html.encode()) < 4_500_000
    page = Page(html)
    for words in (f"The first {CATEGORIES} of 40 places of «load» are shown; all of them stand in summary.json.",
                  f"The first {SERIES} of 12 series are shown", f"The first {ROWS} of 440 rows are shown",
                  "The first 60 of 2000 findings are shown"):  # fmt: skip
        assert words in page.text


def test_the_same_run_gives_the_same_page(html: str, run: tuple[Summary, Manifest]) -> None:
    assert render_html(*run) == html
    assert len(html.encode()) < 2_500_000


def test_report_html_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(RUN), "--format", "html", "--file", str(file)])
    assert result.exit_code == 0, result.output
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_run_leaves_its_page_and_never_ends_by_it(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = RunProgress(Console())
    judged_run(run_copy, None, said)
    assert (run_copy / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (run_copy / "report.html").unlink()
    (run_copy / "summary.json").unlink()
    (run_copy / "report.html").mkdir()
    judged_run(run_copy, None, said)
    assert (run_copy / "summary.json").exists()
    assert "report.html cannot be written" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def run_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))
