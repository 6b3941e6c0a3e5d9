"""docs/service.md against the service: every key, every route with its role, every number that watchers see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loadgen.scenario import Arm
from loadgen.service.compose import OVERRIDABLE, OWN_KEYS
from loadgen.service.config import ServiceConfig
from loadgen.service.looks import State, look
from loadgen.service.outgoing import ALONE
from loadgen.service.registry import RunState
from loadgen.service.roles import ACCESS
from tests.docs.test_scenario_docs import table

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
SCENARIO = "scenario.md"


def definitions() -> dict[str, dict[str, Any]]:
    """The service's own models; those of a scenario are documented there."""
    schema = ServiceConfig.model_json_schema()
    own = {n: d for n, d in schema["$defs"].items() if n.endswith("Keys") or n in ("Listen", "Folders")}
    own = {n: d for n, d in own.items() if n not in ("TlsKeys",)}
    target = own["TargetKeys"]
    target = {**target, "properties": {k: v for k, v in target["properties"].items() if k not in Arm.model_fields}}
    return {"ServiceConfig": schema, **own, "TargetKeys": target}


def section(heading: str) -> list[str]:
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", DOCS, re.S | re.M)
    assert found, f"docs/service.md has no section {heading}"
    return [line for line in found[1].splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", list(definitions()))
def test_every_key_is_documented_and_every_documented_key_exists(name: str) -> None:
    expected = [row.replace("(#safety)", f"({SCENARIO}#safety)") for row in table(definitions()[name])]
    assert section(name) == expected


def test_every_route_is_documented_with_its_role() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| (\w+) \|", DOCS, re.M)
    assert {(method, path): role for method, path, role in rows} == {
        route: access.name.lower() for route, access in ACCESS.items()
    }


def test_every_state_and_every_overridable_key_is_documented() -> None:
    states = [row.split("`")[1] for row in section("States")[2:]]
    assert states == [state.value for state in RunState]
    keys = [key for row in section("Overrides")[2:] for key in re.findall(r"`([\w.<>]+)`", row)]
    assert keys
    assert all(OVERRIDABLE.fullmatch(key.replace("<n>", "0")) for key in keys)
    named = {key.replace("<n>", r"\d{1,3}").replace(".", r"\.") for key in keys}
    assert named == set(expanded(OVERRIDABLE.pattern))


def expanded(pattern: str) -> list[str]:
    """`a|b\\.(c|d)` -> a, b\\.c, b\\.d."""
    found = []
    for head, group, plain in re.findall(r"((?:\\.|[\w{},])+?)\(([^)]*)\)|([\w]+)", pattern):
        found += [plain] if plain else [f"{head}{one}" for one in group.split("|")]
    return found


def test_every_number_of_a_look_is_documented() -> None:
    told: dict[str, Any] = {"inflight_requests": {("a",): 0.0}}
    arm = look(State(0.0, told, {}), State(1.0, told, {}))["arms"]["a"]
    assert [row.split("`")[1] for row in section("Looks")[2:]] == list(arm)


def test_what_an_arm_says_and_what_no_network_opens_is_documented() -> None:
    assert all(f"`{key}`" in DOCS for key in OWN_KEYS)
    assert all(kind in DOCS for kind in ALONE)
