"""The rules on what servers really show: each family's recorded page, its counters growing as they stand there."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadgen.export import RULE_FILES, Limits, Windows, rule_file

DATA = Path(__file__).resolve().parents[1] / "data"
STEPS, STEP_S = 60, 15
LOW, ROLLBACK, SILENT = "SpecloadAcceptanceRateLow", "SpecloadRollbackRateHigh", "SpecloadSpecDecodeSilent"
CANARY = "canary"
Series = dict[str, str]


@dataclass(frozen=True)
class Page:
    """`acceptance`, `rollback`: by hand from the file's counters; None: it tells none. `tokens`: the counter of output
    tokens or steps that the page was shortened by, with labels."""

    file: str
    acceptance: float
    rollback: float | None
    tokens: str = ""


PAGES = {
    "vllm": Page("vllm_0.32/metrics_draft.txt", 85 / 256, (64 - 18) / 64),
    "sglang": Page("servers/sglang_0.5.23_metrics.txt", 2.67 / 4, None),
    # 87 rounds of 3 have 261 places for 259 drafted tokens: up to 2 rounds may have been short, and wholly accepted
    "llamacpp": Page("servers/llamacpp_b11434_metrics.txt", 167 / 259, (87 - 42 - 2) / 87),
    "lmdeploy": Page("servers/lmdeploy_0.18_metrics.txt", 9 / 15, (5 - 2) / 5,
                     'lmdeploy:iter_token_latency_count{engine="0",model_name="tiny"}'),
    "trtllm": Page("servers/trtllm_metrics.txt", 160 / 240, (60 - 41) / 60,
                   'trtllm_generation_tokens_total{engine_type="undefined",model_name="undefined"}'),
}  # fmt: skip


def grown(page: Page, instance: str, times: float, silent_after: int = STEPS) -> Series:
    """A quarter of an hour in which all that is counted grows by `times` what the page shows, every 15 s.

    After `silent_after` steps the counters of speculation stand still."""
    text = (DATA / page.file).read_text(encoding="utf-8")
    lines = re.findall(r"^([a-z]\S*?)(?:\{(\S*)\})? (\S+)$", text, re.MULTILINE)
    assert len(lines) >= 10
    if page.tokens:
        name, labels = page.tokens.rstrip("}").split("{")
        lines.append((name, labels, "100"))
    found = {f'up{{job="inference",instance="{instance}"}}': f"1x{STEPS}"}
    for name, labels, value in lines:
        own = f'job="inference",instance="{instance}"'
        series = f"{name}{{{labels},{own}}}" if labels else f"{name}{{{own}}}"
        if re.search(r"_(total|count|sum|bucket)$", name):
            still = silent_after if ":spec_" in name or "_spec_" in name else STEPS
            step = float(value) * times
            rest = f" {still * step:g}x{STEPS - still - 1}" if still < STEPS else ""
            found[series] = f"0+{step:g}x{still - 1}{rest}"
        else:
            found[series] = f"{float(value):g}x{STEPS}"
    return found


@pytest.fixture
def rules(tmp_path: Path) -> Callable[[Limits], tuple[Path, ...]]:
    def write(limits: Limits) -> tuple[Path, ...]:
        folder = tmp_path / "rules"
        folder.mkdir(exist_ok=True)
        for name in RULE_FILES:
            (folder / name).write_text(rule_file(name, Windows(), limits))
        return tuple(folder / name for name in RULE_FILES)

    return write


@pytest.mark.parametrize("family", list(PAGES))
def test_alerts_on_a_recorded_page(
    family: str, holds: Callable[..., None], rules: Callable[[Limits], tuple[Path, ...]]
) -> None:
    """G6, G17, G23: limits just above the page's own acceptance and just below its rollbacks fire, of the busy server
    alone; those on the other side do not. The page is known, so its scrape is no failure."""
    page = PAGES[family]
    series = grown(page, "busy:1", 20) | grown(page, "seldom:1", 0.02) | grown(page, "idle:1", 0)
    rollback = page.rollback if page.rollback is not None else 0.5
    near = 0.01
    beyond = rules(Limits(acceptance=page.acceptance + near, rollback=rollback - near))
    expected = {(LOW, CANARY): 1} | ({(ROLLBACK, CANARY): 1} if page.rollback is not None else {})
    holds(series, "14m", expected, 60, beyond)
    within = rules(Limits(acceptance=page.acceptance - near, rollback=rollback + near))
    holds(series, "14m", {}, 60, within)


@pytest.mark.parametrize("family", list(PAGES))
def test_silence_on_a_recorded_page(
    family: str, holds: Callable[..., None], rules: Callable[[Limits], tuple[Path, ...]]
) -> None:
    """G17: the counters of speculation stand still on one of two servers, while tokens flow on both."""
    page = PAGES[family]
    series = grown(page, "off:1", 20, silent_after=8) | grown(page, "on:1", 20)
    holds(series, "14m", {(SILENT, CANARY): 1}, 60, rules(Limits(acceptance=0, rollback=1)))
