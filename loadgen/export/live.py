"""A run as live metrics: what its workers, its servers' pages and its segments tell, in the coordinator's process.

A view: final numbers come from the records, and are set as gauges when the run has been analyzed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from loadgen.analyze import Summary
from loadgen.clock import Anchor, now_ns
from loadgen.drive import Accounting, Outcome
from loadgen.export.buckets import MOST_TOKENS, bounded, latency_edges, token_edges
from loadgen.export.final import tell_summary, tell_verdict
from loadgen.export.hardware import tell_sample
from loadgen.export.scraped import Pages
from loadgen.export.store import Metrics
from loadgen.export.tally import ArmHow, Group, Speculated, Sums, TallySetup, Told
from loadgen.observe import Scrape, TelemetrySample
from loadgen.plan import ClosedLoop, OpenLoop, Segment, shard
from loadgen.record import ArmFacts, Manifest
from loadgen.scenario import LoadedScenario, Scenario
from loadgen.verdict import Verdict

#: Labels that a scenario chooses are bounded: further ones are "other" together.
MOST_TASKS, MOST_STAGES, MOST_POSITIONS = 12, 12, 16
_LATENCIES = {
    "ttft_s": "ttft_seconds",
    "total_time_s": "total_time_seconds",
    "tpot_s": "tpot_seconds",
    "chunk_gap_s": "chunk_gap_seconds",
}
_STREAMED = ("ttft_s", "total_time_s")


class RunMetrics:
    """One run. The constructor makes every child at 0, before any load. `tasks`: task types that requests can have;
    `zero`: wall time of the monotonic clock."""

    def __init__(
        self,
        metrics: Metrics,
        scenario: Scenario,
        segments: Sequence[Segment],
        tasks: Iterable[str],
        manifest: Manifest,
        zero: Anchor,
    ) -> None:
        self._metrics = metrics
        self._run_id = manifest.run_id
        self._share = _share(manifest.shard)
        self._zero_ns = zero.wall_ns - zero.mono_ns
        self._segments = {segment.number: segment for segment in segments}
        self._begun: dict[int, int] = {}
        self._books: dict[int, Accounting] = defaultdict(Accounting)
        self._ended: Counter[int] = Counter()
        self._due: dict[int, int] = {}
        self._stages: set[str] = set()
        self.tally = _tally(scenario, segments, tasks, manifest.arms)
        self._slos = bool(self.tally.slos)
        labels = sorted(set(self.tally.tasks.values()))
        models = {name: arm.model for name, arm in manifest.arms.items()}
        task = labels[0] if len(labels) == 1 else "all"
        measured = {n for n, s in self._segments.items() if s.phase == "measure"}
        self._pages = Pages(metrics, models, {n: h.counts_artefact for n, h in self.tally.arms.items()}, task, measured)
        metrics.forget_run()
        self._declare(scenario, manifest, labels, task)

    def _declare(self, scenario: Scenario, manifest: Manifest, tasks: list[str], window_task: str) -> None:
        told = self._metrics
        for arm, facts in manifest.arms.items():
            _declare_arm(told, arm)
            told.set(
                "run_info", 1, run_id=self._run_id, arm=arm, scenario=scenario.name,
                scenario_sha=manifest.scenario_sha256[:12], engine=facts.adapter,
                engine_version=str(facts.capabilities.get("version") or ""),
                k="" if facts.k is None else str(facts.k), method=facts.spec_method or "",
            )  # fmt: skip
            told.declare_histogram("send_lag_seconds", self.tally.edges_s, arm=arm)
            for task in tasks:
                for stage in sorted({self.tally.stages[s.number] for s in self._segments.values() if s.arm == arm}):
                    self._declare_group(arm, task, stage, scenario)
                self._declare_speculation(arm, task, facts)
            if facts.metrics_sources:
                _declare_source(told, arm, window_task, "server_window", facts.k)
        told.set("run_active", 1)

    def _declare_group(self, arm: str, task: str, stage: str, scenario: Scenario) -> None:
        told, group = self._metrics, {"arm": arm, "task_type": task, "stage": stage}
        for outcome in Outcome:
            told.declare("requests_total", **group, outcome=outcome.value)
        for name in ("prompt_tokens_total", "output_tokens_total", *(["good_requests_total"] if self._slos else [])):
            told.declare(name, **group)
        share = scenario.workload.stream_fraction
        for stream in [s for s, there in (("true", share > 0), ("false", share < 1)) if there]:
            for name in _STREAMED[stream == "false" :]:
                told.declare_histogram(_LATENCIES[name], self.tally.edges_s, **group, stream=stream)
            if stream == "true":
                for name in ("tpot_seconds", "chunk_gap_seconds"):
                    told.declare_histogram(name, self.tally.edges_s, **group)
                told.declare_histogram("tokens_per_chunk", self.tally.token_edges, **group)

    def _declare_speculation(self, arm: str, task: str, facts: ArmFacts) -> None:
        if facts.speculation is not False and facts.capabilities.get("per_request_spec") not in (None, "none"):
            _declare_source(self._metrics, arm, task, "per_request", facts.k)
        if facts.chunk_unit == "step":
            for name in ("accepted_tokens_total", "verify_rounds_total"):
                self._metrics.declare(name, arm=arm, task_type=task, source="client_chunk")

    def told(self, told: Told) -> None:
        """What a worker's requests have come to since it last told."""
        for group, sums in told.groups.items():
            self._group(group, sums)
        for arm, lags in told.lags.items():
            self._metrics.observe("send_lag_seconds", lags, arm=arm)
        for (arm, outcome), n in told.warmups.items():
            self._metrics.inc("warmup_requests_total", n, arm=arm, outcome=outcome)
        self._ended += told.ended
        if told.health is not None:
            worker = str(told.health.worker)
            self._metrics.set("event_loop_lag_seconds", told.health.lag_max_s, worker=worker)
            self._metrics.set("worker_cpu_ratio", told.health.cpu_share, worker=worker)
            self._metrics.set("worker_resident_memory_bytes", told.health.rss_bytes, worker=worker)

    def _group(self, group: Group, sums: Sums) -> None:
        told = self._metrics
        labels = {"arm": group.arm, "task_type": group.task_type, "stage": group.stage}
        for outcome, n in sums.outcomes.items():
            told.inc("requests_total", n, **labels, outcome=outcome)
        told.inc("prompt_tokens_total", sums.prompt_tokens, **labels)
        told.inc("output_tokens_total", sums.output_tokens, **labels)
        if self._slos:
            told.inc("good_requests_total", sums.good, **labels)
        for name, counted in sums.latencies.items():
            stream = {"stream": group.stream} if name in _STREAMED else {}
            told.observe(_LATENCIES[name], counted, **labels, **stream)
        if sums.chunk_tokens is not None:
            told.observe("tokens_per_chunk", sums.chunk_tokens, **labels)
        for source, speculated in sums.speculated.items():
            tell_speculation(told, group.arm, group.task_type, source, speculated)

    def began(self, segment: Segment, begin_ns: int) -> None:
        """The segment's time zero."""
        self._begun[segment.number] = begin_ns
        at_s = (begin_ns + self._zero_ns) / 1e9
        self._phase(segment.phase, at_s, again=False)
        stage = self.tally.stages[segment.number]
        if segment.phase == "measure" and stage not in self._stages:
            self._stages.add(stage)
            self._metrics.set("run_stage_timestamp_seconds", at_s, run_id=self._run_id, stage=stage)
        self._metrics.set("target_concurrency", segment.concurrency or 0, arm=segment.arm)
        self._metrics.set("target_rate_per_second", segment.rate_per_s or 0, arm=segment.arm)

    def accounted(self, segment: Segment, books: Accounting, at_ns: int | None = None) -> None:
        """The segment's books so far, of all workers."""
        due = self._due_by(segment, books, now_ns() if at_ns is None else at_ns)
        self._count(segment, replace(books, scheduled=due, unsent=0))
        in_flight = max(books.sent - self._ended[segment.number], 0)
        self._metrics.set("inflight_requests", in_flight, arm=segment.arm)

    def drained(self, segment: Segment, books: Accounting, load_end_ns: int) -> None:
        """The segment has ended, with these books."""
        self._count(segment, books)
        self._metrics.set("inflight_requests", 0, arm=segment.arm)
        self._metrics.set("target_concurrency", 0, arm=segment.arm)
        self._metrics.set("target_rate_per_second", 0, arm=segment.arm)
        self._phase("drain", (load_end_ns + self._zero_ns) / 1e9, again=True)

    def _count(self, segment: Segment, books: Accounting) -> None:
        """Counters grow by what is new in the books of a measured segment."""
        if segment.phase != "measure":
            return
        before, arm = self._books[segment.number], segment.arm
        now = Accounting(*(max(getattr(before, f.name), getattr(books, f.name)) for f in fields(Accounting)))
        self._books[segment.number] = now
        self._metrics.inc("scheduled_requests_total", now.scheduled - before.scheduled, arm=arm)
        self._metrics.inc("sent_requests_total", now.sent - before.sent, arm=arm)
        self._metrics.inc("late_requests_total", now.late - before.late, arm=arm)
        self._metrics.inc("dropped_requests_total", now.dropped - before.dropped, arm=arm, reason="max_in_flight")
        self._metrics.inc("dropped_requests_total", now.unsent - before.unsent, arm=arm, reason="stopped")

    def _due_by(self, segment: Segment, books: Accounting, at_ns: int) -> int:
        """Scheduled so far: an open loop's books hold all its arrivals from the start."""
        load = (segment if self._share is None else shard(segment, *self._share)).load
        if isinstance(load, ClosedLoop) or segment.number not in self._begun:
            return books.scheduled
        assert isinstance(load, OpenLoop)
        due = int(np.searchsorted(load.due_ns, at_ns - self._begun[segment.number], side="right"))
        return max(due, books.sent + books.dropped)

    def scraped(self, scrape: Scrape) -> None:
        self._pages.scraped(scrape)

    def sampled(self, sample: TelemetrySample) -> None:
        tell_sample(self._metrics, sample)

    def over(self, at_ns: int | None = None) -> None:
        """No load any more."""
        self._phase("end", ((now_ns() if at_ns is None else at_ns) + self._zero_ns) / 1e9, again=True)
        self._metrics.set("run_active", 0)

    def judged(self, summary: Summary, verdict: Verdict | None) -> None:
        """The final numbers, from the records. From now on the run's own series have their grace time."""
        tell_summary(self._metrics, summary)
        if verdict is not None:
            tell_verdict(self._metrics, verdict)
        self._metrics.forget_after_grace()

    def _phase(self, phase: str, at_s: float, *, again: bool) -> None:
        labels = {"run_id": self._run_id, "phase": phase}
        if again or self._metrics.value("run_phase_timestamp_seconds", **labels) is None:
            self._metrics.set("run_phase_timestamp_seconds", at_s, **labels)


