"""The Dockerfile against the project: no daemon is asked."""

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from loadgen import cli

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

Stages = list[list[tuple[str, str]]]


def of(stage: list[tuple[str, str]], instruction: str) -> list[str]:
    return [rest for name, rest in stage if name == instruction]


def ignored(path: str) -> bool:
    """.dockerignore: the last line that fits decides."""
    found = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!")
            if fnmatch(path, pattern.removeprefix("**/")) or fnmatch(path, pattern):
                found = not line.startswith("!")
    return found


def test_two_stages_from_one_pinned_image_of_our_python(stages: Stages) -> None:
    bases = {rest.split(" AS ")[0] for stage in stages for rest in of(stage, "FROM")}
    assert len(stages) == 2
    assert len(bases) == 1
    (found,) = (re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-\w+", base) for base in bases)
    assert found is not None
    assert PROJECT["requires-python"] == f">={found[1]}"


def test_what_is_copied_exists_and_is_not_ignored(stages: Stages) -> None:
    """Everything that the package needs, and nothing of .git, runs or tests."""
    sources = {word for rest in of(stages[0], "COPY") for word in rest.split()[:-1]}
    assert {source for source in sources if not (ROOT / source).exists() or ignored(source)} == set()
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {package.removesuffix("*") for package in packages} <= sources
    assert {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "constraints.txt"} <= sources
    assert all(ignored(path) for path in (".git", ".venv", "runs", "tests", "docs", "grafana", "__pycache__", "a.pyc"))
    assert {Path(source).name for source in sources} == {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }


def test_versions_are_those_of_the_tests(stages: Stages) -> None:
    (install,) = (rest for rest in of(stages[0], "RUN") if "pip" in rest)
    assert " -c constraints.txt ." in install
    assert "[dev]" not in install


def test_the_image_runs_as_nobody_special_and_starts_the_command_line(stages: Stages) -> None:
    final = stages[-1]
    (user,) = of(final, "USER")
    assert user == "10001:10001"
    assert json.loads(of(final, "ENTRYPOINT")[0]) == ["specload"]
    assert json.loads(of(final, "CMD")[0]) == ["serve"]
    assert PROJECT["scripts"]["specload"] == f"{cli.__name__}:{cli.main.__name__}"
    copied = [rest.split() for rest in of(final, "COPY")]
    assert [words[0] for words in copied] == ["--from=build"]  # no source, no compiler, no pip cache


def test_ports_are_those_of_compose(stages: Stages, services: dict[str, dict[str, Any]]) -> None:
    used = {text.split(":")[-1] for s in services.values() if s["image"].startswith("specload:") for text in s["ports"]}
    assert {*of(stages[-1], "EXPOSE")[0].split()} == used


def test_the_image_has_this_version(services: dict[str, dict[str, Any]]) -> None:
    ours = {service["image"] for service in services.values() if service.get("build")}
    assert ours == {f"specload:{PROJECT['version']}"}


def test_the_health_check_has_a_default_and_no_shell(stages: Stages) -> None:
    """tests/compose/test_natively.py runs it."""
    (check,) = of(stages[-1], "HEALTHCHECK")
    options, command = check.split("CMD")
    assert {word.split("=")[0] for word in options.split()} == {
        "--interval", "--timeout", "--start-period", "--retries"
    }  # fmt: skip
    assert json.loads(command)[0] == "python"
    (variable,) = re.findall(r"os\.environ\['(\w+)'\]", command)
    assert any(f"{variable}=http://127.0.0.1:8080/health" in rest for rest in of(stages[-1], "ENV"))
