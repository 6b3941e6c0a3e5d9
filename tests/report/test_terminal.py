"""The terminal report of a recorded run: what must be read first, units, n, sources, and nothing cut."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from loadgen.analyze import ArmResources, N, Resources, ResourceUse, Summary, analyze
from loadgen.record import open_run
from loadgen.report import render_terminal
from loadgen.report.attention import attention
from loadgen.report.resources import markdown_lines

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"


@pytest.fixture(scope="module")
def summary() -> Summary:
    return analyze(open_run(RUN))


def shown(summary: Summary, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_terminal(summary, console, details=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\u00a0", " ")


def test_failures_come_first_with_their_cause(summary: Summary) -> None:
    """F10, F11: survivors' latencies are never shown without saying so."""
    text = shown(summary)
    assert text.index("3 of 40 requests did not succeed") < text.index("tokens per step") < text.index("By load")
    assert "3 × stream_error" in text
    assert "an arm's own latencies are of the others" in text


def test_validity_comes_right_after_what_stands_out(summary: Summary) -> None:
    """F11: before any number, whether it is the server's."""
    lines = shown(summary, 400).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("This measurement is "))
    assert lines[at] == "This measurement is doubtful: read its numbers with these reasons in mind."
    assert lines[at - 1].startswith("! ")
    assert [line.strip() for line in lines[at + 1 : at + 1 + len(summary.validity.reasons)]] == summary.validity.reasons


@pytest.mark.parametrize(("state", "words"), [("valid", "is valid."), ("invalid", "its numbers are not the server's")])
def test_the_other_states(summary: Summary, state: str, words: str) -> None:
    validity = summary.validity.model_copy(update={"state": state, "reasons": []})
    assert words in shown(summary.model_copy(update={"validity": validity}))


def test_every_stage_and_arm_has_its_row_with_n(summary: Summary) -> None:
    text = shown(summary)
    for row in ("c2      baseline    24", "c2      candidate   21", "r6      baseline    15", "r6      candidate   15"):
        assert row in text


def test_streaming_and_whole_answers_are_apart(summary: Summary) -> None:
    assert "Not streamed: whole response time" in shown(summary)


def test_what_is_not_known_is_a_dash_and_explained(summary: Summary) -> None:
    """C12, F2: no p95 of 15 samples."""
    text = shown(summary)
    assert "20.9 / –" in text
    assert "too few samples (p95 needs 20, p99 100)" in text
    assert "None" not in text
    assert "nan" not in text


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_number_is_cut_at_any_width(summary: Summary, width: int) -> None:
    text = shown(summary, width)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_capped_run_says_that_throughput_is_the_caps(summary: Summary) -> None:
    """E7: the load asked for was not delivered, and the report opens with it."""
    arm = summary.arms["baseline"]
    requests = arm.overall.requests.model_copy(update={"capped_rate": 14})
    overall = arm.overall.model_copy(update={"requests": requests})
    capped = summary.model_copy(update={"arms": {"baseline": arm.model_copy(update={"overall": overall})}})
    assert any(
        "14 of 40 requests were held back by safety.max_requests_per_second" in line for line in attention(capped)
    )
    assert not any("held back" in line for line in attention(summary))


def test_an_unfinished_run_says_why(summary: Summary) -> None:
    conditions = {**summary.conditions, "stop_reason": "interrupted by the user"}
    unfinished = summary.model_copy(update={"finished": False, "conditions": conditions})
    assert "interrupted by the user" in attention(unfinished)[0]


def test_a_task_without_drafts_is_named(summary: Summary) -> None:
    arm = summary.arms["candidate"]
    groups = []
    for g in arm.by:
        if g.task_type == "code":
            rounds = g.speculation.rounds.model_copy(update={"value": 0.0})
            g = g.model_copy(update={"speculation": g.speculation.model_copy(update={"rounds": rounds})})
        groups.append(g)
    silent = summary.model_copy(update={"arms": {"candidate": arm.model_copy(update={"by": groups})}})
    assert "candidate: not one draft was made for code; speculation does nothing for it here." in attention(silent)


def test_resources_and_cost_are_a_table_where_anything_is_known(summary: Summary) -> None:
    """Columns that nothing is known of are not there; each arm has its price and its bounds."""
    assert "Resources and cost" not in shown(summary)
    use, arm = priced(summary)
    text = shown(summary.model_copy(update={"resources": Resources(arms={"baseline": arm})}), 160)
    table = text[text.index("Resources and cost") :].split("\n\n")[0]
    assert "cost per 1M tokens" in table
    assert "DRAM active" not in table
    assert "71.0 GiB" in table
    assert "6.00 [5.00, 7.00]" in table
    assert use.dram_active.reason == "NVML does not tell it"


def test_markdown_has_the_same_table(summary: Summary) -> None:
    _, arm = priced(summary)
    made = markdown_lines(Resources(arms={"base`line": arm}), lambda t: f"`{t.replace('`', chr(39))}`", str)
    assert made[3].startswith("| load | arm | GPU memory peak | J/token |")
    assert made[5].startswith("| `c2` | `base'line` | 71.0\u00a0GiB | 6.00 [5.00,\u00a07.00] |")
    assert markdown_lines(summary.resources, str, str) == []


def priced(summary: Summary) -> tuple[ResourceUse, ArmResources]:
    """The recorded run's baseline, as if a GPU had been looked at."""
    arm = summary.resources.arms["baseline"]
    exact = N(value=71.0 * 2**30, low=71.0 * 2**30, high=71.0 * 2**30, n=5, source="telemetry")
    told = {
        "memory_peak_bytes": exact,
        "joules_per_output_token": N(value=6.0, low=5.0, high=7.0, n=5, source="telemetry"),
        "dram_active": N(value=None, n=0, source="none", reason="NVML does not tell it"),
        "cost_per_million_output_tokens": N(value=2.5, low=2.0, high=3.0, n=5, source="chunk"),
    }
    use = arm.stages[0].model_copy(update=told)
    return use, arm.model_copy(update={"sources": ["nvml"], "overall": use, "stages": [use]})
