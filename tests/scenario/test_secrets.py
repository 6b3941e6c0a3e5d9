"""Secrets come from the environment or a file, and show up nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import ScenarioError
from loadgen.scenario import SecretSource, read_secret


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "hunter2\n")
    secret = read_secret(SecretSource(env="SOME_KEY"))
    assert secret.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r}"


def test_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("hunter2 \r\nsecond line\n")
    assert read_secret(SecretSource(file=path)).get_secret_value() == "hunter2"


def test_an_unset_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ScenarioError, match="environment variable SOME_KEY is not set"):
        read_secret(SecretSource(env="SOME_KEY"))


def test_an_empty_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "  ")
    with pytest.raises(ScenarioError, match="environment variable SOME_KEY is empty"):
        read_secret(SecretSource(env="SOME_KEY"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"\nhunter2\n", "is empty"),
        (b"hunter2\xff", "is not UTF-8 text"),
        ("hunter2é".encode(), "must hold one line of printable ASCII"),
        (b"hunter2\x00", "must hold one line of printable ASCII"),
    ],
)
def test_files_without_a_usable_secret_are_named(tmp_path: Path, content: bytes | None, expected: str) -> None:
    """I1: the message names the file, never the value."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        read_secret(SecretSource(file=path))
    assert str(caught.value).startswith(f"secret file {path} {expected}")
    assert "hunter2" not in str(caught.value)


def test_a_folder_or_an_impossible_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        read_secret(SecretSource(file=tmp_path))
    with pytest.raises(ScenarioError, match="cannot be read: not a usable path"):
        read_secret(SecretSource(file=Path("a\0b")))


def test_a_file_without_an_end_is_not_read_whole() -> None:
    """F14: a device, or a log in the key's place, must not fill the memory."""
    with pytest.raises(ScenarioError, match="secret file /dev/zero begins with a line of more than 65,536 characters"):
        read_secret(SecretSource(file=Path("/dev/zero")))
