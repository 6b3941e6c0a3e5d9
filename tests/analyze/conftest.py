"""A builder of hand-made runs: what a run directory would give, with every stamp chosen by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.analyze import G, Summary, analyze
from loadgen.drive import Accounting
from loadgen.observe import Scrape, Scraped
from loadgen.record import HEALTH, REQUESTS, ArmFacts, Idle, Manifest, PhaseRecord, RunData
from server_adapters.base import CANONICAL, MetricsPage, Series
from server_adapters.rehearsal import (
    TASK_TYPES,
    Case,
    EngineConfig,
    Models,
    Record,
    SamplingParams,
    SimulationPlan,
    Stage,
    corpus_cases,
    load_models,
    simulate,
)

#: all times of the tests are seconds after this CLOCK_MONOTONIC instant
ORIGIN_NS = 1_000_000_000_000

Chunks = Sequence[tuple[float, int | None]]


def ns(at_s: float) -> int:
    return ORIGIN_NS + round(at_s * 1e9)


class Run:
    """Collects arms, segments, requests, scrapes and health samples of one run."""

    def __init__(self) -> None:
        self.arms: dict[str, ArmFacts] = {}
        self.phases: list[PhaseRecord] = []
        self.rows: list[dict[str, Any]] = []
        self.scrapes: list[Scrape] = []
        self.health: list[dict[str, Any]] = []
        self.scenario: dict[str, Any] = {
            "name": "hand-made",
            "objective": "latency",
            "repeats": 1,
            "seed": 0,
            "slos": {"ttft_s": None, "tpot_s": None, "total_time_s": None},
            "workload": {"tasks": [{"task_type": "code", "prompts": "code.jsonl", "json_schema": False}]},
        }
        self.state = "finished"

    def arm(self, name: str = "candidate", **facts: Any) -> None:
        base: dict[str, Any] = {
            "replicas": ["http://127.0.0.1"],
            "metrics_sources": ["http://127.0.0.1/metrics"],
            "adapter": "vllm",
            "chunk_unit": "step",
            "model": "tiny",
            "endpoint": "completions",
            "capabilities": {"counts_artefact": False, "max_model_len": 4096, "version": "0.32.0"},
            "environment": {"engine": "vllm"},
            "facts": {"gpu": "none"},
            "spec_method": "draft_model",
            "k": 4,
            "speculation": True,
        }
        self.arms[name] = ArmFacts(**{**base, **facts})

    def segment(
        self,
        number: int = 0,
        *,
        arm: str = "candidate",
        start: float = 0.0,
        full: float | None = 0.0,
        load_end: float | None = 1.0,
        end: float | None = 1.0,
        idle: bool | None = True,
        **labels: Any,
    ) -> None:
        if not self.arms.get(arm):
            self.arm(arm)
        base: dict[str, Any] = {
            "phase": "measure",
            "stage": "one",
            "stage_index": 0,
            "repeat_idx": 0,
            "block": 0,
            "executor": "concurrency",
            "concurrency": 1,
            "rate_per_s": None,
        }
        edge = Idle(idle, None if idle is not None else "no metrics", 0.0)
        times = {"full_ns": full, "load_end_ns": load_end, "ended_ns": end}
        self.phases.append(
            PhaseRecord(
                segment=number,
                arm=arm,
                started_ns=ns(start),
                idle_before=edge,
                idle_after=edge if end is not None else None,
                **{key: None if at is None else ns(at) for key, at in times.items()},
                **{**base, **labels},
            )
        )

    def request(
        self,
        chunks: Chunks = (),
        *,
        sent: float = 0.0,
        due: float | None = None,
        end: float | None = None,
        segment: int = 0,
        arm: str = "candidate",
        arrivals: Sequence[int] | None = None,
        **columns: Any,
    ) -> None:
        """One request; `chunks`: (seconds after `sent`, tokens or None). Lengths follow from the chunks."""
        phase = next(p for p in self.phases if p.segment == segment)
        known = [tokens for _, tokens in chunks]
        total = sum(known) if None not in known else None  # type: ignore[arg-type]
        last = sent + chunks[-1][0] if chunks else None
        stamp = {"first_token_ns": sent + chunks[0][0], "last_token_ns": last} if chunks else {}
        row: dict[str, Any] = {
            "run_id": "r1",
            "arm": arm,
            "phase": phase.phase,
            "repeat_idx": phase.repeat_idx,
            "seq": len(self.rows),
            "case_id": f"c{len(self.rows)}",
            "task_type": "code",
            "request_id": f"q{len(self.rows)}",
            "stream": True,
            "input_len": 100,
            "output_len": total,
            "max_tokens": 1000,
            "temperature": 0.0,
            "draft_len": self.arms[arm].k,
            "concurrency": 1,
            "due_ns": ns(sent if due is None else due),
            "sent_ns": ns(sent),
            "end_ns": ns(end if end is not None else last if last is not None else sent),
            "outcome": "ok",
            "chunk_times_s": [at for at, _ in chunks],
            "chunk_tokens": known,
            "segment": segment,
            "stage": phase.stage,
            "stage_index": phase.stage_index,
            "stage_concurrency": phase.concurrency,
            "chunk_unit": self.arms[arm].chunk_unit,
            "first_tokens": (known[0] if known[0] is not None else 1) if chunks else None,
            "first_tokens_assumed": known[0] is None if chunks else None,
            "arrival_no": list(arrivals) if arrivals is not None else list(range(len(chunks))),
            "sampling": orjson.dumps({"temperature": 0.0, "ignore_eos": False, "min_tokens": 0}).decode(),
            **{name: ns(at) for name, at in stamp.items() if at is not None},
        }
        row["first_answer_ns"] = row.get("first_token_ns")
        self.rows.append({**row, **columns})

    def whole(self, output_len: int | None, *, sent: float = 0.0, end: float = 1.0, **columns: Any) -> None:
        """A non-streaming request."""
        lists = dict.fromkeys(("chunk_times_s", "chunk_tokens", "arrival_no", "first_answer_ns"))
        self.request((), sent=sent, end=end, **{"stream": False, "output_len": output_len, **lists, **columns})

    def speculated(self, steps: Sequence[tuple[int, int]], detailed: bool = True, k: int = 4) -> dict[str, Any]:
        """Columns of a response's statistics; `steps`: (accepted, drafted) of every round."""
        histogram = [sum(a == j for a, _ in steps) for j in range(k + 1)]
        rolled = sum(a < d for a, d in steps)
        return {
            "spec_source": "per_request",
            "verify_rounds": len(steps),
            "drafted_tokens": sum(d for _, d in steps),
            "accepted_tokens": sum(a for a, _ in steps),
            "accepted_histogram": histogram,
            "draft_len": k,
            "rollback_count": rolled if detailed else None,
            "rollback_low": rolled if detailed else None,
            "rollback_high": rolled if detailed else None,
            "per_step_accepted": [a for a, _ in steps] if detailed else None,
            "per_step_drafted": [d for _, d in steps] if detailed else None,
        }

    def scrape(
        self,
        at: float,
        *,
        arm: str = "candidate",
        edge: str | None = None,
        segment: int | None = None,
        accepted_at: Sequence[float] | None = None,
        finished: float | None = None,
        **values: float,
    ) -> None:
        """One page, 1 ms long, that ends (start edge) or begins (end edge) at `at`."""
        series = [Series(name, CANONICAL[name], value, engine="0", model="tiny") for name, value in values.items()]
        series += [
            Series("accepted_at", CANONICAL["accepted_at"], value, engine="0", position=j, model="tiny")
            for j, value in enumerate(accepted_at or ())
        ]
        if finished is not None:
            series.append(
                Series(
                    "requests_finished",
                    CANONICAL["requests_finished"],
                    finished,
                    engine="0",
                    detail="stop",
                    model="tiny",
                )
            )
        asked, answered = (ns(at) - 1_000_000, ns(at)) if edge == "start" else (ns(at), ns(at) + 1_000_000)
        page = MetricsPage(tuple(series), ("tiny",), ("0",), started_unix_s=1.0)
        self.scrapes.append(
            Scrape(
                arm,
                "http://127.0.0.1/metrics",
                asked,
                answered,
                Scraped.OK,
                None,
                page,
                edge=edge,  # type: ignore[arg-type]
                segment=segment,
            )
        )

    def counted(
        self, segment: int = 0, *, arm: str = "candidate", start: float = 0.0, end: float = 1.0, **deltas: Any
    ) -> None:
        """Both edge scrapes of a segment; counters start at 1000 and rise by `deltas`."""
        at = deltas.pop("accepted_at", None)
        finished = deltas.pop("finished", None)
        for when, edge, share in ((start, "start", 0), (end, "end", 1)):
            self.scrape(
                when,
                arm=arm,
                edge=edge,
                segment=segment,
                accepted_at=None if at is None else [1000 + share * a for a in at],
                finished=None if finished is None else 1000 + share * finished,
                **{name: 1000 + share * value for name, value in deltas.items()},
            )

    def second(self, at: float, **values: float) -> None:
        base = {"worker": 0, "lag_p50_s": 0.0001, "lag_max_s": 0.001, "cpu_share": 0.2, "in_flight": 1}
        self.health.append({**base, "at_ns": ns(at), "send_lag_max_s": 0.0, "rss_bytes": 1, **values})

    def account(self, segment: int = 0, **counts: int) -> None:
        at = next(i for i, p in enumerate(self.phases) if p.segment == segment)
        phase = self.phases[at]
        fields = {name: getattr(phase, name) for name in phase.__dataclass_fields__}
        self.phases[at] = PhaseRecord(**{**fields, "accounting": Accounting(**counts)})

    def data(self) -> RunData:
        manifest = Manifest(
            run_id="r1",
            specload_version="0",
            started="2026-01-01T00:00:00Z",
            state=self.state,
            scenario=self.scenario,
            scenario_path=None,
            scenario_sha256="0",
            plan_hash="p",
            design="interleaved",
            length_model={"source": "estimate"},
            arms=self.arms,
            client={"python": "3.11"},
        )
        return RunData(
            path="nowhere",
            manifest=manifest,
            requests=pa.Table.from_pylist(self.rows, schema=REQUESTS),
            phases=tuple(self.phases),
            scrapes=tuple(self.scrapes),
            health=pa.Table.from_pylist(self.health, schema=HEALTH),
        )

    def summary(self) -> Summary:
        return analyze(self.data())

    def overall(self, arm: str = "candidate") -> G:
        return self.summary().arms[arm].overall


