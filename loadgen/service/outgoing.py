"""Where the service and its runs may connect to: every URL goes through here before it is asked.

A URL is read strictly, its host is looked up, every address of it is checked, and one of them is what is connected to:
what the name resolves to a moment later does not matter. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

import httpx
import idna

from loadgen.scenario import PinnedTransport
from loadgen.service.config import OutgoingKeys

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Host and port to IP addresses as text. Raises OSError where there is none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

#: Clouds tell their machines secrets here.
METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254", "168.63.129.16"))
)
_SHARED = ipaddress.ip_network("100.64.0.0/10")
#: Special ranges that Python's `is_private` and `is_global` see differently from version to version (RFC 6890).
_SPECIAL: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "100::/64", "2001::/23", "2001:db8::/32",
         "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)  # fmt: skip
#: IPv6 networks whose addresses lead to an IPv4 address, and where its 32 bits begin.
_EMBEDDING = tuple(
    (ipaddress.IPv6Network(text), shift)
    for text, shift in (
        ("::/96", 0),
        ("::ffff:0:0/96", 0),
        ("64:ff9b::/96", 0),
        ("64:ff9b:1::/48", 0),
        ("2002::/16", 80),
    )
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
#: What inet_aton takes for an address though nobody writes one so: 127.1, 0x7f.1, 2130706433, 0177.0.0.1.
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")
LOOK_UP_TIMEOUT_S = 5.0


class Refused(Exception):
    """A URL that is not connected to; the message says why, in our own words."""


class Unknown(Refused):
    """Its host cannot be looked up now."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A URL that may be asked, at this address and no other. In `url` the host is written as in `host`."""

    url: str
    host: str
    port: int
    address: str

    @property
    def server(self) -> tuple[str, int]:
        """Names of one server are one: what a run has to itself."""
        return self.address, self.port


