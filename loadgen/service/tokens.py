"""Tokens: shown once, kept as salted hashes, compared in constant time.

A token is `sl_NAME_SECRET`: the name says which hash to compare with, so that a wrong token costs one hash whatever the
number of tokens. The secret has 256 bits of chance; scrypt is there for tokens that people would choose themselves.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from loadgen.service.config import TokenKeys
from loadgen.service.roles import Role

PREFIX = "sl"
#: 16 MiB and some tens of milliseconds a hash.
N, R, P = 2**14, 8, 1
#: Verified tokens that are remembered (as a keyed hash), so that a page of many requests costs one scrypt.
REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    role: Role


def new_token(name: str) -> tuple[str, str]:
    """A token, and the hash that the configuration keeps of it."""
    token = f"{PREFIX}_{name}_{secrets.token_hex(32)}"
    return token, hashed(token)


def hashed(token: str, salt: bytes | None = None, n: int = N) -> str:
    salt = salt or secrets.token_bytes(16)
    digest = _scrypt(token, salt, n, R, P)
    return "$".join(("scrypt", str(n), str(R), str(P), _text(salt), _text(digest)))


class Tokens:
    """Who a token belongs to. Thread-safe."""

    def __init__(self, keys: Iterable[TokenKeys]) -> None:
        self._keys = {key.name: key for key in keys}
        self._secret = secrets.token_bytes(32)
        self._seen: dict[bytes, Identity] = {}
        self._lock = Lock()
        #: what is compared with where the name is unknown: as slow as for a known one
        self._nobody = hashed(secrets.token_hex(32))

    def who(self, token: str) -> Identity | None:
        """None: of nobody. Takes as long for an unknown name as for a wrong secret."""
        seen = self.seen(token)
        if seen is not None:
            return seen
        key = self._keys.get(claimed_name(token))
        if not matches(token, self._nobody if key is None else key.hash) or key is None:
            return None
        found = Identity(key.name, Role(key.role))
        with self._lock:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[self._mark(token)] = found
        return found

    def seen(self, token: str) -> Identity | None:
        """As `who`, but only of tokens that were verified before: fast."""
        with self._lock:
            return self._seen.get(self._mark(token))

    def _mark(self, token: str) -> bytes:
        return hmac.new(self._secret, token.encode("utf-8", "surrogatepass"), "sha256").digest()


def matches(token: str, kept: str) -> bool:
    """Whether `kept` is the hash of `token`; constant time."""
    _, n, r, p, salt, digest = kept.split("$")
    found = _scrypt(token, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(digest))


def _scrypt(token: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    text = token.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=32)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def claimed_name(token: str) -> str:
    """Nothing where it is no token of ours at all."""
    prefix, _, rest = token.partition("_")
    return rest.rpartition("_")[0] if prefix == PREFIX and len(token) <= 200 else ""
