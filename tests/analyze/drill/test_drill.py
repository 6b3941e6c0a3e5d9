"""Drills made by hand: requests on a grid of 0.25 s, the switch at 8 s and back at 16 s, the load's end at 24 s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from loadgen.analyze import DrillPull, DrillResult, drill_of, found_schema
from loadgen.record import Event, RunData

OFF_S, ON_S, END_S, STEP_S = 8.0, 16.0, 24.0, 0.25
ORIGIN_NS = 1_000_000_000_000
SPEC, PLAIN = "10.0.0.1:8000", "10.0.0.2:8000"
KEYS: dict[str, Any] = {
    "switch": {"off": {}, "on": {}},
    "pulls": 1,
    "window_requests": 7,
    "speculating": {"served_by": [SPEC], "metrics_urls": []},
    "fallback": {"served_by": [PLAIN], "metrics_urls": []},
    "limits": {},
}
Where = Callable[[float], str]


def ns(at_s: float) -> int:
    return ORIGIN_NS + round(at_s * 1e9)


def at_once(sent: float) -> str:
    """A perfect switch."""
    return PLAIN if OFF_S <= sent < ON_S else SPEC


def pulled(at: float, direction: str, number: int = 0, **more: Any) -> Event:
    data = {"direction": direction, "number": number, "took_s": 0.1, "ok": True, "said": "done", **more}
    return Event(ns(at), "pulled", data)


BOTH = (pulled(OFF_S, "off"), pulled(ON_S, "on"))


class Made:
    """A drill's run. `served(sent)` says where a request goes; `ttft(sent)`, `columns(sent)` change it."""

    def __init__(self, run: Any) -> None:
        self.run = run
        run.segment(load_end=END_S, end=END_S + 1, full=0.0)

    def load(
        self,
        served: Where = at_once,
        ttft: Callable[[float], float] | None = None,
        columns: Callable[[float], dict[str, Any]] = lambda _sent: {},
        until: float = END_S,
        length_s: float = 0.6,
    ) -> Made:
        """Answers take 0.6 s: 16 tokens, or 61 where they come from a speculating server."""
        for i in range(round(until / STEP_S)):
            sent = i * STEP_S
            where = served(sent)
            first = (0.04 + 0.001 * (i % 3)) if ttft is None else ttft(sent)
            tpot = (0.01 if where == SPEC else 0.04) + 0.0001 * (i % 2)
            told = self.run.speculated([(3, 4)] * 15) if where == SPEC else {}
            self.run.request(
                [(first, 1), (length_s, 15)], sent=sent,
                **{"served_by": where, "ttft_s": first, "tpot_s": tpot, **told, **columns(sent)},
            )  # fmt: skip
        return self

    def data(self, *events: Event, **keys: Any) -> RunData:
        self.run.scenario = {**self.run.scenario, "experiment": "drill", "drill": {**KEYS, **keys}}
        names = {"speculating": ["http://127.0.0.1/metrics"], "fallback": []}
        return replace(self.run.data(), events=(Event(ns(0), "drill_servers", names), *events))

    def found(self, *events: Event, **keys: Any) -> DrillResult:
        return drill_of(self.data(*(events or BOTH), **keys))


@pytest.fixture
def made(run: Any) -> Made:
    return Made(run)


def off_of(found: DrillResult) -> DrillPull:
    return next(p for p in found.pulls if p.direction == "off")


def on_of(found: DrillResult) -> DrillPull:
    return next(p for p in found.pulls if p.direction == "on")


def test_a_perfect_switch_passes_with_exact_numbers(made: Made) -> None:
    found = made.load().found()
    assert (found.state, found.reasons, found.known_by) == ("pass", [], "header")
    off, on = found.pulls
    assert off.routed.model_dump() == {
        "speculating": 0, "fallback": 32, "unknown": 0, "fallback_after_last": 32, "unknown_after_last": 0
    }  # fmt: skip
    assert off.last_routed_s is not None
    assert (off.last_routed_s.value, off.last_routed_s.high, off.last_routed_s.n) == (0.0, 0.25, 32)
    assert off.last_token_s is not None
    assert off.last_token_s.value == pytest.approx(0.35), "sent at 7.75 s, and 0.6 s long"
    assert off.last_token_s.n == 2
    assert [one.at_s.value for one in off.settled] == [0.0, 0.0]
    assert off.settled[1].median == pytest.approx(0.04005)
    assert off.settled[1].n == 16
    assert (off.losses.ended, off.losses.in_flight, off.losses.ok, off.losses.lost) == (32, 2, 32, 0)
    assert on.first_routed_s is not None
    assert on.first_routed_s.value == 0.0
    assert on.acceptance_s is not None
    assert (on.acceptance_s.value, on.acceptance_s.source) == (pytest.approx(0.6), "statistics")
    assert (on.losses.ended, on.losses.in_flight) == (34, 2), "what ended in the drain is this pull's"
    assert found.served_by == {SPEC: 64, PLAIN: 32}


