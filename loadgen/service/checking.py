"""What a configuration must be before anything is served with it: asked by `serve --check`, and by every start."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from loadgen.errors import ScenarioError
from loadgen.service.config import Listen, ServiceConfig
from loadgen.service.outgoing import Outgoing, Refused, host_of_text
from loadgen.service.targets import Targets


def check(config: ServiceConfig) -> list[str]:
    """What to say of a configuration that can be served. Nothing is made, and nothing is connected to; whether the
    address and the registry are free is not asked: a service may have them. Raises ScenarioError with its problems."""
    problems = [*_hosts(config.outgoing.hosts), *_tls(config.listen), *_places(config)]
    if problems:
        raise ScenarioError(problems)
    Targets(config, Outgoing(config.outgoing))
    scenarios = config.folders.scenarios
    return (
        []
        if scenarios.is_dir()
        else [f"folders.scenarios: there is no folder {scenarios}: only uploaded scenarios can be run"]
    )


def _hosts(hosts: list[str]) -> list[str]:
    problems = []
    for i, text in enumerate(hosts):
        try:
            host_of_text(text.removeprefix("*."))
        except Refused as error:
            problems.append(f"outgoing.hosts.{i}: {error}")
    return problems


def _tls(listen: Listen) -> list[str]:
    if listen.tls_cert is None:
        return []
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(listen.tls_cert, listen.tls_key)
    except OSError as error:  # one of TLS is one, too
        return [f"listen.tls_cert, listen.tls_key: cannot be used: {error.strerror or error}"]
    return []


def _places(config: ServiceConfig) -> list[str]:
    """Folders that neither are there nor can be made."""
    folders = config.folders
    wanted = (("runs", folders.runs), ("uploads", folders.uploads), ("database", folders.database.parent))
    return [
        f"folders.{key}: {place} is no folder that can be written to"
        for key, folder in wanted
        if not (place := _nearest(folder)).is_dir() or not os.access(place, os.W_OK | os.X_OK)
    ]


def _nearest(folder: Path) -> Path:
    """The folder, or what of its path is there."""
    return next((place for place in (folder, *folder.parents) if place.exists()), folder)
