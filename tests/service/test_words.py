"""Exit codes, sentences about targets, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.cli.base import Exit
from loadgen.service.registry import RunRow, RunState
from loadgen.service.runner.retention import erase, too_old
from loadgen.service.words import EXIT_CODES, about_found, about_target, validity_of, why_no_validity


def test_exit_codes_are_the_command_lines() -> None:
    assert {name.upper() for name in EXIT_CODES} == {code.name for code in Exit}
    assert all(EXIT_CODES[code.name.lower()] == code for code in Exit)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("base (http://a:1): http://a:1/v1/models cannot be reached (x); check", "base: it cannot be reached"),
        (
            "base (http://a:1): http://a:1 refused us (401); set api_key",
            "base: it refused us: check api_key or headers",
        ),
        ("base (http://a): answered 500: <html>SECRET cannot</html>; is the server ready?", "base: it is not ready"),
        ("one two: <script>", "it is not usable"),
        ("", "it is not usable"),
    ],
)
def test_what_is_said_of_a_target_holds_no_servers_word(message: str, said: str) -> None:
    """I6."""
    found = about_target(message)
    assert found.startswith(said)
    assert not any(word in found for word in ("http", "SECRET", "<"))


def test_what_an_experiment_found_is_named() -> None:
    """I6: by the names of findings, each once."""
    names = ("access_key_missing", "access_cors", "access_key_missing")
    assert about_found("access", "fail", names) == "access: fail: key_missing, cors; the report says why"
    assert about_found("drill", "inconclusive", ()) == "drill: inconclusive; the report says why"


def test_what_sends_no_load_has_no_validity() -> None:
    assert validity_of("access", "invalid") is None
    assert [validity_of(kind, "invalid") for kind in ("drill", None)] == ["invalid", "invalid"]
    assert why_no_validity("access", None) == "does not apply: an access check sends no load"
    assert why_no_validity("run", None) == "nothing was measured"
    assert why_no_validity("run", "valid") is None


def row(number: int, ended: str | None) -> RunRow:
    return RunRow(number, str(number), "small", RunState.FINISHED, "2026-01-01T00:00:00+00:00", ended=ended)


def test_what_is_not_kept_any_more() -> None:
    rows = [row(1, "2026-01-02T00:00:00+00:00"), row(2, None), row(3, "2026-01-09T00:00:00+00:00"), row(4, "broken")]
    now_s = 1768003200.0  # 2026-01-10
    assert too_old(rows, None, None, now_s) == []
    assert too_old(rows, 5, None, now_s) == ["1", "2"]
    assert too_old(rows, None, 1, now_s) == ["1", "2", "3"]
    assert too_old(rows, None, 9, now_s) == []
    assert too_old(rows, 100, 3, now_s) == ["1"]


def test_only_a_run_of_the_folder_is_erased(tmp_path: Path) -> None:
    runs, other = tmp_path / "runs", tmp_path / "other"
    for folder in (runs / "a", other / "b"):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
    (runs / "link").symlink_to(other / "b")
    for path, name in ((other / "b", "b"), (runs / "link", "link"), (runs / "a", "b"), (runs / "a" / "..", "..")):
        assert erase(path, runs, name) is not None
    assert (other / "b" / "manifest.json").exists()
    assert erase(runs / "a", runs, "a") is None
    assert not (runs / "a").exists()
