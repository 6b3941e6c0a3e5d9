"""Virtual time: a plan of requests through engines as discrete events, without sockets, sleep or threads.

A stage ends when all its requests have; the clock of an arm runs on from stage to stage. The same plan and
seed give the same records, bit for bit."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from server_adapters.rehearsal.corpus import documents
from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.faults import ENGINE_FAULTS, Faults, output_faults
from server_adapters.rehearsal.models import Models, load_models
from server_adapters.rehearsal.types import (
    EngineConfig,
    EngineCounters,
    EngineRequest,
    OutputFaults,
    QueueFullError,
    RequestOutput,
    SamplingParams,
    SpecStats,
    StepResult,
    Switches,
    TaskType,
    TokenLogprobs,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with its task and sampling. Cases without a seed get one from the plan's seed and their
    number."""

    case_id: str
    task_type: TaskType
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    priority: int = 0
    cache_salt: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Either closed loop (`concurrency` requests in flight, each replaced when it ends) or open loop
    (`arrivals_s`, ascending, one per case, counted from the stage's begin)."""

    cases: tuple[Case, ...]
    concurrency: int | None = None
    arrivals_s: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.arrivals_s is None):
            raise ValueError("a stage has either a concurrency or arrival times")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        if self.arrivals_s is not None and len(self.arrivals_s) != len(self.cases):
            raise ValueError("one arrival time per case")


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Every arm runs every stage on an engine of its own. `switching(now_s, switches)`: called before each step with
    the arm's clock, to change what may be changed while an engine runs (a drift, a kill switch). `faults`: those of an
    arm, each "name" or "name:key=value,…" as on the command line, `after` and `for` in virtual seconds; they set what
    they change before `switching` does. Of the faults, those inside the engine are known here (ENGINE_FAULTS)."""

    arms: Mapping[str, EngineConfig]
    stages: tuple[Stage, ...]
    switching: Callable[[float, Switches], None] | None = None
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """One request of one arm. Times are virtual seconds of the arm's clock; None: it did not happen.

    `chunk_times_s` and `chunk_tokens`: every delivery, the first being the prefill's token. `outcome` is
    "ok" or "rejected" (queue full). `spec` None: no speculation configured. `logprobs` None: the case did not ask.
    `faults`: the truth of what was done to its output."""

    arm: str
    stage: int
    case_id: str
    task_type: TaskType
    arrival_s: float
    outcome: str = "ok"
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    end_s: float | None = None
    finish_reason: str | None = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    token_ids: list[int] = field(default_factory=list)
    chunk_times_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    spec: SpecStats | None = None
    logprobs: list[TokenLogprobs] | None = None
    faults: OutputFaults | None = None


@dataclass(slots=True)
class StepRecord:
    """One engine step of one arm: what it computed and what it took."""

    arm: str
    stage: int
    started_s: float
    duration_s: float
    draft_time_s: float
    verify_time_s: float
    batch_size: int
    prefill_tokens: int
    decode_tokens: int
    emitted_tokens: int


@dataclass(slots=True)
class Simulation:
    """Records in order of arrival per arm, engine steps in order, final counters per arm."""

    records: list[Record]
    steps: list[StepRecord]
    counters: dict[str, EngineCounters]


def simulate(plan: SimulationPlan, seed: int, models: Models | None = None) -> Simulation:
    """Play a plan. Raises RequestError for a case that no engine of the plan could serve, ValueError for faults that do
    not exist, are not the engine's, or belong to no arm."""
    if unknown := sorted(plan.faults.keys() - plan.arms.keys()):
        raise ValueError(f"faults of {', '.join(unknown)}: no such arm; there are {', '.join(plan.arms)}")
    models = models or load_models()
    result = Simulation([], [], {})
    for arm, config in plan.arms.items():
        engine = Engine(replace(config, seed=config.seed ^ seed), models)
        faults = _engine_faults(plan.faults.get(arm, ()), config.seed ^ seed)
        clock_s, first_case = 0.0, 0
        for number, stage in enumerate(plan.stages):
            run = _StageRun(engine, arm, number, stage, clock_s, seed, first_case, plan.switching, faults)
            clock_s = run.play()
            result.records += run.records
            result.steps += run.steps
            first_case += len(stage.cases)
        result.counters[arm] = engine.counters
    return result


def _engine_faults(texts: Sequence[str], seed: int) -> Faults | None:
    """The faults of an arm, counted from virtual second 0; None where there are none."""
    if not texts:
        return None
    faults = Faults(seed)
    for text in texts:
        name = faults.set_text(text, 0.0).name
        if name not in ENGINE_FAULTS:
            raise ValueError(
                f"fault {name} is not inside the engine; virtual time knows {', '.join(sorted(ENGINE_FAULTS))}"
            )
    return faults


