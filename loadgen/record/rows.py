"""One attempt to one row of the requests table; scrapes to rows and back."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any, Protocol

import orjson

from loadgen.drive import Attempt
from loadgen.observe import Scrape, Scraped
from loadgen.record.derive import NS_PER_S, Derived, derive
from loadgen.record.types import ArmFacts
from loadgen.redact import Redactor
from server_adapters.base import MetricKind, MetricsPage, Sampling, Series, ServerTimings, SpecStats

Row = dict[str, Any]


class Labels(Protocol):
    """What a segment's rows are labelled with: a `plan.Segment`, or a `PhaseRecord`."""

    @property
    def stage(self) -> str: ...
    @property
    def repeat_idx(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def executor(self) -> str: ...
    @property
    def concurrency(self) -> int | None: ...
    @property
    def rate_per_s(self) -> float | None: ...


def request_row(
    attempt: Attempt,
    run_id: str,
    facts: ArmFacts | None,
    labels: Labels | None,
    redact: Redactor,
    structured: bool = False,
) -> Row:
    """A row by `loadgen.record.schema.REQUESTS`; `batch_size` is joined at the end of the run.

    `structured`: the server was asked to enforce a JSON Schema.
    """
    artefact = facts.capabilities.get("counts_artefact") if facts else None
    derived = derive(attempt, facts.k if facts else None, artefact, structured)
    numbers = {name: getattr(derived, name) for name in Derived.__slots__ if name != "absent"}
    absent = {**derived.absent, **{name: redact(why) for name, why in attempt.absent.items()}}
    row: Row = {
        **_identity(attempt, run_id, facts, labels, redact),
        **_request(attempt),
        **_speculation(attempt.spec),
        **_server_times(attempt.timings),
        **_outcome(attempt, redact),
        **numbers,
    }
    for name, value in row.items():
        if isinstance(value, float) and not isfinite(value):
            row[name], absent[name] = None, f"not a finite number: {value}"
    row["absent"] = orjson.dumps({k: why for k, why in absent.items() if row.get(k) is None}).decode()
    return row


def _identity(attempt: Attempt, run_id: str, facts: ArmFacts | None, labels: Labels | None, redact: Redactor) -> Row:
    case = attempt.case
    return {
        "run_id": run_id,
        "arm": attempt.arm,
        "replica": redact(attempt.replica),
        "phase": case.phase,
        "repeat_idx": labels.repeat_idx if labels else None,
        "seq": attempt.seq,
        "case_id": case.case_id,
        "task_type": case.task_type,
        "request_id": attempt.request_id,
        "worker": attempt.worker,
        "segment": attempt.segment,
        "stage": labels.stage if labels else None,
        "stage_index": case.stage_index,
        "stage_concurrency": labels.concurrency if labels else None,
        "stage_rate_per_s": labels.rate_per_s if labels else None,
        "block": labels.block if labels else None,
        "executor": labels.executor if labels else None,
        "chunk_unit": facts.chunk_unit if facts else None,
        "spec_method": facts.spec_method if facts else None,
        "task_index": case.task_index,
        "case_index": case.index,
        "shared_prefix": case.shared_prefix,
    }


def _request(attempt: Attempt) -> Row:
    sampling, ledger = attempt.sampling, attempt.ledger
    return {
        "stream": attempt.stream,
        "input_len": attempt.input_len,
        "input_len_source": attempt.input_len_source,
        "input_len_requested": attempt.case.input_len_requested,
        "cached_tokens": attempt.cached_tokens,
        "output_len": attempt.output_len,
        "output_len_requested": attempt.case.output_len_requested,
        "output_len_source": attempt.output_len_source,
        "unattributed_tokens": attempt.unattributed_tokens,
        "reasoning_len": attempt.reasoning_len,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": sampling.seed,
        "sampling": orjson.dumps(_sampling(sampling)).decode(),
        "max_tokens": attempt.max_tokens,
        "concurrency": attempt.concurrency,
        "due_ns": attempt.due_ns,
        "sent_ns": attempt.sent_ns,
        "headers_ns": attempt.headers_ns,
        "first_byte_ns": attempt.first_byte_ns,
        "first_token_ns": attempt.first_token_ns,
        "first_answer_ns": attempt.first_answer_ns,
        "last_token_ns": attempt.last_token_ns,
        "end_ns": attempt.end_ns,
        "wait_s": attempt.wait_ns / NS_PER_S,
        "connect_s": None if attempt.connect_ns is None else attempt.connect_ns / NS_PER_S,
        "connect_wait_s": None if attempt.connect_wait_ns is None else attempt.connect_wait_ns / NS_PER_S,
        "timestamp_source": attempt.timestamp_source,
        "missing_stamps": attempt.missing_stamps,
        "coalesced_chunks": ledger.coalesced if attempt.stream else None,
        "arrival_no": ledger.arrival_no.tolist() if attempt.stream else None,
        "chunk_bytes": ledger.size.tolist() if attempt.stream else None,
    }


def _sampling(sampling: Sampling) -> Row:
    return {name: getattr(sampling, name) for name in Sampling.__slots__} | {"extra": dict(sampling.extra)}


def _speculation(spec: SpecStats | None) -> Row:
    if spec is None:
        return {}
    return {
        "drafted_tokens": spec.drafted,
        "accepted_tokens": spec.accepted,
        "verify_rounds": spec.rounds,
        "accepted_histogram": spec.histogram,
        "per_step_accepted": spec.step_accepted,
        "per_step_drafted": spec.step_drafted,
        "spec_source": "per_request",
    }


def _server_times(timings: ServerTimings | None) -> Row:
    if timings is None:
        return {}
    return {
        "draft_time_s": timings.draft_s,
        "verify_time_s": timings.verify_s,
        "server_queue_s": timings.queue_s,
        "server_prefill_s": timings.prefill_s,
        "server_decode_s": timings.decode_s,
    }


def _outcome(attempt: Attempt, redact: Redactor) -> Row:
    return {
        "outcome": attempt.outcome.value,
        "error_class": attempt.error_class,
        "error_status": attempt.error_status,
        "error_message": redact(attempt.error_message) if attempt.error_message else attempt.error_message,
        "finish_reason": attempt.finish_reason,
        "terminal": attempt.terminal,
        "warnings": list(attempt.warnings),
        "prompt": attempt.prompt,
        "text": attempt.text,
    }


def scrape_row(scrape: Scrape) -> Row:
    page = scrape.page
    return {
        "arm": scrape.arm,
        "source": scrape.source,
        "asked_ns": scrape.asked_ns,
        "answered_ns": scrape.answered_ns,
        "status": scrape.status.value,
        "reason": scrape.reason,
        "edge": scrape.edge,
        "segment": scrape.segment,
        "started_unix_s": page.started_unix_s if page else None,
        "model_names": list(page.model_names) if page else None,
        "engines": list(page.engines) if page else None,
        "series": [asdict(series) for series in page.series] if page else None,
    }


def scrape_of(row: Row) -> Scrape:
    page = None
    if row["series"] is not None:
        page = MetricsPage(
            series=tuple(Series(**{**one, "kind": MetricKind(one["kind"])}) for one in row["series"]),
            model_names=tuple(row["model_names"]),
            engines=tuple(row["engines"]),
            started_unix_s=row["started_unix_s"],
        )
    keys = ("arm", "source", "asked_ns", "answered_ns", "reason", "edge", "segment")
    return Scrape(**{key: row[key] for key in keys}, status=Scraped(row["status"]), page=page)