def test_a_slow_switch_is_timed_to_its_last_request(made: Made) -> None:
    found = made.load(lambda s: PLAIN if OFF_S + 2.1 <= s < ON_S else SPEC).found(limits={"last_routed_s": 1.5})
    off = off_of(found)
    assert off.last_routed_s is not None
    assert (off.last_routed_s.value, off.last_routed_s.high) == (2.0, 2.25)
    assert off.last_token_s is not None
    assert off.last_token_s.value == pytest.approx(2.6)
    assert off.routed.fallback_after_last == 23
    assert off.settled[1].at_s.value == pytest.approx(1.5), "a window of seven whose median is the fallback's"
    assert found.state == "fail"
    assert found.reasons == ["switch off (pull 1): last_routed_s 2 s is above its limit of 1.5 s"]
    assert drill_of(made.data(*BOTH, limits={"last_routed_s": 2.5, "last_token_s": 3.0})).state == "pass"


def test_a_switch_that_does_nothing(made: Made) -> None:
    found = made.load(lambda _s: SPEC).found()
    assert found.state == "fail"
    assert found.reasons[0].startswith("switch off (pull 1) moved nobody: all 32 requests of known server")
    assert off_of(found).last_routed_s.reason == "no request after it is known to have gone to the fallback"  # type: ignore[union-attr]


def test_a_switch_that_moves_only_some(made: Made) -> None:
    half = {True: PLAIN, False: SPEC}
    found = made.load(lambda s: half[OFF_S <= s < ON_S and round(s / STEP_S) % 2 == 0]).found()
    assert found.state == "fail"
    assert found.reasons[0].startswith("switch off (pull 1) did not move everybody within 8 s: 16 of 32 requests")


def test_too_few_requests_after_the_last_one_are_no_proof(made: Made) -> None:
    found = made.load(lambda s: PLAIN if ON_S - 0.8 <= s < ON_S else SPEC).found()
    assert found.state == "inconclusive"
    assert "switch off (pull 1): too few requests followed (3) to know that it was the last" in found.reasons


def test_a_way_back_that_brings_nobody_back(made: Made) -> None:
    found = made.load(lambda s: PLAIN if s >= OFF_S else SPEC).found()
    assert found.state == "fail"
    assert found.reasons == [
        "switch on (pull 1) brought nobody back: all 32 requests sent after it were answered by the fallback"
    ]


def test_lost_requests_fail_it_and_are_told_by_outcome(made: Made) -> None:
    def lost(sent: float) -> dict[str, Any]:
        if sent == OFF_S - STEP_S:  # under way: cut in the middle
            return {"outcome": "truncated", "error_message": "connection reset by peer"}
        if sent == OFF_S + STEP_S:  # never let in
            nothing = dict.fromkeys(("sent_ns", "first_token_ns", "last_token_ns", "ttft_s", "tpot_s", "served_by"))
            return {**nothing, "outcome": "refused", "end_ns": ns(sent + 0.01)}
        if sent == OFF_S + 2 * STEP_S:
            return {"outcome": "http_error", "error_status": 502, "last_token_ns": None, "end_ns": ns(sent + 0.01)}
        return {}

    found = made.load(columns=lost).found()
    off = off_of(found).losses
    assert found.state == "fail"
    assert (off.lost, off.cut, off.ok, off.ended) == (3, 1, 29, 32)
    assert off.by_outcome == {"refused": 1, "http_error": 1, "truncated": 1}
    assert off.by_status == {"502": 1}
    assert (off.first_s, off.last_s) == (pytest.approx(0.26), pytest.approx(0.51))
    assert "3 of 32 requests were lost (truncated 1, refused 1, http_error 1), the first 0.26 s" in found.reasons[0]
    assert "1 of them with tokens already delivered" in found.reasons[0]
    assert on_of(found).losses.lost == 0
    assert off_of(found).routed.unknown == 1, "a refused request has no server"


