"""anomalies.json from hand-made events and requests: every fault is named with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from loadgen.analyze import AnomaliesArm, AnomaliesResult, anomalies_found
from loadgen.observe import TelemetrySample
from loadgen.record import Event, RunData
from server_adapters.telemetry import Reading

ORIGIN_NS = 1_000_000_000_000
QUIET_S, STEP_S = 12.0, 2.0


def at(second: float) -> int:
    return ORIGIN_NS + round(second * 1e9)


class Story:
    """A run of twelve quiet seconds and then one anomaly every two; a request every 0.1 s, tokens every 0.05 s."""

    def __init__(self, made: Any, names: list[str]) -> None:
        self.made, self.names = made, names
        self.events: list[Event] = []
        self.end_s = QUIET_S + STEP_S * len(names) + 6
        made.scenario |= {"experiment": "anomalies", "anomalies": {"abandon_s": 10, "stall_s": 2, "latency_ratio": 1.2}}
        made.segment(0, start=0.0, full=0.0, load_end=self.end_s, end=self.end_s, concurrency=4)
        self.event(QUIET_S, "quiet_over", witnesses=4, probe_answers=1, most_busy=6.0, chosen=len(names))
        for i, name in enumerate(names):
            self.anomaly(i, name)
        self.event(QUIET_S + STEP_S * len(names), "all_sent")
        self.suspected()

    def event(self, second: float, name: str, /, **data: Any) -> None:
        self.events.append(Event(at(second), name, {"arm": "candidate", **data}))

    def anomaly(self, i: int, name: str, **changes: Any) -> None:
        begun = QUIET_S + STEP_S * i
        got = {"ended": "answered", "status": 400, "shape": "error", "s": 0.1, "message": "no"}
        told = {"name": name, "group": "empty", "repeat": 0, "ended_ns": at(begun + 0.1), "expected": "400 error",
                "source": "seen", "fits": True, "got": got}  # fmt: skip
        self.event(begun, "anomaly_begins", name=name, repeat=0)
        self.event(begun, "anomaly", **{**told, **changes})
        self.event(begun + 0.3, "probe", after=name, repeat=0, seen="same", s=0.2, digest="d", failed=None)
        self.event(begun + 0.4, "let_go", after=name, repeat=0, s=0.0, busy=3.0, looks=[[at(begun + 0.4), 3.0]])

    def suspected(self, *suspects: tuple[str, str]) -> None:
        """(anomaly, symptom): what is tried again, five times with it and nine times without."""
        self.events = [e for e in self.events if e.name != "suspects"]
        told = [[name, 0, symptom] for name, symptom in suspects]
        self.event(self.end_s - 5, "suspects", sends=5, controls=9, stall_s=2.0, suspects=told)

    def again(self, name: str, symptom: str, sent: Sequence[bool], without: Sequence[bool]) -> None:
        """What the tries showed."""
        for with_it, tries in ((True, sent), (False, without)):
            for shown in tries:
                self.event(self.end_s - 4, "again", name=name, repeat=0, symptom=symptom, sent=with_it, shown=shown)

    def confirmed(self, name: str, symptom: str) -> None:
        self.suspected((name, symptom))
        self.again(name, symptom, [True] * 5, [False] * 9)

    def change(self, event: str, name: str, **changes: Any) -> None:
        """Of the event about an anomaly."""
        for i, e in enumerate(self.events):
            if e.name == event and name in (e.data.get("name"), e.data.get("after")):
                self.events[i] = replace(e, data={**e.data, **changes})

    def requests(self, spoil: Any = lambda _second: {}, silent: tuple[float, float] = (-1, -1)) -> None:
        """`spoil(second sent)` gives columns; nothing comes in `silent`."""
        for i in range(int(self.end_s * 10) - 10):
            sent = i / 10
            chunks = [(0.05 * k, 1) for k in range(1, 9)]
            late = [(max(t, silent[1] - sent) if silent[0] < sent + t < silent[1] else t, n) for t, n in chunks]
            self.made.request(late, sent=sent, **spoil(sent))

    def witnesses(self, seen: Any = lambda _second: "same") -> None:
        for i in range(int(self.end_s * 4)):
            second = i / 4
            word = "learned" if second < QUIET_S else seen(second)
            digest = f"d{i % 4}" if word in ("learned", "same") else f"x{i}"
            self.event(second, "witness", number=i % 4, seen=word, s=0.1, digest=digest, failed=None)

    def data(self) -> RunData:
        return replace(self.made.data(), events=tuple(sorted(self.events, key=lambda e: e.at_ns)))

    def found(self, **more: Any) -> AnomaliesResult:
        result = anomalies_found(replace(self.data(), **more))
        assert result.model_validate(result.model_dump()) == result
        return result


@pytest.fixture
def story(run: Any) -> Story:
    return Story(run, [f"a{i}" for i in range(12)])


def only(result: AnomaliesResult) -> AnomaliesArm:
    (arm,) = result.arms
    return arm


def test_nothing_wrong(story: Story) -> None:
    story.requests()
    story.witnesses()
    found = story.found()
    assert (found.state, found.reasons) == ("pass", [])
    arm = only(found)
    assert (arm.before_s, arm.during_s, arm.chosen, arm.sent) == (12.0, 24.0, 12, 12)
    assert [r.name for r in arm.rows] == story.names
    assert {t.name: (t.n_before, t.n_during, t.alarm) for t in arm.bystanders} == {
        "error_share": (20, 40, False), "ttft_s": (20, 40, False), "tpot_s": (19, 40, False),
        "witness_share": (20, 40, False),
    }, "in the first block less than three had ended"  # fmt: skip
    assert arm.witnesses.model_dump() == {
        "distinct": 4, "learned": 48, "asked": 120, "same": 120, "new": 0, "crossed": 0, "failed": 0
    }  # fmt: skip
    assert arm.memory.reason
    assert [f.id for f in found.findings] == ["anomalies_answered", "anomalies_witnesses"]


def test_a_wrong_answer(story: Story) -> None:
    story.requests()
    story.witnesses()
    got = {"ended": "answered", "status": 500, "shape": "error", "s": 0.1, "message": "boom"}
    story.change("anomaly", "a3", fits=False, got=got)
    story.change("anomaly", "a5", fits=False, got={**got, "ended": "timeout", "status": None, "shape": "none"})
    found = story.found()
    assert found.reasons == [
        "candidate: a3: got 500 error (boom), expected 400 error",
        "candidate: a5: got no answer (boom), expected 400 error",
    ]


@pytest.mark.parametrize(
    ("down", "reason"),
    [
        ({"died": True, "away_s": None}, "a3 ended the server: it did not come back"),
        ({"died": True, "away_s": 4.2}, "a3 ended the server: it served again after 4.2 s"),
    ],
)
def test_a_server_that_went_down(story: Story, down: dict[str, Any], reason: str) -> None:
    """J1"""
    story.requests()
    story.witnesses()
    story.event(QUIET_S + 6.5, "down", after="a3", repeat=0, how="GET /health: 503", **down)
    story.change("probe", "a3", seen="failed")
    found = story.found()
    assert found.reasons == [f"candidate: {reason}"]
    assert next(r for r in only(found).rows if r.name == "a3").probe == "failed"


AGAIN = "; again 5 times of 5, and 0 times of 9 without it"


@pytest.mark.parametrize(
    ("symptom", "reason"),
    [
        ("answer", "a3: got 503 error (no), expected 400 error"),
        ("failed", "after a3 the known-good request failed, though the server was alive"),
        ("new", "after a3 the known-good request was answered otherwise than ever before"),
        ("all_failed", "all requests that ended while a3 went on failed"),
        ("stall", "no request ended for longer than the limit of a stall (anomalies.stall_s) while a3 went on"),
    ],
)
def test_what_was_seen_once_is_a_fault_where_the_tries_say_so(story: Story, symptom: str, reason: str) -> None:
    """Every try with it shows it and none without, or it is chance; tries that did not come to their end leave it
    open."""
    story.requests()
    story.witnesses()
    got = {"ended": "answered", "status": 503, "shape": "error", "s": 0.1, "message": "no"}
    if symptom == "answer":
        story.change("anomaly", "a3", fits=False, chance=True, got=got)
    if symptom == "failed":
        story.event(QUIET_S + 6.5, "down", after="a3", repeat=0, how="", died=False, away_s=1.5)
    if symptom in ("failed", "new"):
        story.change("probe", "a3", seen=symptom)
    events = list(story.events)
    story.confirmed("a3", symptom)
    found = story.found()
    assert (found.state, found.reasons) == ("fail", [f"candidate: {reason}{AGAIN}"])
    (tried,) = next(r for r in only(found).rows if r.name == "a3").again
    assert (tried.state, tried.p) == ("confirmed", pytest.approx(1 / 2002)), "14 over 5"
    for sent, without in (([True, True, False], [False]), ([True], [False, True])):
        story.events = list(events)
        story.suspected(("a3", symptom))
        story.again("a3", symptom, sent, without)
        found = story.found()
        assert (found.state, found.reasons) == ("pass", [])
        assert "anomalies_once" in {f.id for f in found.findings}
    story.events = list(events)
    story.suspected(("a3", symptom))
    story.again("a3", symptom, [True] * 4, [False] * 9)
    found = story.found()
    assert (found.state, found.reasons) == (
        "inconclusive",
        ["candidate: what a3 showed was not tried again to the end, so it may be chance: a longer load.0.duration_s"],
    )


def test_a_load_that_ended_before_anything_was_tried_again(story: Story) -> None:
    story.requests()
    story.witnesses()
    story.events = [e for e in story.events if e.name != "suspects"]
    assert story.found().state == "pass", "there was nothing to try"
    story.change("probe", "a3", seen="new")
    assert "a3 showed was not tried again" in story.found().reasons[0]


def test_what_a_breaker_saw_by_requests_alone_may_be_chance(story: Story) -> None:
    """An engine that came back; of one that did not, nothing is chance."""
    story.requests()
    story.witnesses()
    story.event(QUIET_S + 4.6, "breaker_open", failures=20, first_ns=at(QUIET_S + 4.1))
    story.event(QUIET_S + 4.7, "engine_dead", detected_s=0.6, how="a small request: 503", sure=False)
    assert story.found().reasons == ["candidate: a2 ended the server: it did not come back"]
    story.event(QUIET_S + 5.7, "engine_back", away_s=1.6)
    assert story.found().reasons == []


def test_an_outage_that_the_breaker_saw_is_the_last_anomalys(story: Story) -> None:
    """J2: though the run ended before the probe had found out."""
    story.requests()
    story.witnesses()
    story.event(QUIET_S + 4.6, "breaker_open", failures=20, first_ns=at(QUIET_S + 4.1))
    story.event(QUIET_S + 4.7, "engine_dead", detected_s=0.6, how="GET /health: 503")
    found = story.found()
    assert found.reasons == ["candidate: a2 ended the server: it did not come back"]


def test_cross_talk_is_one_answer(story: Story) -> None:
    story.requests()
    story.witnesses(lambda second: "crossed" if second == 20.0 else "same")
    found = story.found()
    assert found.state == "fail"
    assert found.reasons == [
        "candidate: cross-talk: 1 of 120 answers to known requests go on like another request's, or hold an anomaly's "
        "marker"
    ]


def test_witnesses_that_differ(story: Story) -> None:
    """A few new answers are noise, many are not."""
    story.requests()
    story.witnesses(lambda second: "new" if second % 10 == 0 else "same")
    assert story.found().state == "pass"
    story.events = [e for e in story.events if e.name != "witness"]
    story.witnesses(lambda second: "new" if int(second * 4) % 2 else "same")
    found = story.found()
    assert found.state == "fail"
    assert found.reasons[0].startswith(
        "candidate: the share of known requests that failed or were answered otherwise rose from 0.00% to 50.00% while "
        "anomalies were sent (allowed 5.00%; 20 blocks before, 40 during; p = "
    )


def test_a_prompt_that_is_never_steady_is_none_the_worse_for_anomalies(story: Story) -> None:
    """Every answer is new, before as during: each is held against others than itself. Nor does a prompt count that
    was first answered while anomalies were sent."""
    story.requests()
    story.witnesses()
    spoiled = (e for e in story.events if e.name == "witness")
    digests = {id(e): {"digest": f"d{i}"} | ({"number": 77} if i == 130 else {}) for i, e in enumerate(spoiled)}
    story.events = [replace(e, data={**e.data, **digests.get(id(e), {})}) for e in story.events]
    (test,) = [t for t in story.found().arms[0].bystanders if t.name == "witness_share"]
    assert (test.before, test.during, test.alarm) == (1.0, 1.0, False)


def test_what_was_left_goes_on(story: Story) -> None:
    """H20"""
    story.requests()
    story.witnesses()
    begun = QUIET_S + 2 * 7 + 0.4

    def looks(*busy: float | None) -> list[list[float | None]]:
        return [[at(begun + 10 * i / (len(busy) - 1)), one] for i, one in enumerate(busy)]

    for i in range(20):
        story.event(1 + 0.5 * i, "busy", busy=5.0)
    served = {"ended": "answered", "status": 200, "shape": "stream", "s": 0.1, "message": ""}
    story.change("anomaly", "a7", got=served)
    story.change("let_go", "a7", s=None, busy=26.0, looks=looks(*[26.0] * 21))
    found = story.found()
    assert found.reasons == [
        "candidate: after a7 more requests ran and waited than in the time before, and than were ours, for 10 s: what "
        "was left goes on"
    ]
    # seven of ours at most in five seconds: five of the load, a witness, the known-good one
    for harmless in (
        [26.0] * 15 + [6.0] + [26.0] * 5,  # ours alone, once
        [None] * 21,  # a page that does not tell is no fault of the anomaly's
        [26.0] * 9 + [None] * 11 + [26.0],  # nor is one that hardly does
    ):
        story.change("let_go", "a7", s=None, busy=harmless[-1], looks=looks(*harmless))
        assert story.found().state == "pass", harmless
    story.change("let_go", "a7", s=None, busy=26.0, looks=looks(*[26.0] * 21))
    story.event(9.9, "busy", busy=20.0)
    found = story.found()
    assert found.state == "inconclusive"
    assert found.reasons == [
        "candidate: what a7 left cannot be told from others' requests, which ran on the server in the time before as "
        "well (1 looks)"
    ]


def test_more_after_what_was_refused_is_others_load(story: Story) -> None:
    """H20: a refusal leaves nothing, so it is no fault of the server's; nor is what others' load does to ours. What an
    anomaly before it left may still be there, and stays a fault."""
    story.requests()
    story.witnesses()
    for i in range(20):
        story.event(1 + 0.5 * i, "busy", busy=5.0)
    begun = QUIET_S + 2 * 7 + 0.4
    looks = [[at(begun + 0.5 * i), 26.0] for i in range(21)]
    story.change("let_go", "a7", s=None, busy=26.0, looks=looks)
    for row in story.made.rows:
        if row["sent_ns"] >= at(QUIET_S):
            row["first_token_ns"] += 40_000_000
    found = story.found()
    others = "after a7, which was refused and so left nothing, more ran and waited than was ours"
    assert (found.state, len(found.reasons)) == ("inconclusive", 2)
    assert found.reasons[0] == f"candidate: what was left cannot be told from others' requests: {others}"
    assert found.reasons[1].startswith("candidate: TTFT rose from 50 ms to 90 ms while anomalies were sent")
    assert found.reasons[1].endswith(f"; it may be others' requests that did it: {others}")
    disconnect(story, "a5")
    story.change("let_go", "a5", s=None, busy=26.0, looks=[[when - 4_000_000_000, busy] for when, busy in looks])
    found = story.found()
    assert found.state == "fail"
    assert [r.split(" more")[0] for r in found.reasons][:2] == ["candidate: after a5", "candidate: after a7"]


@pytest.mark.parametrize(("others", "state"), [(0, "fail"), (40, "inconclusive")])
def test_a_server_that_finished_more_than_ours_serves_others_too(story: Story, others: int, state: str) -> None:
    """H20: by its own count, beside the most that ours can be: the load's 410, 168 witnesses, 12 known-good ones, two
    for each of eleven anomalies, a storm of 20, and 20 that left no record."""
    story.requests()
    story.witnesses()
    for i in range(20):
        story.event(1 + 0.5 * i, "busy", busy=5.0)
    disconnect(story, "a7")
    looks = [[at(QUIET_S + 14.4 + 0.5 * i), 26.0] for i in range(21)]
    story.change("let_go", "a7", s=None, busy=26.0, looks=looks)
    story.made.counted(end=story.end_s, finished=410 + 168 + 12 + 22 + 20 + 20 + others)
    found = story.found()
    assert (found.state, only(found).foreign_requests) == (state, others)
    if others:
        assert found.reasons == [
            "candidate: what was left cannot be told from others' requests: the server finished at least 40 requests "
            "more than we sent it while the load ran"
        ]


def disconnect(story: Story, name: str) -> None:
    """That anomaly leaves on purpose."""
    got = {"ended": "left", "status": 200, "shape": "stream", "s": 0.1, "message": ""}
    story.change("anomaly", name, group="disconnect", expected="200, or we leave", got=got)


def test_disconnects_on_a_server_that_does_not_tell_what_runs(story: Story) -> None:
    """H20: nobody looked, so it is not seen whether what was left goes on."""
    story.requests()
    story.witnesses()
    story.events = [e for e in story.events if e.name != "let_go"]
    assert story.found().state == "pass", "nothing was left"
    disconnect(story, "a7")
    found = story.found()
    assert (found.state, found.reasons) == (
        "inconclusive",
        [
            "candidate: whether what a7 left goes on cannot be seen: what runs and waits on the server was not told in "
            "the time before (arms.candidate.metrics_urls)"
        ],
    )
    assert [row.name for row in only(found).rows if row.unseen] == ["a7"]


def test_a_page_that_tells_too_little_after_a_disconnect(story: Story) -> None:
    """H20: two looks of the later half must be told, and what they say counts whatever the last one says."""
    story.requests()
    story.witnesses()
    for i in range(20):
        story.event(1 + 0.5 * i, "busy", busy=5.0)
    disconnect(story, "a7")
    assert story.found().state == "pass"
    begun = QUIET_S + 2 * 7 + 0.4

    def looked(*busy: float | None) -> AnomaliesResult:
        looks = [[at(begun + 10 * i / (len(busy) - 1)), one] for i, one in enumerate(busy)]
        story.change("let_go", "a7", s=None, busy=busy[-1], looks=looks)
        return story.found()

    unseen = (
        "inconclusive",
        [
            "candidate: whether what a7 left goes on cannot be seen: what runs and waits on the server was not told "
            "after it"
        ],
    )
    for busy in ([None] * 21, [26.0] * 9 + [None] * 11 + [26.0]):
        found = looked(*busy)
        assert (found.state, found.reasons) == unseen, busy
    assert looked(*[26.0] * 9, *[None] * 10, 6.0, 6.0).state == "pass", "ours alone, twice"
    assert looked(*[26.0] * 20, None).state == "fail"


def test_witnesses_that_say_too_little_are_not_judged(story: Story) -> None:
    """Their answers are half of what bystanders are: with too few it is not known that nothing was done to them."""
    story.requests()
    story.witnesses()
    story.events = [e for e in story.events if e.name != "witness" or e.at_ns < at(6)]
    found = story.found()
    assert (found.state, len(found.reasons)) == ("inconclusive", 1)
    assert found.reasons[0].startswith(
        "candidate: the share of known requests that failed or were answered otherwise cannot be judged: 10 blocks "
        "before and 0 during have an answer of a witness"
    )


def test_an_anomaly_after_which_nobody_asked(story: Story) -> None:
    """A run that ended between the last anomaly and its known-good request."""
    story.requests()
    story.witnesses()
    story.events = [e for e in story.events if not (e.name == "probe" and e.data["after"] == "a11")]
    found = story.found()
    assert (found.state, found.reasons) == (
        "inconclusive", ["candidate: the known-good request was not asked after a11"]
    )  # fmt: skip


def test_bystanders_that_fail(story: Story) -> None:
    story.requests(
        lambda second: {"outcome": "stream_error"} if second >= QUIET_S and int(second * 10) % 3 == 0 else {}
    )
    story.witnesses()
    found = story.found()
    assert found.reasons[0].startswith("candidate: the share of failed requests rose from 0.00% to 32.92% while")
    assert "anomalies_bystanders" in {f.id for f in found.findings}


def test_a_load_that_is_slower(story: Story) -> None:
    story.requests()
    story.witnesses()
    for row in story.made.rows:
        if row["sent_ns"] >= at(QUIET_S):
            row["first_token_ns"] += 40_000_000
    found = story.found()
    assert [r.split(" (")[0] for r in found.reasons] == [
        "candidate: TTFT rose from 50 ms to 90 ms while anomalies were sent"
    ]


def test_times_of_an_invalid_measurement_are_not_judged(story: Story) -> None:
    """The client could not keep up: a slower load is no fault of the server's, but its errors are."""
    story.requests(lambda second: {"outcome": "http_error"} if second >= QUIET_S and int(second * 10) % 3 == 0 else {})
    story.witnesses()
    for row in story.made.rows:
        if row["sent_ns"] >= at(QUIET_S):
            row["first_token_ns"] += 40_000_000
    for i in range(int(story.end_s)):
        story.made.second(i, cpu_share=0.99)
    found = story.found()
    assert [r.split(" (")[0] for r in found.reasons] == [
        "candidate: the share of failed requests rose from 0.00% to 32.92% while anomalies were sent",
        f"candidate: the measurement is invalid, so no time is judged: {only(found).invalid}".split(" (")[0],
    ]
    ttft = next(t for t in only(found).bystanders if t.name == "ttft_s")
    assert (ttft.alarm, ttft.p is not None) == (False, True)


