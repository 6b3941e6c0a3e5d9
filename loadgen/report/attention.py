"""What must be read before any number: failures, load that was not delivered, arms that did not draft."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analyze import Arm, G, Summary
from loadgen.report.format import count

#: A share below this is said in the tables only.
NOTABLE = 0.01


def attention(summary: Summary) -> list[str]:
    """Sentences, worst first; empty where nothing stands out. Numbers are the summary's."""
    lines = list(_state(summary))
    for name, arm in summary.arms.items():
        lines += _failures(name, arm)
    lines += _load(summary)
    for name, arm in summary.arms.items():
        lines += _drafts(name, arm)
    return lines


def _state(summary: Summary) -> Iterator[str]:
    if summary.finished:
        return
    reason = summary.conditions.get("stop_reason") or f"its state is {summary.conditions.get('state')}"
    yield f"This run did not finish ({reason}); every number is of what was measured until then."


def _failures(name: str, arm: Arm) -> Iterator[str]:
    requests = arm.overall.requests
    failed = {k: n for k, n in requests.outcomes.items() if n and k != "ok"}
    if not failed or not requests.sent:
        return
    kinds = ", ".join(f"{count(n)} {kind}" for kind, n in failed.items())
    yield (
        f"{name}: {count(sum(failed.values()))} of {count(requests.sent)} requests did not succeed ({kinds}); "
        "an arm's own latencies are of the others."
    )
    for failure in arm.failures:
        status = f" {failure.error_status}" if failure.error_status else ""
        said = f": {failure.example}" if failure.example else ""
        yield f"   {count(failure.n)} × {failure.outcome}{status} in {', '.join(failure.task_types)}{said}"


def _load(summary: Summary) -> Iterator[str]:
    """Asked against delivered: then throughput is the client's or the cap's, not the server's."""
    for name, arm in summary.arms.items():
        requests = arm.overall.requests
        for value, text in (
            (requests.capped_rate, "were held back by safety.max_requests_per_second"),
            (requests.capped_in_flight, "waited for max_in_flight"),
            (requests.dropped, "were dropped at max_in_flight"),
        ):
            if value and requests.scheduled and value / requests.scheduled >= NOTABLE:
                yield (
                    f"{name}: {count(value)} of {count(requests.scheduled)} requests {text}: "
                    "the load asked for was not delivered, and throughput is the cap's, not the server's."
                )


def _drafts(name: str, arm: Arm) -> Iterator[str]:
    if not arm.overall.speculation.rounds.value:
        return
    silent = [g.task_type for g in arm.by if _is_task(g) and g.speculation.rounds.value == 0]
    for task in silent:
        yield f"{name}: not one draft was made for {task}; speculation does nothing for it here."


def _is_task(g: G) -> bool:
    others = (g.input_segment, g.output_segment, g.stage, g.temperature)
    return g.task_type is not None and all(other is None for other in others)