def test_failures_from_before_the_pull_are_said_beside_those_after_it(made: Made) -> None:
    found = made.load(columns=lambda s: {"outcome": "http_error"} if s in (1.0, 9.0) else {}).found()
    assert "; 1 of 30 had failed before the first pull, too" in found.reasons[0]


def test_what_our_own_machine_lost_may_hide_a_loss(made: Made) -> None:
    found = made.load(columns=lambda s: {"outcome": "client_fault"} if s == 9.0 else {}).found()
    assert found.state == "inconclusive"
    assert found.reasons == [
        "switch off (pull 1): 1 requests failed on this machine: they may hide a loss"
    ]  # fmt: skip


def test_what_our_own_drain_cut_may_be_lost_or_not(made: Made) -> None:
    """None may be lost: with 0 to 1 it is not known."""
    late = {"outcome": "aborted", "error_class": "drain"}
    found = made.load(columns=lambda s: late if s > 23.5 else {}).found()
    losses = on_of(found).losses
    assert (losses.aborted, losses.lost, losses.lost_most, found.state) == (1, 0, 1, "inconclusive")
    assert found.reasons == [
        "switch on (pull 1): 1 requests were cut by our own drain: whether they were answered is not known, so 0 to 1 "
        "are lost"
    ]
    made.run.rows[40]["outcome"] = "truncated"
    lost = made.found()
    assert (lost.state, sum(p.losses.lost for p in lost.pulls), sum(p.losses.lost_most for p in lost.pulls)) == (
        "fail", 1, 2,
    )  # fmt: skip


def test_a_pull_that_failed_fails_it(made: Made) -> None:
    found = made.load().found(pulled(OFF_S, "off", ok=False, said="HTTP 500: no"), pulled(ON_S, "on"))
    assert found.reasons == ["switch off (pull 1) failed: HTTP 500: no"]
    assert found.state == "fail"


def test_a_drill_that_was_cut_short_is_no_pass(made: Made) -> None:
    made.run.state = "interrupted"
    restored = (Event(ns(12), "restoring"), pulled(12.0, "on", number=1))
    found = made.load(lambda s: PLAIN if OFF_S <= s < 12 else SPEC).found(BOTH[0], *restored)
    assert found.state == "inconclusive"
    assert found.reasons[0] == "the drill was cut short: 1 of 2 pulls were made"
    assert "the run did not end as planned (interrupted)" in found.reasons
    assert "switching back was tried once more" in found.reasons[2]


def test_without_any_pull_there_is_nothing_to_see(made: Made) -> None:
    found = drill_of(made.load().data())
    assert (found.state, found.pulls, found.course) == ("inconclusive", [], [])
    assert drill_of(replace(made.data(), requests=made.data().requests.slice(0, 0))).state == "inconclusive"


def transient(until: float) -> Callable[[float], float]:
    return lambda sent: 0.5 if OFF_S <= sent < until else 0.04 + 0.001 * (round(sent / STEP_S) * 7 % 11)


def test_a_latency_transient_is_timed(made: Made) -> None:
    """TTFT is 0.5 s for two seconds after the pull: seen, and in time; four of the 28 requests after a limit of 1 s are
    no proof of lateness, where neighbours may be alike."""
    found = made.load(ttft=transient(OFF_S + 2)).found(limits={"baseline_s": 3})
    ttft, tpot = off_of(found).settled
    assert ttft.at_s.value == pytest.approx(1.25), "windows of seven: the first with four requests after the transient"
    assert ttft.at_s.high == pytest.approx(2.75)
    assert tpot.at_s.value == 0.0
    assert off_of(found).longest_ttft_s.value == 0.5
    assert found.state == "pass", found.reasons
    unsure = made.found(limits={"baseline_s": 1})
    assert unsure.state == "inconclusive"
    assert unsure.reasons[0].startswith(
        "switch off (pull 1): baseline_s (TTFT) between 1.25 and 2.75 s is not in time, and not proven to be late: "
        "chance gives what came after 1 s, too (p = 0."
    )


