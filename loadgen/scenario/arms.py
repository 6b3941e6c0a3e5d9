"""The servers: one arm is one side of a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SecretStr, Tag, model_validator

from loadgen.scenario.base import BaseUrl, FilePath, IpText, Loc, Model, PageUrl, ProxyUrl, Seconds, refuse
from loadgen.scenario.telemetry import Telemetry
from loadgen.scenario.tls import TlsKeys

#: Set by the transport or the adapter; a scenario that sets them would break the request.
OWNED_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


def _shape(value: Any) -> str:
    """One branch is validated, so that a wrong value gets one message."""
    return "argv" if isinstance(value, list) else "shell"


_Word = Annotated[str, Field(min_length=1)]
#: A list is run as it is; a text by /bin/sh. Neither is ever filled in: what a command must know is in its environment.
Command = Annotated[
    Annotated[_Word, Tag("shell")] | Annotated[list[_Word], Field(min_length=1), Tag("argv")], Discriminator(_shape)
]
HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
HEADER_NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"  # RFC 9110 token


class SecretSource(Model):
    """Where a secret is read from: exactly one of the two."""

    env: str | None = Field(None, min_length=1, description="environment variable that holds the secret")
    file: FilePath | None = Field(None, description="file whose first line is the secret")

    @model_validator(mode="after")
    def _one(self) -> SecretSource:
        if (self.env is None) == (self.file is None):
            refuse([((), "needs either env (a variable's name) or file (a path), and not both")])
        return self


class Arm(Model):
    """One side of a comparison: a server, or several replicas of it."""

    url: BaseUrl | None = Field(
        None, description="base URL, http(s)://host:port; the adapter adds /v1/…; either url or urls"
    )
    urls: list[BaseUrl] = Field(default_factory=list, description="several replicas, used in turn, instead of url")
    metrics_urls: list[PageUrl] | None = Field(
        None, description="all pages that hold this arm's counters; default: each replica's /metrics; [] = none"
    )
    adapter: Literal["vllm", "openai"] = Field("vllm", description="server family")
    spec_method: str | None = Field(
        None, min_length=1, description="speculation method, where the server cannot tell it"
    )
    model: str | None = Field(
        None, min_length=1, description="model name to ask for; default: the only one the server lists"
    )
    tokenizer: FilePath | None = Field(
        None, description="tokenizer.json that counts prompt tokens where the server cannot (extra tokenizers)"
    )
    api_key: SecretSource | None = Field(None, description="bearer token, read from the environment or a file")
    proxy: ProxyUrl | None = Field(
        None,
        description="http(s)://host:port of a proxy; forces the plain transport (timestamps in user space); "
        "proxies of the environment are never used",
    )
    proxy_auth: SecretSource | None = Field(None, description="user:password for the proxy")
    http2: bool = Field(
        False,
        description="HTTP/2, agreed on in TLS (extra http2): forces the plain transport, and all requests share one "
        "connection to each replica",
    )
    tls: TlsKeys | None = Field(None, description="certificates, where the public authorities will not do")
    resolve: dict[HostName, IpText] = Field(
        default_factory=dict,
        description="addresses of hosts of its URLs, which are then not looked up: host to IP address, as curl's "
        "--resolve; names in TLS stay what they are",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="further request headers; values are secret and stored nowhere"
    )
    served_by_header: Annotated[str, Field(pattern=HEADER_NAME)] | None = Field(
        None,
        description="response header in which a gateway says which server answered; kept with every request "
        "(column served_by)",
    )
    speculation: Literal["on", "off"] | None = Field(
        None, description="what the server must be found to do; a mismatch fails the preflight"
    )
    start: Command | None = Field(
        None,
        description="command that starts the server: a list of words, or a text for /bin/sh; without stop it is the "
        "server itself and stays in the foreground",
    )
    stop: Command | None = Field(
        None, description="command that stops it, where start returns once it has started the server elsewhere"
    )
    start_timeout_s: Seconds = Field(900.0, description="how long it may take until the server answers")
    stop_timeout_s: Seconds = Field(120.0, description="how long stop may take, or the server after SIGTERM")
    health_url: PageUrl | None = Field(
        None, description="answers 200 once the server is ready; default: the first URL's /health"
    )
    declared_differences: list[str] = Field(
        default_factory=list, description="differences from the baseline that are meant, besides speculation"
    )
    facts: dict[str, str | float | int | bool] = Field(
        default_factory=dict, description="facts the server cannot tell: GPU, driver"
    )
    telemetry: Telemetry = Field(Telemetry(), description="its GPUs and processes, and what they cost")

    @model_validator(mode="after")
    def _consistent(self) -> Arm:
        problems: list[tuple[Loc, str]] = []
        if self.url is None and not self.urls:
            problems.append(((), "needs url (one server) or urls (several replicas)"))
        if self.url is not None and self.urls:
            problems.append((("url",), "contradicts urls: give one of the two"))
        problems += _twice("urls", self.urls) + _twice("metrics_urls", self.metrics_urls or [])
        if self.stop is not None and self.start is None:
            problems.append((("stop",), "needs start: only what was started here is stopped here"))
        if self.speculation == "off" and self.spec_method is not None:
            problems.append((("spec_method",), "contradicts speculation: off"))
        refuse(problems + _headers(self) + _reach(self))
        return self


def _twice(key: str, urls: list[str]) -> list[tuple[Loc, str]]:
    return [((key, i), "is in the list twice") for i, url in enumerate(urls) if url in urls[:i]]


def _reach(arm: Arm) -> list[tuple[Loc, str]]:
    urls = arm.urls or [arm.url or ""]
    secure = [url.startswith("https://") for url in urls]
    problems: list[tuple[Loc, str]] = []
    if arm.proxy_auth is not None and arm.proxy is None:
        problems.append((("proxy_auth",), "needs proxy"))
    if arm.resolve and arm.proxy is not None:
        problems.append((("resolve",), "contradicts proxy: the proxy looks names up"))
    if arm.http2 and not all(secure):
        problems.append((("http2",), "needs https:// URLs: HTTP/2 is agreed on in TLS"))
    if arm.tls is not None and not any(url.startswith("https://") for url in (*urls, *(arm.metrics_urls or ()))):
        problems.append((("tls",), "needs an https:// URL"))
    return problems


def _headers(arm: Arm) -> list[tuple[Loc, str]]:
    return header_problems(arm.headers, arm.api_key)


def header_problems(headers: Mapping[str, SecretStr], api_key: SecretSource | None) -> list[tuple[Loc, str]]:
    """Values are never part of a message."""
    problems: list[tuple[Loc, str]] = []
    for name, value in headers.items():
        where: Loc = ("headers", name)
        if not re.fullmatch(HEADER_NAME, name):
            problems.append((where, "is not a header name: letters, digits and - are allowed"))
        elif name.lower() in OWNED_HEADERS:
            problems.append((where, "is set by specload itself and cannot be changed"))
        elif name.lower() == "authorization" and api_key is not None:
            problems.append((where, "contradicts api_key: give one of the two"))
        text = value.get_secret_value()
        if not text.isprintable() or not text.isascii() or text != text.strip():
            problems.append((where, "must be one line of printable ASCII without spaces around it"))
    return problems