async def look_up(host: str, port: int) -> Sequence[str]:
    """The system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Outgoing:
    """`resolver`: the seam of tests."""

    def __init__(self, keys: OutgoingKeys, resolver: Resolver = look_up) -> None:
        self._networks = [ipaddress.ip_network(text) for text in keys.networks]
        self._hosts = [host_of_text(text.removeprefix("*.")) for text in keys.hosts]
        self._below = [text.startswith("*.") for text in keys.hosts]
        self._resolver = resolver

    def read(self, url: str, *, listed: bool) -> tuple[str, int]:
        """Host and port of a URL that is written as it should be. `listed`: the configuration names this very URL (a
        target's); else its host must be among `outgoing.hosts`. Raises Refused."""
        host, port = read_url(url)
        if not listed and not self._named(host):
            raise Refused(f"{host} is not among outgoing.hosts")
        literal = address_of_text(host)
        if literal is not None:
            self.permit(host, literal)
        return host, port

    async def check(self, url: str, *, listed: bool = False) -> Checked:
        """Look the host up and check every address it has. Raises Refused."""
        host, port = self.read(url, listed=listed)
        literal = address_of_text(host)
        if literal is not None:
            return Checked(canonical(url, host), host, port, str(literal))
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                found = await self._resolver(host, port)
        except (OSError, TimeoutError, UnicodeError):
            raise Unknown(f"{host} cannot be looked up") from None
        addresses = [ipaddress.ip_address(text) for text in found]
        if not addresses:
            raise Unknown(f"{host} has no address")
        for address in addresses:
            self.permit(host, address)
        return Checked(canonical(url, host), host, port, str(addresses[0]))

    async def check_all(self, urls: Iterable[str], *, listed: bool = False) -> list[Checked]:
        """Hosts are looked up once for all URLs. Raises Refused at the first that may not be asked."""
        settled: dict[str, Checked] = {}
        found = []
        for url in urls:
            host, port = self.read(url, listed=listed)
            if host not in settled:
                settled[host] = await self.check(url, listed=listed)
            found.append(Checked(canonical(url, host), host, port, settled[host].address))
        return found

    def permit(self, host: str, address: Address) -> None:
        """Raises Refused. What an IPv6 address embeds is checked as well as itself."""
        for one in (address, *embedded(address)):
            kind = kind_of(one)
            if kind is None or self._opened(one, kind):
                continue
            what = f"{host} is" if str(one) == host else f"{host} is at {one},"
            alone = " (one by one: /32 or /128)" if kind in ALONE else ""
            raise Refused(f"{what} a {kind} address: not connected to unless outgoing.networks has it{alone}")

    def _opened(self, address: Address, kind: str) -> bool:
        holding = [n for n in self._networks if n.version == address.version and address in n]
        return any(n.num_addresses == 1 for n in holding) if kind in ALONE else bool(holding)

    def _named(self, host: str) -> bool:
        return any(
            host.endswith(f".{name}") if below else host == name
            for name, below in zip(self._hosts, self._below, strict=True)
        )


#: Kinds that no wide network opens: an entry of one address is needed.
ALONE = frozenset({"metadata", "link-local", "multicast", "unspecified"})


def kind_of(address: Address) -> str | None:
    """Why an address is not public; None: it is."""
    kinds = (
        ("metadata", address in METADATA),
        ("unspecified", address.is_unspecified),
        ("loopback", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("shared", address.version == 4 and address in _SHARED),
        ("private", address.is_private or getattr(address, "is_site_local", False)),
        ("reserved", address.is_reserved or not address.is_global or any(address in n for n in _SPECIAL)),
    )
    return next((kind for kind, is_it in kinds if is_it), None)


def embedded(address: Address) -> list[Address]:
    """IPv4 addresses that an IPv6 address stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    bits = int(address)
    if bits >> 32 == 0 and bits < 2**16:  # :: and ::1 are their own
        return []
    found: list[Address] = [
        ipaddress.IPv4Address((bits >> shift) & 0xFFFFFFFF) for network, shift in _EMBEDDING if address in network
    ]
    return found + ([address.teredo[1]] if address.teredo is not None else [])


def read_url(url: str) -> tuple[str, int]:
    """Host (lower case, ASCII) and port. Raises Refused for anything that two readers could read in two ways."""
    if not url.isprintable() or any(c.isspace() for c in url) or "\\" in url:
        raise Refused("the URL has spaces, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("this is no URL") from None
    if parts.scheme not in ("http", "https"):
        raise Refused("only http:// and https:// URLs are asked")
    if "@" in parts.netloc:
        raise Refused("the URL names a user")
    if port == 0:
        raise Refused("port 0 is none")
    return host_of_text(parts.hostname or ""), port or (443 if parts.scheme == "https" else 80)


def canonical(url: str, host: str) -> str:
    """The URL with the host as it was checked, so that whoever reads it finds the same one."""
    parts = urlsplit(url)
    netloc = f"[{host}]" if ":" in host else host
    return parts._replace(netloc=netloc if parts.port is None else f"{netloc}:{parts.port}").geturl()


def host_of_text(text: str) -> str:
    """A host as it is compared and looked up. Raises Refused."""
    host = text.lower().removesuffix(".")
    if ":" in host:
        if "%" in host or address_of_text(host) is None:
            raise Refused("this is no IPv6 address")
        return str(address_of_text(host))
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError:
            raise Refused("the host is no internationalised name") from None
    if address_of_text(host) is not None:
        return host
    if _NUMERIC.fullmatch(host):
        raise Refused("an IPv4 address is written with four decimal numbers")
    if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise Refused("the URL has no usable host")
    return host


def address_of_text(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@cache
def _public_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def client_for(checked: Checked, timeout_s: float, context: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    """A client that connects to what was checked, and to nothing else: no redirects, no proxy of the environment."""
    transport = PinnedTransport({checked.host: checked.address}, verify=context or _public_authorities(), only=True)
    return httpx.AsyncClient(transport=transport, timeout=timeout_s, follow_redirects=False, trust_env=False)
