"""A kill switch as the user has it: an HTTP request, a command, or one that the server itself has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from loadgen.scenario.arms import Command, HostName, SecretSource, header_problems
from loadgen.scenario.base import BaseUrl, IpText, Loc, Model, PageUrl, Seconds, refuse
from loadgen.scenario.secrets import read_secret
from loadgen.scenario.tls import TlsKeys

Direction = Literal["off", "on"]
_Status = Annotated[int, Field(ge=100, le=599)]


class HttpCall(Model):
    """One HTTP request. Redirects are not followed, and nothing is tried twice."""

    kind: Literal["http"] = Field(description="an HTTP request")
    url: PageUrl = Field(description="where it goes")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field("POST", description="its method")
    api_key: SecretSource | None = Field(None, description="bearer token, read from the environment or a file")
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="request headers; values are secret and stored nowhere"
    )
    headers_from: dict[str, SecretSource] = Field(
        default_factory=dict, description="request headers whose values are read from the environment or a file"
    )
    body: dict[str, Any] | list[Any] | None = Field(None, description="sent as JSON; no secrets: it is stored")
    expect_status: list[_Status] = Field(default_factory=list, description="that it has worked; default: any 2xx")
    timeout_s: Seconds = Field(10.0, description="how long it may take")
    tls: TlsKeys | None = Field(None, description="certificates, where the public authorities will not do")
    resolve: dict[HostName, IpText] = Field(
        default_factory=dict, description="address of its host, which is then not looked up: host to IP address"
    )

    @model_validator(mode="after")
    def _consistent(self) -> HttpCall:
        problems = header_problems({**self.headers, **dict.fromkeys(self.headers_from, SecretStr(""))}, self.api_key)
        problems += [(("headers_from", n), "is in headers, too: give one of the two")
                     for n in self.headers_from if n in self.headers]  # fmt: skip
        if self.tls is not None and not self.url.startswith("https://"):
            problems.append((("tls",), "needs an https:// URL"))
        refuse(problems)
        return self


class CommandCall(Model):
    """A command of your own. Its environment has SPECLOAD_SWITCH, which is off or on; it has worked where it ends
    with status 0. Nothing that a server said is ever put into it."""

    kind: Literal["command"] = Field(description="a command")
    command: Command = Field(description="a list of words, or a text for /bin/sh; it must end by itself")
    env: dict[str, str] = Field(default_factory=dict, description="environment variables; no secrets: they are stored")
    env_from: dict[str, SecretSource] = Field(
        default_factory=dict, description="environment variables whose values are read from the environment or a file"
    )
    timeout_s: Seconds = Field(30.0, description="how long it may take; then it is ended, which has not worked")

    @model_validator(mode="after")
    def _consistent(self) -> CommandCall:
        problems: list[tuple[Loc, str]] = [
            ((key, name), "is no name of an environment variable")
            for key in ("env", "env_from")
            for name in getattr(self, key)
            if not name or "=" in name or "\0" in name
        ]
        problems += [(("env", n), "holds a NUL character") for n, value in self.env.items() if "\0" in value]
        problems += [(("env_from", n), "is in env, too: give one of the two") for n in self.env_from if n in self.env]
        refuse(problems)
        return self


class AdapterCall(Model):
    """The server's own switch, where its adapter knows one. vLLM and SGLang have none: speculation is chosen at their
    start. The rehearsal engine has one."""

    kind: Literal["adapter"] = Field(description="what the adapter of the arm knows")
    adapter: Literal["speculation"] = Field("speculation", description="what is switched")
    urls: list[BaseUrl] = Field(
        default_factory=list, description="the servers that are switched, one after the other; default: the arm's own"
    )
    timeout_s: Seconds = Field(10.0, description="how long each of them may take")


Call = Annotated[HttpCall | CommandCall | AdapterCall, Field(discriminator="kind")]


class Switch(Model):
    """How speculation is switched off for the users of a target, and on again."""

    off: Call = Field(description="takes users away from speculation")
    on: Call | None = Field(None, description="brings them back; default: it is not brought back")

    def call(self, direction: Direction) -> HttpCall | CommandCall | AdapterCall:
        """ValueError where there is no way back."""
        chosen = self.off if direction == "off" else self.on
        if chosen is None:
            raise ValueError("the switch has no `on`")
        return chosen


def secrets_of(call: HttpCall | CommandCall | AdapterCall, where: str = "switch") -> Mapping[str, SecretStr]:
    """Headers or environment variables of a call whose values are secret, read now; `where`: its key, for messages.
    Raises ScenarioError where one cannot be read."""
    return dict(_secrets(call, where))


def _secrets(call: HttpCall | CommandCall | AdapterCall, where: str) -> Iterator[tuple[str, SecretStr]]:
    if isinstance(call, HttpCall):
        yield from call.headers.items()
        for name, source in call.headers_from.items():
            yield name, read_secret(source, f"{where}.headers_from.{name}")
        if call.api_key is not None:
            key = read_secret(call.api_key, f"{where}.api_key").get_secret_value()
            yield "Authorization", SecretStr(f"Bearer {key}")
    elif isinstance(call, CommandCall):
        for name, source in call.env_from.items():
            yield name, read_secret(source, f"{where}.env_from.{name}")


def switch_secrets(switch: Switch, where: str = "switch") -> tuple[SecretStr, ...]:
    """All secrets of a switch, for a redactor. Raises ScenarioError where one cannot be read."""
    directions: tuple[Direction, ...] = ("off",) if switch.on is None else ("off", "on")
    return tuple(v for d in directions for v in secrets_of(switch.call(d), f"{where}.{d}").values())
