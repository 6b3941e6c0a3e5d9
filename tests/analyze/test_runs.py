"""Runs of consecutive rollbacks and the tail."""

import pytest

approx = pytest.approx

GOOD, BAD = (4, 4), (1, 4)


def stream(seconds: float) -> list[tuple[float, int]]:
    """11 tokens, the last ten of them within `seconds`."""
    return [(0.1, 1), (0.1 + seconds, 10)]


def test_runs_within_requests(run) -> None:
    """Runs of 1 and 3 in one request, 2 in the next: they do not join across requests."""
    run.segment()
    run.request(stream(0.1), **run.speculated([BAD, GOOD, BAD, BAD, BAD]))
    run.request(stream(0.1), **run.speculated([BAD, BAD, GOOD]))
    runs = run.overall().speculation.rollback_runs
    assert (runs.longest.value, runs.longest.n, runs.longest.source) == (3, 2, "per_request")
    assert (runs.mean.value, runs.mean.n) == (approx(6 / 3), 3)
    assert (runs.share.value, runs.share.n) == (approx(1 / 2), 2)


def test_runs_in_the_tail(run) -> None:
    """40 streams, the two slowest per token above P95: one of the two has a run of 3, two of the 40 do."""
    run.segment(load_end=100.0, end=100.0)
    for i in range(1, 41):
        steps = [BAD, BAD, BAD, GOOD] if i in (3, 40) else [BAD, GOOD, BAD, GOOD]
        run.request(stream(i / 100), **run.speculated(steps))
    runs = run.overall().speculation.rollback_runs
    assert (runs.share.value, runs.share.n) == (approx(2 / 40), 40)
    assert (runs.share_in_tpot_tail.value, runs.share_in_tpot_tail.n) == (approx(1 / 2), 2)
    assert (runs.share_in_total_time_tail.value, runs.share_in_total_time_tail.n) == (approx(1 / 2), 2)


def test_a_long_answer_is_in_the_tail_of_total_time_only(run) -> None:
    """Length alone puts it there: 20 even streams, one of them ten times as long at the same pace."""
    run.segment(load_end=100.0, end=100.0)
    for i in range(1, 40):
        run.request([(0.1, 1), (0.2 + i / 1000, 10)], **run.speculated([BAD, GOOD]))
    run.request([(0.1, 1), (1.1, 99)], **run.speculated([BAD] * 3))
    runs = run.overall().speculation.rollback_runs
    assert runs.share_in_total_time_tail.value == approx(1 / 2)
    assert runs.share_in_tpot_tail.value == 0.0


def test_too_few_streams_have_no_tail(run) -> None:
    run.segment()
    run.request(stream(0.1), **run.speculated([BAD]))
    tail = run.overall().speculation.rollback_runs.share_in_tpot_tail
    assert (tail.value, tail.n) == (None, 1)
    assert tail.reason == "P95 of TPOT needs at least 20 streams that tell their rounds, there are 1"


def test_no_rollback_has_no_mean_run(run) -> None:
    run.segment()
    run.request(stream(0.1), **run.speculated([GOOD]))
    runs = run.overall().speculation.rollback_runs
    assert (runs.longest.value, runs.mean.value, runs.mean.reason) == (0, None, "no round was rolled back")


def test_requests_that_tell_no_rounds_are_counted(run) -> None:
    run.segment()
    run.request(stream(0.1), **run.speculated([BAD, BAD]))
    run.request(stream(0.1), **run.speculated([BAD], detailed=False))
    runs = run.overall().speculation.rollback_runs
    assert (runs.longest.value, runs.longest.n, runs.longest.reason) == (2, 1, "1 requests tell no rounds one by one")


@pytest.mark.parametrize(("artefact", "words"), [(True, "upper bound"), (None, "method is not known")])
def test_an_artefact_has_no_runs(run, artefact: bool | None, words: str) -> None:
    run.arm(capabilities={"counts_artefact": artefact}, spec_method=None)
    run.segment()
    run.request(stream(0.1), **run.speculated([BAD, BAD, BAD]))
    longest = run.overall().speculation.rollback_runs.longest
    assert longest.value is None
    assert words in (longest.reason or "")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [({}, "no response and no counter of this group tells it"), (None, "the server tells no rounds one by one")],
)
def test_absent_runs_have_their_reason(run, columns: dict[str, object] | None, reason: str) -> None:
    run.segment()
    run.request(stream(0.1), **(run.speculated([BAD], detailed=False) if columns is None else columns))
    assert run.overall().speculation.rollback_runs.longest.reason == reason
