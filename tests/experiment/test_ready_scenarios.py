"""Two of the ready scenarios, shortened, on the rehearsal engine: a run of both arms, a sweep that starts its servers."""

from __future__ import annotations

import socket
from pathlib import Path

from loadgen.control import Live
from loadgen.experiment import RunOptions, SweepOptions, run_scenario, run_sweep
from loadgen.plan import Plan, Segment
from loadgen.scenario import load_scenario
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server_sync

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SPEED = 10.0


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


async def test_code_is_run_and_judged(tmp_path: Path) -> None:
    short = ["repeats=1", "load.0.cases=8", "load.1.cases=12", "warmup.warmup_requests=2", "scrape.interval_s=0.5"]
    with (
        rehearsal_server_sync(RehearsalConfig(model="8b", speed=SPEED)) as baseline,
        rehearsal_server_sync(RehearsalConfig(model="8b", speed=SPEED, spec="draft:k=3")) as candidate,
    ):
        arms = {"baseline": baseline, "candidate": candidate}
        loaded = load_scenario(SCENARIOS / "code.yaml", short, arms)
        result = await run_scenario(loaded, RunOptions(tmp_path, workers=1), Quiet())
    assert result.state == "finished"
    assert result.verdict is not None
    limits = {t.name for t in result.verdict.thresholds}
    assert len(limits) == len(loaded.scenario.thresholds), "each threshold is judged"
    assert all(arm.overall.requests.outcomes == {"ok": 20} for arm in result.summary.arms.values())


async def test_draft_length_starts_its_servers_and_leaves_a_page(tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    short = [
        "sweep.over.k=[0, 3]", "sweep.over.concurrency=[1]", "sweep.repeats=1", "load.0.cases=6", "sweep.rounds=2",
        f"sweep.launch.options={{model: 8b, draft_model: 0.5b, hardware: h100, speed: {SPEED}}}",
        "warmup.warmup_requests=2", "scrape.interval_s=0.5",
    ]  # fmt: skip
    loaded = load_scenario(SCENARIOS / "draft_length.yaml", short, {"server": f"http://127.0.0.1:{port}"})
    result = await run_sweep(loaded, SweepOptions(tmp_path, tuple(short), workers=1), Quiet())
    assert result.state == "finished"
    assert {p.values["k"] for p in result.summary.points} == {0, 3}
    page = (result.path / "sweep.html").read_text(encoding="utf-8")
    assert "What the sweep says" in page
    assert "specload sweep draft_length.yaml --set" in page
    assert page.count("<figure") >= 3