def test_a_silence_is_told(story: Story) -> None:
    begun = QUIET_S + STEP_S * 6
    story.requests(silent=(begun, begun + 2.5))
    story.witnesses()
    for row in story.made.rows:  # nothing was asked meanwhile either: users waited
        if at(begun) < row["sent_ns"] < at(begun + 2.5):
            row["sent_ns"] = at(begun + 2.5)
            row["chunk_times_s"] = [0.05]
            row["chunk_tokens"], row["arrival_no"] = [1], [0]
    rows = {r.name: r.silence_s for r in only(story.found()).rows}
    assert rows["a6"] == pytest.approx(2.45, abs=0.06)
    assert rows["a3"] == pytest.approx(0.05)


@pytest.mark.parametrize(("grown", "state"), [(300e6, "fail"), (40e6, "pass"), (90e6, "pass")])
def test_memory(story: Story, grown: float, state: str) -> None:
    story.requests()
    story.witnesses()
    samples = []
    for i in range(int(story.end_s)):
        value = 1e9 + (grown if i > QUIET_S + 10 else 0.0)
        reading = Reading("process_rss_bytes", "server", value)
        samples.append(TelemetrySample("candidate", "pid 1", at(i), at(i) + 1000, None, (reading,)))
    found = story.found(telemetry=tuple(samples))
    assert found.state == state
    if state == "fail":
        assert found.reasons == [
            "candidate: the server's memory grew by 300 MB (30%) from 1000 MB over 12 anomalies (allowed 10%)"
        ]


