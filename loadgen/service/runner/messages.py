"""What the service and the process of a run say to each other: one JSON object a line.

Down, on the process's stdin: `Start` first, then `Stop`s. End of file means that the service is gone: the run ends as
interrupted, with what was measured. Up, on its stdout: `Up`, told apart by `kind`; the last one is `Ended`. Neither
secrets nor answers of servers go up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from loadgen.service.config import OutgoingKeys


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Watching(Message):
    """A canary is watched instead of a load driven. `for_s` None: until it is stopped."""

    for_s: float | None = None
    dry_run: bool = False


class Start(Message):
    """`arms`: keys of each arm in whole (`loadgen.scenario.Arm`), headers in clear text: this goes through a pipe only.
    `environment`, `caps`: what the targets allow at most. `base`: folder that the scenario's files are relative to.
    `resolve`: addresses of hosts that are no target's, of kill switches and webhooks: connected to are these alone, but
    by a canary's monitor, which looks them up anew and holds them to `outgoing`."""

    run_id: str
    name: str
    text: str
    base: Path
    out: Path
    overrides: tuple[str, ...] = ()
    arms: dict[str, dict[str, Any]]
    environment: str
    caps: dict[str, Any] = {}
    time_budget_s: float | None = None
    workers: int | None = None
    transport: Literal["plain", "kernel"] | None = None
    resolve: dict[str, str] = {}
    outgoing: OutgoingKeys = OutgoingKeys()
    watching: Watching | None = None


class Stop(Message):
    """The first drains, the second cuts, as Ctrl-C on the command line."""

    stop: Literal["drain", "cut"] = "drain"
    by: str = "the user"


class Begun(Message):
    """Load is about to be driven."""

    kind: Literal["begun"] = "begun"
    path: str
    segments: int
    requests: int | None


class SegmentTold(Message):
    kind: Literal["segment"] = "segment"
    number: int
    total: int
    arm: str
    phase: str
    stage: str
    block: int
    repeat_idx: int
    concurrency: int | None
    rate_per_s: float | None


class Said(Message):
    """A sentence about the run, of our own words."""

    kind: Literal["said"] = "said"
    text: str


class Measured(Message):
    """What has changed in the live metrics (`loadgen.export.MetricsTeller`)."""

    kind: Literal["measured"] = "measured"
    changes: dict[str, Any]


class Ended(Message):
    """`ending`: as `loadgen.experiment.Ending`; `reason` is of our own words. `path` None: no run directory."""

    kind: Literal["ended"] = "ended"
    ending: str
    state: str
    reason: str | None = None
    problems: tuple[str, ...] = ()
    verdict: str | None = None
    validity: str | None = None
    path: str | None = None


Up = Annotated[Begun | SegmentTold | Said | Measured | Ended, Field(discriminator="kind")]
UP: TypeAdapter[Up] = TypeAdapter(Up)