def tell_speculation(told: Metrics, arm: str, task: str, source: str, found: Speculated) -> None:
    labels = {"arm": arm, "task_type": task, "source": source}
    told.inc("accepted_tokens_total", found.accepted, **labels)
    told.inc("verify_rounds_total", found.rounds, **labels)
    if found.drafted is None:
        return
    told.inc("draft_tokens_total", found.drafted, **labels)
    told.inc("rollback_rounds_total", found.rolled_back, **labels)
    for position, n in enumerate(found.at[:MOST_POSITIONS]):
        told.inc("accepted_position_total", n, arm=arm, position=str(position), source=source)


def _declare_source(told: Metrics, arm: str, task: str, source: str, k: int | None) -> None:
    tell_speculation(told, arm, task, source, Speculated(drafted=0, at=[0] * min(k or 0, MOST_POSITIONS)))


def _declare_arm(told: Metrics, arm: str) -> None:
    for name in (
        "scheduled_requests_total", "sent_requests_total", "late_requests_total", "inflight_requests",
        "target_concurrency", "target_rate_per_second", "server_scrapes_total", "server_scrape_errors_total",
        "server_resets_total",
    ):  # fmt: skip
        told.declare(name, arm=arm)
    for reason in ("max_in_flight", "stopped"):
        told.declare("dropped_requests_total", arm=arm, reason=reason)
    for outcome in Outcome:
        told.declare("warmup_requests_total", arm=arm, outcome=outcome.value)


def _tally(
    scenario: Scenario, segments: Sequence[Segment], tasks: Iterable[str], arms: Mapping[str, ArmFacts]
) -> TallySetup:
    stages = bounded((s.stage for s in segments), MOST_STAGES)
    slos = {name: limit for name, limit in scenario.slos.model_dump().items() if limit is not None}
    known = [arm.k for arm in arms.values() if arm.k is not None]
    return TallySetup(
        latency_edges(scenario),
        token_edges(max(known) if known else MOST_TOKENS - 1),
        {n: ArmHow(a.chunk_unit, a.k, a.capabilities.get("counts_artefact")) for n, a in arms.items()},
        bounded(tasks, MOST_TASKS),
        {s.number: stages[s.stage] for s in segments},
        tuple(task.json_schema for task in scenario.workload.tasks),
        slos,
    )


def _share(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    i, n = text.split("/")
    return int(i), int(n)


def task_types(loaded: LoadedScenario) -> list[str]:
    """All that requests can have, own prompts' own ones among them."""
    tasks = enumerate(loaded.scenario.workload.tasks)
    found = [loaded.prompts[i].prompts if i in loaded.prompts else (task,) for i, task in tasks]
    return list(dict.fromkeys(one.task_type for some in found for one in some))
