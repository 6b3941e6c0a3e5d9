"""What the rules are made from: windows, limits, and the two kinds of rule as Prometheus reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Rule = dict[str, Any]
Group = dict[str, Any]
Severity = Literal["critical", "warning", "info"]
Scope = Literal["canary", "run"]

#: Folder of the runbooks in this repository; the file is named like the alert. A site that serves them replaces it.
RUNBOOKS = "docs/runbooks"


@dataclass(frozen=True, slots=True)
class Burn:
    """Fire when the budget burns `factor` times too fast over both windows: the long one shows that it matters, the
    short one that it still goes on."""

    short: str
    long: str
    factor: float
    severity: Severity


@dataclass(frozen=True, slots=True)
class Windows:
    """Every duration of the rules, in Prometheus' notation. Tests shorten them; the expressions stay the same.

    `rate`: of every rate, at least four scrapes. `hold`: how long a condition must last. `baseline` and
    `baseline_ago`: the past that a server's acceptance is compared with, and how long before now it ends. `memory`:
    for how long a server that has speculated is expected to. `drift`: over which the slope of acceptance is taken.
    """

    rate: str = "5m"
    run_rate: str = "1m"
    hold: str = "5m"
    run_hold: str = "1m"
    scrape_hold: str = "2m"
    baseline: str = "1d"
    baseline_ago: str = "1h"
    memory: str = "1d"
    drift: str = "2h"
    drift_hold: str = "30m"
    interval: str = "15s"
    run_interval: str = "5s"
    burns: tuple[Burn, ...] = (
        Burn("5m", "1h", 14.4, "critical"),
        Burn("30m", "6h", 6.0, "critical"),
        Burn("2h", "1d", 3.0, "warning"),
        Burn("6h", "3d", 1.0, "warning"),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Every number of the rules. Shares are 0 to 1, times are seconds.

    The floors of traffic keep a quiet server from firing: below them a ratio is noise. `ttft_s` must be an edge of
    the server's histogram (1 s is one of vLLM's, SGLang's, LMDeploy's and TensorRT-LLM's), else the ratio has no data.
    """

    acceptance: float = 0.4
    of_baseline: float = 0.8
    rollback: float = 0.8
    drift: float = 0.1
    speedup: float = 1.0
    draft_tokens_per_s: float = 10.0
    output_tokens_per_s: float = 10.0
    requests_per_s: float = 0.1
    ttft_s: float = 1.0
    ttft_objective: float = 0.99
    error_objective: float = 0.99
    send_lag_s: float = 0.1
    dropped: float = 0.01
    held_back: float = 0.1
    held_back_requests: float = 4.0


def record(name: str, expr: str, **labels: str) -> Rule:
    return {"record": name, "expr": flat(expr), **({"labels": labels} if labels else {})}


def alert(
    name: str,
    expr: str,
    severity: Severity,
    scope: str,
    *,
    hold: str | None,
    summary: str,
    description: str,
) -> Rule:
    """`summary` is one sentence without values, so that alerts of a kind group; `description` may use templates."""
    return {
        "alert": name,
        "expr": flat(expr),
        **({"for": hold} if hold else {}),
        "labels": {"severity": severity, "scope": scope},
        "annotations": {
            "summary": summary,
            "description": " ".join(description.split()),
            "runbook_url": f"{RUNBOOKS}/{name}.md",
        },
    }


def group(name: str, interval: str, rules: list[Rule]) -> Group:
    return {"name": name, "interval": interval, "rules": rules}


def flat(expr: str) -> str:
    """Without the indentation it has in the source: each line as it is read."""
    return "\n".join(" ".join(line.split()) for line in expr.strip().splitlines())
