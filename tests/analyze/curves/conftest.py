"""Virtual-time sweeps of the rehearsal engine, simulated once and used by several tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from loadgen.analyze import RoundLists
from loadgen.analyze.columns import Floats, Ints, Ragged
from server_adapters.rehearsal import (
    TASK_TYPES,
    EngineConfig,
    Models,
    Record,
    SamplingParams,
    Simulation,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    corpus_cases,
    load_models,
    simulate,
)

SEEDS = range(20)


def ragged(lists: list[list[int]]) -> Ragged[np.int64]:
    counts = np.array([0, *(len(row) for row in lists)], np.int64)
    return Ragged(np.array([v for row in lists for v in row], np.int64), np.cumsum(counts))


def round_lists(
    accepted: list[list[int]], drafted: list[list[int]], emitted: list[int], case: list[int] | None = None
) -> RoundLists:
    cases = np.arange(len(emitted)) if case is None else np.array(case)
    return RoundLists(ragged(accepted), ragged(drafted), np.array(emitted, np.int64), cases)


@pytest.fixture(scope="session")
def models() -> Models:
    return load_models()


@dataclass(frozen=True)
class Run:
    """One closed loop of one engine in virtual time."""

    simulation: Simulation

    @property
    def records(self) -> list[Record]:
        return self.simulation.records

    @property
    def throughput(self) -> float:
        """Tokens per second while the queue of requests is never short."""
        last = max(r.arrival_s for r in self.records)
        inside = [s for s in self.simulation.steps if s.started_s < last] or self.simulation.steps
        return sum(s.emitted_tokens for s in inside) / sum(s.duration_s for s in inside)

    @property
    def latency(self) -> float:
        return float(np.mean([r.end_s - r.arrival_s for r in self.records if r.end_s is not None]))

    @property
    def e_decode(self) -> float:
        """Tokens after the first chunk per decode step."""
        return sum(sum(r.chunk_tokens[1:]) for r in self.records) / sum(len(r.chunk_tokens) - 1 for r in self.records)

    @property
    def tpot(self) -> float:
        """Pooled seconds per token after the first chunk."""
        seconds = sum(r.chunk_times_s[-1] - r.chunk_times_s[0] for r in self.records)
        return seconds / sum(sum(r.chunk_tokens[1:]) for r in self.records)

    @property
    def lists(self) -> RoundLists:
        told = [r for r in self.records if r.spec is not None]
        number = {name: i for i, name in enumerate(sorted({r.case_id for r in told}))}
        return round_lists(
            [r.spec.per_step_accepted for r in told if r.spec],
            [r.spec.per_step_drafted for r in told if r.spec],
            [sum(r.chunk_tokens[1:]) for r in told],
            [number[r.case_id] for r in told],
        )


Loop = Callable[..., Run]


@pytest.fixture(scope="session")
def loop(models: Models) -> Loop:
    """A closed loop: k drafts (0: off) at a concurrency; `cases` prompts of all tasks, their answers by `seed`."""

    def run(
        k: int,
        concurrency: int,
        seed: int,
        *,
        cases: int,
        max_tokens: int,
        prompts: int | None = None,
        config: EngineConfig | None = None,
        **sampling: object,
    ) -> Run:
        speculation = SpeculationConfig(num_speculative_tokens=k) if k else None
        engine = replace(config or EngineConfig(), speculation=speculation)
        params = SamplingParams(**{"temperature": 0.7, "max_tokens": max_tokens, **sampling})
        mix = dict.fromkeys(TASK_TYPES, -(-cases // len(TASK_TYPES)))
        chosen = tuple(corpus_cases(models, mix, params, seed if prompts is None else prompts))
        return Run(simulate(SimulationPlan({"a": engine}, (Stage(chosen, concurrency=concurrency),)), seed, models))

    return run


def column(values: list[float]) -> Floats:
    return np.array(values, dtype=np.float64)[:, None]


def lengths(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


#: A target eight times as large as its draft, where the best draft length lies inside the tested ones.
PAIR = EngineConfig(target_model="8b", draft_model="1b", max_num_seqs=64, jitter=0.05)
KS = (0, 1, 2, 3, 5, 8)


@dataclass(frozen=True)
class KSweep:
    """Visits of one seed: `net` tokens per second and `tpot` (K, R), and the runs by k, one per repeat."""

    net: Floats
    tpot: Floats
    runs: dict[int, list[Run]]

    @property
    def step_ratio(self) -> Floats:
        """(K, R) mean decode-step time by that of k = 0."""
        e = np.array([[run.e_decode for run in self.runs[k]] for k in KS])
        steps: Floats = self.tpot * e
        return steps / steps[0]

    def swept(self, k: int) -> float:
        """E of all repeats together."""
        chunks = [r.chunk_tokens[1:] for run in self.runs[k] for r in run.records]
        return sum(map(sum, chunks)) / sum(map(len, chunks))

    def joined(self, k: int) -> RoundLists:
        """The rounds of all repeats; the same prompt is one case."""
        parts = [run.lists for run in self.runs[k]]
        numbers = [p.case.tolist() for p in parts]

        def rows(lists: Ragged[np.int64]) -> list[list[int]]:
            return [part.tolist() for part in np.split(lists.values, lists.offsets[1:-1])]

        return round_lists(
            [row for p in parts for row in rows(p.accepted)],
            [row for p in parts for row in rows(p.drafted)],
            [n for p in parts for n in p.emitted.tolist()],
            [n for part in numbers for n in part],
        )


@pytest.fixture(scope="session")
def k_sweeps(loop: Loop) -> list[KSweep]:
    """k = 0, 1, 2, 3, 5, 8 at concurrency 8, two visits each, for 20 seeds."""

    def sweep(seed: int) -> KSweep:
        shared = {"prompts": seed, "cases": 24, "max_tokens": 32, "config": PAIR}
        runs = {k: [loop(k, 8, 100 * seed + 10 * r + at, **shared) for r in range(2)] for at, k in enumerate(KS)}
        net = np.array([[run.throughput for run in runs[k]] for k in KS])
        return KSweep(net, np.array([[run.tpot for run in runs[k]] for k in KS]), runs)

    return [sweep(seed) for seed in SEEDS]
