"""What ended requests add to the live metrics: counted where they end, told in small sums.

A worker keeps one `RequestTally` and adds each ended request to it after the request has been read, off the path that
sends and stamps; four times a second its sums go over the pipe (`Told`), whose size depends on arms, tasks and stages
of the moment and never on the number of requests.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.drive import UNKNOWN_TOKENS, Attempt, Ledger, LoopHealth, Outcome
from loadgen.export.buckets import OTHER, Counted, Exemplar
from server_adapters.base import SpecStats
from server_adapters.rounds import from_histogram, from_steps

LATENCIES = ("ttft_s", "total_time_s", "tpot_s", "chunk_gap_s")


class Group(NamedTuple):
    """Labels; `stream` as text."""

    arm: str
    task_type: str
    stage: str
    stream: str


@dataclass(frozen=True, slots=True)
class ArmHow:
    """How to read an arm's requests: see `server_adapters.base.Capabilities` of the same names."""

    chunk_unit: str
    k: int | None
    counts_artefact: bool | None


@dataclass(frozen=True, slots=True)
class Ended:
    """One ended request, in the terms of docs/method.md; None where it has no such number."""

    segment: int
    arm: str
    phase: str
    task_type: str
    stream: bool
    outcome: str
    request_id: str
    send_lag_s: float | None
    ttft_s: float | None
    total_time_s: float | None
    tpot_s: float | None
    gaps_s: NDArray[np.float64]
    chunk_tokens: NDArray[np.int64]
    input_len: int | None
    output_len: int | None
    first_tokens: int | None
    spec: SpecStats | None
    rollback_low: int


@dataclass(slots=True)
class Speculated:
    """Sums of one source. `drafted` None: the source does not tell. `at`: rounds that accepted each position."""

    drafted: int | None = None
    accepted: int = 0
    rounds: int = 0
    rolled_back: int = 0
    at: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Sums:
    """Of one group since the last report."""

    edges: tuple[float, ...]
    token_edges: tuple[float, ...]
    outcomes: Counter[str] = field(default_factory=Counter)
    good: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    latencies: dict[str, Counted] = field(default_factory=dict)
    chunk_tokens: Counted | None = None
    speculated: dict[str, Speculated] = field(default_factory=dict)

    def latency(self, name: str) -> Counted:
        return self.latencies.setdefault(name, Counted(self.edges))


@dataclass(slots=True)
class Told:
    """What a worker tells: since its last report."""

    groups: dict[Group, Sums] = field(default_factory=dict)
    lags: dict[str, Counted] = field(default_factory=dict)
    ended: Counter[int] = field(default_factory=Counter)  # by segment, warm-up too
    warmups: Counter[tuple[str, str]] = field(default_factory=Counter)  # by arm and outcome
    health: LoopHealth | None = None


@dataclass(frozen=True)
class TallySetup:
    """Makes a worker's tally in its own process: `setup(worker)`. Can be pickled.

    `tasks` and `stages` (by segment): name → label, bounded. `structured` by task index: a JSON Schema is enforced.
    `slos`: limits of goodput; empty = none.
    """

    edges_s: tuple[float, ...]
    token_edges: tuple[float, ...]
    arms: Mapping[str, ArmHow]
    tasks: Mapping[str, str]
    stages: Mapping[int, str]
    structured: tuple[bool, ...]
    slos: Mapping[str, float]

    def __call__(self, worker: int) -> RequestTally:
        return RequestTally(self)


class RequestTally:
    """A `drive.Teller`."""

    def __init__(self, setup: TallySetup) -> None:
        self._setup = setup
        self._told = Told()

    def attempt(self, attempt: Attempt) -> None:
        task = attempt.case.task_index
        structured = task < len(self._setup.structured) and self._setup.structured[task]
        self.add(ended_of(attempt, self._setup.arms[attempt.arm], structured), time.time())

    def health(self, health: LoopHealth) -> None:
        self._told.health = health

    def take(self) -> Told:
        taken, self._told = self._told, Told()
        return taken

    def add(self, ended: Ended, at_s: float) -> None:
        """`at_s`: Unix time of its exemplars."""
        told, how = self._told, self._setup
        told.ended[ended.segment] += 1
        if ended.phase == "warmup":
            told.warmups[ended.arm, ended.outcome] += 1
            return
        if ended.send_lag_s is not None:
            told.lags.setdefault(ended.arm, Counted(how.edges_s)).add(max(ended.send_lag_s, 0.0))
        group = Group(
            ended.arm,
            how.tasks.get(ended.task_type, OTHER),
            how.stages.get(ended.segment, OTHER),
            str(ended.stream).lower(),
        )
        sums = told.groups.setdefault(group, Sums(how.edges_s, how.token_edges))
        sums.outcomes[ended.outcome] += 1
        sums.prompt_tokens += ended.input_len or 0
        sums.output_tokens += ended.output_len or 0
        if ended.outcome == Outcome.OK:
            self._ok(ended, sums, at_s)

    def _ok(self, ended: Ended, sums: Sums, at_s: float) -> None:
        sums.good += bool(self._setup.slos) and within(ended, self._setup.slos)
        for name in ("ttft_s", "total_time_s", "tpot_s"):
            value: float | None = getattr(ended, name)
            if value is not None:
                counted = sums.latency(name)
                counted.exemplars[counted.add(value)] = Exemplar(value, ended.request_id, at_s)
        if len(ended.gaps_s):
            sums.latency("chunk_gap_s").add_all(ended.gaps_s)
        known = ended.chunk_tokens[ended.chunk_tokens > 0]
        if len(known):
            if sums.chunk_tokens is None:
                sums.chunk_tokens = Counted(sums.token_edges)
            sums.chunk_tokens.add_all(known.astype(np.float64))
        _speculated(ended, self._setup.arms[ended.arm], sums)


