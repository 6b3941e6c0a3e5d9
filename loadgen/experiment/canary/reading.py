"""What a canary monitor has left behind, read again: while it goes on, after its end, and after it has died."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from loadgen.errors import StorageError
from loadgen.experiment.canary.records import CANARY, WINDOWS, CanaryResult
from loadgen.record import LOCK, RunEntry, is_being_written

#: Without a lock file, a monitor that has ended no window for so many window lengths is taken for dead.
SILENT_WINDOWS = 3.0
#: Of windows.jsonl, read at once from its end.
_BLOCK = 2**16


def read_canary(folder: Path) -> CanaryResult:
    """As it was written. Raises StorageError."""
    path = folder / CANARY
    try:
        return CanaryResult.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StorageError(f"{path}: is not the result of a canary: {first['loc']}: {first['msg']}") from None


def true_now(folder: Path, result: CanaryResult) -> CanaryResult:
    """`active` only while a monitor lives. One that was killed could not say so: its `ended` stays None. Raises
    StorageError."""
    if not result.active or not _died(folder, result, time.time()):
        return result
    again = read_canary(folder)  # it may have ended between the two looks
    return again.model_copy(update={"active": False})


def _died(folder: Path, result: CanaryResult, now_s: float) -> bool:
    if (folder / LOCK).exists():
        return not is_being_written(folder)
    return silent_s(result, now_s) > SILENT_WINDOWS * result.window_s


def silent_s(result: CanaryResult, now_s: float) -> float:
    """Since its newest window ended, or since it began."""
    return now_s - datetime.fromisoformat(result.window_ended or result.started).timestamp()


def read_windows(folder: Path, most: int) -> tuple[list[dict[str, Any]], bool]:
    """The newest `most` lines of windows.jsonl, oldest first; and whether older ones were left out. A line that
    is being written is not there yet. However long the file is, only its end is read. Raises StorageError."""
    path = folder / WINDOWS
    try:
        data, whole = _tail(path, most + 1)
        lines = data.split(b"\n")[:-1]
        if not whole:
            lines = lines[1:]  # which may have begun before
        return [orjson.loads(line) for line in lines[-most:]], len(lines) > most or not whole
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise StorageError(f"{path}: holds a line that is no window") from None


def _tail(path: Path, lines: int) -> tuple[bytes, bool]:
    """The end of the file with at least so many whole lines; whether that is all of it. Raises OSError."""
    with path.open("rb") as file:
        at, data = file.seek(0, os.SEEK_END), b""
        while at > 0 and data.count(b"\n") <= lines:
            begin = max(at - max(_BLOCK, len(data)), 0)
            file.seek(begin)
            data, at = file.read(at - begin) + data, begin
    return data, at == 0


def list_canaries(root: Path) -> list[RunEntry]:
    """All canaries under `root`, as the history of runs has them."""
    found = []
    for path in sorted(root.glob(f"*/{CANARY}")):
        folder = path.parent
        try:
            one = true_now(folder, read_canary(folder))
        except StorageError as error:
            found.append(RunEntry(str(folder), folder.name, None, "unreadable", None, str(error), kind="canary"))
            continue
        doing = "being watched" if one.active else "watched" if one.ended is not None else "died"
        said = f"{one.arm} beside {one.baseline}, {one.windows} windows, state {one.state}"
        arms = (one.baseline, one.arm)
        found.append(RunEntry(str(folder), one.canary_id, one.started, doing, None, said, one.verdict, "canary", arms))
    return found
