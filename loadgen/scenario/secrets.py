"""Reading a secret from where the scenario says it is. Its value is in no message."""

from __future__ import annotations

import os

from pydantic import SecretStr

from loadgen.errors import ScenarioError
from loadgen.scenario.arms import SecretSource

#: A longer line is no secret: a device, or the wrong file.
MAX_CHARS = 64 * 1024


def read_secret(source: SecretSource, key: str = "api_key") -> SecretStr:
    """The variable's value, or the first line of the file, without spaces around it. `key` is the scenario's.

    Raises ScenarioError where there is none."""
    if source.env is not None:
        where, text = f"environment variable {source.env}", os.environ.get(source.env)
        if text is None:
            raise ScenarioError([f"{where} is not set: export it before the run, or name another with {key}.env"])
    else:
        where, text = f"secret file {source.file}", _first_line(source)
    secret = text.strip()
    if not secret:
        raise ScenarioError([f"{where} is empty"])
    if not secret.isprintable() or not secret.isascii():
        raise ScenarioError([f"{where} must hold one line of printable ASCII"])
    return SecretStr(secret)


def _first_line(source: SecretSource) -> str:
    path = source.file
    assert path is not None
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            line = file.readline(MAX_CHARS + 1)
    except UnicodeDecodeError:
        raise ScenarioError([f"secret file {path} is not UTF-8 text"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ScenarioError([f"secret file {path} cannot be read: {reason}"]) from None
    if len(line) > MAX_CHARS:
        raise ScenarioError([f"secret file {path} begins with a line of more than {MAX_CHARS:,} characters: no secret"])
    return line
