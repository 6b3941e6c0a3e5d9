"""Outputs from lists of tokens and words."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loadgen.analyze import Output

Make = Callable[..., Output]


def build(
    text: str = "",
    ids: Sequence[int] | None = None,
    *,
    case: str = "c",
    arm: str = "baseline",
    repeat: int = 0,
    finish: str | None = "stop",
    **more: Any,
) -> Output:
    return Output(case, arm, repeat, None if ids is None else tuple(ids), text, finish, **more)


@pytest.fixture(scope="session")
def output() -> Make:
    """output(text, ids, case=, arm=, repeat=, finish=, …): an `Output`."""
    return build
