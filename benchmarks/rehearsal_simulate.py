"""What the rehearsal engine costs: training time, memory, and the time to play a five-level ramp of 10,000 requests.

    python benchmarks/rehearsal_simulate.py [--requests 10000]

Limits: training 2 s, resident memory 300 MB, the ramp 20 s on one core (mean output 64 tokens, k = 4).
"""

from __future__ import annotations

import argparse
import time

import psutil

from server_adapters.rehearsal import (
    EngineConfig,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    TaskType,
    corpus_cases,
    load_models,
    simulate,
)

LEVELS = (1, 4, 16, 64, 256)
MIX: dict[TaskType, float] = {"short_qa": 0.1, "long_form": 0.3, "structured": 0.3, "code": 0.3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    requests = parser.parse_args().requests
    began, cpu_began = time.perf_counter(), time.process_time()
    models = load_models()
    print(f"training     {time.perf_counter() - began:6.2f} s wall, {time.process_time() - cpu_began:.2f} s CPU")
    sampling = SamplingParams(temperature=0.7, max_tokens=160)
    counts = {task: round(share * requests / len(LEVELS)) for task, share in MIX.items()}
    stages = tuple(
        Stage(tuple(corpus_cases(models, counts, sampling, seed)), concurrency=level)
        for seed, level in enumerate(LEVELS)
    )
    for name, speculation in (("off", None), ("draft k=4", SpeculationConfig())):
        plan = SimulationPlan({name: EngineConfig(speculation=speculation)}, stages)
        began, cpu_began = time.perf_counter(), time.process_time()
        run = simulate(plan, 1, models)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        mean = sum(len(r.token_ids) for r in run.records) / len(run.records)
        virtual_s = max(r.end_s for r in run.records if r.end_s is not None)
        print(
            f"{name:<12} {wall_s:6.2f} s wall, {cpu_s:.2f} s CPU for {len(run.records)} requests, "
            f"{mean:.1f} tokens each, {len(run.steps)} steps, {virtual_s:.0f} s of virtual time"
        )
        resident = psutil.Process().memory_info().rss
        print(f"resident     {resident / 1e6:6.0f} MB, with all records and steps of the run")


if __name__ == "__main__":
    main()