def test_latency_that_is_not_back_fails(made: Made) -> None:
    """TTFT at ten times the level until 37.75 s of 100 s: for 111 of the 360 requests after a limit of 10 s."""
    events = (pulled(10.0, "off"),)
    made.run.phases.clear()
    made.run.segment(load_end=110.0, end=111.0, full=0.0)
    slow = lambda sent: (0.4 if 10 <= sent < 47.75 else 0.04) + 0.001 * (round(sent / STEP_S) * 7 % 11)  # noqa: E731
    made.load(served=lambda s: PLAIN if s >= 10 else SPEC, ttft=slow, until=110.0)
    keys = {"switch": {"off": {}}, "limits": {"baseline_s": 10.0}}
    found = made.found(*events, **keys)
    late = off_of(found).settled[0].late
    assert late is not None
    assert (late.n, late.median, late.p) == (111, pytest.approx(0.405), pytest.approx(2 / 20_001))
    assert found.state == "fail"
    assert found.reasons[0] == (
        "switch off (pull 1): TTFT was still above the fallback's level after baseline_s = 10 s: median 0.405 s of the "
        "next 111 requests, not 0.045 s (p = 0.0001 in all tests of the drill)"
    )
    tpot = off_of(found).settled[1].late
    assert tpot is not None
    assert tpot.p is not None
    assert tpot.p > 0.05


def test_a_queue_that_grows_has_no_level_to_come_back_to(made: Made) -> None:
    found = made.load(ttft=lambda s: 0.04 + max(s - OFF_S, 0)).found(limits={"baseline_s": 5})
    assert off_of(found).settled[0].at_s.value is None
    assert found.state == "inconclusive"
    assert "no level to come back to: the median still went from" in found.reasons[0]


def test_a_short_load_has_not_enough_for_a_level(made: Made) -> None:
    found = made.load().found(window_requests=20)
    assert all("not enough data: 16 requests" in (one.at_s.reason or "") for one in off_of(found).settled)
    assert found.state == "inconclusive"


def test_by_statistics_where_no_header_is_named(made: Made) -> None:
    plain = {"served_by": [], "metrics_urls": []}
    found = made.load(columns=lambda _s: {"served_by": None}).found(speculating=plain, fallback=plain)
    assert (found.state, found.known_by) == ("pass", "statistics")
    assert off_of(found).routed.fallback == 32
    assert found.known_note == "30 of the 30 answers before the first pull carried statistics of rounds"


def test_one_server_that_is_switched_back_under_a_request(made: Made) -> None:
    """Requests sent at 15.5 and 15.75 s have rounds of after 16 s: they say nothing of the time they were sent in."""
    plain = {"served_by": [], "metrics_urls": []}
    rounds = {**made.run.speculated([(3, 4)] * 5), "served_by": None}
    found = made.load(columns=lambda s: rounds if 15.4 < s < ON_S else {"served_by": None}).found(
        speculating=plain, fallback=plain
    )
    assert found.state == "pass", found.reasons
    routed = off_of(found).routed
    assert (routed.speculating, routed.fallback, routed.unknown, routed.fallback_after_last) == (0, 30, 2, 30)


NAMELESS = {"served_by": [], "metrics_urls": []}


def sometimes(every_s: float = 1.0) -> Callable[[float], dict[str, Any]]:
    """No header, and no statistics in the answers to requests sent at multiples of `every_s`."""
    quiet = dict.fromkeys(("verify_rounds", "accepted_tokens"))
    return lambda sent: {"served_by": None, **(quiet if sent % every_s == 0 else {})}


