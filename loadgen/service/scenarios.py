"""Scenarios by name: those of the server's folder, which are never written, and those that operators have uploaded."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from pydantic import SecretStr

from loadgen.errors import ScenarioError, StorageError
from loadgen.redact import Redactor
from loadgen.scenario import document_of
from loadgen.service.config import Folders, LimitKeys

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Source = Literal["folder", "uploaded"]
#: A file that is being written; a service that was killed may leave one.
_PART = ".part"
#: Texts of which is remembered what a list says of them.
MOST_READ = 2000


class NoScenario(Exception):
    """There is none of this name."""


class NoRoom(Exception):
    """So much was uploaded already; the message says what the limit is."""


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
    """A scenario in a list. `arms`: arm to the target that it names, if any; `problem`: why it cannot be read.
    `canary`: it has a section for one, and may be watched."""

    name: str
    source: Source
    sha256: str
    description: str
    arms: dict[str, str | None]
    problem: str | None
    canary: bool


class Shelf:
    """Thread-safe."""

    def __init__(self, folders: Folders, limits: LimitKeys) -> None:
        self._limits = limits
        self._writing = Lock()
        #: what was read of a text stays true of it
        self._read: dict[tuple[str, Source, str], Listed] = {}
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
                return _kept(name, source, file)
        raise NoScenario(name)

    def listed(self) -> list[Listed]:
        """Raises StorageError."""
        found = []
        for name, source, file in list(self.names()):
            with contextlib.suppress(NoScenario):  # deleted meanwhile
                found.append(self._listed(_kept(name, source, file)))
        return found

    def look(self, name: str) -> tuple[Kept, Listed]:
        """One of them. Raises NoScenario; StorageError where it cannot be read."""
        kept = self.get(name)
        return kept, self._listed(kept)

    def _listed(self, kept: Kept) -> Listed:
        key = kept.name, kept.source, kept.sha256
        found = self._read.get(key)
        if found is None:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            found = self._read[key] = _listed(kept)
        return found

    def put(self, name: str, data: bytes) -> bool:
        """Whole or not at all; whether it is new. Raises NotOurs, NoRoom, StorageError."""
        self._refuse_foreign(name)
        file = self._uploads / f"{name}.yaml"
        with self._writing:
            new = not file.exists()
            try:
                self._uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._refuse_too_much(file, len(data))
                _write(file, data)
            except OSError as error:
                raise StorageError(f"the scenario {name} cannot be kept: {error.strerror}") from None
        return new

    def _refuse_too_much(self, file: Path, size: int) -> None:
        """Of what is there, but for the one that is written anew. Raises NoRoom, OSError."""
        others = [entry.stat().st_size for entry in self._uploads.glob("*.yaml") if entry.name != file.name]
        if len(others) >= self._limits.uploads:
            raise NoRoom(f"{len(others)} scenarios were uploaded, and no more may be (limits.uploads): delete some")
        if sum(others) + size > self._limits.upload_bytes:
            raise NoRoom(
                f"all uploaded scenarios together may have {self._limits.upload_bytes:,} bytes (limits.upload_bytes): "
                "delete some"
            )

    def tidy(self) -> None:
        """Away with what a service that was killed had begun to write. Only while no other service is there."""
        for part in self._uploads.glob(f".*{_PART}"):
            with contextlib.suppress(OSError):
                part.unlink()

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


def _kept(name: str, source: Source, file: Path) -> Kept:
    """Raises NoScenario, StorageError."""
    try:
        return Kept(name, source, file.read_bytes(), file.parent.absolute())
    except FileNotFoundError:
        raise NoScenario(name) from None
    except OSError as error:
        raise StorageError(f"the scenario {name} cannot be read: {error.strerror}") from None


def _listed(kept: Kept) -> Listed:
    try:
        value = document_of(kept.data, f"{kept.name}.yaml").value
    except ScenarioError as error:
        return Listed(kept.name, kept.source, kept.sha256, "", {}, error.problems[0], False)
    description = value.get("description")
    return Listed(
        kept.name, kept.source, kept.sha256, description if isinstance(description, str) else "", _arms(value), None,
        kept.source == "folder" and value.get("canary") is not None,
    )  # fmt: skip


def _write(file: Path, data: bytes) -> None:
    """Under a name of its own until it is whole: two uploads at once do not mix. Raises OSError."""
    handle, part = tempfile.mkstemp(_PART, f".{file.stem}.", file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


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
