"""Who may do what: one table of all routes. A route that is not in it is refused to everybody."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

API = "/api/v1"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"


class Access(IntEnum):
    """What a route asks for, least first."""

    OPEN = 0
    #: open or for viewers, as the configuration says (`metrics.open`)
    METRICS = 1
    VIEWER = 2
    OPERATOR = 3


ACCESS: Mapping[tuple[str, str], Access] = {
    ("GET", "/health"): Access.OPEN,
    ("GET", "/ready"): Access.OPEN,
    ("GET", "/metrics"): Access.METRICS,
    ("GET", "/sd"): Access.METRICS,
    ("GET", "/login"): Access.OPEN,
    ("POST", "/login"): Access.OPEN,
    ("POST", "/logout"): Access.VIEWER,
    ("GET", "/assets/{version}/{name}"): Access.OPEN,
    ("GET", "/"): Access.VIEWER,
    ("GET", "/runs"): Access.VIEWER,
    ("POST", "/runs"): Access.OPERATOR,
    ("GET", "/runs/new"): Access.OPERATOR,
    ("POST", "/runs/new"): Access.OPERATOR,
    ("GET", "/runs/{run_id}"): Access.VIEWER,
    ("GET", "/runs/{run_id}/live"): Access.VIEWER,
    ("POST", "/runs/{run_id}/stop"): Access.OPERATOR,
    ("POST", "/runs/{run_id}/delete"): Access.OPERATOR,
    ("GET", "/compare"): Access.VIEWER,
    ("GET", "/canaries"): Access.VIEWER,
    ("POST", "/canaries"): Access.OPERATOR,
    ("GET", "/canaries/new"): Access.OPERATOR,
    ("GET", "/canaries/{canary_id}"): Access.VIEWER,
    ("POST", "/canaries/{canary_id}/stop"): Access.OPERATOR,
    ("GET", "/targets"): Access.VIEWER,
    ("POST", "/targets/{name}/check"): Access.OPERATOR,
    ("GET", "/audit"): Access.OPERATOR,
    ("GET", f"{API}/openapi.json"): Access.VIEWER,
    ("GET", f"{API}/me"): Access.VIEWER,
    ("GET", f"{API}/scenarios"): Access.VIEWER,
    ("POST", f"{API}/scenarios/validate"): Access.VIEWER,
    ("GET", f"{API}/scenarios/{{name}}"): Access.VIEWER,
    ("PUT", f"{API}/scenarios/{{name}}"): Access.OPERATOR,
    ("DELETE", f"{API}/scenarios/{{name}}"): Access.OPERATOR,
    ("GET", f"{API}/targets"): Access.VIEWER,
    ("GET", f"{API}/targets/{{name}}"): Access.VIEWER,
    ("POST", f"{API}/targets/{{name}}/check"): Access.OPERATOR,
    ("GET", f"{API}/runs"): Access.VIEWER,
    ("POST", f"{API}/runs"): Access.OPERATOR,
    ("GET", f"{API}/runs/{{run_id}}"): Access.VIEWER,
    ("DELETE", f"{API}/runs/{{run_id}}"): Access.OPERATOR,
    ("POST", f"{API}/runs/{{run_id}}/stop"): Access.OPERATOR,
    ("GET", f"{API}/runs/{{run_id}}/live"): Access.VIEWER,
    ("GET", f"{API}/runs/{{run_id}}/events"): Access.VIEWER,
    ("GET", f"{API}/runs/{{run_id}}/summary"): Access.VIEWER,
    ("GET", f"{API}/runs/{{run_id}}/verdict"): Access.VIEWER,
    ("GET", f"{API}/runs/{{run_id}}/report.html"): Access.VIEWER,
    ("GET", f"{API}/compare"): Access.VIEWER,
    ("GET", f"{API}/canaries"): Access.VIEWER,
    ("POST", f"{API}/canaries"): Access.OPERATOR,
    ("POST", f"{API}/canaries/{{canary_id}}/stop"): Access.OPERATOR,
    ("GET", f"{API}/canaries/{{canary_id}}"): Access.VIEWER,
    ("DELETE", f"{API}/canaries/{{canary_id}}"): Access.OPERATOR,
    ("POST", f"{API}/hooks/argo"): Access.OPERATOR,
    ("GET", f"{API}/hooks/argo/runs/{{run_id}}"): Access.VIEWER,
    ("GET", f"{API}/hooks/argo/canaries/{{name}}"): Access.VIEWER,
    ("POST", f"{API}/hooks/flagger/{{hook}}"): Access.OPERATOR,
    ("GET", f"{API}/audit"): Access.OPERATOR,
}

_LEAST = {Role.VIEWER: Access.VIEWER, Role.OPERATOR: Access.OPERATOR}


def allowed(role: Role | None, access: Access | None, *, metrics_open: bool) -> bool:
    """Whether `role` (None: nobody has said who they are) may use a route. `access` None: the route is in no table."""
    if access is None:
        return False
    if access is Access.OPEN or (access is Access.METRICS and metrics_open):
        return True
    return role is not None and _LEAST[role] >= access
