"""Speedup of speculation against concurrency on the rehearsal engine, in virtual time, beside its roofline.

    python benchmarks/rehearsal_speedup.py --hardware h100 --model 70b --out speedup

Writes OUT.json and OUT.csv (and --figure FILE.svg) and prints a table. Both arms run the same cases, closed
loop, one stage per level. `roofline` is E / c with E as measured and c the ratio of two decode steps of exactly
that batch, without prefill, queue or ramps: what a steady batch would gain.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from svg_chart import write_chart

from server_adapters.rehearsal import (
    TASK_TYPES,
    EngineConfig,
    Roofline,
    SamplingParams,
    Simulation,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    corpus_cases,
    load_models,
    simulate,
)
from server_adapters.rehearsal.hardware import STEP_OVERHEAD_S

Row = dict[str, float | int]


def steady_window(run: Simulation, arm: str, stage: int) -> tuple[int, float]:
    """Tokens and seconds of a stage from the first to the last arrival: the queue is never short of requests then."""
    steps = [s for s in run.steps if s.arm == arm and s.stage == stage]
    last_arrival = max(r.arrival_s for r in run.records if r.arm == arm and r.stage == stage)
    inside = [s for s in steps if s.started_s < last_arrival] or steps
    return sum(s.emitted_tokens for s in inside), sum(s.duration_s for s in inside)


def roofline_speedup(config: EngineConfig, batch: int, context: int, e_decode: float, k: int) -> float:
    """E / c of a steady batch at one context length."""
    roofline = Roofline(config.hardware, config.target_model, config.draft_model, config.tensor_parallel)
    target, draft = roofline.target, roofline.draft
    assert draft is not None
    positions = batch * context
    plain_s = roofline.forward_s(target, batch, positions, positions) + STEP_OVERHEAD_S
    round_s = roofline.forward_s(target, batch * (k + 1), positions * (k + 1), positions) + STEP_OVERHEAD_S
    round_s += k * roofline.forward_s(draft, batch, positions, positions)
    return e_decode / (round_s / plain_s)


def measure(arguments: argparse.Namespace) -> list[Row]:
    """One row per concurrency."""
    models = load_models()
    sampling = SamplingParams(temperature=arguments.temperature, max_tokens=arguments.max_tokens)
    off = EngineConfig(hardware=arguments.hardware, target_model=arguments.model, draft_model=arguments.draft)
    on = EngineConfig(
        speculation=SpeculationConfig(num_speculative_tokens=arguments.k),
        hardware=arguments.hardware,
        target_model=arguments.model,
        draft_model=arguments.draft,
    )
    rows: list[Row] = []
    for level in arguments.levels:
        per_task = -(-max(200, 6 * level) // len(TASK_TYPES))
        cases = tuple(corpus_cases(models, dict.fromkeys(TASK_TYPES, per_task), sampling, arguments.seed))
        plan = SimulationPlan({"off": off, "on": on}, (Stage(cases, concurrency=level),))
        run = simulate(plan, arguments.seed, models)
        speeds = {arm: tokens / seconds for arm in plan.arms for tokens, seconds in [steady_window(run, arm, 0)]}
        records = [r for r in run.records if r.arm == "on"]
        steps = sum(len(r.chunk_tokens) - 1 for r in records)
        e_decode = sum(sum(r.chunk_tokens[1:]) for r in records) / steps
        context = round(sum(r.num_prompt_tokens + len(r.token_ids) / 2 for r in records) / len(records))
        counters = run.counters["on"]
        rows.append(
            {
                "concurrency": level,
                "baseline_tokens_per_s": round(speeds["off"], 1),
                "candidate_tokens_per_s": round(speeds["on"], 1),
                "speedup": round(speeds["on"] / speeds["off"], 3),
                "roofline": round(roofline_speedup(on, level, context, e_decode, arguments.k), 3),
                "e_decode": round(e_decode, 3),
                "acceptance_rate": round(counters.num_accepted_tokens / counters.num_draft_tokens, 3),
                "requests_per_arm": len(cases),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", default="h100")
    parser.add_argument("--model", default="70b")
    parser.add_argument("--draft", default="1b")
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128, 192, 256])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="stem of the JSON and CSV files")
    parser.add_argument("--figure", type=Path, help="SVG file of the curves")
    arguments = parser.parse_args()
    rows = measure(arguments)
    print("  ".join(f"{name:>22}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>22}" for value in row.values()))
    if arguments.figure is not None:
        write_chart(
            arguments.figure,
            f"Speedup of speculation, rehearsal engine, {arguments.hardware} / {arguments.model}, k = {arguments.k}",
            "concurrent requests",
            "times the tokens/s without speculation",
            [row["concurrency"] for row in rows],
            {
                "measured (virtual time)": [row["speedup"] for row in rows],
                "roofline E / c": [row["roofline"] for row in rows],
            },
            level=1.0,
        )
    if arguments.out is not None:
        conditions = {k: v for k, v in vars(arguments).items() if k not in ("out", "levels", "figure")}
        arguments.out.with_suffix(".json").write_text(json.dumps({"conditions": conditions, "rows": rows}, indent=1))
        with arguments.out.with_suffix(".csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
