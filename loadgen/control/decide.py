"""End the run, or go on: asked a few times a second while a segment runs."""

from __future__ import annotations

from loadgen.control.types import Decision, Live
from loadgen.scenario import Limits

#: Fewer ended requests than this say nothing about a share.
LEAST_ENDED = 20
#: So many scrapes in a row must be above the limit: one is a burst.
SCRAPES_ABOVE = 3


def decide(live: Live, limits: Limits) -> Decision:
    """Whether the run may go on, with the sentence that says why not.

    The totals (requests, output tokens, cost) end the run when they are above their cap: a plan of exactly
    `max_requests` finishes. `abort_error_share` ends it when at least that share of the last requests
    failed, and at least 20 have ended. `abort_waiting` ends it when the server's queue was above it in
    each of the last three scrapes. A cap that is None never ends a run, nor does a value that is unknown.
    """
    reason = _totals(live, limits) or _errors(live, limits) or _queue(live, limits)
    return Decision("continue") if reason is None else Decision("abort", reason)


def _totals(live: Live, limits: Limits) -> str | None:
    if limits.max_requests is not None and live.sent > limits.max_requests:
        return f"{live.sent:,} requests were sent; safety.max_requests is {limits.max_requests:,}"
    if limits.max_output_tokens is not None and live.output_tokens > limits.max_output_tokens:
        return (
            f"{live.output_tokens:,} output tokens have come; safety.max_output_tokens is {limits.max_output_tokens:,}"
        )
    if limits.max_cost is not None and live.cost is not None and live.cost > limits.max_cost:
        return f"the output has cost {live.cost:,.6g}; safety.max_cost is {limits.max_cost:,.6g}"
    return None


def _errors(live: Live, limits: Limits) -> str | None:
    if limits.abort_error_share is None or live.recent_ended < LEAST_ENDED:
        return None
    share = live.recent_failures / live.recent_ended
    if share < limits.abort_error_share:
        return None
    return (
        f"{live.recent_failures} of the last {live.recent_ended} requests failed ({share:.0%}); "
        f"safety.abort_error_share is {limits.abort_error_share:.0%}"
    )


def _queue(live: Live, limits: Limits) -> str | None:
    last = live.server_waiting[-SCRAPES_ABOVE:]
    if limits.abort_waiting is None or len(last) < SCRAPES_ABOVE or min(last) <= limits.abort_waiting:
        return None
    lengths = ", ".join(f"{n:g}" for n in last)
    return (
        f"the server's queue was {lengths} requests in the last {SCRAPES_ABOVE} scrapes; "
        f"safety.abort_waiting is {limits.abort_waiting}"
    )
