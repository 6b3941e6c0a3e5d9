"""Attempts as columns: whatever they hold, the rows are those that a plain reading of them gives."""

from array import array
from collections import deque
from math import isfinite
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.drive import UNKNOWN_TOKENS, Attempt, Ledger, Outcome
from loadgen.plan import Case
from loadgen.record import COLUMNS, REQUESTS, ArmFacts, Manifest, PhaseRecord, export_table, open_run
from loadgen.record.batch import RequestBatches
from loadgen.record.derive import derive
from loadgen.record.worker import BATCH_CHUNKS, BATCH_ROWS, next_batch
from loadgen.redact import Redactor
from server_adapters.base import Sampling, ServerTimings, SpecStats

S = 1_000_000_000
SECRET = "Bearer abcdefghijkl"


def ints(low: int = 0, high: int = 10**6) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


TEXT = st.text(max_size=12)
STAMP = ints(0, 2**62)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    gaps = draw(st.lists(st.integers(0, 10**9), max_size=6))
    times = [S + sum(gaps[: i + 1]) for i in range(len(gaps))]
    numbers = {at: i for i, at in enumerate(dict.fromkeys(times))}
    tokens = [draw(st.sampled_from([UNKNOWN_TOKENS, 1, 4])) for _ in times]
    return Ledger(
        array("q", times), array("i", tokens), array("i", [7] * len(times)), array("i", [numbers[t] for t in times])
    )


