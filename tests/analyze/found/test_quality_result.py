"""Whose answers a quality run is of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from loadgen.analyze import Evidence
from loadgen.analyze.found.quality import PassAsked
from loadgen.analyze.found.quality_result import _of_arm


def asked(stage: str, arm: str, requests: int, failed: int = 0) -> PassAsked:
    told = {"timeout": failed} if failed else {}
    return PassAsked(
        stage=stage, kind=stage, arm=arm, passes=1, concurrency=1, requests=requests, failed=told
    )  # fmt: skip


def obstacles(*passes: PassAsked) -> list[str]:
    arms = {arm: SimpleNamespace(environment={}) for arm in ("baseline", "candidate")}
    run: Any = SimpleNamespace(manifest=SimpleNamespace(arms=arms))
    records: Any = SimpleNamespace(evidence=Evidence("baseline", ("candidate",), {}), passes=passes)
    return list(_of_arm(run, records, "candidate"))


def test_thousands_of_short_answers_do_not_hide_long_ones_that_failed() -> None:
    """J1, F10: the longest prompts fail on the candidate alone; what is left of them agrees."""
    whole = [asked("greedy", "baseline", 60), asked("second-tokens", "baseline", 2400)]
    short = asked("second-tokens", "candidate", 2400)
    assert obstacles(*whole, asked("greedy", "candidate", 40, 4), short) == []
    assert obstacles(*whole, asked("greedy", "candidate", 40, 20), short) == [
        "candidate: 20 of 40 requests of greedy failed (timeout 20): what is left is of the survivors"
    ]
    assert obstacles(*whole, asked("greedy", "candidate", 0), asked("second-tokens", "candidate", 0)) == [
        "candidate was not asked"
    ]
