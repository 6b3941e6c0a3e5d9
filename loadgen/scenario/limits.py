"""Caps in front of the targets: what an environment allows, and what the scenario says itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from loadgen.scenario.base import Environment, Model, NotNegativeInt, Positive, PositiveInt, SomeSeconds, refuse

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario


class Safety(Model):
    """Caps in front of the target. None = the default of the environment (docs/scenario.md)."""

    max_requests_per_second: Positive | None = Field(None, description="in front of the target, whatever the load says")
    max_concurrency: PositiveInt | None = Field(None, description="requests in flight at once")
    max_requests: PositiveInt | None = Field(None, description="requests of the whole run, warm-up included")
    max_output_tokens: PositiveInt | None = Field(None, description="output tokens of the whole run")
    max_cost: Positive | None = Field(None, description="in the currency of price_per_million_output_tokens")
    price_per_million_output_tokens: Positive | None = Field(None, description="price that max_cost is reckoned with")
    abort_error_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="end the run when this share (0–1) of the last requests failed"
    )
    abort_waiting: PositiveInt | None = Field(
        None, description="end the run when the server's queue stays above so many requests"
    )
    breaker_failures: NotNegativeInt | None = Field(
        None,
        description="so many failures of an arm in a row (no connection, 5xx, broken streams) hold its load until its "
        "health has been looked at; 0 = never",
    )
    breaker_wait_s: SomeSeconds | None = Field(
        None, description="an engine found dead may be away for so long; then the run ends"
    )
    disruptive: bool = Field(
        False,
        description="anomalies and drills may be done to environment: staging; disposable needs no word, "
        "production never allows them",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Safety:
        if self.max_cost is not None and self.price_per_million_output_tokens is None:
            refuse([(("max_cost",), "needs price_per_million_output_tokens, or the cost is not known")])
        return self


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds: explicit keys of `safety`, else the environment's defaults. None = no cap."""

    environment: Environment
    max_requests_per_second: float | None = None
    max_concurrency: int | None = None
    max_requests: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    price_per_million_output_tokens: float | None = None
    abort_error_share: float | None = None
    abort_waiting: int | None = None
    breaker_failures: int = 20
    breaker_wait_s: float = 60.0


#: Careful against production; a disposable server has no cap but those the scenario names.
DEFAULTS: Mapping[Environment, Limits] = {
    "production": Limits(
        "production",
        max_requests_per_second=10.0,
        max_concurrency=64,
        max_requests=2_000,
        max_output_tokens=1_000_000,
        abort_error_share=0.2,
        abort_waiting=32,
        breaker_failures=10,
        breaker_wait_s=30.0,
    ),
    "staging": Limits(
        "staging",
        max_requests_per_second=80.0,
        max_concurrency=512,
        max_requests=16_000,
        max_output_tokens=8_000_000,
        abort_error_share=0.5,
        abort_waiting=256,
    ),
    "disposable": Limits("disposable"),
}


def combine(environment: Environment, safety: Safety) -> Limits:
    """The defaults of `environment`, each replaced by the key of `safety` where it is set, up or down."""
    default = DEFAULTS[environment]
    chosen: dict[str, Any] = {}
    for field in fields(Limits)[1:]:
        explicit = getattr(safety, field.name)
        chosen[field.name] = getattr(default, field.name) if explicit is None else explicit
    return Limits(environment, **chosen)


def limits_of(scenario: Scenario) -> Limits:
    """The caps that hold for `scenario`."""
    return combine(scenario.environment, scenario.safety)
