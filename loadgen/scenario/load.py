"""A scenario file, `--set` and `--arm`, to a checked scenario; everything that is wrong, at once."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from loadgen.errors import ScenarioError
from loadgen.scenario.base import Loc
from loadgen.scenario.known_answers import BUILT_IN, KnownAnswer, read_known_answers
from loadgen.scenario.model import Scenario
from loadgen.scenario.problems import sentences
from loadgen.scenario.prompts import PromptSet, read_prompts
from loadgen.scenario.quality import QualityPass
from loadgen.scenario.yaml_text import MAX_BYTES, Document, dotted, parse

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario and what was read with it.

    `path` is None for a scenario made in code. `text_sha256` is of the file's bytes, before `--set` and
    `--arm`. `prompts`: own prompts by the index of their task in `scenario.workload.tasks`. `known`: cases of
    `quality.known_answers`. `passes`: laid out by `loadgen.plan.quality_scenario`, else none.
    `notes`: what whoever asked should hear of it."""

    scenario: Scenario
    path: Path | None
    text_sha256: str
    prompts: dict[int, PromptSet] = field(default_factory=dict)
    known: tuple[KnownAnswer, ...] = ()
    passes: tuple[QualityPass, ...] = ()
    notes: tuple[str, ...] = ()


def load_scenario(
    path: str | Path, overrides: Sequence[str] = (), arms: Mapping[str, str] | None = None
) -> LoadedScenario:
    """Read, change, check.

    `overrides`: "dotted.key=value" with the value in YAML and list items by number. `arms`: name to
    URL; makes the arm, or replaces its url or urls. Files named in the scenario are relative to it.
    Raises ScenarioError with every problem: file:line (or the option), key, what is allowed."""
    path = Path(path)
    data = _read(path, "scenario")
    document = document_of(data, str(path))
    notes = tuple(_added(document, arms or {}))
    _set_arms(document, arms or {})
    for override in overrides:
        set_key(document, override)
    _stale_pages(document, arms or {})
    return replace(scenario_of(document, path.absolute().parent, hashlib.sha256(data).hexdigest(), path), notes=notes)


