"""`anomalies`: bad requests under the load, and what must not happen to anybody else meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from loadgen.scenario.base import Loc, Model, Seconds, SomeSeconds, Tokens
from loadgen.scenario.stages import ConcurrencyStage, Ramp
from server_adapters.anomalies import CATALOGUE, GROUPS, chosen

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

#: Twenty blocks of 0.3 s: shorter and fewer ones tell nothing of before and after.
SHORTEST_BEFORE_S = 6.0


class AnomalyKeys(Model):
    """What is sent beside the load of `experiment: anomalies`, and when it counts as a fault."""

    include: list[str] = Field(
        default_factory=list, description="names or groups (docs/anomalies.md); default: all that run by default"
    )
    exclude: list[str] = Field(default_factory=list, description="names or groups that are not sent")
    repeat: Annotated[int, Field(ge=1, le=100)] = Field(1, description="how often each is sent")
    before_s: Annotated[float, Field(ge=SHORTEST_BEFORE_S, le=86_400)] = Field(
        60.0, description="load alone for so long first: what is normal is learned from it; twenty requests or more"
    )
    after_s: SomeSeconds = Field(
        5.0, description="load alone for so long after the last one; then it ends, before its duration_s if need be"
    )
    pause_s: SomeSeconds = Field(0.2, description="between what follows one anomaly and the next one")
    answer_s: Seconds = Field(20.0, description="an anomaly without a whole answer for so long is given up")
    probe_s: Seconds = Field(30.0, description="the known-good request after each must be answered within")
    abandon_s: Seconds = Field(
        10.0, description="requests that were left must be gone from the server's running and waiting within"
    )
    drafter_max_len: Tokens | None = Field(
        None, description="prompt tokens the drafter takes; default: what the server tells of its draft model"
    )
    max_body_mb: Annotated[float, Field(gt=0, le=256)] = Field(16.0, description="no larger body is sent (10^6 bytes)")
    witnesses: Annotated[int, Field(ge=2, le=16)] = Field(
        4, description="fixed greedy prompts with known answers, asked all the time"
    )
    witness_concurrency: Annotated[int, Field(ge=1, le=16)] = Field(2, description="witnesses asked at once")
    witness_tokens: Annotated[int, Field(ge=8, le=512)] = Field(32, description="length of their answers")
    latency_ratio: Annotated[float, Field(ge=1, le=100)] = Field(
        1.2, description="TTFT and TPOT of the load may be so much of the normal ones"
    )
    stall_s: Seconds = Field(2.0, description="no request of the load or the witnesses ending for so long is a stall")
    memory_share: Annotated[float, Field(gt=0, le=10)] = Field(
        0.1, description="share by which the server's memory may grow over the anomalies"
    )


def anomaly_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top; none where the experiment is another."""
    keys = scenario.anomalies
    for key in ("include", "exclude"):
        for i, name in enumerate(getattr(keys, key)):
            if name not in CATALOGUE and name not in GROUPS:
                yield ("anomalies", key, i), f"{name!r} is no anomaly and no group; groups are: {', '.join(GROUPS)}"
    if scenario.experiment != "anomalies":
        return
    if not chosen(keys.include, keys.exclude):
        yield ("anomalies", "exclude"), "leaves no anomaly to send"
    if scenario.passes > 1:
        yield (
            ("repeats",),
            "experiment: anomalies is one pass (anomalies.repeat sends each more often): write repeats: 1",
        )
    if len(scenario.load) > 1:
        yield ("load",), "experiment: anomalies goes on beside one stage"
    for i, stage in enumerate(scenario.load):
        key = "concurrency" if isinstance(stage, ConcurrencyStage) else "rate_per_s"
        if isinstance(getattr(stage, key), Ramp):
            yield ("load", i, key), "experiment: anomalies needs a load that stands: a number, not a ramp"
        if stage.duration_s is None or (isinstance(stage, ConcurrencyStage) and stage.cases is not None):
            yield ("load", i, "duration_s"), "experiment: anomalies needs a load that ends by time alone"
        elif stage.duration_s <= keys.before_s:
            yield (
                ("load", i, "duration_s"),
                f"{stage.duration_s:g} s leaves no time for anomalies after anomalies.before_s ({keys.before_s:g} s)",
            )
    for name, arm in scenario.arms.items():
        if arm.proxy is not None or arm.http2:
            yield (
                ("arms", name, "proxy" if arm.proxy is not None else "http2"),
                "experiment: anomalies sends bytes of its own, directly and in HTTP/1.1",
            )
