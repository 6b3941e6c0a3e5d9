"""Every anomaly there is, and which of them a user has chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from server_adapters.anomalies.bodies import bodies
from server_adapters.anomalies.connections import connections
from server_adapters.anomalies.types import Anomaly

#: In the order they are sent: what is least likely to end a server first.
CATALOGUE: Mapping[str, Anomaly] = {one.name: one for one in (*bodies(), *connections())}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(one.group for one in CATALOGUE.values()))


def chosen(include: Collection[str], exclude: Collection[str]) -> list[Anomaly]:
    """By names and groups. Nothing included: all that run by default. What is named runs even where it does not by
    default; exclusion wins."""
    found = []
    for one in CATALOGUE.values():
        wanted = one.name in include or (one.default and (not include or one.group in include))
        if wanted and one.name not in exclude and one.group not in exclude:
            found.append(one)
    return found
