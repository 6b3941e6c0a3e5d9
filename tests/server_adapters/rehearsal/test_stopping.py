"""Where outputs end."""

from __future__ import annotations

import pytest

from server_adapters.rehearsal.stopping import find_stop, trim
from server_adapters.rehearsal.types import SamplingParams

EOS = 0


@pytest.mark.parametrize(
    ("params", "position", "room", "expected"),
    [
        (SamplingParams(max_tokens=99), 0, 99, ([5, 6, EOS], "stop", None)),
        (SamplingParams(max_tokens=99, ignore_eos=True), 0, 99, ([5, 6, EOS, 7], None, None)),
        (SamplingParams(max_tokens=99, stop_token_ids=(6,)), 0, 99, ([5, 6], "stop", 6)),
        (SamplingParams(max_tokens=99, min_tokens=4), 0, 99, ([5, 6, EOS, 7], None, None)),
        (SamplingParams(max_tokens=99, min_tokens=3), 0, 99, ([5, 6, EOS], "stop", None)),
        (SamplingParams(max_tokens=11), 10, 99, ([5], "length", None)),
        (SamplingParams(max_tokens=99), 10, 2, ([5, 6], "length", None)),
        (SamplingParams(max_tokens=3), 0, 99, ([5, 6, EOS], "stop", None)),
    ],
    ids=[
        "eos",
        "ignored",
        "stop-id",
        "too-early",
        "just-late-enough",
        "max-tokens",
        "model-length",
        "eos-at-the-limit",
    ],
)
def test_trim(
    params: SamplingParams, position: int, room: int, expected: tuple[list[int], str | None, int | None]
) -> None:
    assert trim([5, 6, EOS, 7], position, room, params, EOS) == expected


def test_the_earliest_stop_string_wins() -> None:
    assert find_stop("one two three", ["three", "two"], 0) == ("two", 4)
    assert find_stop("one two three", ["four"], 0) is None
    assert find_stop("one one", ["one"], 1) == ("one", 4)
