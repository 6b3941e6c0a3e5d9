"""docs/deploy.md and docker-compose.yml hold each other: services, ports, limits, volumes, variables, targets."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
SOURCE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", SOURCE))


def rows(heading: str) -> list[list[str]]:
    """Cells of the table that begins with `heading`."""
    table = TEXT.split(f"| {heading} |", maxsplit=1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]


def test_services_ports_and_limits() -> None:
    documented = {
        name.strip("`"): (profile, image, port, cpus, memory)
        for name, profile, image, port, cpus, memory, _ in rows("service")
    }
    found = {}
    for name, service in COMPOSE["services"].items():
        image = "ours" if "build" in service else service["image"].split(":")[0]
        (port,) = (text.split(":")[1] for text in service["ports"])
        profile = ", ".join(service.get("profiles", ["–"]))
        found[name] = (profile, image, port, str(service["cpus"]), service["mem_limit"])
    assert documented == found


def test_volumes() -> None:
    documented = {name.strip("`"): {*of.split(", ")} for name, of, _ in rows("volume")}
    found: dict[str, set[str]] = {name: set() for name in COMPOSE["volumes"]}
    for name, service in COMPOSE["services"].items():
        for source in (text.split(":")[0] for text in service.get("volumes", [])):
            if source in found:
                found[source].add(name)
    assert documented == found


def test_variables_and_their_defaults() -> None:
    documented: dict[str, str] = {}
    for names, defaults, _ in rows("variable"):
        documented |= zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True)
    found = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", SOURCE))
    assert documented == {**found, "HF_TOKEN": "–"}


def test_folders_of_targets() -> None:
    documented = {name.strip("`") for name, _ in rows("folder of `grafana/prometheus`")}
    assert documented == {path.name for path in (ROOT / "grafana" / "prometheus").iterdir() if path.is_dir()}
