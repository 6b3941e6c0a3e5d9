"""What watchers are told, and how a lost connection is taken up again."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from loadgen.service.events import KEPT, MOST_LOOKS, WAITING, Event, RunEvents, TooSlow, Watcher

ROW = {"id": "r", "state": "running"}


async def all_of(watcher: Watcher) -> list[tuple[int, str, Any]]:
    found = []
    while (event := await watcher.take()) is not None:
        found.append((event.number, event.kind, json.loads(event.data)))
    return found


def told(n: int, boot: str = "b") -> RunEvents:
    events = RunEvents(boot)
    for i in range(n):
        events.publish("said", {"text": str(i)})
    return events


async def test_a_first_look_is_a_snapshot_and_what_comes_after_it() -> None:
    events = told(2)
    events.publish("segment", {"stage": "c2"})
    events.publish("look", {"run_s": 1.0})
    watcher = events.watch(None, ROW)
    events.publish("ended", ROW)
    first, *rest = await all_of(watcher)
    assert first[:2] == (4, "snapshot")
    assert first[2] == {
        "run": ROW, "segment": {"stage": "c2"}, "said": [{"text": "0"}, {"text": "1"}], "looks": [{"run_s": 1.0}]
    }  # fmt: skip
    assert rest == [(5, "ended", ROW)]


async def test_what_was_missed_comes_again_and_nothing_twice() -> None:
    events = told(5)
    events.publish("ended", ROW)
    assert [n for n, _, _ in await all_of(events.watch("b.3", ROW))] == [4, 5, 6]
    assert await all_of(events.watch("b.6", ROW)) == []


@pytest.mark.parametrize("last", ["", "x", "b.", "b.-1", "b.99", "c.3", "b.3.3", "b.٣", "b." + "9" * 40])
async def test_an_id_that_cannot_be_told_from_gets_a_snapshot(last: str) -> None:
    events = told(5)
    events.publish("ended", ROW)
    assert [kind for _, kind, _ in await all_of(events.watch(last, ROW))] == ["snapshot"]


async def test_an_id_that_is_not_kept_any_more_gets_a_snapshot() -> None:
    events = told(KEPT + 10)
    events.publish("ended", ROW)
    assert [kind for _, kind, _ in await all_of(events.watch("b.5", ROW))] == ["snapshot"]
    assert len(await all_of(events.watch("b.11", ROW))) == KEPT


async def test_a_watcher_that_takes_nothing_is_cut_off() -> None:
    events = told(0)
    watcher, other = events.watch(None, ROW), events.watch(None, ROW)
    for i in range(KEPT + WAITING + 10):
        events.publish("look", {"i": i})
        if i % 100 == 0:
            while (event := await other.take()) is not None and event.number <= i:
                pass
    with pytest.raises(TooSlow):
        await watcher.take()
    events.leave(watcher)
    assert events.watchers == 1


async def test_a_long_runs_looks_are_thinned() -> None:
    events = told(0)
    for i in range(3 * MOST_LOOKS):
        events.publish("look", {"i": i})
    looks = [look["i"] for look in events.snapshot(ROW)["looks"]]
    assert len(looks) <= MOST_LOOKS
    assert looks[0] == 0
    assert {b - a for a, b in pairwise(looks)} == {4}


async def test_the_end_of_the_service_lets_watchers_go() -> None:
    events = told(1)
    watcher = events.watch("b.1", ROW)
    events.close()
    assert await all_of(watcher) == []
    assert events.watchers == 0


def test_a_frame_is_a_server_sent_event() -> None:
    assert Event(7, "said", b'{"a":"\\n"}').frame("b1") == b'id: b1.7\nevent: said\ndata: {"a":"\\n"}\n\n'
