"""The committed dashboards."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "grafana" / "dashboards"


@pytest.fixture(scope="session")
def committed() -> dict[str, Any]:
    """File name to dashboard."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


@pytest.fixture
def spoilt(committed: dict[str, Any]) -> Callable[..., Any]:
    """spoilt(change, name="run.json"): a copy that `change` was done to."""

    def make(change: Callable[[Any], object], name: str = "run.json") -> Any:
        dashboard = copy.deepcopy(committed[name])
        change(dashboard)
        return dashboard

    return make
