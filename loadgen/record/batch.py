"""Attempts to one batch of the requests table, a column at a time: no row object, no copy of a chunk in Python."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa

from loadgen.drive import Attempt
from loadgen.record.chunks import LEDGER_COLUMNS, ledger_columns
from loadgen.record.derive import NS_PER_S, Derived, derive
from loadgen.record.files import column_of
from loadgen.record.rows import Labels
from loadgen.record.schema import REQUESTS
from loadgen.record.types import ArmFacts
from loadgen.redact import Redactor
from server_adapters.base import Sampling

#: Attempts whose numbers are derived at once, and columns that are made at once.
STEP_ROWS = 16
STEP_COLUMNS = 24
#: Distinct texts (replicas, reasons) of which the redacted form is kept.
_REDACTED_TEXTS = 512

Values = dict[str, Sequence[Any]]


class _Fields:
    """Columns that are attributes of an object; null where there is no such object."""

    def __init__(self, *same: str, **renamed: str) -> None:
        """`same`: attributes named as their column; `renamed`: column=attribute."""
        self._columns = (*same, *renamed)
        self._row = attrgetter(*same, *renamed.values())
        self._nulls = (None,) * len(self._columns)

    def of(self, objects: Sequence[object]) -> Values:
        """None of the columns where there is no object at all."""
        if all(one is None for one in objects):
            return {}
        rows = [self._nulls if one is None else self._row(one) for one in objects]
        return dict(zip(self._columns, zip(*rows, strict=True), strict=True))


_OWN = _Fields(
    "arm", "seq", "request_id", "worker", "segment", "stream", "input_len", "input_len_source", "cached_tokens",
    "output_len", "output_len_source", "unattributed_tokens", "reasoning_len", "mean_logprob", "max_tokens",
    "concurrency", "due_ns",
    "sent_ns", "headers_ns", "first_byte_ns", "first_token_ns", "first_answer_ns", "last_token_ns", "end_ns",
    "timestamp_source", "missing_stamps", "outcome", "error_class", "error_status", "finish_reason", "terminal",
    "served_by", "warnings",
)  # fmt: skip
_CASE = _Fields(
    "phase", "case_id", "task_type", "stage_index", "task_index", "shared_prefix", "input_len_requested",
    "output_len_requested", case_index="index",
)  # fmt: skip
_LABELS = _Fields(
    "repeat_idx", "stage", "block", "executor", stage_concurrency="concurrency", stage_rate_per_s="rate_per_s"
)
_FACTS = _Fields("chunk_unit", "spec_method")
_SAMPLING = _Fields("temperature", "top_p", "top_k", "seed")
_SPECULATION = _Fields(
    drafted_tokens="drafted", accepted_tokens="accepted", verify_rounds="rounds", accepted_histogram="histogram",
    per_step_accepted="step_accepted", per_step_drafted="step_drafted",
)  # fmt: skip
_TIMINGS = _Fields(
    draft_time_s="draft_s", verify_time_s="verify_s", server_queue_s="queue_s", server_prefill_s="prefill_s",
    server_decode_s="decode_s",
)  # fmt: skip
_DERIVED = _Fields(*(name for name in Derived.__slots__ if name != "absent"))
_TEXTS = _Fields("prompt", "text", "token_ids")


class RequestBatches:
    """Rows by `loadgen.record.schema.REQUESTS`; `batch_size` is joined at the end of the run.

    `labels` by segment; `structured` by task index: the server was asked to enforce a JSON Schema.
    `keep_text`: prompts, answers and their token ids are stored.
    """

    def __init__(
        self,
        run_id: str,
        arms: Mapping[str, ArmFacts],
        labels: Mapping[int, Labels],
        structured: tuple[bool, ...],
        keep_text: bool,
        redact: Redactor,
    ) -> None:
        self._run_id = run_id
        self._arms = arms
        self._labels = labels
        self._structured = structured
        self._keep_text = keep_text
        self._redact: Callable[[str], str] = lru_cache(_REDACTED_TEXTS)(redact)

    def batch(self, attempts: Sequence[Attempt]) -> pa.RecordBatch:
        steps = self.steps(attempts)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                batch: pa.RecordBatch = done.value
                return batch

    def steps(self, attempts: Sequence[Attempt]) -> Generator[None, None, pa.RecordBatch]:
        """The batch, in pieces of some tenths of a millisecond."""
        derived: list[Derived] = []
        for i, attempt in enumerate(attempts, 1):
            derived.append(self._derive(attempt))
            if i % STEP_ROWS == 0:
                yield
        values = self._values(attempts, derived)
        yield
        ledgers = [attempt.ledger if attempt.stream else None for attempt in attempts]
        columns = ledger_columns(ledgers, [attempt.sent_ns for attempt in attempts])
        yield
        faults: dict[int, dict[str, str]] = {}
        for i, (name, column) in enumerate(values.items(), 1):
            columns[name] = _column(name, column, faults)
            if i % STEP_COLUMNS == 0:
                yield
        columns["absent"] = pa.array(self._absent(attempts, derived, values, faults), pa.string())
        count = len(attempts)
        return pa.RecordBatch.from_arrays(
            [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in REQUESTS], schema=REQUESTS
        )

    def _derive(self, attempt: Attempt) -> Derived:
        facts, task = self._arms.get(attempt.arm), attempt.case.task_index
        structured = task < len(self._structured) and self._structured[task]
        if facts is None:
            return derive(attempt, None, None, structured)
        return derive(attempt, facts.k, facts.capabilities.get("counts_artefact"), structured)

    def _values(self, attempts: Sequence[Attempt], derived: Sequence[Derived]) -> Values:
        samplings = [attempt.sampling for attempt in attempts]
        specs = [attempt.spec for attempt in attempts]
        redact = self._redact
        return {
            "run_id": [self._run_id] * len(attempts),
            "replica": [redact(attempt.replica) for attempt in attempts],
            "sampling": [_json(sampling) for sampling in samplings],
            "wait_s": [attempt.wait_ns / NS_PER_S for attempt in attempts],
            "connect_s": [None if a.connect_ns is None else a.connect_ns / NS_PER_S for a in attempts],
            "connect_wait_s": [None if a.connect_wait_ns is None else a.connect_wait_ns / NS_PER_S for a in attempts],
            "error_message": [a.error_message and redact(a.error_message) for a in attempts],
            "spec_source": [None if spec is None else "per_request" for spec in specs],
            **_OWN.of(attempts),
            **_CASE.of([attempt.case for attempt in attempts]),
            **_LABELS.of([self._labels.get(attempt.segment) for attempt in attempts]),
            **_FACTS.of([self._arms.get(attempt.arm) for attempt in attempts]),
            **_SAMPLING.of(samplings),
            **_SPECULATION.of(specs),
            **_TIMINGS.of([attempt.timings for attempt in attempts]),
            **_DERIVED.of(derived),
            **(_TEXTS.of(attempts) if self._keep_text else {}),
        }

    def _absent(
        self,
        attempts: Sequence[Attempt],
        derived: Sequence[Derived],
        values: Values,
        faults: Mapping[int, Mapping[str, str]],
    ) -> list[str]:
        """Every row's reasons, JSON: the derived ones; over them the attempt's own, where the value is null or
        no column's; over them what could not be stored."""
        texts: list[str] = []
        for i, (attempt, numbers) in enumerate(zip(attempts, derived, strict=True)):
            reasons = numbers.absent
            for name, why in attempt.absent.items():
                if _is_null(name, i, values, reasons):
                    reasons[name] = self._redact(why)
            texts.append(orjson.dumps({**reasons, **faults.get(i, {})}).decode())
        return texts


def _is_null(name: str, row: int, values: Values, reasons: Mapping[str, str]) -> bool:
    if name in LEDGER_COLUMNS:
        return name in reasons
    return name not in values or values[name][row] is None


def _column(name: str, values: Sequence[Any], faults: dict[int, dict[str, str]]) -> pa.Array[Any]:
    """A value that is not finite or that the column cannot hold becomes null, and its row's `faults` say why."""
    kind = REQUESTS.field(name).type
    if pa.types.is_floating(kind):
        bad = {i: value for i, value in enumerate(values) if value is not None and not isfinite(value)}
        if bad:
            values = [None if i in bad else value for i, value in enumerate(values)]
            for i, value in bad.items():
                faults.setdefault(i, {})[name] = f"not a finite number: {value}"
    column, unfit = column_of(values, kind)
    for i, why in unfit.items():
        faults.setdefault(i, {})[name] = why
    return column


def _json(sampling: Sampling) -> str:
    return orjson.dumps(sampling, default=dict).decode()
