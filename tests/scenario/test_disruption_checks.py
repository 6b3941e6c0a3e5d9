"""Experiments that may break a server are refused where they are not allowed, and say what would allow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from loadgen.scenario import Scenario
from loadgen.scenario.disruption_checks import DISRUPTIVE, disruption_problems

Build = Callable[[dict[str, Any]], Scenario]


@pytest.mark.parametrize("what", sorted(DISRUPTIVE))
def test_production_never(build: Build, what: str) -> None:
    with pytest.raises(ValidationError, match=rf"{what} may break a server and is refused on environment: production"):
        build({"experiment": what, "environment": "production", "safety.disruptive": True})


@pytest.mark.parametrize("what", sorted(DISRUPTIVE))
def test_staging_needs_the_word(build: Build, what: str) -> None:
    with pytest.raises(ValidationError, match=r"needs safety\.disruptive: true"):
        build({"experiment": what, "environment": "staging"})


def test_a_run_may_go_anywhere(build: Build) -> None:
    assert not list(disruption_problems(build({"environment": "production"})))
