"""What a number of summary.json is, and how it is absent."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )


class Absent(Model):
    """In place of a part that was not measured."""

    value: None = None
    reason: str


class D(Model):
    """A distribution. Percentiles are nearest rank over all samples; null below the sample
    size they need, with the reason in `reasons` (docs/method.md, "Percentiles"). `per` says what
    one sample is. `all_sent` is the second view: failed and drain-cut requests count as +∞.
    """

    n: int
    unit: str = "s"
    per: str  # "request", "chunk", "token", "arrival"
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    intervals: dict[str, tuple[float, float]] = {}
    source: str
    reason: str | None = None
    reasons: dict[str, str] = {}
    all_sent: AllSent | None = None


class AllSent(Model):
    """Percentiles over every request sent; null and named in `infinite` where the rank falls among failures."""

    n: int
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    infinite: list[str] = []


class N(Model):
    """One number with its range (low = high = value where exact and no interval is claimed).

    `n` counts the denominator of a ratio (drafted tokens of α, rounds, steps), else requests. A `reason`
    beside a value says what is missing from it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    source: str
    reason: str | None = None
