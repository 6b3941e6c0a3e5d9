"""The whole summary, and what it says of the run as one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from loadgen.analyze.summary.base import Absent, Model, N
from loadgen.analyze.summary.compared import ComparisonRow, Decomposition, Reconciliation
from loadgen.analyze.summary.groups import Arm
from loadgen.analyze.summary.resources import Resources
from loadgen.analyze.summary.stability import Stability

SUMMARY_SCHEMA = 1


class Finding(Model):
    """A rule of docs/findings.md that holds in this run: a sentence, its numbers and under what they were measured."""

    id: str
    text: str
    numbers: dict[str, float | None]
    conditions: dict[str, Any]
    severity: Literal["good", "info", "warning", "bad"]


class Difference(Model):
    """One fact in which arms are not alike, or that is wrong of an arm by itself (docs/environment.md).

    `values` by arm, null where not known. `inconclusive`: no verdict can pass. `declared`: would be, and the
    scenario says it is meant. `may_differ`: part of what is compared. Differences not shown are `noted`.
    """

    key: str
    values: dict[str, Any]
    rule: Literal["may_differ", "declared", "noted", "inconclusive"]
    text: str


class PromptMismatch(Model):
    """Prompt tokens of one case in two arms."""

    case_id: str
    stage: str
    baseline: int
    arm: int


class PromptTokens(Model):
    """Cases of an arm against the baseline's. `same_text` False: prompts carry a unique first line, so single tokens
    are no mismatch, and `median_difference` (tokens, arm − baseline) is judged."""

    arm: str
    baseline: str
    cases: int
    mismatched: int
    same_text: bool
    median_difference: float | None = None
    examples: list[PromptMismatch] = Field(default_factory=list)
    reason: str | None = None


class CacheHits(Model):
    """Prompt tokens found in the prefix cache ÷ asked for, in one stage and repeat of one arm."""

    arm: str
    stage: str
    repeat_idx: int
    share: N


class Equality(Model):
    """Whether the arms were asked the same under the same conditions, from the records. `foreign_share`: the
    server's output tokens that were not for us, by arm."""

    prompt_tokens: list[PromptTokens]
    cache_hits: list[CacheHits]
    foreign_share: dict[str, N]


class Validity(Model):
    """Is this a measurement of the server? `reasons`: why not, worst first, each a sentence with its number and
    limits (docs/method.md, "Validity"); empty where valid. `client`: what was judged, over the whole run."""

    state: Literal["valid", "doubtful", "invalid"]
    reasons: list[str]
    client: dict[str, N]


class Summary(Model):
    schema_version: int = Field(SUMMARY_SCHEMA, alias="schema")
    run_id: str
    finished: bool
    validity: Validity
    arms: dict[str, Arm]
    decomposition: list[Decomposition]
    reconciliation: list[Reconciliation]
    environment: list[Difference]
    equality: Equality
    comparison: Absent | list[ComparisonRow]
    findings: Absent | list[Finding]
    verdict: Absent | dict[str, Any]
    conditions: dict[str, Any]
    resources: Resources = Field(default_factory=Resources)
    stability: Absent | list[Stability] = Absent(reason="made by a version that knew no soaks")
