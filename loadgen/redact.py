"""Keep secrets out of everything that is written or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import SecretStr

MASK = "***"
_PATTERNS = (
    re.compile(r"(?i)(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"(?i)\b(api[-_]?key|token|password|secret|authorization)(\"?\s*[=:]\s*\"?)[^\s\"',;&]{4,}"),
    re.compile(r"(//)((?:[^/\s:@]*:)?)[^/\s@:]+(?=@)"),
    re.compile(r"\b(sk|hf)([-_])[A-Za-z0-9_-]{8,}"),
)


class Redactor:
    """Masks known secrets and anything shaped like one. Idempotent."""

    def __init__(self, secrets: Iterable[SecretStr] = ()) -> None:
        values = {s.get_secret_value() for s in secrets}
        self._known = sorted((v for v in values if v), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._known:
            text = text.replace(value, MASK)
        for pattern in _PATTERNS:
            text = pattern.sub(lambda m: f"{m[1]}{m[2]}{MASK}", text)
        return text
