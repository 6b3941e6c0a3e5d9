"""Signs of life: what ended when, and for how long nothing did."""

from __future__ import annotations

import asyncio

import pytest

from loadgen.experiment.anomalies.pulse import Pulse
from tests.experiment.anomalies.virtual import ns, virtual_time


def test_what_ended_in_a_span_and_how() -> None:
    pulse = Pulse(lambda: (0, 0))
    for at, failed in ((3.0, True), (1.0, False), (2.0, True), (7.0, False)):
        pulse.note(ns(at), failed)
    assert pulse.failed(ns(2.0), ns(7.0)) == (2, 2)
    assert pulse.failed(ns(0.0), ns(9.0)) == (2, 4)
    assert pulse.failed(ns(4.0), ns(5.0)) == (0, 0)


@pytest.mark.parametrize(
    ("span", "longest"), [((1.2, 1.8), 1.0), ((2.5, 3.5), 4.0), ((0.0, 9.0), 4.0), ((0.0, 0.5), 0.0), ((7.5, 8.0), 2.0)]
)
def test_the_longest_time_in_which_nothing_ended(span: tuple[float, float], longest: float) -> None:
    """Of those that overlap the span; one that is still going on lasts until now, the ninth second."""
    with virtual_time() as loop:
        pulse = Pulse(lambda: (0, 0))
        loop.now_s = 9.0
        for at in (1.0, 2.0, 3.0, 7.0):
            pulse.note(ns(at), failed=False)
        assert pulse.longest_s(ns(span[0]), ns(span[1])) == pytest.approx(longest)


def test_the_load_is_seen_by_its_counts() -> None:
    with virtual_time() as loop:
        pulse = Pulse(lambda: (int(loop.now_s), int(loop.now_s) // 2))

        async def watch() -> None:
            task = asyncio.create_task(pulse.work())
            await asyncio.sleep(4.6)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        loop.run_until_complete(watch())
        assert pulse.failed(ns(0), ns(5)) == (2, 4)
        assert pulse.longest_s(ns(1.5), ns(2.5)) == pytest.approx(1.0)
