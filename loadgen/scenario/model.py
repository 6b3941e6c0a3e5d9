"""The scenario: what to ask for. Every key a user may write is a field here, described.

Unknown keys are errors. Units are in the names. Defaults are what a careful SRE would
choose against a production server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(ge=1)]
Environment = Literal["production", "staging", "disposable"]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# ---------------------------------------------------------------- lengths


class Fixed(Model):
    kind: Literal["fixed"]
    value: PositiveInt = Field(description="tokens")


class Uniform(Model):
    kind: Literal["uniform"]
    low: PositiveInt = Field(description="smallest length, tokens")
    high: PositiveInt = Field(description="largest length, tokens, inclusive")


class Normal(Model):
    kind: Literal["normal"]
    mean: Positive = Field(description="tokens")
    stddev: Annotated[float, Field(ge=0)] = Field(description="tokens")
    low: PositiveInt = Field(1, description="lengths below are drawn again")
    high: PositiveInt | None = Field(None, description="lengths above are drawn again")


class LogNormal(Model):
    kind: Literal["lognormal"]
    median: Positive = Field(description="tokens")
    sigma: Annotated[float, Field(ge=0, le=4)] = Field(description="standard deviation of ln(length)")
    low: PositiveInt = Field(1, description="lengths below are drawn again")
    high: PositiveInt | None = Field(None, description="lengths above are drawn again")


class Empirical(Model):
    kind: Literal["empirical"]
    values: list[PositiveInt] = Field(min_length=1, description="observed lengths; one is drawn at random")


Length = Annotated[Fixed | Uniform | Normal | LogNormal | Empirical, Field(discriminator="kind")]


# ---------------------------------------------------------------- arms


class SecretSource(Model):
    """Where a secret is read from: exactly one of the two."""

    env: str | None = Field(None, description="environment variable that holds the secret")
    file: Path | None = Field(None, description="file whose first line is the secret")


class Arm(Model):
    """One side of a comparison: a server, or several replicas of it."""

    url: str | None = Field(None, description="base URL, http(s)://host:port; the adapter adds /v1/…")
    urls: list[str] = Field(default_factory=list, description="several replicas, used in turn, instead of url")
    metrics_urls: list[str] | None = Field(
        None, description="all pages that hold this arm's counters; default: each replica's /metrics; [] = none"
    )
    adapter: Literal["vllm", "openai"] = Field("vllm", description="server family")
    spec_method: str | None = Field(None, description="speculation method, where the server cannot tell it")
    model: str | None = Field(None, description="model name to ask for; default: the only one the server lists")
    api_key: SecretSource | None = Field(None, description="bearer token, read from the environment or a file")
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="further request headers")
    speculation: Literal["on", "off"] | None = Field(
        None, description="what the server must be found to do; a mismatch fails the preflight"
    )
    declared_differences: list[str] = Field(
        default_factory=list, description="differences from the baseline that are meant, besides speculation"
    )
    facts: dict[str, str | float | int | bool] = Field(
        default_factory=dict, description="facts the server cannot tell: GPU, driver, price per GPU hour"
    )


# ---------------------------------------------------------------- workload


class SamplingKeys(Model):
    """Sampling parameters. All are sent with every request and stored with every record."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1)] = Field(-1, description="-1 = off; 0 is ambiguous and refused")
    seed: int | None = Field(0, description="per-case seeds derive from it; null = the server's own randomness")
    stop: list[str] = Field(default_factory=list, description="stop strings; vLLM then gives no per-request statistics")
    ignore_eos: bool = Field(False, description="true makes acceptance not representative")
    min_tokens: Annotated[int, Field(ge=0)] = 0
    extra: dict[str, Any] = Field(default_factory=dict, description="further request fields, sent as they are")


class PairedLengths(Model):
    """Input and output lengths drawn together, as (input, output) pairs."""

    pairs: list[tuple[PositiveInt, PositiveInt]] = Field(min_length=1)


class Task(Model):
    """One kind of traffic."""

    task_type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")] = Field(
        description="label in every result; short_qa, long_form, structured and code have generators"
    )
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(1.0, description="share of requests")
    prompts: Path | None = Field(
        None,
        description="JSONL of own prompts: one object a line with prompt or messages, and optionally task_type, "
        "case_id, max_tokens; default: generated, which is not representative for acceptance",
    )
    input_len: Length | None = Field(None, description="prompt tokens of generated prompts")
    output_len: Length | None = Field(None, description="max_tokens of a request")
    lengths: PairedLengths | None = Field(None, description="instead of input_len and output_len")
    json_schema: bool = Field(False, description="ask the server to enforce the prompt's JSON Schema (structured)")
    sampling: SamplingKeys | None = Field(None, description="instead of the scenario's sampling")


