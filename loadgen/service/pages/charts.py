"""The charts of a run as it goes. What is drawn of each look stands in static/live.js, under the same ids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chart:
    id: str
    title: str
    caption: str


CHARTS = (
    Chart(
        "load",
        "Requests per second: asked and delivered",
        "Asked: due by the plan. Sent: by this client. A 200 is no success: ok were read to their end.",
    ),
    Chart(
        "flight",
        "Requests in flight",
        "Asked: the plateau of a closed loop. Waiting: in the server's queue, where it tells.",
    ),
    Chart("throughput", "Output tokens per second", "Where answers tell their tokens, failed ones too."),
    Chart("ttft", "Time to first token (TTFT)", "Of ok streams that ended in the window; linear within buckets."),
    Chart(
        "tpot",
        "Time per output token after the first (TPOT)",
        "Of ok answers that ended in the window; linear within buckets.",
    ),
    Chart(
        "acceptance",
        "Acceptance by task (α)",
        "Accepted ÷ drafted tokens in the window: a mix of tasks is not one number. None where nothing was drafted.",
    ),
    Chart(
        "rollback",
        "Rollback by task",
        "Rounds with a rejected token ÷ rounds in the window: a lower bound where steps were not told one by one.",
    ),
)
