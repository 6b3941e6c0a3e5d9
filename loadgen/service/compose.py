"""A scenario's text, targets and overrides to a checked scenario; everything that is wrong, at once.

Arms say which target they are; where a target is, and how one is let in, the configuration says alone. Both the service
and the process of a run compose: what was checked when a run was asked for is what it runs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from loadgen.errors import ScenarioError
from loadgen.scenario import DEFAULTS, Document, Environment, LoadedScenario, document_of, scenario_of, set_key
from loadgen.service.elsewhere import pin

#: What a scenario says of an arm here; the rest is the target's.
OWN_KEYS = frozenset({"target", "speculation", "declared_differences", "facts"})
#: Of a scenario of the server's folder: what is never taken from there, since targets have it, and would be overlooked.
NEVER = frozenset({"api_key", "headers", "proxy_auth", "start", "stop"})
#: Keys of an uploaded scenario that name files, commands or URLs of this machine, beside those of arms.
NOT_UPLOADED: tuple[tuple[str, ...], ...] = (
    ("workload", "tasks", "*", "prompts"),
    ("comparison", "aa_run"),
    ("sweep",),
    ("drill",),
    ("canary",),
    ("quality", "known_answers", "file"),
)
#: Keys that a start may override, as dotted paths.
OVERRIDABLE = re.compile(
    r"seed|repeats|description"
    r"|load\.\d{1,3}\.(concurrency|rate_per_s|cases|duration_s|max_in_flight)"
    r"|sampling\.(temperature|top_p|top_k|seed)"
    r"|warmup\.(warmup_requests|warmup_seconds|max_windows|agree_within)"
    r"|slos\.(ttft_s|tpot_s|total_time_s)"
    r"|comparison\.(blocks|baseline)"
    r"|workload\.(stream_fraction|cache)"
    r"|safety\.(max_requests_per_second|max_concurrency|max_requests|max_output_tokens|abort_error_share|abort_waiting)"
)
#: Of safety: what is stricter the higher it is; all other caps are the lower.
_FLOORS = frozenset({"price_per_million_output_tokens"})
_STRICTEST: tuple[Environment, ...] = ("production", "staging", "disposable")


def compose(
    data: bytes,
    name: str,
    base: Path,
    *,
    overrides: Mapping[str, Any],
    arms: Mapping[str, Mapping[str, Any]],
    environment: str,
    caps: Mapping[str, Any],
    resolve: Mapping[str, str] | None = None,
    canary: bool = False,
) -> LoadedScenario:
    """`arms`: the keys of each arm's target. `environment`, `caps`: what the targets allow at most. Files that the
    scenario names are relative to `base`. `resolve`: addresses of the hosts of kill switches. `canary`: it is watched,
    not run, and known by `name` in its labels, records and routes, whatever its text calls it. Raises ScenarioError
    with every problem."""
    document = document_of(data, f"{name}.yaml")
    for key, value in overrides.items():
        if OVERRIDABLE.fullmatch(key):
            set_key(document, f"{key}={orjson.dumps(value).decode()}")
        else:
            document.problems.append(f"overrides: {key} cannot be overridden; docs/service.md says what can")
    document.value.pop("sweep", None)  # its commands and URLs are for `specload sweep`: none of it is read here
    _put_arms(document, arms)
    pin(document.value, "canary" if canary else "drill", resolve or {})
    _put_environment(document, environment, caps)
    if canary and isinstance(document.value.get("name"), str):
        document.value["name"] = name
    return scenario_of(document, base, hashlib.sha256(data).hexdigest(), Path(f"{name}.yaml"))


def refused_keys(document: Document, *, uploaded: bool) -> list[str]:
    """What a scenario names that it may not, each with its line."""
    problems = []
    arms = document.value.get("arms")
    for arm, keys in arms.items() if isinstance(arms, dict) else ():
        for key in keys if isinstance(keys, dict) else ():
            if key in NEVER or (uploaded and key not in OWN_KEYS):
                problems.append(
                    f"{document.where(('arms', arm, key))}: arms.{arm}.{key}: is the target's, not the scenario's; "
                    f"an arm may say {', '.join(sorted(OWN_KEYS))}"
                )
    for path in NOT_UPLOADED if uploaded else ():
        for loc in _found(document.value, path):
            dotted = ".".join(map(str, loc))
            problems.append(f"{document.where(loc)}: {dotted}: an uploaded scenario names no files, commands or URLs")
    return problems


def _found(value: Any, path: tuple[str, ...], loc: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if not path:
        if value is not None:
            yield loc
    elif path[0] == "*":
        for i, item in enumerate(value) if isinstance(value, list) else ():
            yield from _found(item, path[1:], (*loc, i))
    elif isinstance(value, dict) and path[0] in value:
        yield from _found(value[path[0]], path[1:], (*loc, path[0]))


def named_targets(document: Document, asked: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Arm to target: as asked, else as the scenario says; and which arms have none."""
    found: dict[str, str] = {}
    problems = []
    arms = document.value.get("arms")
    own = arms if isinstance(arms, dict) else {}
    for arm in dict.fromkeys((*own, *asked)):
        keys = own.get(arm)
        target = asked.get(arm) or (keys.get("target") if isinstance(keys, dict) else None)
        if isinstance(target, str):
            found[arm] = target
        else:
            problems.append(
                f"{document.where(('arms', arm))}: arms.{arm}: names no target: say which with arms, or here"
            )
    return found, problems