def document_of(data: bytes, name: str, what: str = "a scenario begins with version: 1 and a name") -> Document:
    """A file's bytes as a mapping with marks; `name` is the file in messages. Raises ScenarioError."""
    if len(data) > MAX_BYTES:
        raise ScenarioError([f"{name}: is larger than {MAX_BYTES >> 20} MiB: {what}"])
    try:
        document = parse(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError([f"{name}:{line}: is not UTF-8 text"]) from None
    if not document.problems and not isinstance(document.value, dict):
        found = "is empty" if document.value is None else "must be a mapping of keys to values"
        document.problems.append(f"{document.where(())}: {found}; {what}")
    if document.problems:
        raise ScenarioError(document.problems)
    return document


def scenario_of(document: Document, base: Path, text_sha256: str, path: Path | None = None) -> LoadedScenario:
    """What a document comes to. Files that it names are relative to `base`. Raises ScenarioError with every problem,
    those already found in the document among them."""
    scenario = model_of(document, Scenario, base)
    prompts, problems = read_prompts(scenario)
    known, wrong = _known(scenario)
    if problems or wrong:
        raise ScenarioError([*problems, *wrong])
    return LoadedScenario(scenario, path, text_sha256, prompts, known)


def _known(scenario: Scenario) -> tuple[tuple[KnownAnswer, ...], list[str]]:
    """Own known answers and, where they are asked for, the built-in ones."""
    keys = scenario.quality.known_answers
    own, problems = ((), []) if keys.file is None else read_known_answers(keys.file)
    return (*(BUILT_IN if keys.built_in else ()), *own), problems


def load_model(path: Path, model: type[M], what: str) -> M:
    """Any file that is written like a scenario, as `model`; `what` it is, for messages. Raises ScenarioError with every
    problem: file:line, key, what is allowed."""
    return model_of(document_of(_read(path, what), str(path), f"not a {what}"), model, path.absolute().parent)


def model_of(document: Document, model: type[M], base: Path) -> M:
    """Raises what is wrong with the document, if anything, together with what is wrong in the result."""
    problems = list(document.problems)
    try:
        found = model.model_validate(document.value, context={"base": base})
    except ValidationError as error:
        raise ScenarioError(problems + sentences(error, model, document.where)) from None
    if problems:
        raise ScenarioError(problems)
    return found


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ScenarioError([f"{path}: {what} cannot be read: {reason}"]) from None
    if len(data) > MAX_BYTES:
        raise ScenarioError([f"{path}: is larger than {MAX_BYTES >> 20} MiB: not a {what}"])
    return data


def _set_arms(document: Document, arms: Mapping[str, str]) -> None:
    here = _child(document.value, "arms")
    for name, url in arms.items():
        arm = None if here is None else _child(here, name)
        if arm is None:
            return  # what stands there is no mapping, which the check reports
        document.marks.setdefault(("arms", name), f"--arm {name}")
        document.marks["arms", name, "url"] = f"--arm {name}"
        arm.pop("urls", None)
        arm["url"] = url


def _added(document: Document, arms: Mapping[str, str]) -> Iterator[str]:
    """Of a file with arms: those of the command line that it does not have, since they may be misspelt."""
    there = document.value.get("arms")
    if not isinstance(there, dict) or not there:
        return
    for name in arms.keys() - there.keys():
        close = difflib.get_close_matches(name, [str(known) for known in there], n=1)
        guess = f" (did you mean {close[0]}?)" if close else ""
        yield f"--arm {name}: the scenario has no arm of this name, so one is added{guess}"


def _child(parent: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The mapping at `key`, made where nothing is; None where something else is."""
    if parent.get(key) is None:
        parent[key] = {}
    return parent[key] if isinstance(parent[key], dict) else None


def _stale_pages(document: Document, arms: Mapping[str, str]) -> None:
    """An arm that was moved must not read the counters of the place it was moved from."""
    for name in arms:
        loc: Loc = ("arms", name, "metrics_urls")
        arm = document.value["arms"].get(name) if isinstance(document.value.get("arms"), dict) else None
        if isinstance(arm, dict) and arm.get("metrics_urls") and document.where(loc).startswith(f"{document.name}:"):
            document.problems.append(
                f"{document.where(loc)}: {dotted(loc)}: belongs to another address than --arm {name}: "
                f"--set {dotted(loc)}=null takes the pages of the new one, =[] takes none"
            )


def set_key(document: Document, override: str) -> None:
    """Change one key, as `--set`; what is wrong with it joins the document's problems."""
    key, equals, text = override.partition("=")
    keys = key.strip().split(".")
    option = f"--set {key.strip()}"
    if not equals or not all(keys):
        document.problems.append(f"{option}: must be dotted.key=value, like --set load.0.cases=20")
        return
    value = parse(text, option)
    if value.problems:
        document.problems += value.problems
        return
    loc = _put(document, keys, value.value, option)
    if loc is not None:
        document.marks = {at: mark for at, mark in document.marks.items() if at[: len(loc)] != loc}
        document.marks[loc] = option


def _put(document: Document, keys: list[str], value: Any, option: str) -> Loc | None:
    """Put `value` where `keys` lead, making mappings on the way. The path, or None where there is none."""
    here: Any = document.value
    loc: Loc = ()
    for i, key in enumerate(keys):
        last = i == len(keys) - 1
        step: str | int = key
        if isinstance(here, list):
            if not (key.isascii() and key.isdecimal() and int(key) < len(here)):
                document.problems.append(f"{option}: {dotted(loc)} is a list of {len(here)}; items are numbered from 0")
                return None
            step = int(key)
        elif not isinstance(here, dict):
            document.problems.append(f"{option}: {dotted(loc)} is a value and has no key {key}")
            return None
        loc = (*loc, step)
        if last:
            here[step] = value
        elif isinstance(here, dict) and here.get(key) is None:
            here[step] = {}
            document.marks.setdefault(loc, option)
        here = here[step]
    return loc
