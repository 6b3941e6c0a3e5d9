"""Scenarios by name: those of the server's folder, which are never written, and those that operators have uploaded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from loadgen.errors import ScenarioError, StorageError
from loadgen.redact import Redactor
from loadgen.scenario import document_of
from loadgen.service.config import Folders

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Source = Literal["folder", "uploaded"]


class NoScenario(Exception):
    """There is none of this name."""


class NotOurs(Exception):
    """It belongs to the server's folder: nobody changes it through the service."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A scenario's text. `base`: folder that its files are relative to."""

    name: str
    source: Source
    data: bytes
    base: Path

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class Listed:
    """A scenario in a list. `arms`: arm to the target that it names, if any; `problem`: why it cannot be read."""

    name: str
    source: Source
    sha256: str
    description: str
    arms: dict[str, str | None]
    problem: str | None


class Shelf:
    def __init__(self, folders: Folders) -> None:
        self._places: tuple[tuple[Source, Path], ...] = (("folder", folders.scenarios), ("uploaded", folders.uploads))
        self._uploads = folders.uploads

    def names(self) -> Iterator[tuple[str, Source, Path]]:
        """The server's own win over an uploaded one of the same name."""
        seen: set[str] = set()
        for source, folder in self._places:
            for file in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
                if NAME.fullmatch(file.stem) and file.stem not in seen and file.is_file():
                    seen.add(file.stem)
                    yield file.stem, source, file

    def get(self, name: str) -> Kept:
        """Raises NoScenario; StorageError where it cannot be read."""
        for found, source, file in self.names():
            if found == name:
                try:
                    return Kept(name, source, file.read_bytes(), file.parent.absolute())
                except OSError as error:
                    raise StorageError(f"the scenario {name} cannot be read: {error.strerror}") from None
        raise NoScenario(name)

    def listed(self) -> list[Listed]:
        return [self._listed(self.get(name)) for name, _, _ in list(self.names())]

    def _listed(self, kept: Kept) -> Listed:
        try:
            value = document_of(kept.data, f"{kept.name}.yaml").value
        except ScenarioError as error:
            return Listed(kept.name, kept.source, kept.sha256, "", {}, error.problems[0])
        description = value.get("description")
        return Listed(
            kept.name, kept.source, kept.sha256, description if isinstance(description, str) else "", _arms(value), None
        )

    def put(self, name: str, data: bytes) -> bool:
        """Whole or not at all; whether it is new. Raises NotOurs, StorageError."""
        self._refuse_foreign(name)
        file = self._uploads / f"{name}.yaml"
        part = self._uploads / f".{name}.part"
        new = not file.exists()
        try:
            self._uploads.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.replace(file)
        except OSError as error:
            raise StorageError(f"the scenario {name} cannot be kept: {error.strerror}") from None
        return new

    def delete(self, name: str) -> None:
        """Raises NotOurs, NoScenario, StorageError. Runs that were asked for keep their text."""
        self._refuse_foreign(name)
        try:
            (self._uploads / f"{name}.yaml").unlink()
        except FileNotFoundError:
            raise NoScenario(name) from None
        except OSError as error:
            raise StorageError(f"the scenario {name} cannot be deleted: {error.strerror}") from None

    def _refuse_foreign(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise NoScenario(name)
        if any(found == name and source == "folder" for found, source, _ in self.names()):
            raise NotOurs(name)


def masked(kept: Kept) -> str:
    """The text without what it may hold of secrets: whole URLs of webhooks, and values of headers."""
    try:
        value = document_of(kept.data, kept.name).value
    except ScenarioError:
        return Redactor()(kept.text)
    return Redactor(map(SecretStr, _secret(value)))(kept.text)


def _secret(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _secret(item)
    for key, item in value.items() if isinstance(value, dict) else ():
        if key == "headers" and isinstance(item, dict):
            yield from (text for text in item.values() if isinstance(text, str))
        elif key == "webhooks" and isinstance(item, list):
            yield from (h["url"] for h in item if isinstance(h, dict) and isinstance(h.get("url"), str))
        else:
            yield from _secret(item)


def _arms(value: dict[str, Any]) -> dict[str, str | None]:
    arms = value.get("arms")
    found = arms.items() if isinstance(arms, dict) else ()
    named = {str(name): arm.get("target") if isinstance(arm, dict) else None for name, arm in found}
    return {name: target if isinstance(target, str) else None for name, target in named.items()}
