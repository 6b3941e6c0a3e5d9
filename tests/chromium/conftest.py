"""Debian's Chromium for pages that must work in a real browser."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="session")
def by_hand() -> ModuleType:
    """tests/sweep_by_hand.py."""
    spec = importlib.util.spec_from_file_location("sweep_by_hand", Path(__file__).parents[1] / "sweep_by_hand.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