def test_not_all_were_sent(story: Story) -> None:
    story.requests()
    story.witnesses()
    story.events = [e for e in story.events if e.name != "all_sent" and e.at_ns < at(QUIET_S + STEP_S * 10)]
    found = story.found()
    assert found.state == "inconclusive"
    assert found.reasons == [
        "candidate: 10 of 12 anomalies were sent before the load ended: a longer load.0.duration_s"
    ]


def test_no_time_before(run: Any) -> None:
    story = Story(run, ["a0"])
    story.requests()
    story.events = [e for e in story.events if e.at_ns < at(QUIET_S)]
    found = story.found()
    assert (found.state, found.reasons) == ("inconclusive", ["candidate: no anomaly was sent: the load ended before"])


def test_witnesses_without_answers_of_their_own(story: Story) -> None:
    story.requests()
    story.witnesses()
    story.events = [replace(e, data={**e.data, "witnesses": 1}) if e.name == "quiet_over" else e for e in story.events]
    found = story.found()
    assert found.state == "inconclusive"
    assert found.reasons == [
        "candidate: 1 known requests have answers that are theirs alone: cross-talk cannot be told"
    ]


def test_repeats_are_one_row(story: Story) -> None:
    story.requests()
    story.witnesses()
    got = {"ended": "closed", "status": None, "shape": "none", "s": 3.0, "message": ""}
    i = story.names.index("a11")
    story.anomaly(i, "a0", repeat=1, fits=False, got=got)
    story.events = [
        e for e in story.events if not (e.at_ns == at(QUIET_S + STEP_S * i) and e.data.get("name") == "a11")
    ]
    row = next(r for r in only(story.found()).rows if r.name == "a0")
    assert (row.sent, row.fits, row.got, row.seconds) == (2, False, "closed", 3.0)


