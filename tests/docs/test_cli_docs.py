"""docs/cli.md and the command line hold each other: commands, options, exit codes."""

import re
from pathlib import Path

import click
import typer

from loadgen.cli.entry import Exit, app

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()


def commands() -> dict[str, click.Command]:
    group = typer.main.get_command(app)
    assert hasattr(group, "commands")
    return dict(group.commands)


def options() -> set[str]:
    group = typer.main.get_command(app)
    found = {o for c in [*commands().values(), group] for p in c.params for o in p.opts if o.startswith("--")}
    return found - {"--help"}


def test_every_command_is_documented_and_exists() -> None:
    documented = set(re.findall(r"^\| `specload ([a-z]+)", TEXT, re.MULTILINE))
    assert documented == set(commands())


def test_every_option_is_documented_and_exists() -> None:
    table = TEXT.split("## Options")[1].split("## Exit codes")[0]
    documented = set(re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE))
    assert documented == options()


def test_every_exit_code_is_documented_and_exists() -> None:
    table = TEXT.split("## Exit codes")[1]
    documented = {int(c) for c in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert documented == {int(c) for c in Exit}
