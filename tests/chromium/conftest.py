"""Debian's Chromium for pages that must work in a real browser."""

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Where the browser is. Without one its tests skip; with SPECLOAD_NO_SKIP=1 (CI) that is a failure."""
    if CHROMIUM.exists():
        return CHROMIUM
    reason = f"no Chromium: {CHROMIUM} does not exist (Debian: apt-get install chromium)"
    if os.environ.get("SPECLOAD_NO_SKIP") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
