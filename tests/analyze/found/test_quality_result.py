"""Whose answers a quality run is of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loadgen.analyze import Evidence
from loadgen.analyze.found.quality import PassAsked
from loadgen.analyze.found.quality_records import learns
from loadgen.analyze.found.quality_result import _determinism, _of_arm, _of_sampling
from server_adapters.base import Fact


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


def test_the_engines_mode_is_its_own_word() -> None:
    """H6, H7: one that tells the flag, on and off, and one that does not; nothing is claimed from it."""
    source = "/server_info vllm_env.VLLM_BATCH_INVARIANT"
    told = {"on": Fact(True, source), "off": Fact(False, source)}
    arms: dict[str, Any] = {
        arm: SimpleNamespace(environment={"kernels.batch_invariant": fact}) for arm, fact in told.items()
    }
    arms["silent"] = SimpleNamespace(environment={})
    run: Any = SimpleNamespace(manifest=SimpleNamespace(arms=arms))
    found = {arm: facts["kernels.batch_invariant"] for arm, facts in _determinism(run).items()}
    assert found == {
        "on": {"value": True, "source": source},
        "off": {"value": False, "source": source},
        "silent": {"value": None, "source": None},
    }
    records: Any = SimpleNamespace(evidence=Evidence("on", ("off", "silent"), {}), same_seed=[])
    (mode,) = [one for one in _of_sampling(run, records, {}) if one.id == "determinism_mode"]
    assert (mode.severity, mode.text) == (
        "info",
        "temperature 0 is no promise of the same answer; the engines' modes: on: VLLM_BATCH_INVARIANT True, "
        "off: VLLM_BATCH_INVARIANT False, silent: batch invariance not shown",
    )


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("ngram", None),
        ("draft_model", None),
        ("eagle3", None),
        ("suffix", "the drafter (suffix) drafts from earlier answers"),
        ("custom_class", "the drafter (custom_class) is of the server's owner and may learn from answers"),
        (None, "the drafter's method is not told"),
    ],
)
def test_a_drafter_that_learns_from_answers_has_no_steady_acceptance(method: str | None, why: str | None) -> None:
    """D29: a healthy one accepts more in every pass, as a repetition loop would."""
    found = learns(method)
    assert (found is None) == (why is None)
    assert why is None or str(found).startswith(why)
