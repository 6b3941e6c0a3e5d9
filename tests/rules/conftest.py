"""Tools for the rules: promtool over committed rule files and hand-made series."""

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


def checked(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=60, check=False, cwd=PROMETHEUS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def asked(program: Callable[[str], str]) -> Callable[..., str]:
    """asked(program, *arguments) in grafana/prometheus -> stdout; it must end with 0."""
    return lambda name, *arguments: checked(program(name), *arguments)


@pytest.fixture
def holds(tmp_path: Path, program: Callable[[str], str]) -> Callable[..., None]:
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
        checked(program("promtool"), "test", "rules", file)

    return check


def is_rules(file: Path) -> bool:
    loaded: Any = yaml.safe_load(file.read_text())
    return "groups" in loaded
