"""`_plain.c` as Python sees it; what the numbers mean stands in openai_plain.py."""

from collections.abc import Sequence

def read(payloads: Sequence[bytes], /) -> tuple[bytes, bytes, bytes, bytes, int, int]: ...
