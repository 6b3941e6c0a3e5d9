"""Every column of a request's row: type, unit, meaning, and when it is null. docs/records.md says the same."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """`null` says when the column is null; "never" columns still are for requests of an unknown segment."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    null: str


_TEXT, _BOOL, _REAL = pa.string(), pa.bool_(), pa.float64()
_INT, _NS = pa.int32(), pa.int64()
_INTS, _REALS = pa.list_(pa.int32()), pa.list_(pa.float64())
_NO_SPEC = "the answer carried no speculation statistics"
_NOT_STREAMED = "not streamed, or no token came"
_NOT_TOLD = "the server does not tell"

#: The contract: names and order of an export (docs/records.md). Additions are free, changes raise the version.
CONTRACT: tuple[Column, ...] = (
    Column("run_id", _TEXT, "", "the run", "never"),
    Column("arm", _TEXT, "", "side of the comparison", "never"),
    Column("replica", _TEXT, "", "URL the request went to, redacted", "never"),
    Column("phase", _TEXT, "", "warmup or measure", "never"),
    Column("repeat_idx", _INT, "count", "pass over the plan, from 0", "never"),
    Column("seq", _NS, "count", "number within stage and phase before sharding; pairs arms and repeats", "never"),
    Column("case_id", _TEXT, "", "the prompt; own prompts that are used again keep theirs", "never"),
    Column("task_type", _TEXT, "", "task of the mix", "never"),
    Column("request_id", _TEXT, "", "id sent with the request", "never"),
    Column("worker", _INT, "count", "worker process", "never"),
    Column("stream", _BOOL, "", "streamed; latencies of the two kinds are never pooled", "never"),
    Column("input_len", _INT, "tokens", "prompt tokens as the server counted them", "no usage in the answer"),
    Column("input_len_requested", _INT, "tokens", "prompt length the plan asked for", "own prompts"),
    Column("cached_tokens", _INT, "tokens", "prompt tokens served from the prefix cache", _NOT_TOLD),
    Column("output_len", _INT, "tokens", "output tokens, by `output_len_source`", "no honest count exists"),
    Column("output_len_requested", _INT, "tokens", "output length the plan asked for", "never"),
    Column(
        "output_len_source",
        _TEXT,
        "",
        "usage, token_ids, or partial (highest cumulative count seen before a failure)",
        "no honest count exists",
    ),
    Column("finish_reason", _TEXT, "", "as the server told it", "none came"),
    Column("temperature", _REAL, "", "sampling, as sent", "never"),
    Column("top_p", _REAL, "ratio", "sampling, as sent", "never"),
    Column("top_k", _INT, "count", "sampling, as sent; -1 = off", "never"),
    Column("seed", _NS, "", "sampling seed, as sent", "no seed was sent"),
    Column("max_tokens", _INT, "tokens", "limit sent with the request", "never"),
    Column("draft_len", _INT, "tokens", "draft tokens a round at most (k): of the request, else of the arm", _NOT_TOLD),
    Column("spec_method", _TEXT, "", "speculation method of the arm", "no speculation, or unknown"),
    Column(
        "batch_size",
        _REAL,
        "requests",
        "requests running on the arm's servers: mean of the scrapes between sent and last token (end of body "
        "where not streamed)",
        "no scrape of every page fell inside",
    ),
    Column("concurrency", _INT, "requests", "in flight at its worker when it was sent, itself included", "never"),
    Column("drafted_tokens", _INT, "tokens", "draft tokens proposed", _NO_SPEC + ", or not how many were drafted"),
    Column("accepted_tokens", _INT, "tokens", "draft tokens accepted, before trimming at stops", _NO_SPEC),
    Column("verify_rounds", _INT, "count", "rounds: verification steps with a draft", _NO_SPEC),
    Column(
        "rollback_count",
        _INT,
        "count",
        "rounds with a rejected draft token",
        "only bounds are known, or nothing; the method's counts are or may be an artefact",
    ),
    Column(
        "rollback_low",
        _INT,
        "count",
        "lower bound of rollbacks; 0 where counts may be an artefact",
        "no bound is known",
    ),
    Column("rollback_high", _INT, "count", "upper bound of rollbacks", "no bound is known"),
    Column("accepted_histogram", _INTS, "count", "entry j: rounds that accepted exactly j drafts", _NO_SPEC),
    Column("spec_source", _TEXT, "", "per_request: the server's own statistics in the answer", _NO_SPEC),
    Column("due_ns", _NS, "ns", "when the plan wanted it; closed loop: when its slot became free", "no due time"),
    Column("sent_ns", _NS, "ns", "request fully written", "never sent"),
    Column("headers_ns", _NS, "ns", "response headers complete", "none came"),
    Column("first_byte_ns", _NS, "ns", "first byte of the body", "none came"),
    Column("first_token_ns", _NS, "ns", "arrival of the first token-bearing chunk", _NOT_STREAMED),
    Column("first_answer_ns", _NS, "ns", "arrival of the first token of the answer, after reasoning", _NOT_STREAMED),
    Column("last_token_ns", _NS, "ns", "arrival of the last token-bearing chunk", _NOT_STREAMED),
    Column("end_ns", _NS, "ns", "end of the exchange, however it ended", "never"),
    Column("ttft_s", _REAL, "s", "first_token_ns − sent_ns", _NOT_STREAMED),
    Column("ttft_from_due_s", _REAL, "s", "first_token_ns − due_ns", _NOT_STREAMED),
    Column(
        "total_time_s",
        _REAL,
        "s",
        "last_token_ns − sent_ns; not streamed: end of body − sent_ns",
        "no token came, or the body did not end",
    ),
    Column(
        "tpot_s",
        _REAL,
        "s",
        "(last_token_ns − first_token_ns) / (output_len − first_tokens)",
        "not streamed, no count, no token after the first chunk, or all in one arrival",
    ),
    Column("draft_time_s", _REAL, "s", "time spent drafting, by the server", _NOT_TOLD),
    Column("verify_time_s", _REAL, "s", "time spent verifying, by the server", _NOT_TOLD),
    Column("server_queue_s", _REAL, "s", "time in the queue, by the server", _NOT_TOLD),
    Column("server_prefill_s", _REAL, "s", "prefill time, by the server", _NOT_TOLD),
    Column("server_decode_s", _REAL, "s", "decode time, by the server", _NOT_TOLD),
    Column(
        "gpu_mem_peak_bytes",
        _NS,
        "bytes",
        "most memory in use on the arm's GPUs at one time between sent and last token (end of body where not streamed)",
        "no GPU telemetry, or no sample of every GPU fell inside",
    ),
    Column("outcome", _TEXT, "", 'one of the closed list (docs/method.md, "Outcomes")', "never"),
    Column("error_class", _TEXT, "", "kind of failure; of an aborted request: drain, user_stop or policy", "ok"),
    Column("error_status", _INT, "", "HTTP status, or the status in the error", "ok, or no status"),
    Column("error_message", _TEXT, "", "the server's or the client's words, redacted", "ok, or no message"),
    Column(
        "timestamp_source",
        _TEXT,
        "",
        "where arrival stamps come from: user, kernel, or kernel_partial (some reads had none)",
        "never",
    ),
    Column(
        "coalesced_chunks", _INT, "count", "chunks that came with another and have no time of their own", "not streamed"
    ),
    Column("chunk_times_s", _REALS, "s", "arrival of every token-bearing chunk − sent_ns", "not streamed or not sent"),
    Column("chunk_tokens", _INTS, "tokens", "tokens of every chunk; an element is null where unknown", "not streamed"),
)

