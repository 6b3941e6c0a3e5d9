"""Two sources of one number: equal, unequal, not to be judged."""

import pytest

approx = pytest.approx

CHUNKS = [(0.1, 1), (0.14, 4), (0.18, 3)]
STEPS = [(3, 4), (2, 4)]
COUNTED = {
    "drafts": 4, "draft_tokens": 16, "accepted_tokens": 10, "accepted_at": [4, 4, 2, 0], "generation_tokens": 16,
    "output_events": 4, "ttft_count": 2, "finished": 2,
}  # fmt: skip


@pytest.fixture
def two(run):
    run.segment()
    run.account(scheduled=2, sent=2)
    for _ in range(2):
        run.request(CHUNKS, **run.speculated(STEPS))
    return run


def rows(run) -> dict[str, object]:
    return {row.name: row for row in run.summary().reconciliation}


def test_everything_agrees_exactly(two) -> None:
    """METHOD identities: drafted, accepted, rounds, Σh, tokens, steps, requests: difference 0, ok True."""
    two.counted(**COUNTED)
    found = rows(two)
    assert {name: (row.difference, row.ok) for name, row in found.items() if not name.startswith("identity")} == {
        "accounting_scheduled": (0, True),
        "accounting_sent": (0, True),
        "output_tokens": (0, True),
        "requests": (0, True),
        "decode_steps": (0, True),
        "drafted_tokens": (0, True),
        "accepted_tokens": (0, True),
        "rounds": (0, True),
        "accepted_by_position": (0, True),
        "accepted_by_chunks": (0, True),
    }
    assert [found[n].ok for n in found if n.startswith("identity")] == [True, True, True]
    assert found["output_tokens"].client == found["output_tokens"].server == 16


def test_foreign_traffic_is_found(two) -> None:
    """D31, invariant 8: the server generated more than came to us."""
    two.counted(**{**COUNTED, "generation_tokens": 116, "draft_tokens": 56})
    found = rows(two)
    assert (found["output_tokens"].difference, found["output_tokens"].ok) == (-100, False)
    assert "other traffic" in found["output_tokens"].note
    assert (found["drafted_tokens"].difference, found["drafted_tokens"].ok) == (-40, False)


def test_a_server_that_counted_less_is_found(two) -> None:
    """G24, D18."""
    two.counted(**{**COUNTED, "generation_tokens": 6})
    found = rows(two)["output_tokens"]
    assert (found.difference, found.ok) == (10, False)
    assert "counted less" in found.note


def test_without_idle_edges_nothing_is_judged(run) -> None:
    """H20: abandoned streams may still generate."""
    run.segment(idle=False)
    run.request(CHUNKS)
    run.counted(generation_tokens=8)
    found = rows(run)["output_tokens"]
    assert (found.ok, found.idle_edges, found.difference) == (None, False, 0)
    assert "not seen idle" in found.note


def test_without_counters_nothing_is_judged(run) -> None:
    """P1, D5: an absent family is not 0."""
    run.segment()
    run.request(CHUNKS)
    found = rows(run)["output_tokens"]
    assert (found.server, found.difference, found.ok) == (None, None, None)
    assert found.note


def test_tokens_of_failed_requests_may_be_unseen(run) -> None:
    """A truncated stream of max_tokens 20, 5 seen: the server may have made up to 15 more."""
    run.segment()
    run.request(CHUNKS)
    run.request([(0.1, 5)], outcome="truncated", max_tokens=20)
    run.counted(generation_tokens=28)
    found = rows(run)["output_tokens"]
    assert (found.client, found.server, found.tolerance, found.ok) == (13, 28, 15, True)


def test_a_request_without_statistics_leaves_the_sums_unjudged(two) -> None:
    """Stop strings give no statistics: the sums cannot be equal and that is no fault."""
    two.request(CHUNKS)
    two.counted(**COUNTED)
    found = rows(two)["drafted_tokens"]
    assert found.ok is None
    assert found.note.startswith("1 of 3 requests gave no statistics")


def test_merged_chunks_show_in_the_steps(run) -> None:
    """C19: the server counted 4 decode outputs, the ledger has 2 chunks after the first."""
    run.segment()
    run.request(CHUNKS)
    run.counted(generation_tokens=8, output_events=4, ttft_count=1)
    found = rows(run)["decode_steps"]
    assert (found.client, found.server, found.ok) == (2, 4, False)
    assert "merged chunks" in found.note


def test_chunks_against_statistics_within_k_plus_one_each(run) -> None:
    """D22: trimmed at the end by up to k: within; more than k + 1: a finding, though the sums might agree."""
    run.segment()
    run.request([(0.1, 1), (0.14, 4), (0.18, 1)], **run.speculated([(3, 4), (4, 4)]))
    assert (rows(run)["accepted_by_chunks"].difference, rows(run)["accepted_by_chunks"].ok) == (-4, True)
    run.request([(0.1, 1), (0.14, 5), (0.18, 5)], **run.speculated([(1, 4), (1, 4)]))
    assert rows(run)["accepted_by_chunks"].ok is False


def test_an_engine_that_was_overwritten_breaks_the_identity(two) -> None:
    """D1: per-position counts of one engine of two: Σ_j a_j ≠ A."""
    two.counted(**{**COUNTED, "accepted_at": [2, 2, 1, 0]})
    found = rows(two)
    assert (found["identity_positions_sum_to_accepted"].ok, found["accepted_by_position"].ok) == (False, False)
    assert found["accepted_by_position"].note == "positions [0, 1, 2] differ"


def test_drafted_beyond_k_rounds_is_a_finding(two) -> None:
    two.counted(**{**COUNTED, "draft_tokens": 17})
    assert rows(two)["identity_drafted_at_most_k_rounds"].ok is False


def test_a_restart_inside_the_window_is_not_judged(two) -> None:
    """D4: counted after the restart is less than what came: no verdict, and the reason is named."""
    two.counted(**COUNTED)
    two.scrape(0.5, drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0, generation_tokens=0.0)
    found = rows(two)["output_tokens"]
    assert found.ok is None
    assert "restart" in found.note


def test_lost_records_are_found(run) -> None:
    """Invariant 1: scheduled = sent + dropped + unsent; sent = rows."""
    run.segment()
    run.account(scheduled=5, sent=3, dropped=1, unsent=1)
    run.request(CHUNKS)
    found = rows(run)
    assert found["accounting_scheduled"].ok is True
    assert (found["accounting_sent"].difference, found["accounting_sent"].ok) == (-2, False)
    assert found["accounting_sent"].client == approx(1)
