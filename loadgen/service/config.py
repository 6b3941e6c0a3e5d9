"""The service's configuration: every key that may be written into it is a field here, described (docs/service.md)."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from loadgen.errors import ScenarioError
from loadgen.scenario import Arm, FilePath, Model, PageUrl, Safety, Seconds, load_model, refuse, sentences

TOKEN_NAME = r"^[a-z][a-z0-9_-]{0,31}$"
TokenName = Annotated[str, Field(pattern=TOKEN_NAME)]
TargetName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
_HASH = re.compile(r"scrypt\$\d+\$\d+\$\d+\$[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+", re.ASCII)
#: Keys of an arm that say something about one scenario, not about a server.
OF_SCENARIO = ("speculation", "declared_differences")


class Listen(Model):
    """Where the service is reached."""

    host: str = Field("127.0.0.1", description="address to listen on; other than loopback needs TLS")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8080, description="0: any free one, which is printed")
    tls_cert: FilePath | None = Field(None, description="PEM file of the service's certificate, with its chain")
    tls_key: FilePath | None = Field(None, description="PEM file of its key; default: in tls_cert")
    behind_tls_proxy: bool = Field(
        False, description="true: a proxy in front speaks TLS, and nothing else reaches the address"
    )
    trusted_proxies: list[str] = Field(
        default_factory=list, description="addresses whose X-Forwarded-For tells who asks; with behind_tls_proxy"
    )
    hostnames: list[str] = Field(
        default_factory=list,
        description="names under which the service may be asked (the Host header), besides host and, on loopback, "
        "localhost",
    )

    @model_validator(mode="after")
    def _safe(self) -> Listen:
        if self.tls_key is not None and self.tls_cert is None:
            refuse([(("tls_key",), "needs tls_cert")])
        if self.trusted_proxies and not self.behind_tls_proxy:
            refuse([(("trusted_proxies",), "needs behind_tls_proxy: true")])
        refuse(
            [
                (("trusted_proxies", i), "is no address and no network: anybody could say who asks")
                for i, text in enumerate(self.trusted_proxies)
                if not _bounded(text)
            ]
        )
        if not self.loopback and self.tls_cert is None and not self.behind_tls_proxy:
            refuse(
                [
                    (
                        ("host",),
                        f"{self.host} is reached from outside, and tokens would go in clear text: give tls_cert, or "
                        "say behind_tls_proxy: true where a proxy speaks TLS",
                    )
                ]
            )
        return self

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def secure(self) -> bool:
        """Browsers reach it over TLS."""
        return self.tls_cert is not None or self.behind_tls_proxy


def _bounded(text: str) -> bool:
    """An address, or a network that is not everything."""
    try:
        return ipaddress.ip_network(text).prefixlen > 0
    except ValueError:
        return False


class Folders(Model):
    """Where files are. All are made where they are not there, but scenarios."""

    scenarios: FilePath = Field(Path("scenarios"), description="scenario files that are there for all; never written")
    uploads: FilePath = Field(Path("uploads"), description="scenarios that operators put there")
    runs: FilePath = Field(Path("runs"), description="run directories, also those of specload run")
    database: FilePath = Field(Path("specload.db"), description="the registry (SQLite)")


class TargetKeys(Arm):
    """A server under its name: the keys of an arm ([scenario.md](scenario.md#arm)), but proxy, speculation and
    declared_differences; and what may be done to it."""

    environment: Literal["production", "staging", "disposable"] = Field(
        "production", description="strictest environment wins: a scenario cannot say less"
    )
    safety: Safety = Field(
        Safety(), description="caps that no scenario can raise; what is not named is the environment's default"
    )

    @model_validator(mode="after")
    def _of_a_server(self) -> TargetKeys:
        problems = [
            ((key,), "belongs into the scenario's arm, not to a target") for key in OF_SCENARIO if getattr(self, key)
        ]
        if self.proxy is not None:
            problems.append((("proxy",), "is not for targets: connections go to the address that was checked"))
        if self.resolve:
            problems.append((("resolve",), "is not for targets: the service looks names up, and checks what they are"))
        refuse(problems)
        return self

    @property
    def all_urls(self) -> tuple[str, ...]:
        """Every URL that a run on it asks."""
        bases = [u.rstrip("/") for u in (self.urls or [self.url or ""])]
        pages = [f"{u}/metrics" for u in bases] if self.metrics_urls is None else self.metrics_urls
        more = [] if self.health_url is None else [self.health_url]
        return (*bases, *pages, *self.telemetry.gpu_metrics_urls, *more)


def _a_hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise ValueError("is no hash of a token: make one with specload serve --new-token NAME ROLE")
    return text


class TokenKeys(Model):
    """Who may ask: made by specload serve --new-token."""

    name: TokenName = Field(description="who it is, in the audit log")
    role: Literal["viewer", "operator"] = Field(
        description="viewer: may look; operator: may start, stop, delete and upload, too"
    )
    hash: Annotated[str, AfterValidator(_a_hash)] = Field(
        description="salted hash of the token; the token itself is nowhere"
    )


class LimitKeys(Model):
    """What one asker may take, and what runs at once."""

    body_bytes: Annotated[int, Field(ge=1024, le=64 * 2**20)] = Field(1 << 20, description="largest request body")
    requests_per_minute: Count = Field(600, description="of one token, and of one address without any")
    failures_per_minute: Count = Field(20, description="refused logins of one address under one token's name")
    connections: Count = Field(512, description="connections that are open at once")
    connections_per_address: Count = Field(
        64, description="of one address, while no token is known on them; trusted_proxies are not counted"
    )
    head_timeout_s: Seconds = Field(10.0, description="how long a request's head, or a TLS handshake, may take to come")
    body_timeout_s: Seconds = Field(30.0, description="how long its body may take to come")
    send_timeout_s: Seconds = Field(
        30.0, description="a client that takes nothing of its answer for so long is cut off"
    )
    watchers: Count = Field(100, description="live streams that are open at once")
    watchers_per_token: Count = Field(20, description="of them, of one token")
    uploads: Count = Field(200, description="scenarios that operators may have uploaded")
    upload_bytes: Annotated[int, Field(ge=1024, le=2**30)] = Field(16 << 20, description="of all of them together")
    queued: Count = Field(200, description="runs that may wait")
    at_once: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="runs on different targets that drive load at once; default: half the cores, at least 1"
    )
    canaries: Count = Field(4, description="canaries that are watched at once")
    session_hours: Annotated[float, Field(gt=0, le=168)] = Field(
        12.0, description="how long a login in a browser holds"
    )

    @property
    def runs_at_once(self) -> int:
        return self.at_once or max(1, len(os.sched_getaffinity(0)) // 2)


class OutgoingKeys(Model):
    """Where the service and its runs may connect to."""

    hosts: list[str] = Field(
        default_factory=list,
        description="hosts that webhooks and kill switches may be sent to; *.example.com: every name below it",
    )
    networks: list[str] = Field(
        default_factory=list,
        description="addresses that are not public and may be connected to all the same, as networks (10.0.0.0/8, "
        "127.0.0.1/32); link-local and metadata addresses only one by one",
    )

    @model_validator(mode="after")
    def _networks(self) -> OutgoingKeys:
        problems = []
        for i, text in enumerate(self.networks):
            try:
                ipaddress.ip_network(text)
            except ValueError as error:
                problems.append((("networks", i), f"is not a network: {error}"))
        refuse(problems)
        return self


class RetentionKeys(Model):
    """How long ended runs and canaries stay. A deleted run stays listed as deleted, a deleted canary does not."""

    days: Annotated[float, Field(gt=0)] | None = Field(
        None, description="runs and canaries that ended longer ago are deleted"
    )
    runs: Count | None = Field(None, description="so many ended runs stay, the newest, and as many canaries")


class MetricsKeys(Model):
    """The service's page for Prometheus."""

    open: bool = Field(False, description="true: /metrics and /sd need no token")
    grace_s: Annotated[float, Field(ge=10, le=86400)] = Field(
        120.0, description="how long the series of a run stay after its end: two scrape intervals at least"
    )


class ServiceConfig(Model):
    """service.yaml."""

    version: Literal[1] = Field(description="version of this format: 1")
    listen: Listen = Field(Listen(), description="where the service is reached")
    public_url: PageUrl | None = Field(
        None, description="how others reach it, in links and /sd; default: made from listen"
    )
    folders: Folders = Field(Folders(), description="where files are")
    targets: dict[TargetName, TargetKeys] = Field(default_factory=dict, description="the servers that may be loaded")
    tokens: list[TokenKeys] = Field(default_factory=list, description="who may ask")
    limits: LimitKeys = Field(LimitKeys(), description="what one asker may take, and what runs at once")
    outgoing: OutgoingKeys = Field(OutgoingKeys(), description="where the service and its runs may connect to")
    retention: RetentionKeys = Field(RetentionKeys(), description="how long ended runs stay")
    metrics: MetricsKeys = Field(MetricsKeys(), description="the page for Prometheus")
    stop_timeout_s: Seconds = Field(
        60.0, description="how long running loads may drain when the service itself is stopped; the rest is cut"
    )

    @model_validator(mode="after")
    def _names(self) -> ServiceConfig:
        names = [token.name for token in self.tokens]
        refuse(
            [
                (("tokens", i, "name"), f"{name} is in the list twice")
                for i, name in enumerate(names)
                if name in names[:i]
            ]
        )
        return self


def load_config(path: Path, host: str | None = None, port: int | None = None) -> ServiceConfig:
    """`host`, `port`: instead of those of the file. Raises ScenarioError with every problem: file:line, key, what is
    allowed."""
    config = load_model(path, ServiceConfig, "service configuration")
    base = path.absolute().parent  # of folders that are not named, too
    places = {name: base / place for name, place in config.folders.model_dump().items()}
    said = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    try:
        listen = Listen.model_validate({**config.listen.model_dump(), **said})
    except ValidationError as error:
        problems = sentences(error, Listen, lambda loc: f"--{loc[0]}" if loc else "--host")
        raise ScenarioError(problems) from None
    return config.model_copy(update={"folders": Folders.model_validate(places), "listen": listen})
