"""Sweeps that are made by hand."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BY_HAND = Path(__file__).resolve().parents[1] / "sweep_by_hand.py"


@pytest.fixture(scope="session")
def by_hand() -> ModuleType:
    """tests/sweep_by_hand.py."""
    spec = importlib.util.spec_from_file_location("sweep_by_hand", BY_HAND)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
