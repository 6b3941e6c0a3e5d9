"""Tools for the rules: promtool over committed rule files and hand-made series."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
#: Seconds between samples.
STEP_S = 15

Series = dict[str, str]


def tool(name: str) -> str:
    """Debian's. Without it its tests skip; with SPECLOAD_NO_SKIP=1 (CI) that is a failure."""
    found = shutil.which(name)
    if found is None:
        reason = f"no {name} (sh scripts/setup_prometheus.sh)"
        if os.environ.get("SPECLOAD_NO_SKIP") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


def checked(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=60, check=False, cwd=PROMETHEUS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def asked() -> Callable[..., str]:
    """asked(program, *arguments) in grafana/prometheus -> stdout; it must end with 0."""
    return lambda program, *arguments: checked(tool(program), *arguments)


@pytest.fixture
def program() -> Callable[[str], str]:
    return tool


@pytest.fixture
def holds(tmp_path: Path) -> Callable[..., None]:
    """holds(series, at, {(alert, scope): number firing, ...}): asks promtool; every other alert must not fire.

    `every`: seconds between evaluations; what needs hours is evaluated less often.
    """

    def check(
        series: Series, at: str, firing: dict[tuple[str, str], int], every: int = 60, files: tuple[Path, ...] = ()
    ) -> None:
        rules = [str(file) for file in files or sorted(PROMETHEUS.glob("*.yml")) if is_rules(file)]
        expected = [
            {"labels": f'{{alertname="{name}", scope="{scope}"}}', "value": n} for (name, scope), n in firing.items()
        ]
        test = {
            "rule_files": rules,
            "evaluation_interval": f"{every}s",
            "tests": [
                {
                    "interval": f"{STEP_S}s",
                    "input_series": [{"series": name, "values": values} for name, values in series.items()],
                    "promql_expr_test": [
                        {
                            "expr": 'count by (alertname, scope) (ALERTS{alertstate="firing"})',
                            "eval_time": at,
                            "exp_samples": expected,
                        }
                    ],
                }
            ],
        }
        file = tmp_path / "test.yml"
        file.write_text(yaml.safe_dump(test))
        checked(tool("promtool"), "test", "rules", file)

    return check


def is_rules(file: Path) -> bool:
    loaded: Any = yaml.safe_load(file.read_text())
    return "groups" in loaded