def test_a_drafters_limit_that_is_not_known_is_no_pass(story: Story) -> None:
    """J1: requests longer than the drafter's limit were not sent, and the reason says what to set."""
    story.requests()
    story.witnesses()
    why = "the drafter's limit is not known: say anomalies.drafter_max_len"
    story.event(QUIET_S + 1, "anomaly_skipped", name="long_for_drafter", group="too_long", reason=why, unknown=True)
    found = story.found()
    assert (found.state, found.reasons) == (
        "inconclusive",
        [f"candidate: long_for_drafter is not shown: {why}"],
    )


@pytest.mark.parametrize("more", [{}, {"unknown": False}])
def test_a_server_without_a_drafter_has_no_limit_to_show(story: Story, more: dict[str, Any]) -> None:
    story.requests()
    story.witnesses()
    why = "the server does not speculate: it has no drafter"
    story.event(QUIET_S + 1, "anomaly_skipped", name="long_for_drafter", group="too_long", reason=why, **more)
    found = story.found()
    assert (found.state, [s.reason for s in only(found).skipped]) == ("pass", [why])


def test_nothing_that_can_be_made_is_told_as_that(run: Any) -> None:
    """Not as a load that ended before."""
    story = Story(run, [])
    story.requests()
    story.witnesses()
    for i in range(4):
        story.event(QUIET_S + 1, "anomaly_skipped", name=f"long_{i}", group="too_long", reason="no limit is known")
    found = story.found()
    assert (found.state, found.reasons[0]) == (
        "inconclusive",
        "candidate: no anomaly was sent: none can be made for this server (long_0: no limit is known; long_1: no limit "
        "is known; long_2: no limit is known and 1 more)",
    )
