"""Is an answer the known right one?"""

from __future__ import annotations

import re
from math import isclose

from loadgen.scenario import Match

#: A longer answer is looked at so far: an own regular expression must not take for ever on it.
LOOKED_AT = 4096
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)")


def is_right(text: str, expected: str, match: Match) -> bool:
    """exact: but for white space around it; contains: in capitals or not; number: by itself and equal in value, with
    or without commas between thousands; regex: found anywhere."""
    said = text[:LOOKED_AT]
    if match == "exact":
        return said.strip() == expected.strip()
    if match == "contains":
        return expected.casefold() in said.casefold()
    if match == "regex":
        return re.search(expected, said) is not None
    value = float(expected)
    return any(isclose(float(n.replace(",", "")), value, rel_tol=1e-9) for n in _NUMBER.findall(said))
