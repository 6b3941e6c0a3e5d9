"""The measured requests of one arm as numpy arrays, one entry a request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.analyze.columns import (
    Bools,
    Floats,
    Ints,
    Ragged,
    bools,
    floats,
    int_lists,
    ints,
    labels,
    matches,
    seconds_between,
    strings,
)
from loadgen.analyze.ledgers import Ledgers, ledgers_of
from loadgen.analyze.rounds import Rounds, rounds_of
from loadgen.analyze.segments import INPUT_EDGES, OUTPUT_EDGES
from loadgen.drive import Outcome

MEASURE = "measure"


@dataclass(frozen=True)
class ServerStats:
    """The server's own speculation statistics. `told`: rows that have any. NaN where a count is not told.

    `bound_low`/`bound_high`: rounds with a rejection (docs/method.md, "Rollback").
    """

    told: Bools
    rounds: Floats
    drafted: Floats
    accepted: Floats
    bound_low: Floats
    bound_high: Floats
    k: Floats
    histogram: Ragged[np.int64]
    by_round: Rounds


@dataclass(frozen=True)
class Frame:
    """`net` rows count for net throughput: `ok` ones and those our own drain cut.

    `output_len` is NaN where no honest count exists. `first_tokens` is the cumulative count at
    the first token-bearing chunk (1 where unknown). `decode_s` and `decode_tokens` run from that
    chunk to the last one; NaN where there is nothing to measure.
    """

    arm: str
    n: int
    outcome: NDArray[np.object_]
    ok: Bools
    net: Bools
    stream: Bools
    task_type: NDArray[np.object_]
    case_no: Ints  # equal numbers are the same prompt
    seq: Ints  # number within the stage: equal in all arms and repeats for the same case
    request_id: NDArray[np.object_]
    segment: Ints
    stage_index: Ints
    repeat_idx: Ints
    temperature: Floats
    top_p: Floats
    top_k: Floats
    unnatural_stop: Bools  # asked with ignore_eos or min_tokens
    input_len: Floats
    input_len_requested: Floats
    cached_tokens: Floats
    output_len: Floats
    output_len_requested: Floats
    max_tokens: Floats
    in_flight: Floats
    sent: tuple[Ints, Bools]
    due: tuple[Ints, Bools]
    end: tuple[Ints, Bools]
    finished: tuple[Ints, Bools]  # last token of a stream, end of body otherwise
    ttft_s: Floats
    ttft_answer_s: Floats
    ttft_from_due_s: Floats
    total_time_s: Floats
    total_time_from_due_s: Floats
    first_tokens: Floats
    first_tokens_assumed: Bools
    unattributed: Floats
    decode_s: Floats
    decode_tokens: Floats
    queue_s: Floats
    prefill_s: Floats
    server_decode_s: Floats
    draft_s: Floats
    verify_s: Floats
    wait_s: Floats  # for the safety cap, between due and sent
    connect_wait_s: Floats  # for a turn to connect; NaN where the connection was reused or connects are not paced
    connect_s: Floats  # NaN where the connection was reused
    timestamp_source: NDArray[np.object_]
    missing_stamps: Floats  # reads; NaN where the kernel's stamps were not asked for
    ledgers: Ledgers
    stats: ServerStats

    @property
    def tpot_s(self) -> Floats:
        return self.decode_s / self.decode_tokens

    @property
    def speed(self) -> Floats:
        """Output tokens per second of the whole request; NaN where a part is missing or the time is 0."""
        timed = np.where(self.total_time_s > 0, self.total_time_s, np.nan)
        return self.output_len / timed


def frame_of(requests: pa.Table, arm: str) -> Frame:
    """The rows of `arm` in measured phases, those of a group near each other."""
    wanted = (strings(requests, "arm") == arm) & (strings(requests, "phase") == MEASURE)
    table = _group_by_group(requests.filter(np.asarray(wanted, dtype=np.bool_)))
    outcome = strings(table, "outcome")
    ok = np.asarray(outcome == Outcome.OK.value, dtype=np.bool_)
    drained = np.asarray(
        (outcome == Outcome.ABORTED.value) & (strings(table, "error_class") == "drain"), dtype=np.bool_
    )
    stream = bools(table, "stream")
    sent, due, end = ints(table, "sent_ns"), ints(table, "due_ns"), ints(table, "end_ns")
    first, answer, last = (ints(table, f"{name}_ns") for name in ("first_token", "first_answer", "last_token"))
    finished = (np.where(stream, last[0], end[0]), np.where(stream, last[1], end[1]))
    output_len = floats(table, "output_len")
    first_tokens = floats(table, "first_tokens")
    n_first = np.where(np.isnan(first_tokens), 1.0, first_tokens)
    assumed = np.isnan(first_tokens) | bools(table, "first_tokens_assumed")
    decode_tokens = np.where(stream & first[1], output_len - n_first, np.nan)
    decode_tokens = np.where(decode_tokens > 0, decode_tokens, np.nan)
    decode_s = np.where(np.isnan(decode_tokens), np.nan, seconds_between(last, first))
    decode_tokens = np.where(np.isnan(decode_s), np.nan, decode_tokens)
    return Frame(
        arm=arm, n=table.num_rows, outcome=outcome, ok=ok, net=ok | drained, stream=stream,
        task_type=strings(table, "task_type"), case_no=labels(table, "case_id"), seq=ints(table, "seq")[0],
        request_id=strings(table, "request_id"), segment=ints(table, "segment")[0],
        stage_index=ints(table, "stage_index")[0], repeat_idx=ints(table, "repeat_idx")[0],
        temperature=floats(table, "temperature"), top_p=floats(table, "top_p"), top_k=floats(table, "top_k"),
        unnatural_stop=_unnatural_stop(table),
        input_len=floats(table, "input_len"),
        input_len_requested=floats(table, "input_len_requested"), cached_tokens=floats(table, "cached_tokens"),
        output_len=output_len, output_len_requested=floats(table, "output_len_requested"),
        max_tokens=floats(table, "max_tokens"), in_flight=floats(table, "concurrency"),
        sent=sent, due=due, end=end, finished=finished,
        ttft_s=np.where(stream, seconds_between(first, sent), np.nan),
        ttft_answer_s=np.where(stream, seconds_between(answer, sent), np.nan),
        ttft_from_due_s=np.where(stream, seconds_between(first, due), np.nan),
        total_time_s=seconds_between(finished, sent), total_time_from_due_s=seconds_between(finished, due),
        first_tokens=n_first, first_tokens_assumed=assumed,
        unattributed=np.nan_to_num(floats(table, "unattributed_tokens")),
        decode_s=decode_s, decode_tokens=decode_tokens,
        queue_s=floats(table, "server_queue_s"), prefill_s=floats(table, "server_prefill_s"),
        server_decode_s=floats(table, "server_decode_s"), draft_s=floats(table, "draft_time_s"),
        verify_s=floats(table, "verify_time_s"), wait_s=floats(table, "wait_s"), connect_s=floats(table, "connect_s"),
        connect_wait_s=floats(table, "connect_wait_s"),
        timestamp_source=strings(table, "timestamp_source"), missing_stamps=floats(table, "missing_stamps"),
        ledgers=ledgers_of(table, sent[0]), stats=_stats_of(table),
    )  # fmt: skip


def _group_by_group(table: pa.Table) -> pa.Table:
    """Rows of a stage, task and segment next to each other: their ledgers are then read in few pieces."""
    inputs = np.searchsorted(INPUT_EDGES, floats(table, "input_len"), side="right")
    outputs = np.searchsorted(OUTPUT_EDGES, floats(table, "output_len"), side="right")
    keys = (floats(table, "temperature"), outputs, inputs, labels(table, "task_type"), ints(table, "stage_index")[0])
    return table.take(np.lexsort(keys))


def _unnatural_stop(table: pa.Table) -> Bools:
    """`sampling` is the JSON of all parameters as sent."""
    return matches(table, "sampling", r'"ignore_eos":\s*true|"min_tokens":\s*[1-9]')


def _stats_of(table: pa.Table) -> ServerStats:
    told = np.asarray(strings(table, "spec_source") == "per_request", dtype=np.bool_)
    exact = floats(table, "rollback_count")
    low, high = floats(table, "rollback_low"), floats(table, "rollback_high")
    return ServerStats(
        told=told,
        rounds=np.where(told, floats(table, "verify_rounds"), np.nan),
        drafted=np.where(told, floats(table, "drafted_tokens"), np.nan),
        accepted=np.where(told, floats(table, "accepted_tokens"), np.nan),
        bound_low=np.where(np.isnan(exact), low, exact),
        bound_high=np.where(np.isnan(exact), high, exact),
        k=floats(table, "draft_len"),
        histogram=int_lists(table, "accepted_histogram"),
        by_round=rounds_of(int_lists(table, "per_step_accepted"), int_lists(table, "per_step_drafted")),
    )
