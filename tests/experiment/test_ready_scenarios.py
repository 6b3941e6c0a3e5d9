"""A ready scenario, shortened, on the rehearsal engine: a sweep that starts its servers and leaves its page."""

from __future__ import annotations

import socket
from pathlib import Path

from loadgen.control import Live
from loadgen.experiment import SweepOptions, run_sweep
from loadgen.plan import Plan, Segment
from loadgen.scenario import load_scenario

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


class Quiet:
    """A sweep's watch, and the progress of its runs."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begun(self, folder: Path) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)

    def point(self) -> Quiet:
        return self

    def point_over(self) -> None: ...

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...


async def test_draft_length_starts_its_servers_and_leaves_a_page(tmp_path: Path, forked_children: None) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    short = [
        "sweep.over.k=[0, 3]", "sweep.over.concurrency=[1]", "sweep.repeats=1", "load.0.cases=4", "sweep.rounds=2",
        "sweep.launch.options={model: 8b, draft_model: 0.5b, hardware: h100, speed: 6}",
        "warmup.warmup_requests=2", "scrape.interval_s=0.5",
    ]  # fmt: skip
    loaded = load_scenario(SCENARIOS / "draft_length.yaml", short, {"server": f"http://127.0.0.1:{port}"})
    result = await run_sweep(loaded, SweepOptions(tmp_path, overrides=tuple(short), workers=1), Quiet())
    assert result.state == "finished"
    assert {p.values["k"] for p in result.summary.points} == {0, 3}
    reasons = [p.reason or "" for p in result.summary.points if p.state != "done"]
    assert all(reason.startswith("invalid: ") for reason in reasons), (
        "no time for the client, which is said, at the most"
    )
    page = (result.path / "sweep.html").read_text(encoding="utf-8")
    assert "What the sweep says" in page
    assert "specload sweep draft_length.yaml --set" in page
    assert page.count("<figure") + page.count("No figure «") >= 10
