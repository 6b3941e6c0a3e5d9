"""Do the intervals cover? Simulated loads with known truth, in virtual time; prints the tables of docs/statistics.md.

    python benchmarks/interval_coverage.py                             500 replications x 999 resamples, some minutes
    python benchmarks/interval_coverage.py --docs docs/statistics.md   and writes them into the file
    python benchmarks/interval_coverage.py --parts speed rehearsal

Every number is seeded; only the seconds differ from machine to machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import interval_checks as checks
import interval_rehearsal as rehearsal
import numpy as np
from interval_worlds import Acceptance, Load, one_arm

from loadgen.analyze import (
    Estimate,
    blocks_for_precision,
    power_of_ratio,
    quantile_bootstrap,
    quantile_ratio_bootstrap,
)

BEGIN, END = "<!-- coverage:begin -->", "<!-- coverage:end -->"
SHAPES = ((20, 25), (20, 50), (40, 50))
#: blocks x requests: the first holds the fewest requests with which a P99 has an interval
P99_SHAPES = ((20, 23), (20, 50), (40, 50))
PHIS = (0.0, 0.3, 0.5)
#: of an interleaved run: 5 repeats of 4 blocks
DEFAULT = Load(blocks=20, requests=50, block_phi=0.5)


def sample_of(load: Load) -> str:
    return f"{load.blocks} × {load.requests}"


def quantiles(n: int, resamples: int) -> Iterator[str]:
    yield "### Quantiles of one arm: blocks × requests, latency level correlated from block to block (φ)\n"
    yield checks.HEADER
    for q, shapes in ((0.5, SHAPES), (0.95, SHAPES), (0.99, P99_SHAPES)):
        for (blocks, requests), phi in product(shapes, PHIS):
            load = Load(blocks, requests, phi)
            found = checks.quantile_coverage(load, q, n, resamples)
            yield found.row(f"P{q * 100:g}", sample_of(load), f"φ {phi:g}")
    yield from beyond(n, resamples)


def beyond(n: int, resamples: int) -> Iterator[str]:
    """More correlation than is claimed to be covered."""
    for q in (0.5, 0.95):
        load = Load(20, 50, 0.7)
        found = checks.quantile_coverage(load, q, n, resamples)
        yield found.row(f"P{q * 100:g}", sample_of(load), "φ 0.7, beyond what is claimed")


def ratios(n: int, resamples: int) -> Iterator[str]:
    yield "### Ratios of two interleaved arms (true ratio 0.8; speedup 1.5)\n"
    yield checks.HEADER
    for q, shapes in ((0.5, SHAPES), (0.95, SHAPES), (0.99, P99_SHAPES)):
        for (blocks, requests), phi in product(shapes, PHIS):
            load = Load(blocks, requests, phi)
            found = checks.quantile_ratio_coverage(load, q, 0.8, n, resamples)
            yield found.row(f"P{q * 100:g} ratio", sample_of(load), f"φ {phi:g}")
    for blocks, phi in product((5, 10, 20, 40), PHIS):
        found = checks.log_ratio_coverage(Load(blocks, 50, phi), 1.5, n)
        yield found.row("speedup, t on log-ratios", f"{blocks} blocks", f"φ {phi:g}")


def shares(n: int, resamples: int) -> Iterator[str]:
    yield "### Acceptance clustered by case (beta-binomial, 5 repeats), and shares of failed requests\n"
    yield checks.HEADER
    for cases, (mean, c) in product((20, 50, 200), ((0.7, 5.0), (0.3, 3.0))):
        kind = Acceptance(cases, mean, c)
        found = checks.acceptance_coverage(kind, n)
        yield found.row("acceptance rate", f"{cases} cases", f"Beta, mean {mean:g}, concentration {c:g}")
    for blocks, requests, share, c in (
        (20, 50, 0.02, 50), (20, 50, 0.2, 20), (40, 100, 0.02, 50), (40, 100, 0.005, 100),
    ):  # fmt: skip
        load = Load(blocks, requests, 0.0)
        found = checks.share_coverage(load, share, c, n, resamples)
        yield found.row("error share", sample_of(load), f"Beta per block, mean {share:g}, concentration {c:g}")


def minimum(n: int, resamples: int) -> Iterator[str]:
    yield "### What P99 says below its minimum\n"
    yield "| sample | value | interval | said |\n|---|---|---|---|"
    for load in (Load(20, 4, 0.3), Load(20, 22, 0.3), Load(19, 100, 0.3), Load(20, 23, 0.3), Load(20, 50, 0.3)):
        found = quantile_bootstrap(
            one_arm(np.random.default_rng(3), load), load.block, 0.99, seed=3, resamples=resamples
        ).published()
        yield f"| {sample_of(load)} | {shown(found.value)} | {interval(found)} | {found.reason or ''} |"


def shown(number: float | None) -> str:
    return "none" if number is None else f"{number:.3f}"


def interval(found: Estimate) -> str:
    return f"{shown(found.low)} to {shown(found.high)}"


def gate(n: int, resamples: int) -> Iterator[str]:
    sample = f"{DEFAULT.blocks} blocks in each arm, φ {DEFAULT.block_phi:g}"
    yield f"### The gate: {sample}; {n} replications × {resamples} resamples\n"
    names: list[str] | None = None
    for requests, slowdown, limit in (
        (50, 0.0, None), (50, 0.0, 1.0), (50, 0.05, None), (50, 0.1, None), (200, 0.05, None), (200, 0.1, None),
    ):  # fmt: skip
        load = Load(DEFAULT.blocks, requests, DEFAULT.block_phi)
        found = checks.gate_counts(load, slowdown, n, resamples, limit=limit)
        if names is None:
            names = list(found.shown)
            yield (
                "| requests per block | candidate slower by | limits on latencies | gate fails | "
                + " | ".join(f"{name} shown slower" for name in names)
                + " |"
            )
            yield "|---|" + "---|" * (len(names) + 3)
        alone = " | ".join(f"{found.shown[name]:.1%}" for name in names)
        yield f"| {requests} | {slowdown:.0%} | {limit or 1.05:.2f} × baseline | {found.failed:.1%} | {alone} |"


def planning(n: int, resamples: int) -> Iterator[str]:
    yield "### Power to show a slower candidate by paired blocks (noncentral t), and blocks for a precision\n"
    yield "| spread of a block's log-ratio | 5 %, 20 blocks | 10 %, 20 blocks | 5 %, 4 tests | blocks for ±2 % |"
    yield "|---|---|---|---|---|"
    for spread in (0.02, 0.05, 0.1, 0.15, 0.2):
        five, ten = (power_of_ratio(spread, 20, effect) for effect in (0.05, 0.1))
        four = power_of_ratio(spread, 20, 0.05, tests=checks.TESTS)
        yield f"| {spread:g} | {five:.1%} | {ten:.1%} | {four:.1%} | {blocks_for_precision(spread, 0.02)} |"


def speed(n: int, resamples: int) -> Iterator[str]:
    yield "### Time of 10,000 resamples of a 100,000-request run on one core (40 blocks)\n"
    yield "| statistic | CPU seconds |\n|---|---|"
    load = Load(40, 2_500, 0.3)
    rng = np.random.default_rng(1)
    values, others = one_arm(rng, load), one_arm(rng, load)
    for q in (0.5, 0.95, 0.99):
        began = time.process_time()
        quantile_bootstrap(values, load.block, q, seed=1, resamples=10_000)
        yield f"| P{q * 100:g} | {time.process_time() - began:.2f} |"
    began = time.process_time()
    quantile_ratio_bootstrap(values, load.block, others, load.block, 0.95, seed=1, resamples=10_000)
    yield f"| P95 ratio | {time.process_time() - began:.2f} |"


def engine(n: int, resamples: int) -> Iterator[str]:
    runs = 20
    yield f"### Rehearsal engine: draft model against off, {runs} runs of 20 blocks of 16 requests at each level\n"
    yield rehearsal.HEADER
    for concurrency in (4, 16):
        yield rehearsal.recover(concurrency, runs).row()


PARTS: dict[str, Callable[[int, int], Iterator[str]]] = {
    "quantiles": quantiles, "ratios": ratios, "shares": shares, "minimum": minimum, "gate": gate,
    "planning": planning, "speed": speed, "rehearsal": engine,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--resamples", type=int, default=999)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--docs", type=Path, help="file with the lines of the two markers to write the tables between")
    asked = parser.parse_args()
    lines = [f"{asked.replications} replications × {asked.resamples} resamples; 95 % intervals.\n"]
    print(lines[0])
    for part in asked.parts:
        for line in PARTS[part](asked.replications, asked.resamples):
            print(line, flush=True)
            lines.append(line)
        print()
        lines.append("")
    if asked.docs is not None:
        before, rest = asked.docs.read_text().split(BEGIN)
        after = rest.split(END)[1]
        asked.docs.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"{END}{after}")


if __name__ == "__main__":
    main()
