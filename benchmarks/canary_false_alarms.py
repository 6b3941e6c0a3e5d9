"""How often a healthy canary is called failing, and how soon a bad one is: in virtual time, with fixed seeds.

    python benchmarks/canary_false_alarms.py [--hours 72] [--drift-hours 6]

Two rehearsal engines in virtual time (`simulate`) are asked paired probes at the default rate (1 request a second, both
arms together), and judged in the default windows (300 s) with the default limits, by the code of `specload canary`.
`twins`: both arms are the same engine, so that the limit of 1 (speedup) lies exactly at the truth: most false alarms
that there can be. `faster`: the canary speculates, the baseline does not. `drift`: its drafts go wrong after an hour.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze import Probe
from loadgen.control import Canary, CanaryStanding, CheckId
from loadgen.experiment.canary.checks import Checks
from loadgen.experiment.canary.windows import CanaryWindows
from loadgen.scenario import BY_PROBES, CanaryKeys
from server_adapters.rehearsal import (
    EngineConfig,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    Switches,
    TaskType,
    corpus_cases,
    load_models,
    simulate,
)
from server_adapters.rehearsal.simulate import Record

MIX: dict[TaskType, float] = {"short_qa": 0.25, "long_form": 0.25, "structured": 0.25, "code": 0.25}
ARMS = ("candidate", "baseline")
SPECULATING = EngineConfig(speculation=SpeculationConfig(num_speculative_tokens=4))
KEYS = CanaryKeys.model_validate({"probes": {}, "counters": False})
Switching = Callable[[float, Switches], None]


@dataclass(frozen=True)
class World:
    candidate: EngineConfig
    baseline: EngineConfig
    switching: Switching | None = None

    @property
    def checks(self) -> Checks:
        """As `specload canary` finds them: without a baseline that speculates there is no ratio of acceptance."""
        names = [n for n in BY_PROBES if n != "acceptance_ratio" or self.baseline.speculation is not None]
        return Checks(tuple(CheckId(name, "probes") for name in names))


def drift(after_s: float) -> Switching:
    def switch(now_s: float, switches: Switches) -> None:
        switches.draft_bias = 1.0 if now_s >= after_s else 0.0

    return switch


WORLDS = {
    "twins": World(SPECULATING, SPECULATING),
    "faster": World(SPECULATING, EngineConfig()),
    "drift": World(SPECULATING, EngineConfig(), drift(3600.0)),
}


def probed(world: World, hours: float, seed: int) -> dict[str, list[Record]]:
    """One record of each arm for each pair, in order of the pairs. The arms draw tokens and times by themselves."""
    pairs_per_s = 0.5 if KEYS.probes is None else KEYS.probes.requests_per_s / 2
    n = int(hours * 3600 * pairs_per_s)
    models = load_models()
    cases = tuple(
        corpus_cases(
            models, {task: round(share * n) for task, share in MIX.items()}, SamplingParams(0.7, max_tokens=60), seed
        )
    )
    arrivals = tuple((np.arange(len(cases)) / pairs_per_s).tolist())
    found: dict[str, list[Record]] = {}
    for number, (arm, config) in enumerate(zip(ARMS, (world.candidate, world.baseline), strict=True)):
        plan = SimulationPlan(
            {arm: config}, (Stage(cases, arrivals_s=arrivals),), world.switching if number == 0 else None
        )
        found[arm] = simulate(plan, seed * 2 + number, models).records
    return found


def as_probe(pair: int, record: Record, block: int) -> Probe:
    assert record.first_token_s is not None
    assert record.end_s is not None
    later = len(record.token_ids) - record.chunk_tokens[0]
    spec = record.spec
    rolled = (
        0 if spec is None else sum(a < d for a, d in zip(spec.per_step_accepted, spec.per_step_drafted, strict=True))
    )
    return Probe(
        pair,
        block,
        record.outcome != "ok",
        record.first_token_s - record.arrival_s,
        (record.chunk_times_s[-1] - record.chunk_times_s[0]) / later if later else None,
        None if spec is None else spec.num_accepted_tokens,
        None if spec is None else spec.num_draft_tokens,
        None if spec is None else spec.num_spec_steps,
        None if spec is None else (rolled, rolled),
    )


def standings(
    world: World, records: dict[str, Sequence[Record]] | dict[str, list[Record]], hours: float, seed: int
) -> Iterable[CanaryStanding]:
    """Window after window, as the monitor judges them."""
    windows = CanaryWindows(KEYS, world.checks, *ARMS, dict.fromkeys(ARMS), dict.fromkeys(ARMS, "m"), seed)
    canary = Canary(world.checks.ids)
    ended = sorted(
        ((record.end_s or 0.0, pair, arm, record) for arm in ARMS for pair, record in enumerate(records[arm])),
        key=lambda one: one[:3],
    )
    at = 0
    for number in range(1, int(hours * 3600 / KEYS.window_s) + 1):
        end_s = number * KEYS.window_s
        while at < len(ended) and ended[at][0] <= end_s:
            _, pair, arm, record = ended[at]
            windows.probe(arm, as_probe(pair, record, windows.block_at(record.arrival_s)))
            at += 1
        yield canary.take(windows.judge(windows.cut(), end_s - KEYS.window_s, end_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=72)
    parser.add_argument("--drift-hours", type=float, default=6)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(
        "| world | hours | windows | false or true fails | failing windows by check | verdict pass, share of windows |"
    )
    print("|---|---|---|---|---|---|")
    for name, world in WORLDS.items():
        hours = asked.drift_hours if name == "drift" else asked.hours
        seen = list(standings(world, probed(world, hours, asked.seed), hours, asked.seed))
        fails = [s.window.number for s in seen if s.state == "fail" and s.changed]
        failing = Counter(c.check.name for s in seen for c in s.checks if c.reading.result == "fail")
        passed = sum(s.verdict == "pass" for s in seen) / len(seen)
        rows = ", ".join(f"{check} {n}" for check, n in failing.most_common()) or "none"
        at = f" (first at window {fails[0]})" if fails else ""
        print(f"| {name} | {hours:g} | {len(seen)} | {len(fails)}{at} | {rows} | {passed:.0%} |", flush=True)


if __name__ == "__main__":
    main()
