"""Keep secrets out of everything that is written or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from pydantic import SecretStr

MASK = "***"
#: A shorter value (`X-Retry: 1`) is no secret, and masking it would eat every text, addresses and ids included.
LEAST_CHARS = 6
_PATTERNS = (
    re.compile(r"(?i)(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"(?i)\b(api[-_]?key|token|password|secret|authorization)(\"?\s*[=:]\s*\"?)[^\s\"',;&]{4,}"),
    re.compile(r"(//)((?:[^/\s:@]*:)?)[^/\s@:]+(?=@)"),
    re.compile(r"\b(sk|hf)([-_])[A-Za-z0-9_-]{8,}"),
    re.compile(
        r"(?i)([?&][\w.-]*(?:key|token|sig|signature|secret|passw(?:or)?d|pwd|auth|credential|code)[\w.-]*)(=)[^&\s\"'#]+"
    ),
)


class Redactor:
    """Masks known secrets and anything shaped like one. Idempotent."""

    def __init__(self, secrets: Iterable[SecretStr] = ()) -> None:
        values = {form for s in secrets for form in _forms(s.get_secret_value())}
        self._known = sorted((v for v in values if len(v) >= LEAST_CHARS), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._known:
            text = text.replace(value, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(lambda m: f"{m[1]}{m[2]}{MASK}", text)
        return text


def _forms(value: str) -> Iterator[str]:
    """A secret as a server may repeat it: whole, without its scheme (`Bearer KEY`), and as in a URL."""
    for form in (value, *value.split(" ")[1:2]):
        yield form
        yield quote(form, safe="")


def names_of(urls: Iterable[str], redact: Redactor) -> dict[str, str]:
    """By URL, what a page is called where it is shown and stored: its URL, masked. No two have the same name:
    those that differ only in what is masked are numbered from the second on."""
    given: dict[str, str] = {}
    for url in dict.fromkeys(urls):
        name = base = redact(url)
        number = 1
        while name in given.values():
            number += 1
            name = f"{base} ({number})"
        given[url] = name
    return given


def one_line(text: str) -> str:
    """`text` with every control character, line ends too, as its escape: a line of a log, or a cell, stays one. What
    cannot be stored (half a surrogate pair) is escaped as well."""
    return "".join(
        c if c == "\u00a0" or c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def printable(text: str) -> str:
    """`text` without control characters but line ends and tabs; hard spaces stay. A server's message must not steer a
    terminal."""
    return "".join(c if c in "\n\t\u00a0" or c.isprintable() else "�" for c in text)