def test_statistics_that_come_only_sometimes_give_bounds(made: Made) -> None:
    """8 of 30 answers before the pull carried none, so that those of the 30 after the last with rounds may be the
    speculating side's too: at least, and no more."""
    slow = made.load(lambda s: PLAIN if OFF_S + 0.5 <= s < ON_S else SPEC, columns=sometimes())
    found = slow.found(speculating=NAMELESS, fallback=NAMELESS)
    off, on = off_of(found), on_of(found)
    assert found.known_note == (
        "22 of the 30 answers before the first pull carried statistics of rounds: an answer without them may be a "
        "speculating server's too"
    )
    assert off.routed.model_dump() == {
        "speculating": 1, "fallback": 0, "unknown": 31, "fallback_after_last": 0, "unknown_after_last": 30
    }  # fmt: skip
    routed, token = off.last_routed_s, off.last_token_s
    assert routed is not None
    assert token is not None
    assert (routed.value, routed.low, routed.high, routed.n) == (None, 0.25, None, 1)
    assert routed.reason == f"at least: 30 answers to later requests do not tell their server ({found.known_note})"
    assert (token.value, token.low, token.high) == (None, pytest.approx(0.85), None)
    assert (token.reason or "").startswith("at least: 30 answers that ended later do not tell")
    assert found.state == "inconclusive"
    assert "it cannot be seen when the last request was routed there: at least: 30 answers" in found.reasons[0]
    first = on.first_routed_s
    assert first is not None
    assert (first.value, first.low, first.high) == (None, 0.0, 0.25), "that of 16.0 s is silent"
    limited = slow.found(speculating=NAMELESS, fallback=NAMELESS, limits={"last_routed_s": 0.2})
    assert limited.reasons[0] == "switch off (pull 1): last_routed_s at least 0.25 s is above its limit of 0.2 s"
    open_ = slow.found(speculating=NAMELESS, fallback=NAMELESS, limits={"last_routed_s": 5.0})
    assert open_.state == "inconclusive"
    assert any("last_routed_s is not known: at least 0.25 s: at least: 30" in reason for reason in open_.reasons)


def test_statistics_that_come_only_sometimes_have_a_bound_by_counters(made: Made) -> None:
    """Rounds of the one server that is switched ended between 8.0 and 8.2 s: no request with rounds was sent later."""
    counters(made, stops_s=8.3)
    found = made.load(lambda s: PLAIN if OFF_S + 0.25 <= s < ON_S else SPEC, columns=sometimes()).found(
        speculating=NAMELESS, fallback=NAMELESS, limits={"last_routed_s": 0.5}
    )
    routed = off_of(found).last_routed_s
    assert routed is not None
    assert (routed.value, routed.low, routed.high) == (None, 0.0, pytest.approx(0.201))
    assert found.state == "pass", found.reasons


def test_a_switch_that_does_nothing_is_found_by_statistics_that_come_only_sometimes(made: Made) -> None:
    """Of those that were not under way when it was switched back, the last one had rounds; or no more than one of
    twenty came after the last that had."""
    found = made.load(lambda _s: SPEC, columns=sometimes()).found(speculating=NAMELESS, fallback=NAMELESS)
    assert (found.state, off_of(found).routed.unknown_after_last) == ("fail", 0)
    assert found.reasons[0].startswith("switch off (pull 1) moved nobody: all 22 requests of known server")
    made.run.rows[61].update(verify_rounds=None)  # sent at 15.25 s, as that of 15.0 s: 2 of 32
    unsure = made.found(speculating=NAMELESS, fallback=NAMELESS)
    assert (unsure.state, off_of(unsure).routed.unknown_after_last) == ("inconclusive", 2)
    made.run.rows[60].update(verify_rounds=15)
    one = made.found(speculating=NAMELESS, fallback=NAMELESS)
    assert (one.state, off_of(one).routed.unknown_after_last) == ("fail", 1)


def test_few_answers_before_the_pull_do_not_say_that_all_have_statistics(made: Made) -> None:
    """Four of four, and the server of what has none is not known."""
    events = (pulled(1.6, "off"), pulled(ON_S, "on"))
    found = made.load(lambda s: PLAIN if 1.6 <= s < ON_S else SPEC, columns=lambda _s: {"served_by": None}).found(
        *events, speculating=NAMELESS, fallback=NAMELESS
    )
    assert found.known_note.startswith("4 of the 4 answers before the first pull carried statistics of rounds: an")
    assert off_of(found).routed.fallback == 0


def test_an_answer_without_the_header_makes_the_last_request_a_range(made: Made) -> None:
    """Sent at 9.0 s: the next is known to be the fallback's."""
    found = made.load(columns=lambda s: {"served_by": None} if s == 9.0 else {}).found(limits={"last_routed_s": 1.1})
    routed = off_of(found).last_routed_s
    assert routed is not None
    assert (routed.value, routed.low, routed.high) == (None, 0.0, 1.25)
    assert found.state == "inconclusive"
    assert found.reasons == [
        "switch off (pull 1): last_routed_s between 0 and 1.25 s: it is not known on which side of 1.1 s"
    ]