def _put_arms(document: Document, arms: Mapping[str, Mapping[str, Any]]) -> None:
    given = document.value.get("arms")
    own = given if isinstance(given, dict) else {}
    made: dict[str, Any] = {}
    for name, target in arms.items():
        keys = own.get(name)
        kept = {k: v for k, v in (keys if isinstance(keys, dict) else {}).items() if k in OWN_KEYS - {"target"}}
        said = kept.get("facts")
        facts = {**target.get("facts", {}), **(said if isinstance(said, dict) else {})}
        made[name] = {**target, **kept, **({"facts": facts} if facts else {})}
        document.marks.setdefault(("arms", name), f"the arm {name}")
    document.value["arms"] = made


def _put_environment(document: Document, environment: str, caps: Mapping[str, Any]) -> None:
    """The strictest environment holds; a cap may be lowered by the scenario, and never raised above the targets'."""
    said = document.value.get("environment", "production")
    if said not in _STRICTEST:
        return  # which the check reports
    strictest = min((said, environment), key=_STRICTEST.index)
    document.value["environment"] = strictest
    defaults = asdict(DEFAULTS[strictest])
    safety = document.value.setdefault("safety", {})
    if not isinstance(safety, dict):
        return
    if safety.get("disruptive") is True and environment == "staging" and not caps.get("disruptive"):
        at = document.where(("safety", "disruptive"))
        document.problems.append(f"{at}: safety.disruptive: a target on environment: staging must say so itself")
    for key, most in caps.items():
        if key == "disruptive":
            continue
        own, at = safety.get(key), document.where(("safety", key))
        if own is None:
            if defaults[key] is None or _reckoned(key, most) < _reckoned(key, defaults[key]):
                safety[key] = most
        elif isinstance(own, int | float) and _reckoned(key, own) > _reckoned(key, most):
            how = "less than the targets say" if key in _FLOORS else "more than the targets allow"
            document.problems.append(f"{at}: safety.{key}: {own:,.10g} is {how} ({most:,.10g})")


def _reckoned(key: str, value: float) -> float:
    """The lower, the stricter."""
    if key == "breaker_failures" and value == 0:  # the breaker is off
        return math.inf
    return -value if key in _FLOORS else value


def strictest(environments: list[str]) -> str:
    return min(environments, key=[*map(str, _STRICTEST)].index)


def checked_text(data: bytes, name: str, *, uploaded: bool) -> Document:
    """The document, refused where it names what it may not. Raises ScenarioError."""
    document = document_of(data, f"{name}.yaml")
    problems = refused_keys(document, uploaded=uploaded)
    if problems:
        raise ScenarioError(problems)
    return document
