"""Distributions of prompt and answer lengths, in tokens."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from loadgen.scenario.base import Loc, Model, NotNegative, Positive, Tokens, refuse

#: Lengths outside the bounds are drawn again: below this share inside them, the bounds are a mistake.
LEAST_MASS = 0.01


class Fixed(Model):
    """Always the same length."""

    kind: Literal["fixed"] = Field(description="always the same length")
    value: Tokens = Field(description="tokens")


class Uniform(Model):
    """Every whole number from `low` to `high` is equally likely."""

    kind: Literal["uniform"] = Field(description="every length between two bounds is equally likely")
    low: Tokens = Field(description="smallest length, tokens")
    high: Tokens = Field(description="largest length, tokens, inclusive")

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        refuse(_order(self.low, self.high))
        return self


class Normal(Model):
    """Normal, rounded to whole tokens, truncated to [low, high]."""

    kind: Literal["normal"] = Field(description="normal, rounded to whole tokens, within bounds")
    mean: Positive = Field(description="tokens, before the bounds cut")
    stddev: NotNegative = Field(description="tokens, before the bounds cut")
    low: Tokens = Field(1, description="lengths below are drawn again")
    high: Tokens | None = Field(None, description="lengths above are drawn again; default: no bound")

    @model_validator(mode="after")
    def _bounded(self) -> Normal:
        refuse(
            _order(self.low, self.high)
            or _mass(
                (self.low - 0.5 - self.mean, self.stddev),
                (math.inf if self.high is None else self.high + 0.5 - self.mean, self.stddev),
            )
        )
        return self


class LogNormal(Model):
    """exp of a normal, rounded to whole tokens, truncated to [low, high]: long tails, as real traffic has."""

    kind: Literal["lognormal"] = Field(description="log-normal, rounded to whole tokens, within bounds")
    median: Positive = Field(description="tokens, before the bounds cut")
    sigma: Annotated[float, Field(ge=0, le=4)] = Field(description="standard deviation of ln(length)")
    low: Tokens = Field(1, description="lengths below are drawn again")
    high: Tokens | None = Field(None, description="lengths above are drawn again; default: no bound")

    @model_validator(mode="after")
    def _bounded(self) -> LogNormal:
        centre = math.log(self.median)
        refuse(
            _order(self.low, self.high)
            or _mass(
                (math.log(self.low - 0.5) - centre, self.sigma),
                (math.inf if self.high is None else math.log(self.high + 0.5) - centre, self.sigma),
            )
        )
        return self


class Empirical(Model):
    """Lengths that were observed."""

    kind: Literal["empirical"] = Field(description="one of a list of observed lengths")
    values: list[Tokens] = Field(min_length=1, description="lengths, tokens; one is drawn at random")


Length = Annotated[Fixed | Uniform | Normal | LogNormal | Empirical, Field(discriminator="kind")]


class PairedLengths(Model):
    """Input and output lengths drawn together, as (input, output) pairs."""

    pairs: list[Annotated[tuple[Tokens, Tokens], Field(strict=False)]] = Field(
        min_length=1, description="[input, output] in tokens; one pair is drawn at random"
    )


def shortest(length: Length) -> int:
    """The smallest length that can be drawn, tokens."""
    if isinstance(length, Fixed):
        return length.value
    if isinstance(length, Empirical):
        return min(length.values)
    return length.low


def _order(low: int, high: int | None) -> list[tuple[Loc, str]]:
    if high is not None and low > high:
        return [(("low",), f"must not be above high ({low} > {high})")]
    return []


def _mass(below: tuple[float, float], above: tuple[float, float]) -> list[tuple[Loc, str]]:
    """`below`, `above`: (distance of the bound from the centre, spread). What lies between is kept."""
    kept = _cdf(*above) - _cdf(*below)
    if kept < LEAST_MASS:
        return [((), f"low and high leave {kept:.2%} of the distribution; at least {LEAST_MASS:.0%} is needed")]
    return []


def _cdf(distance: float, spread: float) -> float:
    if spread == 0 or math.isinf(distance):
        return float(distance >= 0)
    return 0.5 * math.erfc(-distance / (spread * math.sqrt(2)))
