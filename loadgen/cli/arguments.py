"""From what was typed to what is meant. Raises ScenarioError, which says how to write it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadgen.cli.base import err
from loadgen.errors import ScenarioError
from loadgen.redact import Redactor, printable
from loadgen.scenario import (
    LoadedScenario,
    Threshold,
    ThresholdError,
    load_scenario,
    parse_threshold,
)


def arms_of(pairs: list[str]) -> dict[str, str]:
    arms = {}
    for pair in pairs:
        name, sign, url = pair.partition("=")
        if not sign or not name or not url:
            raise ScenarioError(
                [f"--arm {Redactor()(pair)!r}: write it as name=URL, like --arm baseline=http://127.0.0.1:8001"]
            )
        arms[name] = url
    return arms


def loaded_of(path: Path, settings: Sequence[str], arms: Mapping[str, str]) -> LoadedScenario:
    """The scenario; on stderr what should be heard of it."""
    loaded = load_scenario(path, settings, arms)
    for note in loaded.notes:
        err.print(printable(f"• {note}"), markup=False, soft_wrap=True)
    return loaded


def shard_of(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit() and int(i) < int(n)):
        raise ScenarioError([f"--shard {text!r}: write it as I/N with 0 <= I < N, like --shard 0/4"])
    return int(i), int(n)


def seconds_of(text: str | None, option: str = "--time-budget") -> float | None:
    """A duration like 90s, 10m or 1h30m; the unit must be there."""
    if text is None:
        return None
    parts = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts and text else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise ScenarioError([f"{option} {text!r}: write it with its unit, like 90s, 10m or 1h30m"])
    return float(total)


def thresholds_of(texts: Sequence[str]) -> tuple[Threshold, ...] | None:
    """None where nothing is given: then the scenario's hold."""
    found, problems = [], []
    for text in texts:
        try:
            found.append(parse_threshold(text))
        except ThresholdError as error:
            problems.append(f"--threshold {text!r}: {error}")
    if problems:
        raise ScenarioError(problems)
    return tuple(found) or None


def run_path(run_dir: Path, out_dir: Path) -> Path:
    """The directory that is there: at this path, or of this id under `out_dir`."""
    for path in (run_dir, out_dir / run_dir):
        if path.is_dir():
            return path
    raise ScenarioError([f"{run_dir}: no such directory, nor a run of this id in {out_dir} (specload runs lists them)"])
