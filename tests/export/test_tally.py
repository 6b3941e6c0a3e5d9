"""What ended requests add to the metrics, exact from hand-made stamps."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadgen.drive import UNKNOWN_TOKENS, Attempt, LoopHealth, Outcome
from loadgen.export.tally import ArmHow, Group, RequestTally, Speculated, TallySetup, Told
from server_adapters.base import SpecStats

MakeAttempt = Callable[..., Attempt]
MakeSetup = Callable[..., TallySetup]
CHUNKS = [(150, 1), (250, 3), (250, 2), (600, 1)]


def tell(setup: TallySetup, *attempts: Attempt) -> Told:
    tally = setup(0)
    for one in attempts:
        tally.attempt(one)
    told = pickle.loads(pickle.dumps(tally.take()))
    assert isinstance(told, Told)
    return told


def test_one_stream(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """TTFT 150 ms, total 600 ms, TPOT 450 ms ÷ 6 tokens; two chunks of one arrival make one gap."""
    told = tell(setup(), attempt(CHUNKS))
    (group, sums), *rest = told.groups.items()
    assert rest == []
    assert group == Group("base", "code", "c2", "true")
    assert sums.outcomes == {"ok": 1}
    assert (sums.prompt_tokens, sums.output_tokens, sums.good) == (30, 7, 0)
    assert {name: counted.counts for name, counted in sums.latencies.items()} == {
        "ttft_s": [0, 1, 0, 0], "total_time_s": [0, 0, 0, 1], "tpot_s": [1, 0, 0, 0], "chunk_gap_s": [1, 0, 1, 0],
    }  # fmt: skip
    assert sums.latencies["tpot_s"].total == pytest.approx(0.075)
    assert sums.latencies["chunk_gap_s"].total == pytest.approx(0.45)
    assert sums.chunk_tokens is not None
    assert sums.chunk_tokens.counts == [2, 1, 1, 0, 0, 0]
    assert sums.latencies["ttft_s"].exemplars[1].request_id == "r0"
    assert told.lags["base"].counts == [1, 0, 0, 0]
    assert told.lags["base"].total == pytest.approx(0.002)
    assert told.ended == {0: 1}


def test_streams_and_whole_answers_are_never_pooled(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """G25: a whole answer has a total time, and no first token."""
    whole = attempt([], stream=False, end_ns=1_300_000_000, output_len=5, first_token_ns=None)
    told = tell(setup(), attempt(CHUNKS), whole)
    groups = {group.stream: sums for group, sums in told.groups.items()}
    assert groups["true"].latencies["total_time_s"].counts == [0, 0, 0, 1]
    assert groups["false"].latencies["total_time_s"].counts == [0, 0, 1, 0]
    assert set(groups["false"].latencies) == {"total_time_s"}


def test_failures_are_counted_and_give_no_latency(attempt: MakeAttempt, setup: MakeSetup) -> None:
    failed = attempt(CHUNKS, outcome=Outcome.STREAM_ERROR, output_len=None, index=1)
    ((_, sums),) = tell(setup(), failed).groups.items()
    assert sums.outcomes == {"stream_error": 1}
    assert sums.latencies == {}
    assert (sums.output_tokens, sums.chunk_tokens, sums.speculated) == (0, None, {})


def test_warm_up_is_apart(attempt: MakeAttempt, setup: MakeSetup) -> None:
    told = tell(setup(), attempt(CHUNKS, phase="warmup"))
    assert (told.groups, told.lags) == ({}, {})
    assert told.warmups == {("base", "ok"): 1}
    assert told.ended == {0: 1}


@pytest.mark.parametrize(
    ("slos", "good"),
    [
        ({"ttft_s": 0.15, "tpot_s": 0.08, "total_time_s": 0.6}, 1),
        ({"ttft_s": 0.149}, 0),
        ({"tpot_s": 0.07}, 0),
        ({"total_time_s": 0.59}, 0),
        ({}, 0),
    ],
)
def test_goodput(attempt: MakeAttempt, setup: MakeSetup, slos: dict[str, float], good: int) -> None:
    ((_, sums),) = tell(setup(slos=slos), attempt(CHUNKS)).groups.items()
    assert sums.good == good


def test_a_limit_that_does_not_apply_is_met_an_unknown_number_is_not(attempt: MakeAttempt, setup: MakeSetup) -> None:
    slos = {"tpot_s": 0.01, "ttft_s": 0.2}
    one_chunk = attempt([(150, 3)])
    unknown = attempt([(150, 3), (300, 3)], output_len=None)
    whole = attempt([], stream=False, end_ns=2_000_000_000)
    goods = [sums.good for one in (one_chunk, unknown, whole) for sums in tell(setup(slos=slos), one).groups.values()]
    assert goods == [1, 0, 1]


def test_speculation_by_source(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """D6: what the answers tell, and what the chunks show, are two sources. 1 round accepted 0, 2 accepted 2."""
    spec = SpecStats(3, 4, 6, 2, (1, 0, 2))
    told = tell(
        setup(arms={"base": ArmHow("step", 2, False)}), attempt([(100, 1), (150, 1), (200, 3), (250, 3)], spec=spec)
    )
    ((_, sums),) = told.groups.items()
    assert sums.speculated == {
        "per_request": Speculated(drafted=6, accepted=4, rounds=3, rolled_back=1, at=[2, 2]),
        "client_chunk": Speculated(drafted=None, accepted=4, rounds=3),
    }


def test_rollbacks_that_may_be_an_artefact_are_none(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """Only what is certain counts: k × rounds drafted of a method nobody knows may be made up."""
    spec = SpecStats(3, 4, 6, 2, (1, 0, 2))
    found = []
    for artefact in (False, None, True):
        how = setup(arms={"base": ArmHow("token", 2, artefact)})
        ((_, sums),) = tell(how, attempt([(100, 1)], spec=spec)).groups.items()
        found.append(sums.speculated["per_request"].rolled_back)
        assert "client_chunk" not in sums.speculated
    assert found == [1, 0, 0]


@pytest.mark.parametrize(
    "chunks",
    [[(100, 1), (150, UNKNOWN_TOKENS)], [(100, 1), (150, 6)], [(100, 1), (150, 2)]],
    ids=["unknown", "merged", "a token no chunk told of"],
)
def test_chunks_that_are_no_steps_tell_none(attempt: MakeAttempt, setup: MakeSetup, chunks: list[Any]) -> None:
    told = tell(setup(), attempt(chunks, output_len=4 if chunks[1][1] == 2 else sum(n for _, n in chunks)))
    ((_, sums),) = told.groups.items()
    assert sums.speculated == {}


def test_what_is_told_does_not_grow_with_the_requests(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """The pipe carries sums: 2,000 requests of one group are as many bytes as 20, but for the numbers themselves."""
    sizes = []
    for n in (20, 2000):
        tally = setup()(0)
        for i in range(n):
            tally.attempt(attempt(CHUNKS, index=i % 10))
        sizes.append(len(pickle.dumps(tally.take())))
    assert sizes[1] <= sizes[0] + 200
    assert sizes[0] < 5000


def test_taking_begins_anew(attempt: MakeAttempt, setup: MakeSetup) -> None:
    tally: RequestTally = setup()(0)
    tally.attempt(attempt(CHUNKS))
    health = LoopHealth(1, 0, 0.001, 0.002, 0.5, 1, 0.0, 1000)
    tally.health(health)
    first, second = tally.take(), tally.take()
    assert first.health == health
    assert len(first.groups) == 1
    assert second == Told()


def test_a_stage_or_task_beyond_the_first_ones_is_other(attempt: MakeAttempt, setup: MakeSetup) -> None:
    """G21."""
    told = tell(setup(stages={0: "other"}), attempt(CHUNKS, task="never heard of"))
    assert [(g.task_type, g.stage) for g in told.groups] == [("other", "other")]


def test_tokens_of_chunks_are_integers(attempt: MakeAttempt, setup: MakeSetup) -> None:
    ((_, sums),) = tell(setup(), attempt([(100, 1), (200, 300)])).groups.items()
    assert sums.chunk_tokens is not None
    assert sums.chunk_tokens.counts == [1, 0, 0, 0, 0, 1]
    assert np.isclose(sums.chunk_tokens.total, 301)
