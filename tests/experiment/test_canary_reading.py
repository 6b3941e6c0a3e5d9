"""What a canary's monitor has left behind, read again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.experiment import CanaryResult, list_canaries, read_canary, read_windows, true_now
from loadgen.experiment.canary import reading
from loadgen.experiment.canary.records import CanaryRecords, iso
from loadgen.record import LOCK


def result(began_s: float, **known: Any) -> CanaryResult:
    return CanaryResult(
        canary_id="c", scenario="s", arm="b", baseline="a", environment="staging", window_s=10.0, pooled_windows=12,
        dry_run=False, started=iso(began_s), **known,
    )  # fmt: skip


def doing(folder: Path) -> tuple[bool, str]:
    (entry,) = list_canaries(folder.parent)
    return true_now(folder, read_canary(folder)).active, entry.state


def test_a_monitor_that_was_killed_is_not_watching(tmp_path: Path) -> None:
    """The kernel lets go of its lock, whatever ends it; one that ends by itself says when."""
    killed, ends = tmp_path / "1" / "x", tmp_path / "2" / "x"
    for folder in (killed, ends):
        folder.parent.mkdir()
    dies, records = (CanaryRecords(folder, result(0.0)) for folder in (killed, ends))
    assert doing(killed) == doing(ends) == (True, "being watched")  # silent for years, and alive
    os.close(dies._lock)
    assert doing(killed) == (False, "died")
    assert read_canary(killed).ended is None
    as_it_was = read_canary(ends)
    records.end(time.time(), 0.0)
    assert doing(ends) == (False, "watched")
    assert true_now(ends, as_it_was).ended is not None  # it ended between two looks


@pytest.mark.parametrize(("silent_s", "active"), [(0.0, True), (25.0, True), (31.0, False)])
@pytest.mark.parametrize("windows", [False, True])
def test_without_a_lock_silence_tells(tmp_path: Path, silent_s: float, active: bool, windows: bool) -> None:
    """Three windows of 10 s: since its newest window, or since it began."""
    at_s = time.time() - silent_s
    folder = tmp_path / "x"
    records = CanaryRecords(folder, result(0.0, window_ended=iso(at_s)) if windows else result(at_s))
    os.close(records._lock)
    (folder / LOCK).unlink()
    assert doing(folder)[0] is active


@given(
    lines=st.lists(st.integers(0, 30), max_size=12), most=st.integers(1, 12), block=st.integers(1, 40),
    torn=st.sampled_from([b"", b"{", b'{"a":']),
)  # fmt: skip
def test_the_newest_windows_of_a_long_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int], most: int, block: int, torn: bytes
) -> None:
    """As if all of it were read; a line that is being written is not there yet."""
    folder = tmp_path_factory.mktemp("canary")
    windows = [{"window": i, "text": "x" * n} for i, n in enumerate(lines)]
    (folder / "windows.jsonl").write_bytes(b"".join(orjson.dumps(w) + b"\n" for w in windows) + torn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_BLOCK", block)
        assert read_windows(folder, most) == (windows[-most:], len(windows) > most)


def test_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that no window could be, a block before the newest ones: nobody looks at them."""
    (tmp_path / "windows.jsonl").write_bytes(b"\xff" * 5000 + b"\n" + b"{}\n" * 40)
    monkeypatch.setattr(reading, "_BLOCK", 30)
    assert read_windows(tmp_path, 3) == ([{}, {}, {}], True)
