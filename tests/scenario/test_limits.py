"""Caps: defaults of the environments, and what a scenario says itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.scenario import Limits, Safety, Scenario, limits_of
from loadgen.scenario.limits import DEFAULTS, combine

Build = Callable[[dict[str, Any]], Scenario]


def test_production_is_the_default_and_is_careful(right: dict[str, Any]) -> None:
    del right["environment"]
    assert limits_of(Scenario.model_validate(right)) == Limits(
        "production",
        max_requests_per_second=10.0,
        max_concurrency=64,
        max_requests=2_000,
        max_output_tokens=1_000_000,
        max_cost=None,
        price_per_million_output_tokens=None,
        abort_error_share=0.2,
        abort_waiting=32,
        breaker_failures=10,
        breaker_wait_s=30.0,
    )


def test_a_disposable_server_has_only_the_caps_that_are_set(build: Build) -> None:
    assert set(astuple(limits_of(build({})))[1:-2]) == {None}
    assert astuple(limits_of(build({})))[-2:] == (20, 60.0), "a dead engine is looked at everywhere"
    assert limits_of(build({"safety.breaker_failures": 0})).breaker_failures == 0
    limits = limits_of(build({"safety.max_requests": 50, "safety.abort_error_share": 0.5}))
    assert (limits.max_requests, limits.abort_error_share, limits.max_concurrency) == (50, 0.5, None)


def test_staging_lies_between(build: Build) -> None:
    staging, production = limits_of(build({"environment": "staging"})), DEFAULTS["production"]
    for key in ("max_requests_per_second", "max_concurrency", "max_requests", "max_output_tokens", "abort_waiting"):
        assert getattr(staging, key) == 8 * getattr(production, key)


@pytest.mark.parametrize("key", [f.name for f in fields(Limits)[1:]])
def test_limits_and_safety_have_the_same_keys(key: str) -> None:
    assert key in Safety.model_fields
    assert {f.name for f in fields(Limits)} - {"environment"} == Safety.model_fields.keys() - {"disruptive"}


@given(
    environment=st.sampled_from(["production", "staging", "disposable"]),
    concurrency=st.none() | st.integers(1, 10_000),
    waiting=st.none() | st.integers(1, 10_000),
)
def test_an_explicit_key_holds_up_or_down(environment: Any, concurrency: int | None, waiting: int | None) -> None:
    limits = combine(environment, Safety(max_concurrency=concurrency, abort_waiting=waiting))
    default = DEFAULTS[environment]
    assert limits.max_concurrency == (default.max_concurrency if concurrency is None else concurrency)
    assert limits.abort_waiting == (default.abort_waiting if waiting is None else waiting)
    assert limits.max_requests == default.max_requests
    assert limits.environment == environment
