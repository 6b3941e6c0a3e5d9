"""What keeps a run from passing, whatever its numbers: validity, design, environment (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: What cannot be said any more: that the run passes; also nothing of one arm against another; also no time.
Voids = Literal["pass", "comparison", "times"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What was run. `differences`: of the environments, sentences that make a comparison inconclusive; `noted`: the
    others. `node_effects`: what an A/A run of the same design shows to differ by itself; None = there is none.
    `unexchanged`: where nodes were to be swapped, the stages that were not driven as often on either side. `design` and
    `paired` None where nothing is compared. `stages`: those that a question without a stage is about; `mixed`: they
    are closed and open loops, each of which has a speedup of another kind."""

    run_id: str
    arms: tuple[str, ...]
    baseline: str | None = None
    design: str | None = None
    paired: bool | None = None
    blocks: int | None = None
    finished: bool = True
    stop_reason: str | None = None
    validity: Literal["valid", "doubtful", "invalid"] = "valid"
    validity_reasons: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    swapped: bool = False
    unexchanged: tuple[str, ...] = ()
    node_effects: tuple[str, ...] | None = None
    shard: str | None = None
    reproduce: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Obstacle:
    text: str
    voids: Voids


def obstacles(facts: Facts) -> list[Obstacle]:
    """Weightiest first. Empty: the thresholds alone decide."""
    return [*_measurement(facts), *_whole(facts), *_comparison(facts)]


def _measurement(facts: Facts) -> Iterator[Obstacle]:
    """An invalid measurement is of the client, or of the few requests that survived."""
    if facts.validity == "invalid":
        worst = [r.removeprefix("invalid: ") for r in facts.validity_reasons if r.startswith("invalid: ")]
        yield Obstacle(f"the measurement is invalid: {'; '.join(worst) or 'see its reasons'}", "times")


def _whole(facts: Facts) -> Iterator[Obstacle]:
    if not facts.finished:
        why = f": {facts.stop_reason}" if facts.stop_reason else ""
        yield Obstacle(f"the run did not finish{why}", "pass")
    if facts.shard is not None:
        yield Obstacle(f"only share {facts.shard} of the plan was driven by this run", "pass")


def _comparison(facts: Facts) -> Iterator[Obstacle]:
    for difference in facts.differences:
        yield Obstacle(f"environment: {difference}", "comparison")
    if facts.design == "parallel" and not facts.swapped:
        if facts.node_effects is None:
            yield Obstacle(
                "the arms ran in parallel on different hardware, and no interval sees what the nodes add: "
                "exchange the nodes halfway (comparison.swap), or give an A/A run (comparison.aa_run)",
                "comparison",
            )
        for effect in facts.node_effects or ():
            yield Obstacle(f"the A/A run does not clear the nodes: {effect}", "comparison")
    for stage in facts.unexchanged:
        yield Obstacle(f"the nodes were not exchanged for half of the blocks: {stage}", "comparison")


def notes(facts: Facts) -> list[str]:
    """What a reader must know beside the verdict."""
    found = []
    if facts.validity == "doubtful":
        found += [f"measurement {reason}" for reason in facts.validity_reasons]
    if facts.design == "sequential":
        found.append("the arms were measured one after the other: what changed meanwhile is in the difference")
    if facts.paired is False:
        found.append("unpaired: the arms were not asked the same requests in the same blocks")
    return [*found, *facts.noted]
