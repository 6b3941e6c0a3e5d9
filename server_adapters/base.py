"""What an adapter answers: how to ask a server, and what its bytes mean.

Everything here is data or an interface. An adapter knows one server family; the load
generator knows none. Absent facts are None; a reason stands beside them where a reader
of a report would ask for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

import httpx
from pydantic import SecretStr

Endpoint = Literal["completions", "chat"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of one request. All are always sent: omitted ones are not neutral (H9)."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = 0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


#: Text, or chat messages as the OpenAI API has them. Text on the chat endpoint is one user message;
#: messages on the completions endpoint are an error of the scenario.
Prompt = str | tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request before it is bytes."""

    endpoint: Endpoint
    model: str
    prompt: Prompt
    max_tokens: int
    sampling: Sampling
    stream: bool
    request_id: str
    cache_salt: str | None = None
    #: JSON Schema the answer must follow, for structured output; None for free text.
    json_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What goes on the wire: POST `path` under the arm's URL."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error the server told us: as an HTTP status with a body, or inside a 200 stream.

    `message` is the server's text, not yet redacted: records and reports redact it.
    """

    status: int | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class SpecStats:
    """A server's own speculation statistics of one request.

    `histogram[j]` = rounds that accepted exactly j drafts; per-step arrays have one entry
    a round. `drafted` is None where the server does not tell. Counted before trimming at
    stops (facts on vLLM: docs/method.md, "Speculation").
    """

    rounds: int
    accepted: int
    drafted: int | None
    k: int | None
    histogram: tuple[int, ...] | None = None
    step_accepted: tuple[int, ...] | None = None
    step_drafted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServerTimings:
    """The server's own view of one request, seconds; None where it does not tell."""

    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The meaning of one SSE data payload (or of a whole non-streaming body).

    `completion_tokens` is cumulative, as servers send it: never to be summed (B8).
    `token_ids` and `logprobs` (of the emitted tokens, nat) are those of this chunk alone. `has_output` is True when any
    generated channel (answer, reasoning, tool call, refusal, unknown field) holds text. A payload
    without choices (`has_choices` False: usage only, prompt filter results) never bears tokens.
    """

    has_choices: bool = False
    answer: str = ""
    reasoning: str = ""
    tool: str = ""
    has_output: bool = False
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    error: ServerError | None = None
    spec: SpecStats | None = None
    timings: ServerTimings | None = None


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """The meaning of consecutive plain payloads of one stream, in columns of equal length.

    Plain is a payload with choices that tells no more than output, token ids, usage and a finish reason.
    `ids[i]`: number of token ids. `completion_tokens[i]`: cumulative, -1 where not told.
    `outputs[i]` and `answers[i]`: 1 where it has output, and where the answer or a tool call has; else 0.
    `prompt_tokens` and `finish_reason`: the last that was told.
    """

    ids: Sequence[int]
    completion_tokens: Sequence[int]
    outputs: bytes
    answers: bytes
    prompt_tokens: int | None = None
    finish_reason: str | None = None

    def __len__(self) -> int:
        return len(self.ids)


class RunParser(Protocol):
    """An adapter that may also read many payloads at once."""

    def parse_run(self, payloads: Sequence[bytes]) -> ChunkRun:
        """The leading plain payloads, up to the first that is not; none of them may be.

        Of those it takes it says exactly what `parse_chunk` says of each; what `parse_chunk` would refuse, or say
        more of than a `ChunkRun` holds, it never takes.
        """


@dataclass(frozen=True, slots=True)
class Said:
    """The beginning of an answer. `token_ids` None: the server does not tell them."""

    token_ids: tuple[int, ...] | None
    text: str


#: Top log probabilities of one token: by token id where the server tells ids, else by the token's text; nat.
Tops = Mapping[int | str, float]


@dataclass(frozen=True, slots=True)
class NextToken:
    """One token that a server said: the log probabilities it told there, which of them it chose, and whether the answer
    ended with it."""

    tops: Tops
    chosen: int | str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe of a live server found. `notes`: sentences for the user, which flag would give more."""

    models: tuple[str, ...]
    max_model_len: int | None
    version: str | None
    metrics: bool
    #: True/False where the server's counters tell; None where they cannot be read.
    speculation: bool | None
    k: int | None
    spec_method: str | None
    continuous_usage: bool
    token_ids: bool
    per_request_spec: Literal["none", "summary", "detailed"] | None
    #: drafted counts are k × rounds by construction (ngram_gpu, adaptive verification): rollback is not
    #: exact even where the counts determine it; None = method unknown
    counts_artefact: bool | None
    #: usage in streams on request (`stream_options.include_usage`); False = the server refused the field
    stream_usage: bool
    cache_salt: bool
    tokenize: bool
    dev_mode: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of an arm, as plain JSON with where it came from; `value` None: not shown, for `reason`."""

    value: Any
    source: str | None = None
    reason: str | None = None


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Series:
    """One canonical series of one scrape.

    `name` is one of `CANONICAL`; `engine` and `position` are None where the server has
    no such label. The adapter has already mapped version-specific names to `name`.
    """

    name: str
    kind: MetricKind
    value: float
    engine: str | None = None
    position: int | None = None
    #: Any further label that must stay apart (a finish reason); never a sum over it.
    detail: str | None = None
    #: served model the series is about; windows take one model's series only (D31)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One scrape, understood. `model_names` and `engines` identify who was scraped (D31)."""

    series: tuple[Series, ...]
    model_names: tuple[str, ...]
    engines: tuple[str, ...]
    #: Unix time at which the server process started, where the page tells.
    started_unix_s: float | None


