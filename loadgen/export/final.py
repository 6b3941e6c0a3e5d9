"""The final numbers of a run as gauges: taken from its summary and verdict, computed nowhere else."""

from __future__ import annotations

from loadgen.analyze import ArmResources, Summary
from loadgen.export.store import Metrics
from loadgen.verdict import Verdict

_WORDS = {"fail": 0, "pass": 1, "inconclusive": -1}
_STATES = {"invalid": 0, "valid": 1, "doubtful": -1}


def tell_summary(told: Metrics, summary: Summary) -> None:
    """Validity; E, acceptance, throughput and goodput of every arm and stage; speedup and c of every candidate. The
    label stage is all for a whole arm. What the summary does not know has no series."""
    run_id = summary.run_id
    told.set("run_validity", _STATES[summary.validity.state], run_id=run_id)
    for name, arm in summary.arms.items():
        stages = [g for g in arm.by if g.stage is not None and g.task_type is None]
        for group in (arm.overall, *stages):
            labels = {"run_id": run_id, "arm": name, "stage": group.stage or "all"}
            told.set("run_tokens_per_step", group.speculation.e_decode.value, **labels)
            told.set("run_acceptance_ratio", group.speculation.acceptance_rate.value, **labels)
            told.set("run_net_tokens_per_second", group.throughput.net_tokens_per_s.value, **labels)
            told.set("run_goodput_requests_per_second", group.throughput.goodput_requests_per_s.value, **labels)
    for name, used in summary.resources.arms.items():
        _tell_resources(told, run_id, name, used)
    if isinstance(summary.comparison, list):
        for row in summary.comparison:
            if (row.task_type, row.input_segment, row.output_segment) == (None, None, None):
                labels = {"run_id": run_id, "arm": row.candidate, "stage": row.stage}
                value = row.speedup.value
                told.set("run_speedup_ratio", value.value, **labels, kind=row.speedup.kind)
                told.set("run_speedup_low_ratio", value.low, **labels, kind=row.speedup.kind)
                told.set("run_speedup_high_ratio", value.high, **labels, kind=row.speedup.kind)
                told.set("run_step_cost_ratio", row.c.value, **labels)


def _tell_resources(told: Metrics, run_id: str, name: str, arm: ArmResources) -> None:
    for use in (arm.overall, *arm.stages):
        labels = {"run_id": run_id, "arm": name, "stage": use.stage or "all"}
        told.set("run_gpu_memory_peak_bytes", use.memory_peak_bytes.value, **labels)
        told.set("run_gpu_utilization_ratio", use.utilization.value, **labels)
        told.set("run_gpu_dram_active_ratio", use.dram_active.value, **labels)
        told.set("run_gpu_power_watts", use.power_watts.value, **labels)
        told.set("run_joules_per_output_token", use.joules_per_output_token.value, **labels)
        told.set("run_kv_capacity_tokens", arm.kv_capacity_tokens.value, **labels)
        told.set("run_cost_per_million_output_tokens", use.cost_per_million_output_tokens.value, **labels)
        told.set("run_cost_per_request", use.cost_per_request.value, **labels)


def tell_verdict(told: Metrics, verdict: Verdict) -> None:
    told.set("run_verdict", _WORDS[verdict.verdict], run_id=verdict.run_id)
    for result in verdict.thresholds:
        labels = {"run_id": verdict.run_id, "arm": result.arm, "threshold": result.name}
        told.set("threshold_value", result.value, **labels)
        told.set("threshold_limit", result.limit, **labels)