@pytest.fixture
def run() -> Run:
    """An empty run; `segment()` adds an arm and a measured second [0, 1]."""
    return Run()


@pytest.fixture(scope="session")
def fresh() -> type[Run]:
    """For property tests, which need a new run an example."""
    return Run


Spoil = Callable[[str, int, dict[str, Any]], dict[str, Any]]


class Simulated:
    """A comparison on the rehearsal engine in virtual time, as a run: same cases in both arms, block by block."""

    def __init__(self, models: Models) -> None:
        self.models = models

    def cases(self, n: int, seed: int, **sampling: Any) -> tuple[Case, ...]:
        """`n` (a multiple of 4) cases of all tasks in equal shares."""
        params = SamplingParams(**{"temperature": 0.7, "max_tokens": 64, **sampling})
        return tuple(corpus_cases(self.models, dict.fromkeys(TASK_TYPES, n // 4), params, seed))

    def run(
        self,
        arms: dict[str, EngineConfig | Callable[[int], EngineConfig]],
        stages: Sequence[int | float],
        *,
        blocks: int = 20,
        cases: int = 16,
        seed: int = 1,
        spoil: Spoil | None = None,
        **sampling: Any,
    ) -> RunData:
        """A stage is a concurrency (int) or a rate per second (float). An arm may be another engine in each block.
        `spoil(arm, seq, columns)`: what the client saw instead."""
        made = Run()
        made.scenario["workload"] = {"tasks": [{"task_type": t, "prompts": "own.jsonl"} for t in TASK_TYPES]}
        places = [(i, b) for i in range(len(stages)) for b in range(blocks)]
        drawn = self.cases(cases * len(places), seed, **sampling)
        asked = [
            self._stage(stages[i], drawn[n * cases : (n + 1) * cases], seed + b) for n, (i, b) in enumerate(places)
        ]
        for arm, (name, config) in enumerate(arms.items()):
            first = config(0) if callable(config) else config
            made.arm(name, speculation=first.speculation is not None, k=4 if first.speculation else 0)
            for number, records in enumerate(self._played(name, config, asked, places, seed, 100 * arm)):
                i, b = places[number]
                self._book(made, name, i, b, stages[i], records, spoil, cases)
        return made.data()

    def _played(
        self,
        name: str,
        config: EngineConfig | Callable[[int], EngineConfig],
        asked: Sequence[Stage],
        places: Sequence[tuple[int, int]],
        seed: int,
        noise: int,
    ) -> Sequence[Sequence[Record]]:
        """Records stage by stage, each later in time than the one before."""
        if not callable(config):
            plan = SimulationPlan({name: replace(config, seed=noise)}, tuple(asked))
            records = simulate(plan, seed, self.models).records
            return [[r for r in records if r.stage == n] for n in range(len(asked))]
        played, clock_s = [], 0.0
        for stage, (_, b) in zip(asked, places, strict=True):
            plan = SimulationPlan({name: replace(config(b), seed=noise + b)}, (stage,))
            records = simulate(plan, seed, self.models).records
            for r in records:
                r.chunk_times_s = [at + clock_s for at in r.chunk_times_s]
                for field in ("arrival_s", "first_scheduled_s", "first_token_s", "end_s"):
                    setattr(r, field, getattr(r, field) + clock_s)
            clock_s = max(r.end_s or 0.0 for r in records)
            played.append(records)
        return played

    @staticmethod
    def _stage(level: int | float, cases: tuple[Case, ...], seed: int) -> Stage:
        if isinstance(level, int):
            return Stage(cases, concurrency=level)
        gaps = np.random.default_rng(seed).exponential(1 / level, len(cases))
        return Stage(cases, arrivals_s=tuple(np.cumsum(gaps).tolist()))

    @staticmethod
    def _book(
        made: Run, arm: str, i: int, b: int, level: int | float, records: Sequence[Record], spoil: Spoil | None,
        cases: int,
    ) -> None:  # fmt: skip
        number = len(made.phases)
        closed = isinstance(level, int)
        start, end = min(r.arrival_s for r in records), max(r.end_s or 0.0 for r in records)
        made.segment(
            number, arm=arm, start=start, full=None if closed else start, end=end,
            load_end=max(r.arrival_s for r in records),
            stage=f"{'c' if closed else 'r'}{level:g}", stage_index=i, block=b,
            executor="concurrency" if closed else "arrival_rate", concurrency=level if closed else None,
            rate_per_s=None if closed else level,
        )  # fmt: skip
        order = {r.case_id: j for j, r in enumerate(records)}
        in_flight = sorted(r.end_s or 0.0 for r in records)
        for r in records:
            seq = b * cases + order[r.case_id]
            chunks = [(at - r.arrival_s, n) for at, n in zip(r.chunk_times_s, r.chunk_tokens, strict=True)]
            ended = sum(e <= r.arrival_s for e in in_flight)
            begun = sum(o.arrival_s <= r.arrival_s for o in records)
            columns: dict[str, Any] = {
                "seq": seq, "case_id": f"{i}/{b}/{r.case_id}", "task_type": r.task_type, "block": b,
                "input_len": r.num_prompt_tokens, "concurrency": begun - ended, "outcome": "ok",
                "server_queue_s": (r.first_scheduled_s or 0) - r.arrival_s,
                "server_prefill_s": (r.first_token_s or 0) - (r.first_scheduled_s or 0),
                "server_decode_s": (r.end_s or 0) - (r.first_token_s or 0),
                **(_stats_of(r) if r.spec is not None else {}),
            }  # fmt: skip
            told = {"chunks": chunks, **columns} if spoil is None else spoil(arm, seq, {"chunks": chunks, **columns})
            made.request(told.pop("chunks"), arm=arm, segment=number, sent=r.arrival_s, **told)


def _stats_of(record: Record) -> dict[str, Any]:
    spec = record.spec
    assert spec is not None
    return {
        "spec_source": "per_request", "verify_rounds": spec.num_spec_steps, "drafted_tokens": spec.num_draft_tokens,
        "accepted_tokens": spec.num_accepted_tokens, "accepted_histogram": spec.acceptance_histogram,
        "rollback_count": spec.rollback_count,
        "rollback_low": spec.rollback_count, "rollback_high": spec.rollback_count,
        "per_step_accepted": spec.per_step_accepted, "per_step_drafted": spec.per_step_drafted,
    }  # fmt: skip


@pytest.fixture(scope="session")
def simulated() -> Simulated:
    return Simulated(load_models())


@pytest.fixture(scope="session")
def five_levels(simulated: Simulated) -> Callable[[float], RunData]:
    """five_levels(speed): a candidate that is `speed` times as fast in everything, at concurrency 1, 2, 4, 8, 16."""

    @cache
    def make(speed: float) -> RunData:
        arms = {"baseline": EngineConfig(), "candidate": EngineConfig(speed=speed)}
        return simulated.run(arms, [1, 2, 4, 8, 16], cases=20, blocks=10, max_tokens=16)

    return make


@pytest.fixture(scope="session")
def equal_arms(simulated: Simulated) -> RunData:
    """A/A: the same engine twice, with its own noise; closed and open loop."""
    arms = {"baseline": EngineConfig(jitter=0.05), "candidate": EngineConfig(jitter=0.05)}
    return simulated.run(arms, [4, 6.0], cases=24, blocks=24, max_tokens=16, seed=4)


@pytest.fixture(scope="session")
def stall() -> Callable[[float, int], Spoil]:
    """stall(seconds, every): each `every`th of the candidate's streams stands still so long before its last token."""

    def of(seconds: float, every: int) -> Spoil:
        def spoil(arm: str, seq: int, columns: dict[str, Any]) -> dict[str, Any]:
            if arm == "candidate" and seq % every == 7:
                at, tokens = columns["chunks"][-1]
                columns["chunks"] = [*columns["chunks"][:-1], (at + seconds, tokens)]
            return columns

        return spoil

    return of


@pytest.fixture(scope="session")
def stalling(simulated: Simulated, stall: Callable[[float, int], Spoil]) -> RunData:
    """Equal engines; one in sixty of the candidate's streams stands still for 3 s."""
    arms = {"baseline": EngineConfig(), "candidate": EngineConfig()}
    return simulated.run(arms, [6.0], cases=60, blocks=24, max_tokens=16, spoil=stall(3.0, 60))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[RunData], Path]:
    """saved(run) -> its run directory, without scrapes; a closed loop of a simulation is full from its start."""

    def save(run: RunData) -> Path:
        (tmp_path / "manifest.json").write_text(run.manifest.model_dump_json())
        phases = [replace(p, full_ns=p.full_ns or p.started_ns) for p in run.phases]
        (tmp_path / "phases.jsonl").write_bytes(b"".join(orjson.dumps(asdict(p)) + b"\n" for p in phases))
        pq.write_table(run.requests, str(tmp_path / "requests.parquet"))
        pq.write_table(run.health, str(tmp_path / "health.parquet"))
        return tmp_path

    return save


def fill(
    run: Run,
    number: int,
    arm: str,
    block: int,
    step_s: Sequence[float],
    *,
    tokens: int = 1,
    steps: int = 10,
    first_s: float = 0.1,
    at: float | None = None,
    spare_s: float = 0.0,
    labels: dict[str, Any] | None = None,
    **columns: Any,
) -> None:
    """A block at concurrency 1: a request for each step time, one after the other, then `spare_s` of nothing."""
    start = 10.0 * number if at is None else at
    took = sum(round(first_s + steps * s, 9) for s in step_s) + spare_s
    run.segment(
        number, arm=arm, block=block, start=start, full=start, load_end=start + took, end=start + took, **(labels or {})
    )
    sent = start
    for i, s in enumerate(step_s):
        chunks = [(first_s, 1), *((round(first_s + (j + 1) * s, 9), tokens) for j in range(steps))]
        seq = block * len(step_s) + i
        run.request(
            chunks, sent=sent, arm=arm, segment=number, **{"seq": seq, "case_id": f"c{seq}", "block": block, **columns}
        )
        sent += round(first_s + steps * s, 9)


@pytest.fixture(scope="session")
def filled() -> Callable[..., None]:
    return fill