#: Canonical names of server series: every adapter maps to these, every analysis reads these.
CANONICAL: Mapping[str, MetricKind] = {
    "drafts": MetricKind.COUNTER,  # rounds: verification steps with a non-empty draft
    "draft_tokens": MetricKind.COUNTER,
    "accepted_tokens": MetricKind.COUNTER,
    "accepted_at": MetricKind.COUNTER,  # by position, 0-based
    "generation_tokens": MetricKind.COUNTER,
    "prompt_tokens": MetricKind.COUNTER,
    "prompt_tokens_cached": MetricKind.COUNTER,
    "prefix_cache_queries": MetricKind.COUNTER,
    "prefix_cache_hits": MetricKind.COUNTER,
    "preemptions": MetricKind.COUNTER,
    "requests_finished": MetricKind.COUNTER,  # detail = finish reason
    "requests_rejected": MetricKind.COUNTER,  # detail = reason
    "output_events_sum": MetricKind.COUNTER,  # seconds between a request's decode outputs, summed
    "output_events": MetricKind.COUNTER,  # decode outputs after a request's first: decode steps
    "ttft_sum": MetricKind.COUNTER,
    "ttft_count": MetricKind.COUNTER,
    "tpot_sum": MetricKind.COUNTER,
    "tpot_count": MetricKind.COUNTER,
    "queue_sum": MetricKind.COUNTER,
    "queue_count": MetricKind.COUNTER,
    "prefill_sum": MetricKind.COUNTER,
    "prefill_count": MetricKind.COUNTER,
    "decode_sum": MetricKind.COUNTER,
    "decode_count": MetricKind.COUNTER,
    "engine_steps": MetricKind.COUNTER,
    "running": MetricKind.GAUGE,
    "waiting": MetricKind.GAUGE,
    "kv_usage": MetricKind.GAUGE,
    "kv_capacity_tokens": MetricKind.GAUGE,
}


class CollectionError(Exception):
    """A page that cannot be used. `kind`: "not_metrics" (empty, HTML, unreadable) or
    "families_missing" (a metrics page with none of this server's families) (G23)."""

    def __init__(self, kind: Literal["not_metrics", "families_missing"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TargetError(Exception):
    """A target that cannot be used as asked. The message says what to do next."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where one server is and how to be let in. Metrics pages need not match replicas one to one (D5)."""

    url: str
    metrics_urls: tuple[str, ...]
    model: str | None
    headers: Mapping[str, SecretStr]
    #: what the user says of the speculation method, for servers that cannot tell it
    spec_method: str | None = None


class Adapter(Protocol):
    """One server family. `parse_…` and `build` are pure; the rest do HTTP through `client`.

    An adapter may have `RunParser.parse_run` besides: it makes reading cheap and changes no result.
    """

    name: str
    #: "step" where one engine step gives one chunk; "token" where every token is its own chunk.
    chunk_unit: Literal["step", "token"]
    #: answers 200 while the engine lives; None: the family has no such route
    health_path: str | None
    #: for test requests: lets the answer run to `max_tokens` where the server has a way to
    probe_sampling: Sampling

    def build(self, ask: Ask, capabilities: Capabilities) -> HttpRequest: ...

    def parse_chunk(self, data: bytes) -> Chunk:
        """Raise ValueError where `data` is not a payload of this server (outcome `malformed`)."""

    def parse_body(self, data: bytes) -> Chunk:
        """A whole non-streaming answer; ValueError as in `parse_chunk`."""

    def parse_error(self, status: int, body: bytes) -> ServerError: ...

    def parse_metrics(self, text: str) -> MetricsPage:
        """Raise CollectionError where the page holds none of this server's families."""

    async def probe(self, client: httpx.AsyncClient, target: Target, endpoint: Endpoint | None = None) -> Capabilities:
        """What answers on `endpoint` can tell; None: on completions, or chat where there are none.

        Raise TargetError: unreachable, refused (401/403), unknown model, no such endpoint."""

    async def environment(self, client: httpx.AsyncClient, target: Target) -> dict[str, Fact]:
        """What the server tells of itself, by the keys of docs/environment.md; others keep the server's own name.

        What it has no way to tell is absent, or has a reason where the user can change that."""

    async def count_tokens(
        self, client: httpx.AsyncClient, target: Target, prompt: Prompt, endpoint: Endpoint
    ) -> int | None:
        """Prompt tokens the server counts for `prompt`, template included; None where it cannot tell."""

    async def next_tokens(
        self, client: httpx.AsyncClient, target: Target, ask: Ask, said: Said, top: int, capabilities: Capabilities
    ) -> tuple[NextToken, ...]:
        """What the server would say next after `ask.prompt` and `said`, at most `ask.max_tokens` tokens and at least
        one: of each the `top` most likely, or fewer.

        Raise TargetError where it has no way to tell."""