def within(ended: Ended, slos: Mapping[str, float]) -> bool:
    """As docs/method.md, "Goodput": a limit on a number that cannot exist does not apply; an unknown one is not met."""
    one_chunk = None not in (ended.output_len, ended.first_tokens) and ended.output_len <= ended.first_tokens  # type: ignore[operator]
    applies = {"ttft_s": ended.stream, "tpot_s": ended.stream and not one_chunk, "total_time_s": True}
    values = {name: getattr(ended, name) for name in slos}
    return all(not applies[name] or (values[name] is not None and values[name] <= slos[name]) for name in slos)


def ended_of(attempt: Attempt, how: ArmHow, structured: bool) -> Ended:
    sent, first, last = attempt.sent_ns, attempt.first_token_ns, attempt.last_token_ns
    if not attempt.stream:
        first, last = None, attempt.end_ns if attempt.outcome is Outcome.OK else None
    first_tokens = None if first is None else attempt.first_tokens or 1
    lag = None if sent is None or attempt.due_ns is None else (sent - attempt.due_ns) / 1e9
    return Ended(
        attempt.segment, attempt.arm, attempt.case.phase, attempt.case.task_type, attempt.stream, attempt.outcome.value,
        attempt.request_id, lag, _span(sent, first), _span(sent, last), _tpot(attempt, first_tokens),
        _gaps(attempt.ledger), np.array(attempt.ledger.tokens, dtype=np.int64), attempt.input_len, attempt.output_len,
        first_tokens, attempt.spec, _rollbacks(attempt.spec, how, structured),
    )  # fmt: skip


def _tpot(attempt: Attempt, first_tokens: int | None) -> float | None:
    tokens = (attempt.output_len or 0) - (first_tokens or 0)
    decode_s = _span(attempt.first_token_ns, attempt.last_token_ns)
    return None if first_tokens is None or decode_s is None or tokens <= 0 else decode_s / tokens


def _span(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Seconds; a span that is not positive is no sample."""
    if begin_ns is None or end_ns is None or end_ns <= begin_ns:
        return None
    return (end_ns - begin_ns) / 1e9


def _gaps(ledger: Ledger) -> NDArray[np.float64]:
    """Between arrivals: chunks of one arrival have the same stamp."""
    gaps = np.diff(np.array(ledger.arrival_ns, dtype=np.int64)) / 1e9
    return np.asarray(gaps[gaps > 0], dtype=np.float64)


def _rollbacks(spec: SpecStats | None, how: ArmHow, structured: bool) -> int:
    """Rounds that certainly had a rejection."""
    bounds = None if spec is None else rollback_bounds(spec, how, structured)
    return 0 if bounds is None else bounds[0]


def rollback_bounds(spec: SpecStats, how: ArmHow, structured: bool) -> tuple[int, int] | None:
    """Rounds with a rejection, at least and at most (docs/method.md, "Rollback"); at least 0 where the counts may be an
    artefact. None: the counts do not tell, or contradict each other."""
    try:
        if spec.step_accepted is not None and spec.step_drafted is not None:
            found = from_steps(spec.step_accepted, spec.step_drafted)
        elif spec.histogram is None or spec.drafted is None:
            return None
        else:
            found = from_histogram(spec.histogram, spec.drafted, zero_length_rounds=structured)
    except ValueError:
        return None
    k = how.k if spec.k is None else spec.k
    full = k is None or spec.drafted is None or spec.drafted >= k * spec.rounds
    suspect = full if how.counts_artefact is None else how.counts_artefact
    return 0 if suspect else found.low, found.high


def _speculated(ended: Ended, how: ArmHow, sums: Sums) -> None:
    spec = ended.spec
    if spec is not None:
        told = sums.speculated.setdefault("per_request", Speculated(drafted=0))
        told.drafted = (told.drafted or 0) + (spec.drafted or 0)
        told.accepted += spec.accepted
        told.rounds += spec.rounds
        told.rolled_back += ended.rollback_low
        _add_positions(told, spec.histogram or ())
    if (steps := _steps(ended, how)) is not None:
        told = sums.speculated.setdefault("client_chunk", Speculated())
        told.rounds += steps
        told.accepted += int(ended.chunk_tokens[1:].sum()) - steps


def _add_positions(told: Speculated, histogram: tuple[int, ...]) -> None:
    at = np.cumsum(histogram[::-1])[::-1][1:].tolist()
    told.at += [0] * (len(at) - len(told.at))
    for i, n in enumerate(at):
        told.at[i] += n


def _steps(ended: Ended, how: ArmHow) -> int | None:
    """Decode steps after the first chunk; None where chunks are no steps, or not every token was told by one."""
    tokens = ended.chunk_tokens
    if how.chunk_unit != "step" or not len(tokens) or (tokens == UNKNOWN_TOKENS).any():
        return None
    merged = how.k is not None and len(tokens) > 1 and int(tokens[1:].max()) > how.k + 1
    fewer = ended.spec is not None and len(tokens) < ended.spec.rounds
    return None if merged or fewer or int(tokens.sum()) != ended.output_len else len(tokens) - 1