def corpus_cases(
    models: Models, mix: Mapping[TaskType, int], sampling: SamplingParams, seed: int, *, salted: bool = True
) -> list[Case]:
    """Cases with fresh prompts of our own, task types interleaved; `salted`: every prompt misses the prefix
    cache."""
    cases: list[tuple[float, Case]] = []
    for task_type, count in mix.items():
        for i, (prompt, _) in enumerate(documents(task_type, count, seed + 1_000_003)):
            name = f"{task_type}-{i}"
            ids = tuple(models.tokenizer.render_chat([("user", prompt)]))
            salt = f"{seed}/{name}" if salted else None
            cases.append(((i + 0.5) / count, Case(name, task_type, ids, sampling, cache_salt=salt)))
    return [case for _, case in sorted(cases, key=lambda entry: (entry[0], entry[1].case_id))]


class _StageRun:
    """One stage of one arm: arrivals in, steps, deliveries out."""

    def __init__(
        self,
        engine: Engine,
        arm: str,
        number: int,
        stage: Stage,
        start_s: float,
        seed: int,
        first_case: int,
        switching: Callable[[float, Switches], None] | None,
        faults: Faults | None,
    ) -> None:
        self.records: list[Record] = []
        self.steps: list[StepRecord] = []
        self._engine, self._arm, self._number, self._stage = engine, arm, number, stage
        self._now_s = start_s
        self._switching, self._faults = switching, faults
        self._first_number = first_case + 1
        self._seed = seed * 1_000_003 + first_case
        self._live: dict[str, Record] = {}
        cases = list(enumerate(stage.cases))
        self._arrivals: list[tuple[float, int, Case]] = []
        self._backlog: deque[tuple[int, Case]] = deque()
        if stage.arrivals_s is not None:
            self._arrivals = [(start_s + at, i, case) for (i, case), at in zip(cases, stage.arrivals_s, strict=True)]
            heapq.heapify(self._arrivals)
        else:
            self._backlog.extend(cases)

    def play(self) -> float:
        """Run to the end of the stage; the clock then."""
        for _ in range(min(self._stage.concurrency or 0, len(self._backlog))):
            self._next_of_backlog()
        while self._arrivals or self._engine.has_work:
            while self._arrivals and self._arrivals[0][0] <= self._now_s:
                self._submit(*heapq.heappop(self._arrivals))
            if self._faults is not None:
                self._faults.apply(self._engine.switches, self._now_s)
            if self._switching is not None:
                self._switching(self._now_s, self._engine.switches)
            step = self._engine.step(self._now_s)
            if step is None:
                if self._arrivals:
                    self._now_s = self._arrivals[0][0]
                continue
            self._now_s += step.duration_s
            self._book(step)
        return self._now_s

    def _next_of_backlog(self) -> None:
        if self._backlog:
            self._submit(self._now_s, *self._backlog.popleft())

    def _submit(self, arrival_s: float, index: int, case: Case) -> None:
        record = Record(self._arm, self._number, case.case_id, case.task_type, arrival_s)
        self.records.append(record)
        sampling = case.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=self._seed + index)
        request_id = f"{self._number}/{index}"
        wrong = None
        if self._faults is not None:
            wrong = output_faults(self._faults.for_request(self._first_number + index, arrival_s))
        request = EngineRequest(
            request_id, case.prompt_token_ids, sampling, case.priority, case.cache_salt, case.task_type, wrong
        )
        try:
            self._engine.submit(request, arrival_s)
        except QueueFullError:
            record.outcome, record.end_s = "rejected", arrival_s
            self._next_of_backlog()
            return
        record.faults = wrong
        self._live[request_id] = record

    def _book(self, step: StepResult) -> None:
        emitted = 0
        for output in step.outputs:
            emitted += len(output.new_token_ids)
            record = self._live[output.request_id]
            record.token_ids += output.new_token_ids
            if output.logprobs is not None:
                record.logprobs = (record.logprobs or []) + output.logprobs
            record.chunk_times_s.append(self._now_s)
            record.chunk_tokens.append(len(output.new_token_ids))
            if output.finish_reason is not None:
                self._finish(self._live.pop(output.request_id), output)
        self.steps.append(
            StepRecord(
                self._arm,
                self._number,
                step.started_s,
                step.duration_s,
                step.draft_time_s,
                step.verify_time_s,
                step.batch_size,
                step.prefill_tokens,
                step.decode_tokens,
                emitted,
            )
        )

    def _finish(self, record: Record, output: RequestOutput) -> None:
        record.first_scheduled_s = output.times.first_scheduled_s
        record.first_token_s = output.times.first_token_s
        record.end_s = self._now_s
        record.finish_reason = output.finish_reason
        record.num_prompt_tokens = output.num_prompt_tokens
        record.num_cached_tokens = output.num_cached_tokens
        record.num_preemptions = output.num_preemptions
        record.spec = output.spec
        self._next_of_backlog()
