"""The section `canary`: what `specload canary` watches, against which limits, and whom it tells."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loadgen.scenario.arms import SecretSource
from loadgen.scenario.base import (
    MAX_SECONDS,
    Model,
    NotNegativeInt,
    PageUrl,
    Positive,
    PositiveInt,
    Seconds,
    Share,
)
from loadgen.scenario.switch import Switch

_Window = Annotated[float, Field(ge=2, le=MAX_SECONDS)]
_Few = Annotated[int, Field(ge=1, le=1000)]
_State = Literal["ok", "doubtful", "fail", "no_data"]


def _every_state() -> list[_State]:
    return ["ok", "doubtful", "fail", "no_data"]


class CanaryLimits(Model):
    """What each window's numbers must keep; null = not watched. Of checks that both sources can make, each makes its
    own."""

    acceptance: Share | None = Field(0.4, description="accepted ÷ drafted tokens of the canary, at least")
    acceptance_ratio: Positive | None = Field(
        0.8, description="acceptance, canary ÷ baseline, at least; only where the baseline speculates"
    )
    rollback: Share | None = Field(0.8, description="rounds with a rejected draft token ÷ rounds, at most")
    speedup: Positive | None = Field(
        1.0, description="mean time per output token, baseline ÷ canary, at least; by probes"
    )
    tpot_p50_ratio: Positive | None = Field(
        1.05, description="median time per output token, canary ÷ baseline, at most; by probes"
    )
    tpot_p95_ratio: Positive | None = Field(1.25, description="likewise its 95th percentile; by probes")
    ttft_p95_ratio: Positive | None = Field(
        1.25, description="95th percentile of time to first token, canary ÷ baseline, at most; by probes"
    )
    tpot_mean_ratio: Positive | None = Field(
        1.25,
        description="mean time per output token by the servers, canary ÷ baseline, at most; by counters: not the same "
        "requests",
    )
    ttft_mean_ratio: Positive | None = Field(
        1.5, description="likewise mean time to first token by the servers; by counters"
    )
    error_share: Share | None = Field(0.05, description="share of requests that failed, canary − baseline, at most")
    restarts: NotNegativeInt | None = Field(
        0, description="restarts of the canary's servers in a window, at most; by counters"
    )


class ProbeKeys(Model):
    """Paired requests of our own: the same case to both arms, one after the other, in random order."""

    requests_per_s: Positive = Field(
        1.0, description="of both arms together; safety.max_requests_per_second holds as well"
    )


class Webhook(Model):
    """Somebody who is told when the state changes (docs/hooks.md)."""

    url: PageUrl = Field(description="where a JSON document is posted; only its host is shown anywhere")
    secret: SecretSource | None = Field(
        None, description="key of the signature, base64, with or without whsec_ before it; default: not signed"
    )
    on: list[_State] = Field(default_factory=_every_state, description="new states that are told")
    timeout_s: Seconds = Field(5.0, description="of one try")
    tries: Annotated[int, Field(ge=1, le=20)] = Field(
        6, description="at most; after 1, 2, 4 … seconds, 60 at most, where the answer is no 2xx"
    )


class CanaryKeys(Model):
    """Watching a canary beside its baseline, for as long as it lives (docs/canary.md)."""

    window_s: _Window = Field(300.0, description="length of a window; the third failing one in a row is a fail")
    pooled_windows: _Few = Field(
        12, description="windows that the verdict is of, taken together; the state is of single windows"
    )
    probes: ProbeKeys | None = Field(
        None, description="requests of our own; default: none, the servers' counters alone"
    )
    counters: bool = Field(True, description="read the servers' counters, whoever sends the traffic")
    grace_windows: Annotated[int, Field(ge=0, le=1000)] = Field(
        1, description="windows after the start, and after a restart of a server, whose times and rates are not judged"
    )
    least_share: Share | None = Field(
        None,
        description="of the traffic of both arms, the canary's part below which nothing passes; default: 0.01 without "
        "probes, else none",
    )
    least_draft_tokens: PositiveInt = Field(500, description="drafted tokens of a window, below which there is no rate")
    least_requests: PositiveInt = Field(20, description="requests of a window and arm, below which there is no number")
    limits: CanaryLimits = Field(CanaryLimits(), description="what the numbers must keep")
    webhooks: list[Webhook] = Field(default_factory=list, description="who is told of changes of the state")
    on_fail: Literal["nothing", "switch"] = Field(
        "nothing", description="switch: pull the kill switch, once, when the state turns to fail"
    )
    switch: Switch | None = Field(None, description="the kill switch; only its `off` is ever pulled")
    dry_run: bool = Field(False, description="call no webhook and pull no switch: only say what would have been done")

    @property
    def share_needed(self) -> float | None:
        """Of the traffic; None: any will do."""
        if self.least_share is None:
            return 0.01 if self.probes is None else None
        return self.least_share


#: Checks by what can make them.
BY_PROBES = (
    "acceptance", "acceptance_ratio", "rollback", "speedup", "tpot_p50_ratio", "tpot_p95_ratio", "ttft_p95_ratio",
    "error_share",
)  # fmt: skip
BY_COUNTERS = (
    "acceptance", "acceptance_ratio", "rollback", "tpot_mean_ratio", "ttft_mean_ratio", "error_share", "restarts",
)  # fmt: skip
#: Numbers that fail below their limit; the others above.
AT_LEAST = frozenset({"acceptance", "acceptance_ratio", "speedup"})