#: Columns of the run directory beyond the contract.
EXTRA: tuple[Column, ...] = (
    Column("segment", _INT, "count", "segment of the plan, key of phases.jsonl", "never"),
    Column("stage", _TEXT, "", "label of the load stage", "never"),
    Column("stage_index", _INT, "count", "stage of the scenario, from 0", "never"),
    Column("stage_concurrency", _INT, "requests", "plateau of a closed loop", "open loop or ramp"),
    Column("stage_rate_per_s", _REAL, "1/s", "rate of an open loop", "closed loop or ramp"),
    Column("block", _INT, "count", "design block within stage and repeat", "never"),
    Column("executor", _TEXT, "", "concurrency or arrival_rate", "never"),
    Column("chunk_unit", _TEXT, "", "step: one engine step gives one chunk; token: every token its own", "unknown arm"),
    Column("task_index", _INT, "count", "task of the scenario, from 0", "never"),
    Column("case_index", _NS, "count", "number of the case within stage and phase", "never"),
    Column("shared_prefix", _BOOL, "", "the prompt begins with the shared prefix", "never"),
    Column("sampling", _TEXT, "", "all sampling parameters as sent, JSON", "never"),
    Column("input_len_source", _TEXT, "", "where input_len comes from", "no input_len"),
    Column("reasoning_len", _INT, "tokens", "output tokens that are reasoning", _NOT_TOLD),
    Column(
        "mean_logprob",
        _REAL,
        "nat",
        "mean log probability of the answer's tokens, as the server told them",
        "not asked for, or not told",
    ),
    Column("first_tokens", _INT, "tokens", "cumulative count at the first token-bearing chunk", _NOT_STREAMED),
    Column("first_tokens_assumed", _BOOL, "", "the server did not tell first_tokens: 1 was assumed", _NOT_STREAMED),
    Column(
        "unattributed_tokens", _INT, "tokens", "final count minus the chunks' sum: tokens no chunk told of", "unknown"
    ),
    Column("ttft_answer_s", _REAL, "s", "first_answer_ns − sent_ns", _NOT_STREAMED),
    Column("total_time_from_due_s", _REAL, "s", "as total_time_s, from due_ns", "as total_time_s, or no due time"),
    Column("wait_s", _REAL, "s", "waited for the safety cap between due and sent", "never"),
    Column(
        "connect_wait_s",
        _REAL,
        "s",
        "waited for its turn to connect (connects are paced), before connect_s",
        "the connection was reused, or connects are not paced (transport plain)",
    ),
    Column("connect_s", _REAL, "s", "connection set-up, not part of TTFT", "the connection was reused, or none"),
    Column(
        "missing_stamps",
        _INT,
        "count",
        "reads stamped in user space although the kernel's stamp was asked for",
        "the kernel's stamps were not asked for",
    ),
    Column(
        "served_by",
        _TEXT,
        "",
        "which server behind a gateway answered, as the header served_by_header of the arm says",
        "the arm names no such header, or it did not come",
    ),
    Column("terminal", _TEXT, "", "what ended the answer: done, finish_reason or both", "nothing did"),
    Column("per_step_accepted", _INTS, "tokens", "accepted drafts of every round, in order", "no per-round data"),
    Column("per_step_drafted", _INTS, "tokens", "drafted tokens of every round, in order", "no per-round data"),
    Column("arrival_no", _INTS, "count", "arrival of every chunk: equal numbers came together", "not streamed"),
    Column("chunk_bytes", _INTS, "bytes", "size of every token-bearing chunk", "not streamed"),
    Column("warnings", pa.list_(pa.string()), "", "anomaly codes", "never"),
    Column("absent", _TEXT, "", "JSON object: column → why it is null", "never"),
    Column("prompt", _TEXT, "", "the prompt", "the scenario does not keep text"),
    Column("text", _TEXT, "", "the answer", "the scenario does not keep text, or none came"),
    Column("token_ids", _INTS, "", "token ids of the answer", "the scenario does not keep text, or " + _NOT_TOLD),
)

COLUMNS: tuple[str, ...] = tuple(column.name for column in CONTRACT)
EXTRA_COLUMNS: tuple[str, ...] = tuple(column.name for column in EXTRA)