def test_nothing_tells_the_servers_apart(made: Made) -> None:
    plain = {"served_by": [], "metrics_urls": []}
    silent = dict.fromkeys(("verify_rounds", "accepted_tokens", "served_by"))
    found = made.load(columns=lambda _s: silent).found(speculating=plain, fallback=plain)
    assert (found.state, found.known_by) == ("inconclusive", None)
    assert "it cannot be seen when the last request was routed there" in found.reasons[0]


def counters(made: Made, stops_s: float, starts_s: float = ON_S, step: float = 0.2) -> None:
    """Scrapes of the speculating server whose counters stand still from `stops_s` to `starts_s`."""
    moved = 0.0
    for i in range(round(END_S / step) + 1):
        at = i * step
        if at <= stops_s or at > starts_s:
            moved += 1
        made.run.scrape(at, drafts=10 * moved, accepted_tokens=30 * moved, generation_tokens=40 * moved, running=2,
                        waiting=0, finished=moved)  # fmt: skip


def silent(_sent: float) -> dict[str, Any]:
    return dict.fromkeys(("verify_rounds", "accepted_tokens", "served_by"))


def test_by_counters_alone_between_two_scrapes(made: Made) -> None:
    """Both servers have pages: arrivals, tokens and rounds of the speculating one stop between 9.0 and 9.2 s."""
    counters(made, stops_s=9.1)
    sides = {"served_by": [], "metrics_urls": ["http://127.0.0.1/metrics"]}
    keys = {"speculating": sides, "fallback": {"served_by": [], "metrics_urls": ["http://127.0.0.2/metrics"]}}
    found = made.load(columns=silent).found(**keys)
    off = off_of(found)
    assert (found.state, found.known_by) == ("pass", "counters")
    for number in (off.last_routed_s, off.last_token_s, off.last_round_s):
        assert number is not None
        assert number.value is None
        assert (number.low, number.high) == (pytest.approx(0.8), pytest.approx(1.001))
    accepted = on_of(found).acceptance_s
    assert accepted is not None
    assert (accepted.low, accepted.high) == (pytest.approx(0.0), pytest.approx(0.201))
    late = drill_of(made.data(*BOTH, **keys, limits={"last_routed_s": 0.5}))
    assert late.reasons == [
        "switch off (pull 1): last_routed_s between 0.8 and 1 s is above its limit of 0.5 s"
    ]  # fmt: skip
    unsure = drill_of(made.data(*BOTH, **keys, limits={"last_routed_s": 0.9}))
    assert (unsure.state, unsure.reasons[0]) == (
        "inconclusive",
        "switch off (pull 1): last_routed_s between 0.8 and 1 s: it is not known on which side of 0.9 s",
    )


def test_a_page_that_is_not_read_after_the_pull_is_no_standstill(made: Made) -> None:
    for i in range(40):  # until 7.8 s
        made.run.scrape(i * 0.2, drafts=10 * i, accepted_tokens=30 * i, generation_tokens=40 * i, running=2, waiting=0,
                        finished=i)  # fmt: skip
    plain = {"served_by": [], "metrics_urls": []}
    found = made.load(columns=silent).found(speculating=plain, fallback=plain)
    last = off_of(found).last_round_s
    assert last is not None
    assert (found.state, last.value, last.high) == ("inconclusive", None, None)
    assert last.reason == "a page of the speculating servers was not read after the pull"


def test_counters_of_the_same_servers_tell_of_rounds_only(made: Made) -> None:
    counters(made, stops_s=8.3)
    plain = {"served_by": [], "metrics_urls": []}
    found = made.load(columns=silent).found(speculating=plain, fallback=plain)
    off = off_of(found)
    assert off.last_routed_s is not None
    assert off.last_routed_s.reason == "the sides are the same servers: their counters tell of rounds only"
    assert off.last_round_s is not None
    assert off.last_round_s.high == pytest.approx(0.201)
    assert found.state == "pass"
    assert [(f.id, f.severity, f.text) for f in found.findings] == [
        (
            "drill_by_rounds", "info",
            "pull 1: which request was the last is not known; by their counters the speculating servers verified their "
            "last drafts 0.201 s after the switch at most",
        )
    ]  # fmt: skip
    limited = made.found(speculating=plain, fallback=plain, limits={"last_routed_s": 5.0})
    assert (limited.state, "last_routed_s is not known" in limited.reasons[0]) == ("inconclusive", True)


