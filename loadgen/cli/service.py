"""The service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli.base import Exit, app, complain, err, line
from loadgen.errors import ScenarioError
from loadgen.redact import printable
from loadgen.service import (
    TOKEN_NAME,
    Role,
    ServiceConfig,
    check_config,
    load_config,
    new_token,
    serve,
    write_audit_evidence,
)


@app.command("serve")
def serve_command(
    config: Annotated[Path, typer.Option("--config", help="the service's configuration; keys: docs/service.md")] = Path(
        "service.yaml"
    ),
    host: Annotated[str | None, typer.Option("--host", help="address to listen on, instead of listen.host")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="instead of listen.port; 0 = any free port")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="check the configuration as a start does, and serve nothing")
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            "--audit-evidence", metavar="FILE", help="write the audit log's state for gate --checklist; serve nothing"
        ),
    ] = None,
    make_token: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--new-token", metavar="NAME ROLE", help="make a token, and print it once; ROLE: viewer, operator"
        ),
    ] = None,
) -> None:
    """Serve runs to others over HTTP: ask, watch, stop, compare; history and verdicts."""
    if make_token is not None:
        return _new_token(*make_token)
    read = load_config(config, host, port)
    if evidence is not None:
        return _audit_evidence(read, evidence)
    if check:
        for note in check_config(read):
            _say(note)
        return line(f"{config} is fine: {len(read.targets)} targets, {len(read.tokens)} tokens")
    serve(read, _say)
    raise typer.Exit(Exit.PASS)


def _say(text: str) -> None:
    err.print(printable(text), markup=False, soft_wrap=True)


def _audit_evidence(config: ServiceConfig, path: Path) -> None:
    found = write_audit_evidence(config, path)
    if found.broken_at is not None:
        complain(f"{path}: row {found.broken_at} of the audit log is not what was written")
        raise typer.Exit(Exit.FAIL)
    line(f"{path}: {found.rows} rows in an unbroken chain", soft_wrap=True)


def _new_token(name: str, role: str) -> None:
    """The token on stdout alone, so that it can be piped to where it is kept."""
    if role not in list(Role):
        raise ScenarioError([f"--new-token {name} {role}: the role is one of {', '.join(Role)}"])
    if not re.fullmatch(TOKEN_NAME, name):
        raise ScenarioError([f"--new-token {name[:40]}: a name is up to 32 lower-case letters, digits, - and _"])
    token, kept = new_token(name)
    err.print("shown once; whoever has it may ask. Into the configuration, under tokens:", soft_wrap=True)
    err.print(f"  - {{name: {name}, role: {role}, hash: {kept}}}", markup=False, soft_wrap=True)
    line(token, soft_wrap=True)
