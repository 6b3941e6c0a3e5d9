"""docs/rehearsal.md and the rehearsal engine hold each other: options and faults."""

import re
from pathlib import Path

from server_adapters.rehearsal.__main__ import parser
from server_adapters.rehearsal.faults import KINDS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "rehearsal.md").read_text()


def test_every_option_is_documented_and_exists() -> None:
    exist = {o for action in parser()._actions for o in action.option_strings if o.startswith("--")} - {
        "--help",
        "--child",
    }
    documented = set(re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE))
    assert documented == exist


def test_every_fault_is_documented_and_exists() -> None:
    table = TEXT.split("## Faults")[1]
    documented = set(re.findall(r"^\| `([a-z0-9_]+)", table, re.MULTILINE))
    assert documented == set(KINDS)
