"""All rules, and their order under the scenario's objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.analyze.findings import causes, health, resources, speed
from loadgen.analyze.findings.base import Facts, Rule, Topic
from loadgen.analyze.summary import Finding

#: Every rule, by topic; a test holds them against docs/findings.md
RULES: tuple[Rule, ...] = (
    Rule("faster", "throughput", "good", speed.faster),
    Rule("slower", "throughput", "bad", speed.slower),
    Rule("no_difference", "throughput", "info", speed.no_difference),
    Rule("too_few_blocks", "trust", "warning", speed.too_few_blocks),
    Rule("acceptance_high_no_gain", "throughput", "bad", speed.acceptance_high_no_gain),
    Rule("gain_but_worse_p99", "latency", "bad", speed.gain_but_worse_p99),
    Rule("gain_gone_at_concurrency", "throughput", "warning", speed.gain_gone_at_concurrency),
    Rule("ttft_up_throughput_up", "latency", "warning", speed.ttft_up_throughput_up),
    Rule("output_too_short_to_pay", "latency", "warning", speed.output_too_short_to_pay),
    Rule("stutter_up", "latency", "info", speed.stutter_up),
    Rule("acceptance_drifting_down", "throughput", "warning", causes.acceptance_drifting_down),
    Rule("rollbacks_clustered_in_segment", "latency", "warning", causes.rollbacks_clustered_in_segment),
    Rule("time_in_queue", "latency", "warning", causes.time_in_queue),
    Rule("time_in_prefill", "latency", "info", causes.time_in_prefill),
    Rule("time_in_decode", "latency", "info", causes.time_in_decode),
    Rule("errors_up", "quality", "bad", causes.errors_up),
    Rule("engine_away", "quality", "bad", health.engine_away),
    Rule("output_length_shift", "quality", "warning", causes.output_length_shift),
    Rule("cost_up_although_faster", "cost", "bad", resources.cost_up_although_faster),
    Rule("cost_up", "cost", "warning", resources.cost_up),
    Rule("cost_down", "cost", "good", resources.cost_down),
    Rule("energy_up", "cost", "warning", resources.energy_up),
    Rule("kv_capacity_down", "cost", "warning", resources.kv_capacity_down),
    Rule("not_like_for_like", "trust", "warning", causes.not_like_for_like),
    Rule("baseline_not_reproducible", "trust", "warning", causes.baseline_not_reproducible),
    Rule("acceptance_not_representative", "trust", "info", causes.acceptance_not_representative),
    Rule("greedy_only", "trust", "info", causes.greedy_only),
)
#: What comes first under each objective
_ORDER: Mapping[str, tuple[Topic, ...]] = {
    "latency": ("latency", "throughput", "quality", "cost", "trust"),
    "throughput": ("throughput", "latency", "cost", "quality", "trust"),
    "cost": ("cost", "throughput", "quality", "latency", "trust"),
    "quality": ("quality", "latency", "throughput", "cost", "trust"),
}
_WEIGHT = {"bad": 0, "warning": 1, "good": 2, "info": 3}


def findings_of(facts: Facts, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """Bad ones first, then warnings, gains and facts; within these by the objective, then in the order of rules."""
    topics = _ORDER[str(facts.run.get("objective") or "latency")]
    found = [(rule, one) for rule in rules for one in rule.find(facts, rule)]
    found.sort(key=lambda pair: (_WEIGHT[pair[1].severity], topics.index(pair[0].topic)))
    return [one for _, one in found]
