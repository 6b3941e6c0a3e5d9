"""The items of the checklist, and what shows each (docs/checklist.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadgen.verdict.checklist import beside, compared
from loadgen.verdict.checklist.seen import Found, Seen


@dataclass(frozen=True, slots=True)
class Rule:
    """An item of the list: its name, what it says, and how it is shown."""

    name: str
    title: str
    show: Callable[[Seen], Found]


#: In the order of the list.
ITEMS: Sequence[Rule] = (
    Rule("baseline_reproducible", "baseline reproducible", compared.reproducible),
    Rule("tokenizer_and_revision", "same tokenizer, vocabulary and model revision for draft and target",
         compared.tokenizer_and_revision),
    Rule("sampling_equal", "same sampling in both arms, in draft and verification", compared.sampling),
    Rule("acceptance_by_task", "acceptance by task, with enough samples", compared.acceptance),
    Rule("net_throughput", "net throughput, drafting and rollback included", compared.net_throughput),
    Rule("latency_slo", "P95 and P99 within their limits", compared.latency),
    Rule("memory_and_cost", "memory and unit cost accounted for", compared.memory_and_cost),
    Rule("canary", "canary share set, alerts on acceptance and rollback proven to fire", beside.canary),
    Rule("quality", "quality compared, verbatim for greedy", beside.quality),
    Rule("stability", "stable under hours of steady load", beside.stability),
    Rule("anomalies", "bad requests are answered rightly and harm nobody", beside.anomalies),
    Rule("kill_switch", "kill switch proven by a drill", beside.kill_switch),
    Rule("access", "access control, transport encryption and audit log checked", beside.access),
)  # fmt: skip
