"""The catalogue: its names, what it makes for a server, and what it expects."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from server_adapters import ADAPTERS
from server_adapters.anomalies import (
    CATALOGUE,
    GROUPS,
    KNOWN,
    Absent,
    Await,
    Expected,
    Leave,
    Pause,
    Script,
    Send,
    Setting,
    chosen,
    expected_of,
)

SETTING = Setting(
    host="h:8000", path="/p", headers={"authorization": "Bearer planted"}, adapter="vllm", model="m",
    endpoint="completions", max_model_len=2048, drafter_max_len=512, speculation=True, max_body_bytes=16_000_000,
    marker="specload-abc",
)  # fmt: skip


def script_of(name: str, **changes: Any) -> Script:
    script = CATALOGUE[name].make(replace(SETTING, **changes))
    assert isinstance(script, Script), script
    return script


def body_of(name: str, **changes: Any) -> Any:
    """The JSON of a request that has one."""
    (send, *_) = script_of(name, **changes).steps
    assert isinstance(send, Send)
    return json.loads(send.data.split(b"\r\n\r\n", 1)[1])


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_each_can_be_made_and_ends(name: str, endpoint: Any) -> None:
    """Every script ends by an answer or by our leaving; every request that has headers is let in and closes."""
    script = script_of(name, endpoint=endpoint)
    assert script.connections >= 1
    assert isinstance(script.steps[-1], Await | Leave)
    if isinstance(script.steps[-1], Await):
        assert script.steps[-1].what == "end"
    sent = b"".join(s.data for s in script.steps if isinstance(s, Send))
    assert len(sent) <= 17_000_000
    assert sum(s.seconds for s in script.steps if isinstance(s, Pause)) <= 5
    assert b"Bearer planted" in sent or name in ("leave_connected", "leave_in_head", "http_tls_hello", "endless_head")


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_says_what_it_is_and_expects_something(name: str) -> None:
    one = CATALOGUE[name]
    assert one.what
    assert one.what[0] not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" or one.what.split()[0].isupper() or "/" in one.what
    expected = expected_of(one, SETTING)
    assert expected.words()
    assert expected.statuses or expected.left or expected.closed or expected.timeout
    assert not expected.statuses & {500, 502, 503, 504}, "a fault of the server is never right"


def test_names_and_groups() -> None:
    assert set(GROUPS) == {one.group for one in CATALOGUE.values()}
    assert not set(GROUPS) & set(CATALOGUE), "a name means one thing"
    assert {row for one in CATALOGUE.values() for row in one.rows} >= {"J1", "J5", "H10", "H20", "A3", "A25"}


def test_known_answers_are_of_anomalies_that_exist() -> None:
    assert set(KNOWN) >= {"vllm"}
    for adapter, known in KNOWN.items():
        assert not known.keys() - CATALOGUE.keys(), adapter
    assert "openai" in ADAPTERS
    assert "openai" not in KNOWN, "of any server only what every one must do is expected"


def test_only_the_empty_prompt_is_empty() -> None:
    """J5"""
    assert body_of("prompt_empty")["prompt"] == ""
    for name in ("long_text", "temperature_negative", "text_nul"):
        assert SETTING.marker in body_of(name)["prompt"]


def test_lengths_are_those_of_the_server() -> None:
    """J1: beyond the model, beyond the drafter alone, and up to the last token."""
    assert len(body_of("long_ids")["prompt"]) == 2048 + 64
    assert len(body_of("no_room")["prompt"]) == 2048
    assert len(body_of("long_for_drafter")["prompt"]) == 512 + 8
    to_the_end = body_of("to_the_end")
    assert len(to_the_end["prompt"]) + to_the_end["max_tokens"] == 2048
    assert len(body_of("long_text")["prompt"].split()) > 2048


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("long_ids", {"max_model_len": None}, "the model's limit is not known"),
        ("long_for_drafter", {"drafter_max_len": None}, "drafter's limit is not known"),
        ("long_for_drafter", {"drafter_max_len": 2040}, "leaves no longer prompt"),
        ("long_for_drafter", {"drafter_max_len": None, "speculation": False}, "does not speculate"),
        ("long_for_drafter", {"drafter_max_len": None, "spec_method": "ngram"}, "ngram looks drafts up in the text"),
        ("body_16_mb", {"max_body_bytes": 1_000_000}, "16 MB are above anomalies.max_body_mb"),
    ],
)
def test_what_cannot_be_made_says_why(name: str, changes: dict[str, Any], reason: str) -> None:
    absent = CATALOGUE[name].make(replace(SETTING, **changes))
    assert isinstance(absent, Absent)
    assert reason in absent.reason
    assert absent.unknown == ("drafter's limit is not known" in reason)


def test_speculation_decides_what_is_right() -> None:
    """H10: min_p and logit_bias are refused by a vLLM that speculates, and served by one that does not."""
    statuses = [
        expected_of(CATALOGUE["min_p"], replace(SETTING, speculation=on)).statuses for on in (True, False, None)
    ]
    assert statuses[:2] == [frozenset({400}), frozenset({200})]
    assert statuses[2] >= {200, 400}


@pytest.mark.parametrize(
    ("ended", "status", "shape", "fits"),
    [
        ("answered", 400, "error", True),
        ("answered", 400, "detail", False),
        ("answered", 200, "error", False),
        ("answered", 500, "error", False),
        ("closed", None, "none", True),
        ("closed", 500, "none", False),
        ("timeout", None, "none", False),
        ("left", None, "none", False),
        ("refused", None, "none", False),
    ],
)
def test_what_fits(ended: Any, status: int | None, shape: Any, fits: bool) -> None:
    expected = Expected(frozenset({400}), frozenset({"error"}), closed=True)
    assert expected.fits(ended, status, shape) is fits


def test_leaving_fits_with_what_has_come_by_then() -> None:
    left = Expected(frozenset({200}), left=True)
    assert [left.fits("left", s, "stream") for s in (None, 200, 503)] == [True, True, False]
    assert left.fits("closed", None, "none"), "the server may be the first to go"
    assert not Expected(frozenset({400})).fits("left", None, "none")


def test_words() -> None:
    assert expected_of(CATALOGUE["prompt_empty"], SETTING).words() == "400 error"
    assert expected_of(CATALOGUE["prompt_empty"], replace(SETTING, adapter="openai")).words() == "4xx"
    assert CATALOGUE["endless_body"].expected.words() == "4xx, or closed, or no answer"
    assert CATALOGUE["leave_in_stream"].expected.words() == "200, or we leave"


def test_choosing() -> None:
    everything = [one.name for one in chosen((), ())]
    assert set(CATALOGUE) - set(everything) == {"n_many"}
    assert [a.name for a in chosen(["model", "n_many"], ["model_long"])] == [
        "model_unknown", "model_path", "model_empty", "model_missing", "n_many",
    ]  # fmt: skip
    assert chosen(["empty"], ["empty"]) == []
    assert {a.group for a in chosen((), ["http", "slow"])} == set(GROUPS) - {"http", "slow"}


def test_headers_are_secret() -> None:
    assert "planted" not in repr(SETTING)
