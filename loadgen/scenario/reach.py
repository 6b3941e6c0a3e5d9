"""How the servers of an arm are reached: proxy, HTTP/2, certificates."""

from __future__ import annotations

import importlib.util
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from loadgen.errors import ScenarioError
from loadgen.scenario.arms import Arm
from loadgen.scenario.pinned import PinnedTransport
from loadgen.scenario.secrets import read_secret
from loadgen.scenario.tls import TlsKeys


@dataclass(frozen=True, slots=True)
class Reach:
    """An arm's own way to its servers; can be pickled and compared. The default is the usual one: direct, HTTP/1.1,
    certificates checked against the public authorities (certifi).

    `proxy`: http(s)://host:port, `proxy_auth` is "user:password" for it. `resolve`: (host, IP address) of hosts
    that are not looked up.
    """

    arm: str = ""
    proxy: str | None = None
    proxy_auth: SecretStr | None = None
    http2: bool = False
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    verify: bool = True
    resolve: tuple[tuple[str, str], ...] = ()

    @property
    def plain_because(self) -> str | None:
        """What a reader of our own cannot do, so that httpx's must; None: nothing."""
        return " and ".join([*["proxy"] * (self.proxy is not None), *["HTTP/2"] * self.http2]) or None

    @property
    def usual(self) -> bool:
        return self == Reach(self.arm)

    def address_of(self, host: str) -> str | None:
        """What is connected to instead of looking `host` up; None: it is looked up."""
        return dict(self.resolve).get(host.lower())

    def ssl_context(self) -> ssl.SSLContext:
        """One for equal reaches. Raises ScenarioError where a file is not what it should be."""
        return _ssl_context(self)

    def proxy_account(self) -> tuple[str, str] | None:
        if self.proxy_auth is None:
            return None
        user, _, password = self.proxy_auth.get_secret_value().partition(":")
        return user, password

    def httpx_options(self) -> dict[str, Any]:
        """Options of an `httpx.AsyncClient` that reaches the same servers. HTTP/2 only where the server takes it."""
        if self.resolve:
            pinned = PinnedTransport(dict(self.resolve), verify=self.ssl_context(), http2=self.http2)
            return {"trust_env": False, "transport": pinned}
        proxy = None if self.proxy is None else httpx.Proxy(self.proxy, auth=self.proxy_account())
        return {"trust_env": False, "verify": self.ssl_context(), "proxy": proxy, "http2": self.http2}


def reach_of(name: str, arm: Arm) -> Reach:
    """Raises ScenarioError: a secret that is not there, an unusable certificate, or a package that is missing."""
    if arm.http2 and importlib.util.find_spec("h2") is None:
        raise ScenarioError([f"arms.{name}.http2 needs the extra `http2`: pip install 'specload[http2]'"])
    tls = arm.tls or TlsKeys()
    auth = None if arm.proxy_auth is None else read_secret(arm.proxy_auth, f"arms.{name}.proxy_auth")
    if auth is not None and ":" not in auth.get_secret_value():
        raise ScenarioError([f"arms.{name}.proxy_auth must hold user:password"])
    reach = Reach(
        name, arm.proxy, auth, arm.http2, tls.ca, tls.client_cert, tls.client_key, tls.verify,
        tuple((host.lower(), address) for host, address in arm.resolve.items()),
    )  # fmt: skip
    reach.ssl_context()
    return reach


@cache
def _ssl_context(reach: Reach) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False) if reach.ca is None else _trusting(reach, reach.ca)
    if not reach.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if reach.client_cert is not None:
        try:  # an encrypted key would ask the terminal for its password
            context.load_cert_chain(reach.client_cert, reach.client_key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise _unusable(reach, "client_cert", reach.client_cert, error) from None
    return context


def _trusting(reach: Reach, ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ValueError) as error:
        raise _unusable(reach, "ca", ca, error) from None


def _unusable(reach: Reach, key: str, file: Path, error: Exception) -> ScenarioError:
    why = "is not PEM, or its key is another's or needs a password" if isinstance(error, ssl.SSLError) else "unreadable"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        why = f"cannot be read: {error.strerror}"
    return ScenarioError([f"arms.{reach.arm}.tls.{key}: {file} {why}"])
