"""What anomalies.json holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from loadgen.analyze.found.base import ExperimentResult, State
from loadgen.analyze.found.retried import Retried
from loadgen.analyze.summary.base import Model


class AnomalyRow(Model):
    """One anomaly, all its repeats together. `got`, `message`: of the first that does not fit, else of the first.
    `seconds`: longest. `probe`: what the known-good request was answered with afterwards, the worst: same, new (another
    answer than ever before), failed. `down_s`: how long the server did not serve; `ended`: it did not come back.
    `let_go_s`: longest until no more ran and waited than before; None: not told, or `late`: not in time. `abandoned`:
    and more went on than was ours. `unseen`: something was left, and what ran and waited after it was not told, so that
    neither is known. `bystanders_failed`: requests of the load that failed while it went on, of
    `bystanders`. `silence_s`: longest time without a token for any request in flight. `chance`: what does not fit is a
    failure that any request may meet. `again`: what came of trying again what was seen once."""

    name: str
    group: str
    sent: int
    expected: str
    source: str
    got: str
    fits: bool
    chance: bool = False
    seconds: float
    message: str = ""
    probe: Literal["same", "new", "failed"] | None = None
    died: bool = False
    down_s: float | None = None
    ended: bool = False
    late: bool = False
    abandoned: bool = False
    unseen: bool = False
    let_go_s: float | None = None
    bystanders: int = 0
    bystanders_failed: int = 0
    silence_s: float = 0.0
    again: list[Retried] = Field(default_factory=list)


class AnomalySkipped(Model):
    """`unknown`: what it needs was not found out, so that nothing is shown; else the server has nothing for it to
    hit."""

    name: str
    reason: str
    unknown: bool = False


class Bystander(Model):
    """One number of the load, before and during. `p` is corrected for all of the arm; `alarm`: at or below 0.15 %, and
    no time of an invalid measurement."""

    name: str
    unit: str
    before: float | None
    during: float | None
    limit: float | None
    n_before: int
    n_during: int
    p: float | None
    alarm: bool = False
    reason: str | None = None


class WitnessCounts(Model):
    """Answers to the known requests while anomalies were sent. `distinct`: prompts whose answers are theirs alone."""

    distinct: int
    learned: int
    asked: int
    same: int
    new: int
    crossed: int
    failed: int


class ServerMemory(Model):
    """Of the server's processes, bytes; None for `reason`."""

    before: float | None
    after: float | None
    share: float | None
    limit_share: float
    reason: str | None = None


class AnomaliesArm(Model):
    """`sent` of `chosen` anomalies, repeats counted apart."""

    arm: str
    adapter: str
    replica: str
    state: State
    before_s: float
    during_s: float
    chosen: int
    sent: int
    rows: list[AnomalyRow]
    skipped: list[AnomalySkipped]
    bystanders: list[Bystander]
    witnesses: WitnessCounts
    probes: WitnessCounts
    memory: ServerMemory
    #: longest time of the quiet time without a token for any request in flight, seconds
    silence_before_s: float = 0.0
    #: why times are not judged; None: they are
    invalid: str | None = None
    #: looks of the time before that saw more requests on the server than ours; None: nobody looked
    foreign_looks: int | None = None
    #: an anomaly that was refused, so that nothing of it was left, and after which more went on than was ours, while
    #: nothing of the anomalies before it did: those were others' requests. None: there is none
    foreign_after: str | None = None
    #: others' requests that the server finished while the load ran, at least; 0: none can be told. None: the server
    #: does not count, or ours cannot be bounded
    foreign_requests: int | None = None
    #: anomalies with something that was not tried again to the end
    untried: list[str] = Field(default_factory=list)


class AnomaliesResult(ExperimentResult):
    """anomalies.json"""

    kind: Literal["anomalies"] = "anomalies"
    arms: list[AnomaliesArm]
