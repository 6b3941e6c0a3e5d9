"""Targets of the configuration: what a run is told of them, and where they are at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from loadgen.errors import ScenarioError
from loadgen.redact import Redactor
from loadgen.scenario import combine, read_secret
from loadgen.service.compose import strictest
from loadgen.service.config import ServiceConfig, TargetKeys
from loadgen.service.elsewhere import Part, resolved
from loadgen.service.outgoing import Checked, Outgoing, Refused

#: Caps that limit a load; the other keys of safety say how they are reckoned.
CAPS = (
    "max_requests_per_second", "max_concurrency", "max_requests", "max_output_tokens", "max_cost", "abort_error_share",
    "abort_waiting",
)  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A target that may be connected to now. `servers`: what a run has to itself, under whatever name."""

    keys: dict[str, Any]
    servers: frozenset[tuple[str, int]]


class Targets:
    """Raises ScenarioError where a secret cannot be read, or a URL is one that is never connected to."""

    def __init__(self, config: ServiceConfig, outgoing: Outgoing) -> None:
        self._targets = config.targets
        self._outgoing = outgoing
        secrets, problems = _secrets(config.targets)
        self.redact = Redactor(secrets)
        for name, target in self._targets.items():
            for url in target.all_urls:
                try:
                    outgoing.read(url, listed=True)
                except Refused as error:
                    problems.append(f"targets.{name}: {self.redact(url)}: {error}")
        if problems:
            raise ScenarioError(problems)

    @property
    def names(self) -> list[str]:
        return list(self._targets)

    def get(self, name: str) -> TargetKeys | None:
        return self._targets.get(name)

    def unknown(self, arms: Mapping[str, str]) -> list[str]:
        there = ", ".join(self._targets) or "none"
        return [
            f"arms.{arm}: there is no target {target[:64]!r}; there are: {there}"
            for arm, target in arms.items()
            if target not in self._targets
        ]

    def keys(self, name: str) -> dict[str, Any]:
        """Keys of an arm on this target, secrets in clear text. Raises KeyError."""
        target = self._targets[name]
        return {k: v for k, v in _plain(target).items() if k not in ("environment", "safety")}

    def allowed(self, names: Iterable[str]) -> tuple[str, dict[str, Any]]:
        """The strictest environment, and the lowest of each cap; a cap that no target has is left out."""
        chosen = [self._targets[name] for name in names]
        limits = [asdict(combine(target.environment, target.safety)) for target in chosen]
        caps: dict[str, Any] = {
            key: min(found) for key in CAPS if (found := [one[key] for one in limits if one[key] is not None])
        }
        breakers = [n for target in chosen if (n := _breaker(target)) is not None]
        if breakers:
            caps["breaker_failures"] = min(breakers)
        staging = [target for target in chosen if target.environment == "staging"]
        if staging and all(target.safety.disruptive for target in staging):
            caps["disruptive"] = True
        waits = [s for target in chosen if (s := _breaker_wait(target)) is not None]
        if waits:
            caps["breaker_wait_s"] = min(waits)
        if "max_cost" in caps:
            prices = [p for one in limits if (p := one["price_per_million_output_tokens"]) is not None]
            caps["price_per_million_output_tokens"] = max(prices)
        return strictest([target.environment for target in chosen]), caps

    async def elsewhere(self, text: str, part: Part) -> dict[str, str]:
        """Addresses of the hosts of a scenario's kill switch and webhooks. Raises Refused."""
        return await resolved(self._outgoing, text, part)

    async def placed(self, name: str) -> Placed:
        """Look its hosts up and check them. Raises Refused."""
        target = self._targets[name]
        checked = await self._outgoing.check_all(target.all_urls, listed=True)
        by_url = dict(zip(target.all_urls, checked, strict=True))
        keys = self.keys(name)
        for key in ("url", "health_url"):
            if keys.get(key) is not None:
                keys[key] = by_url[str(keys[key]).rstrip("/") if key == "url" else keys[key]].url
        if keys.get("urls"):
            keys["urls"] = [by_url[url.rstrip("/")].url for url in keys["urls"]]
        if keys.get("metrics_urls"):
            keys["metrics_urls"] = [by_url[url].url for url in keys["metrics_urls"]]
        if keys.get("telemetry", {}).get("gpu_metrics_urls"):
            keys["telemetry"]["gpu_metrics_urls"] = [by_url[u].url for u in keys["telemetry"]["gpu_metrics_urls"]]
        keys["resolve"] = {one.host: one.address for one in checked if one.host != one.address}
        return Placed(keys, _servers(target, by_url))


def _breaker(target: TargetKeys) -> int | None:
    """Failures in a row that hold a load at the latest; None: a scenario says. A disposable server has no cap but those
    that are named."""
    if target.environment == "disposable" and target.safety.breaker_failures is None:
        return None
    return combine(target.environment, target.safety).breaker_failures or None


def _breaker_wait(target: TargetKeys) -> float | None:
    """How long a run may hold a target whose engine is dead; None: a scenario says."""
    if target.environment == "disposable" and target.safety.breaker_wait_s is None:
        return None
    return combine(target.environment, target.safety).breaker_wait_s


def _servers(target: TargetKeys, by_url: Mapping[str, Checked]) -> frozenset[tuple[str, int]]:
    return frozenset(by_url[url.rstrip("/")].server for url in (target.urls or [target.url or ""]))


def secrets_of(target: TargetKeys) -> list[SecretStr]:
    """Raises ScenarioError where one cannot be read."""
    own = [] if target.api_key is None else [read_secret(target.api_key)]
    return [*own, *target.headers.values()]


def _secrets(targets: Mapping[str, TargetKeys]) -> tuple[list[SecretStr], list[str]]:
    """Of all targets, and what is wrong with those that cannot be read."""
    found: list[SecretStr] = []
    problems: list[str] = []
    for name, target in targets.items():
        try:
            found += secrets_of(target)
        except ScenarioError as error:
            problems += [f"targets.{name}: {problem}" for problem in error.problems]
    return found, problems


def _plain(value: Any) -> Any:
    """Models as plain values that JSON can hold, without what is at its default."""
    if isinstance(value, BaseModel):
        return {key: _plain(getattr(value, key)) for key in value.model_fields_set}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