def test_counters_that_never_stop(made: Made) -> None:
    counters(made, stops_s=END_S)
    plain = {"served_by": [], "metrics_urls": []}
    found = made.load(columns=silent).found(speculating=plain, fallback=plain)
    assert found.state == "fail"
    assert found.reasons[0] == (
        "switch off (pull 1): the speculating servers went on drafting to the end (8 s after it)"
    )


def test_others_who_still_speculate_are_a_finding(made: Made) -> None:
    counters(made, stops_s=13.0)
    found = made.load().found()
    assert found.state == "pass", "our own users were moved"
    assert [f.id for f in found.findings] == ["drill_others_speculate"]
    assert "somebody else is still sent there" in found.findings[0].text


@pytest.mark.parametrize(
    ("told", "answered"),
    [("a, b", "b"), ("a : b", "b"), ("a, b : c", "c"), (" a ", "a"), ("", None), (None, None)],
)
def test_a_gateway_that_tried_several_names_the_one_that_answered_last(told: str | None, answered: str | None) -> None:
    from loadgen.analyze.drill.rows import last_of

    assert last_of(told) == answered


def test_a_server_of_neither_side_is_named(made: Made) -> None:
    found = made.load(lambda s: "10.0.0.9:1" if s == 9.0 else at_once(s)).found()
    assert found.known_note == "the header named a server of 96 of 96 requests; of neither side: 10.0.0.9:1 (1)"
    assert off_of(found).routed.unknown == 1


def test_the_course_counts_every_request_once(made: Made) -> None:
    found = made.load(columns=lambda s: {"outcome": "truncated"} if s == 9.0 else {}).found()
    assert len(found.course) == 48
    assert {piece.to_s - piece.from_s for piece in found.course} == {0.5}
    assert sum(p.speculating for p in found.course) == 64
    assert sum(p.fallback for p in found.course) == 32
    assert [p.from_s for p in found.course if p.lost] == [9.5]
    assert found.course[16].tpot_s == pytest.approx(0.04005)
    assert found.course[0].accepted_per_s is None


def test_a_restart_of_the_server_rises_from_nothing(made: Made) -> None:
    from loadgen.analyze.drill.counters import counter, watched

    for at, value in ((0.0, 100.0), (0.2, 100.0), (0.4, 7.0), (0.6, 7.0)):
        made.run.scrape(at, drafts=value)
    seen = watched(made.data().scrapes, ["http://127.0.0.1/metrics"], "tiny")
    assert [(rise.by, rise.low_ns) for rise in seen.rises(counter("drafts"))] == [(7.0, ns(0.2))]
    assert not watched(made.data().scrapes, ["another"], "tiny").any


def test_an_invalid_measurement_judges_no_time_but_every_loss(made: Made) -> None:
    """The client's core was full: a slow switch is not shown to be one, a lost request is lost."""
    for second in range(int(END_S)):
        made.run.second(second + 0.5, cpu_share=0.99)
    late = made.load(lambda s: PLAIN if OFF_S + 2.1 <= s < ON_S else SPEC).found(limits={"last_routed_s": 1.5})
    assert late.state == "inconclusive"
    assert late.reasons[0].startswith("the measurement is invalid, so no time is judged: ")
    made.run.rows[40]["outcome"] = "truncated"
    lost = made.found()
    assert lost.state == "fail"
    assert "1 of 32 requests were lost" in lost.reasons[0]


def test_it_follows_the_schema_of_what_experiments_find(made: Made) -> None:
    jsonschema.validate(made.load().found().model_dump(mode="json"), found_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made.found().model_dump(mode="json"), "pulls": [{}]}, found_schema())


def test_two_pulls_are_told_apart(made: Made) -> None:
    events = [pulled(at, d, n) for n, at, d in ((0, 4.0, "off"), (0, 8.0, "on"), (1, 14.0, "off"), (1, 20.0, "on"))]
    off = lambda s: 4 <= s < 8 or 14.6 <= s < 20  # noqa: E731
    found = made.load(lambda s: PLAIN if off(s) else SPEC).found(*events, pulls=2)
    assert found.state == "inconclusive", "too few requests between the pulls for a level"
    assert [(p.number, p.direction) for p in found.pulls] == [(0, "off"), (0, "on"), (1, "off"), (1, "on")]
    assert [p.last_routed_s.value for p in found.pulls if p.last_routed_s] == [0.0, 0.5]
    assert [p.until_s for p in found.pulls] == [4.0, 6.0, 6.0, 4.0]