CASES = st.builds(
    Case, ints(0, 9), st.sampled_from(["warmup", "measure"]), ints(), TEXT, ints(0, 9), TEXT, maybe(ints()), ints(1),
    maybe(STAMP), STAMP, maybe(ints()), st.booleans(), st.booleans(),
)  # fmt: skip
SPECS = st.builds(
    SpecStats, ints(), ints(), maybe(ints()), maybe(ints(1, 9)), maybe(st.lists(ints(), max_size=5).map(tuple)),
    maybe(st.lists(ints(), max_size=5).map(tuple)), maybe(st.lists(ints(), max_size=5).map(tuple)),
)  # fmt: skip
REAL = st.floats(0, 9) | st.sampled_from([float("nan"), float("inf"), float("-inf")])
ATTEMPTS = st.builds(
    Attempt,
    seq=ints(), arm=st.sampled_from(["baseline", "candidate"]), replica=st.just("http://h"), worker=ints(0, 9),
    segment=ints(0, 9), case=CASES, request_id=TEXT, stream=st.booleans(),
    sampling=st.builds(Sampling, st.floats(0, 2), st.floats(0, 1), ints(-1), maybe(STAMP)), max_tokens=ints(1),
    due_ns=maybe(STAMP), concurrency=ints(1), sent_ns=maybe(st.just(S)), headers_ns=maybe(STAMP),
    first_byte_ns=maybe(STAMP), end_ns=STAMP, connect_ns=maybe(ints()), outcome=st.sampled_from(list(Outcome)),
    error_class=maybe(TEXT), error_status=maybe(ints(100, 599)), error_message=maybe(TEXT), ledger=ledgers(),
    first_token_ns=maybe(STAMP), first_answer_ns=maybe(STAMP), last_token_ns=maybe(STAMP), first_tokens=maybe(ints()),
    input_len=maybe(ints()), cached_tokens=maybe(ints()), output_len=maybe(ints()),
    output_len_source=maybe(st.sampled_from(["usage", "partial"])), finish_reason=maybe(TEXT), spec=maybe(SPECS),
    timings=maybe(st.builds(ServerTimings, maybe(st.floats(0, 9)))), warnings=st.lists(TEXT, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(attempts=st.lists(ATTEMPTS, max_size=6))
def test_any_attempts_come_back_as_they_were(
    whole: Any,
    attempts: list[Attempt],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    writer = whole(tmp_path_factory.mktemp("runs"), Manifest(
        run_id="r", specload_version="0", started="x", scenario={}, scenario_path=None, scenario_sha256="",
        plan_hash="", design="", length_model={}, arms={}, client={},
    ))  # fmt: skip
    for one in attempts:
        writer.attempt(one)
    writer.finish("finished")
    table = open_run(writer.path).requests
    assert export_table(open_run(writer.path)).column_names == list(COLUMNS)
    for one, row in zip(attempts, table.to_pylist(), strict=True):
        same = ("seq", "arm", "worker", "segment", "request_id", "stream", "max_tokens", "due_ns", "concurrency",
                "sent_ns", "headers_ns", "first_byte_ns", "end_ns", "outcome", "error_class", "error_status",
                "first_token_ns", "first_answer_ns", "last_token_ns", "input_len", "cached_tokens", "output_len",
                "output_len_source", "finish_reason")  # fmt: skip
        assert {n: row[n] for n in same} == {n: getattr(one, n) for n in same}
        assert (row["temperature"], row["top_p"], row["top_k"], row["seed"]) == (
            one.sampling.temperature, one.sampling.top_p, one.sampling.top_k, one.sampling.seed)  # fmt: skip
        assert tuple(row["warnings"]) == one.warnings
        assert (row["case_id"], row["phase"], row["case_index"]) == (one.case.case_id, one.case.phase, one.case.index)
        if one.stream:
            assert row["chunk_tokens"] == [None if n == UNKNOWN_TOKENS else n for n in one.ledger.tokens]
            assert row["arrival_no"] == list(one.ledger.arrival_no)
        if one.stream and one.sent_ns is not None:
            assert [one.sent_ns + round(t * 1e9) for t in row["chunk_times_s"]] == list(one.ledger.arrival_ns)
        if one.spec is not None:
            assert (row["verify_rounds"], row["accepted_tokens"], row["drafted_tokens"]) == (
                one.spec.rounds, one.spec.accepted, one.spec.drafted)  # fmt: skip
        null = {name for name in COLUMNS if row[name] is None}
        derived = {"ttft_s", "ttft_from_due_s", "total_time_s", "tpot_s", "rollback_count", "batch_size", "spec_source"}
        assert null & derived <= orjson.loads(row["absent"]).keys()


#: What an attempt may hold beyond: numbers that are none, counts that no column holds, texts, reasons, secrets.
ODD = st.fixed_dictionaries(
    {},
    optional={
        "sampling": st.builds(
            Sampling, REAL, REAL, stop=st.just(("END",)), extra=st.dictionaries(TEXT, maybe(ints()), max_size=2)
        ),
        "timings": st.builds(ServerTimings, *[maybe(REAL)] * 5),
        "spec": st.builds(
            SpecStats, st.sampled_from([3, 2**40]), ints(), maybe(ints()), maybe(st.sampled_from([4, -(2**31) - 1])),
            st.sampled_from([(1, 2), (2**31,), ()]),
        ),
        "output_len": st.sampled_from([2**31 - 1, 2**31, -1]),
        "unattributed_tokens": ints(-5, 5),
        "reasoning_len": ints(),
        "connect_ns": ints(),
        "connect_wait_ns": ints(),
        "missing_stamps": ints(),
        "wait_ns": ints(),
        "text": TEXT,
        "prompt": TEXT,
        "error_message": st.sampled_from(["", f"said {SECRET}"]),
        "replica": st.just("http://user:hidden@h"),
        "absent": st.dictionaries(st.sampled_from([*REQUESTS.names, "spec"]), TEXT | st.just(f"told {SECRET}")),
    },
)  # fmt: skip


@st.composite
def odd_attempts(draw: st.DrawFn) -> Attempt:
    attempt = draw(ATTEMPTS)
    for name, value in draw(ODD).items():
        setattr(attempt, name, value)
    return attempt


FACTS = ArmFacts(
    replicas=[], metrics_sources=[], adapter="vllm", chunk_unit="step", model="m", endpoint="chat", environment={},
    capabilities={"counts_artefact": True}, facts={}, spec_method="mtp", k=3, speculation=True,
)  # fmt: skip
PHASE = PhaseRecord(1, "baseline", "measure", "rate=2", 0, 4, 5, "arrival_rate", None, 2.5, S)
REDACT = Redactor()


def plain_row(attempt: Attempt, keep_text: bool) -> dict[str, Any]:
    """One attempt as a row, a value at a time."""
    facts = FACTS if attempt.arm == "baseline" else None
    phase = PHASE if attempt.segment == PHASE.segment else None
    case, ledger, sampling, spec = attempt.case, attempt.ledger, attempt.sampling, attempt.spec
    timings = attempt.timings or ServerTimings()
    derived = derive(attempt, facts and facts.k, facts and True, case.task_index == 0)
    row: dict[str, Any] = dict.fromkeys(REQUESTS.names)
    row |= {name: getattr(attempt, name) for name in REQUESTS.names if hasattr(attempt, name)}
    row |= {name: getattr(case, name) for name in REQUESTS.names if hasattr(case, name) and name != "stream"}
    row |= {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k", "seed")}
    row |= {name: getattr(derived, name) for name in REQUESTS.names if hasattr(derived, name) and name != "absent"}
    row |= {
        "run_id": "r", "replica": REDACT(attempt.replica), "case_index": case.index, "wait_s": attempt.wait_ns / 1e9,
        "connect_s": None if attempt.connect_ns is None else attempt.connect_ns / 1e9,
        "connect_wait_s": None if attempt.connect_wait_ns is None else attempt.connect_wait_ns / 1e9,
        "draft_time_s": timings.draft_s, "verify_time_s": timings.verify_s, "server_queue_s": timings.queue_s,
        "server_prefill_s": timings.prefill_s, "server_decode_s": timings.decode_s,
        "error_message": None if attempt.error_message is None else REDACT(attempt.error_message),
        "warnings": list(attempt.warnings), "outcome": attempt.outcome.value,
        "sampling": "tested apart", "absent": None,
    }  # fmt: skip
    if facts:
        row |= {"chunk_unit": "step", "spec_method": "mtp"}
    if phase:
        row |= {"repeat_idx": 4, "block": 5, "stage": "rate=2", "executor": "arrival_rate", "stage_rate_per_s": 2.5}
    if spec:
        row |= {
            "drafted_tokens": spec.drafted, "accepted_tokens": spec.accepted, "verify_rounds": spec.rounds,
            "accepted_histogram": spec.histogram, "per_step_accepted": spec.step_accepted,
            "per_step_drafted": spec.step_drafted, "spec_source": "per_request",
        }  # fmt: skip
    if attempt.stream:
        row |= {
            "chunk_tokens": [None if n == UNKNOWN_TOKENS else n for n in ledger.tokens],
            "arrival_no": list(ledger.arrival_no), "chunk_bytes": list(ledger.size),
            "coalesced_chunks": ledger.coalesced,
        }  # fmt: skip
        if attempt.sent_ns is not None:
            row["chunk_times_s"] = [(at - attempt.sent_ns) / 1e9 for at in ledger.arrival_ns]
    if not keep_text:
        row |= {"text": None, "prompt": None, "token_ids": None}
    absent = derived.absent | {name: REDACT(why) for name, why in attempt.absent.items()}
    return _storable(row, {name: why for name, why in absent.items() if row.get(name) is None})


def _storable(row: dict[str, Any], absent: dict[str, str]) -> dict[str, Any]:
    """The row with what cannot be stored null, and why in the words before the first colon."""
    for field in REQUESTS:
        value = row[field.name]
        numbers = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, float) and not isfinite(value):
            row[field.name], absent[field.name] = None, "not a finite number"
        elif "int32" in str(field.type) and any(n is not None and not -(2**31) <= n < 2**31 for n in numbers):
            row[field.name], absent[field.name] = None, "not storable"
    return {n: list(v) if isinstance(v, tuple) else v for n, v in row.items()} | {"absent": absent}


@settings(max_examples=60, deadline=None)
@given(attempts=st.lists(odd_attempts(), max_size=5), keep_text=st.booleans())
def test_columns_are_what_a_row_at_a_time_gives(attempts: list[Attempt], keep_text: bool) -> None:
    """Every column and every reason, with nulls wherever there can be one."""
    made = RequestBatches("r", {"baseline": FACTS}, {1: PHASE}, (True,), keep_text, REDACT)
    batch = made.batch(attempts)
    batch.validate(full=True)
    assert batch.schema == REQUESTS
    for attempt, row in zip(attempts, batch.to_pylist(), strict=True):
        sampling, absent = orjson.loads(row["sampling"]), orjson.loads(row["absent"])
        named = {name: getattr(attempt.sampling, name) for name in Sampling.__slots__}
        assert sampling == orjson.loads(orjson.dumps(named))
        unfit = {name: why.partition(":")[0] for name, why in absent.items() if why.startswith("not ")}
        absent |= {name: why for name, why in unfit.items() if why in ("not storable", "not a finite number")}
        assert {**row, "sampling": "tested apart", "absent": absent} == plain_row(attempt, keep_text)


def test_chunks_of_a_batch_do_not_run_into_each_other(attempt: Any) -> None:
    """Rows without a list, without a chunk, never sent, between rows with chunks; unknown counts are null."""
    rows = [
        attempt([(S + 5, 1), (S + 5, None), (S + 9, 3)]),
        attempt([], stream=False),
        attempt([(S + 5, 2)], sent_ns=None),
        attempt([]),
        attempt([(S + 9, 4), (S + 9, 5)]),
    ]
    made = RequestBatches("r", {}, {}, (), False, REDACT).batch(rows)
    assert made["chunk_tokens"].to_pylist() == [[1, None, 3], None, [2], [], [4, 5]]
    assert made["chunk_times_s"].to_pylist() == [[5e-9, 5e-9, 9e-9], None, None, [], [9e-9, 9e-9]]
    assert made["arrival_no"].to_pylist() == [[0, 0, 1], None, [0], [], [0, 0]]
    assert made["chunk_bytes"].to_pylist() == [[10, 20, 30], None, [10], [], [10, 20]]
    assert made["coalesced_chunks"].to_pylist() == [1, None, 0, 0, 1]


def test_a_batch_is_bounded_by_rows_and_by_chunks(attempt: Any) -> None:
    """What waits is not built as one batch, whose buffers would be large and whose loss would be long."""
    small, large = attempt(), attempt([(S + i, 1) for i in range(BATCH_CHUNKS)])
    many = [small] * (BATCH_ROWS + 2) + [large, small, large]
    waiting = deque(many)
    found = []
    while batch := next_batch(waiting):
        found.append(batch)
    assert [len(batch) for batch in found] == [BATCH_ROWS, 3, 2]
    assert [one for batch in found for one in batch] == many