class SharedPrefix(Model):
    fraction: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="share of requests that begin with it")
    tokens: Annotated[int, Field(ge=0)] = Field(0, description="its length")


class Workload(Model):
    tasks: list[Task] = Field(min_length=1)
    endpoint: Literal["completions", "chat"] = "chat"
    stream_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="share of requests that stream; the others are reported apart"
    )
    shared_prefix: SharedPrefix = SharedPrefix()
    cache: Literal["cold", "warm"] = Field(
        "cold", description="cold: a fresh cache salt for every request; warm: prompts may hit the prefix cache"
    )
    keep_text: bool = Field(False, description="store prompts and answers in the run directory")


# ---------------------------------------------------------------- load


class Ramp(Model):
    """Linear in time."""

    start: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    end: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ConcurrencyStage(Model):
    """Closed loop: each of `concurrency` users sends its next request when its last one ended."""

    kind: Literal["concurrency"]
    name: str | None = Field(None, description="label of the stage; default: made from its load")
    concurrency: PositiveInt | Ramp = Field(description="users, or a ramp of them")
    duration_s: Positive | None = Field(None, description="end by time")
    cases: PositiveInt | None = Field(None, description="end by number of requests (fair between arms)")


class ArrivalStage(Model):
    """Open loop: requests start when they are due, whatever the server does."""

    kind: Literal["arrival_rate"]
    name: str | None = None
    rate_per_s: Positive | Ramp = Field(description="requests per second, or a ramp of it")
    arrivals: Literal["uniform", "poisson", "gamma"] = "poisson"
    burstiness: Positive = Field(
        1.0, description="gamma only: shape of the gaps; 1 = Poisson, below 1 = bursts, above 1 = more even"
    )
    duration_s: Positive
    max_in_flight: PositiveInt = Field(1000, description="cap; arrivals that meet it are counted")
    when_full: Literal["drop", "wait"] = "drop"


Stage = Annotated[ConcurrencyStage | ArrivalStage, Field(discriminator="kind")]


class Warmup(Model):
    """Before each stage's measured part, with the same shapes: until both are reached."""

    warmup_requests: Annotated[int, Field(ge=0)] | None = Field(
        None, description="default: max(3, 2 × concurrency); 0 = none"
    )
    warmup_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class DeadlineKeys(Model):
    """Limits of one request; each is separate and every hit is an outcome, not a retry."""

    connect_s: Positive = 10.0
    byte_idle_s: Positive | None = Field(60.0, description="no byte at all for so long: timeout")
    token_idle_s: Positive | None = Field(60.0, description="bytes but no token for so long: stalled")
    total_s: Positive | None = Field(None, description="whole request; off by default (long answers are healthy)")
    drain_s: Annotated[float, Field(ge=0)] = Field(
        30.0, description="how long requests in flight may finish after a stage; the rest are cut and say so"
    )


class Slos(Model):
    """Limits a request must meet to count as goodput."""

    ttft_s: Positive | None = None
    tpot_s: Positive | None = None
    total_time_s: Positive | None = None


class Safety(Model):
    """Caps in front of the target. None = the default of the environment (docs/scenario.md)."""

    max_requests_per_second: Positive | None = None
    max_concurrency: PositiveInt | None = None
    max_requests: PositiveInt | None = None
    max_output_tokens: PositiveInt | None = None
    max_cost: Positive | None = Field(None, description="in the currency of price_per_million_output_tokens")
    price_per_million_output_tokens: Positive | None = None
    abort_error_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="end the run when so many of the last requests failed"
    )
    abort_waiting: PositiveInt | None = Field(None, description="end the run when the server's queue stays above")


class Scrape(Model):
    interval_s: Annotated[float, Field(ge=0.2)] = Field(
        5.0, description="seconds between scrapes of a metrics page; shorter stages scrape at a tenth of their length"
    )
    timeout_s: Positive = 3.0
    idle_wait_s: Annotated[float, Field(ge=0)] = Field(
        30.0, description="how long to wait for an idle server before and after a measured part"
    )


class Scenario(Model):
    """One scenario file."""

    version: Literal[1] = Field(description="version of this format")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    description: str = ""
    objective: Literal["latency", "throughput", "cost", "quality"] = "latency"
    environment: Environment = Field("production", description="what may be done to the targets")
    experiment: Literal["run"] = Field("run", description="shape of the work")
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    repeats: PositiveInt = Field(1, description="passes over the same plan")
    arms: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")], Arm] = Field(min_length=1)
    workload: Workload
    sampling: SamplingKeys = SamplingKeys()
    load: list[Stage] = Field(min_length=1)
    warmup: Warmup = Warmup()
    deadlines: DeadlineKeys = DeadlineKeys()
    slos: Slos = Slos()
    safety: Safety = Safety()
    scrape: Scrape = Scrape()
