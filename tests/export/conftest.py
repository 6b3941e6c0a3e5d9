"""Hand-made requests, pages and runs; promtool."""

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.clock import Anchor
from loadgen.drive import Attempt, Ledger, Outcome
from loadgen.export import Metrics, RunMetrics
from loadgen.export.tally import ArmHow, TallySetup
from loadgen.observe import Scrape, Scraped
from loadgen.plan import Case, build_plan
from loadgen.record import ArmFacts, Manifest
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.base import CANONICAL, MetricsPage, Sampling, Series

MS, S = 1_000_000, 1_000_000_000
RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"


@pytest.fixture
def promtool(program: Callable[[str], str]) -> str:
    return program("promtool")


@pytest.fixture
def recorded() -> Path:
    """A run directory of two arms, three stages, with failures."""
    return RUN


def make_attempt(chunks: list[tuple[int, int]], **more: Any) -> Attempt:
    """Sent at 1 s, due 2 ms before; `chunks`: (ms after sent, tokens), equal times are one arrival. `task`, `index`,
    `phase` are the case's."""
    at = [S + ms * MS for ms, _ in chunks]
    numbers = {t: i for i, t in enumerate(dict.fromkeys(at))}
    ledger = Ledger(
        array("q", at), array("i", [n for _, n in chunks]), array("i", [9] * len(at)),
        array("i", [numbers[t] for t in at]),
    )  # fmt: skip
    index = more.pop("index", 0)
    case = Case(
        0, more.pop("phase", "measure"), index, f"c{index}", 0, more.pop("task", "code"), 30, 64, 1, 1, index, False,
        more.get("stream", True),
    )  # fmt: skip
    known = [n for _, n in chunks if n > 0]
    fields: dict[str, Any] = {
        "seq": index, "arm": "base", "replica": "http://127.0.0.1:1", "worker": 0, "segment": 0, "case": case,
        "request_id": f"r{index}", "stream": True, "sampling": Sampling(), "max_tokens": 64, "due_ns": S - 2 * MS,
        "concurrency": 1, "sent_ns": S, "headers_ns": S, "first_byte_ns": S, "end_ns": at[-1] if at else S + MS,
        "connect_ns": None, "outcome": Outcome.OK, "error_class": None, "error_status": None, "error_message": None,
        "ledger": ledger, "first_token_ns": at[0] if at else None, "last_token_ns": at[-1] if at else None,
        "first_tokens": known[0] if known else None, "output_len": sum(known) or None, "input_len": 30,
    }  # fmt: skip
    return Attempt(**{**fields, **more})


@pytest.fixture
def attempt() -> Callable[..., Attempt]:
    return make_attempt


def make_setup(**more: Any) -> TallySetup:
    fields: dict[str, Any] = {
        "edges_s": (0.1, 0.2, 0.5),
        "token_edges": (1.0, 2.0, 3.0, 4.0, 5.0), "arms": {"base": ArmHow("step", 4, False)},
        "tasks": {"code": "code"}, "stages": {0: "c2"}, "structured": (False,), "slos": {},
    }  # fmt: skip
    return TallySetup(**{**fields, **more})


@pytest.fixture
def setup() -> Callable[..., TallySetup]:
    return make_setup


def make_page(
    values: dict[str, float], at: tuple[float, ...] = (), *, model: str | None = "m", engine: str = "0",
    started: float | None = None,
) -> MetricsPage:  # fmt: skip
    """`at`: accepted_at by position."""
    series = [Series(n, CANONICAL[n], v, engine=engine, model=model) for n, v in values.items()]
    name = "accepted_at"
    series += [Series(name, CANONICAL[name], v, engine=engine, position=i, model=model) for i, v in enumerate(at)]
    return MetricsPage(tuple(series), (model,) if model else (), (engine,), started)


@pytest.fixture
def page() -> Callable[..., MetricsPage]:
    return make_page


@pytest.fixture
def scrape() -> Callable[..., Scrape]:
    """scrape(at_s, page or None, **fields): asked then, answered 1 ms later."""

    def make(at_s: float, what: MetricsPage | None, **more: Any) -> Scrape:
        at = round(at_s * S)
        fields: dict[str, Any] = {
            "arm": "base", "source": "http://one/metrics", "asked_ns": at, "answered_ns": at + MS,
            "status": Scraped.OK if what else Scraped.UNREACHABLE, "reason": None if what else "refused", "page": what,
        }  # fmt: skip
        return Scrape(**{**fields, **more})

    return make


def make_manifest(arms: tuple[str, ...] = ("base",)) -> Manifest:
    facts = {
        name: ArmFacts(
            replicas=["http://127.0.0.1:1"], metrics_sources=["http://one/metrics"], adapter="vllm", chunk_unit="step",
            model="m", endpoint="completions", capabilities={"version": "0.32.0", "per_request_spec": "detailed"},
            environment={}, facts={}, spec_method="draft_model", k=2, speculation=True,
        )
        for name in arms
    }  # fmt: skip
    return Manifest(
        run_id="run-1", specload_version="0", started="2026-01-01T00:00:00Z", scenario={}, scenario_path=None,
        scenario_sha256="ab" * 32, plan_hash="p", design="one arm", length_model={}, arms=facts, client={},
        anchors=[Anchor(0, 1_700_000_000 * S, 10)],
    )  # fmt: skip


class MakeRun:
    """make_run(load, **scenario keys) -> (Metrics, RunMetrics, Plan)"""

    def __call__(self, load: list[dict[str, Any]], **more: Any) -> tuple[Metrics, RunMetrics, Any]:
        lengths = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "fixed", "value": 4}}
        keys: dict[str, Any] = {
            "version": 1, "name": "t", "environment": "disposable", "arms": {"base": {"url": "http://127.0.0.1:1"}},
            "workload": {"tasks": [{"task_type": t, **lengths} for t in more.pop("tasks", ["code"])]}, "load": load,
        }  # fmt: skip
        scenario = Scenario.model_validate({**keys, **more})
        plan = build_plan(LoadedScenario(scenario, None, "0" * 64, {}))
        metrics = Metrics()
        manifest = make_manifest(tuple(scenario.arms))
        tasks = [task.task_type for task in scenario.workload.tasks]
        return metrics, RunMetrics(metrics, scenario, plan.segments, tasks, manifest, manifest.anchors[0]), plan


@pytest.fixture
def make_run() -> MakeRun:
    return MakeRun()
