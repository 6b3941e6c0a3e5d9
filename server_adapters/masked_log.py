"""A server's output on its way into a log: secrets are masked line by line before anything reaches the disk."""

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

#: A longer line is left out as a whole: cut somewhere, it could show a part of a secret that no mask knows.
LINE_BYTES = 64 * 1024
LEFT_OUT = f"[a line of more than {LINE_BYTES} bytes was left out]"
#: What is kept of a log, from its end, once it has grown to twice as much.
KEPT_BYTES = 1 << 20
_LINE_END = re.compile(rb"[\r\n]+")


class MaskedLog:
    """Copies a pipe into the file at `path` in a thread of its own, until the pipe ends. Every line is whole when
    `mask` sees it. A disk that takes no more ends the log, not the copying: the server must not block.

    Raises OSError where the file cannot be created."""

    def __init__(self, path: Path, mask: Callable[[str], str], pipe: IO[bytes]) -> None:
        self._path, self._mask, self._pipe = path, mask, pipe
        self._file = path.open("wb", buffering=0)
        self._line = bytearray()
        self._too_long = False
        self._thread = threading.Thread(target=self._copy, name=f"log of {path.name}", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Until all that was said is in the file, once the writers have ended."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        with self._pipe, self._file:
            while data := os.read(self._pipe.fileno(), LINE_BYTES):
                *ended, rest = _LINE_END.split(data)
                for part in ended:
                    self._add(part)
                    self._end_line()
                self._add(rest)
            if self._line or self._too_long:
                self._end_line()

    def _add(self, part: bytes) -> None:
        if len(self._line) + len(part) > LINE_BYTES:
            self._too_long = True
            self._line.clear()
        if not self._too_long:
            self._line += part

    def _end_line(self) -> None:
        text = LEFT_OUT if self._too_long else self._mask(self._line.decode("utf-8", errors="replace"))
        self._line.clear()
        self._too_long = False
        try:
            self._file.write(text.encode() + b"\n")
            if self._file.tell() > 2 * KEPT_BYTES:
                self._drop_beginning()
        except OSError:
            return

    def _drop_beginning(self) -> None:
        with self._path.open("rb") as file:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            end = file.read()
        self._file.seek(0)
        self._file.truncate()
        self._file.write(end.partition(b"\n")[2])
