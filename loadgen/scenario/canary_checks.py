"""What of a scenario does not fit its section `canary`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadgen.scenario.base import Loc
from loadgen.scenario.canary import BY_COUNTERS, BY_PROBES, CanaryKeys
from loadgen.scenario.limits import combine

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

#: Blocks of time in a window, over which its intervals are taken; they need 20 with something in them.
WINDOW_BLOCKS = 24
#: Pairs of probes in a window without which a 95th percentile has no interval.
PAIRS_FOR_P95 = 90


def canary_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top; none where there is no section."""
    keys = scenario.canary
    if keys is None:
        return
    if len(scenario.arms) != 2:
        yield ("canary",), f"needs two arms, a baseline and a canary; there are {', '.join(scenario.arms)}"
    if keys.probes is None and not keys.counters:
        yield ("canary", "counters"), "is false, and without probes there is nothing to watch"
    if keys.on_fail == "switch" and keys.switch is None:
        yield ("canary", "on_fail"), "is switch, and canary.switch does not say how it is pulled"
    if not any(getattr(keys.limits, name) is not None for name in _checked(keys)):
        yield ("canary", "limits"), "leave nothing to check"
    yield from _of_looks(scenario, keys)
    yield from _of_probes(scenario, keys)


def _checked(keys: CanaryKeys) -> list[str]:
    return [*(BY_PROBES if keys.probes is not None else ()), *(BY_COUNTERS if keys.counters else ())]


def _of_looks(scenario: Scenario, keys: CanaryKeys) -> Iterator[tuple[Loc, str]]:
    least = WINDOW_BLOCKS * scenario.scrape.interval_s
    if keys.counters and keys.window_s < least:
        yield (
            ("canary", "window_s"),
            f"must be at least {least:g} ({WINDOW_BLOCKS} × scrape.interval_s): an interval needs so many looks",
        )


def _of_probes(scenario: Scenario, keys: CanaryKeys) -> Iterator[tuple[Loc, str]]:
    if keys.probes is None:
        return
    where: Loc = ("canary", "probes", "requests_per_s")
    rate, cap = keys.probes.requests_per_s, combine(scenario.environment, scenario.safety).max_requests_per_second
    if cap is not None and rate > cap:
        yield (
            where,
            f"{rate:g} is above safety.max_requests_per_second ({cap:g}, environment: {scenario.environment}): "
            "lower one, or raise the other",
        )
    pairs = rate * keys.window_s / 2
    needed = [(WINDOW_BLOCKS, name) for name in BY_PROBES] + [(PAIRS_FOR_P95, n) for n in BY_PROBES if "p95" in n]
    for least, name in needed:
        if pairs < least and getattr(keys.limits, name) is not None:
            yield (
                where,
                f"gives {pairs:g} pairs in a window, and {name} needs {least}: raise it or canary.window_s, or set "
                f"canary.limits.{name}: null",
            )
