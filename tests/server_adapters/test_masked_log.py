"""A server's output on its way to the disk."""

import io
import os
import signal
from pathlib import Path

import pytest

from server_adapters import masked_log
from server_adapters.masked_log import LEFT_OUT, LINE_BYTES, MaskedLog


def masked(text: str) -> str:
    return text.replace("sesame", "***")


def logged(path: Path, *parts: bytes) -> str:
    source, sink = os.pipe()
    log = MaskedLog(path, masked, io.FileIO(source))  # type: ignore[arg-type]
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(sink, view) :]
    os.close(sink)
    log.wait(30)
    return path.read_text()


def test_a_secret_in_two_writes_is_masked(tmp_path: Path) -> None:
    """I1: also in a last line without an end, and where a progress bar ends its lines by carriage returns."""
    assert logged(tmp_path / "l", b"a ses", b"ame b\n10%\rsesame\r", b"", b"last ses", b"ame") == (
        "a *** b\n10%\n***\nlast ***\n"
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_line_that_is_too_long_is_left_out_as_a_whole(tmp_path: Path, more: int) -> None:
    line = b"x" * (LINE_BYTES - 6 + more) + b"sesame"
    shown = LEFT_OUT if more else "x" * (LINE_BYTES - 6) + "***"
    assert logged(tmp_path / "l", line + b"\nnext\n") == f"{shown}\nnext\n"
    assert logged(tmp_path / "l", line) == f"{shown}\n"


def test_the_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_log, "KEPT_BYTES", 100)
    text = logged(tmp_path / "l", b"".join(b"line %04d\n" % i for i in range(1000)))
    assert text.endswith("line 0998\nline 0999\n")
    assert 90 <= len(text) <= 200
    assert all(len(line) == 9 for line in text.splitlines())


def test_a_full_disk_does_not_stop_the_reading(tmp_path: Path) -> None:
    """More than a pipe holds: a server whose log is not read would block."""
    (tmp_path / "full").symlink_to("/dev/full")
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    source, sink = os.pipe()
    log = MaskedLog(tmp_path / "full", masked, io.FileIO(source))  # type: ignore[arg-type]
    for _ in range(40):
        os.write(sink, b"y" * 8000 + b"\n")
    os.close(sink)
    log.wait(30)
    assert not log._thread.is_alive()
