"""Texts are taken out of a finished run, numbers stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import StorageError
from loadgen.record import drop_texts, open_run

TEXTS = ("prompt", "text", "token_ids")
KEPT = {"name": "t", "workload": {"keep_text": True}}


def test_texts_are_gone_and_nothing_else(write_run: Callable[..., Path], attempt: Any) -> None:
    said = {"text": "secret words", "prompt": "tell me", "token_ids": [5, 6]}
    path = write_run([attempt(index=i, **said) for i in range(3)], scenario=KEPT)
    before = open_run(path)
    assert [before.requests[name].to_pylist()[0] for name in TEXTS] == ["tell me", "secret words", [5, 6]]
    drop_texts(path)
    after = open_run(path)
    assert all(after.requests[name].null_count == 3 for name in TEXTS)
    assert after.requests.drop_columns(list(TEXTS)).equals(before.requests.drop_columns(list(TEXTS)))
    assert after.manifest.experiment["texts"] == "dropped"
    told = after.manifest.arms["baseline"].absent_columns
    assert {told[name] for name in TEXTS} == {"dropped at the end of the run"}
    assert not any(b"secret words" in file.read_bytes() for file in path.iterdir() if file.is_file())


def test_a_run_that_was_not_brought_to_its_end_says_so(tmp_path: Path, whole: Any, manifest: Any) -> None:
    writer = whole(tmp_path, manifest(scenario=KEPT))
    writer.flush()
    with pytest.raises(StorageError, match="texts cannot be dropped"):
        drop_texts(writer.path)
    writer.finish("finished")
