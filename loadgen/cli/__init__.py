"""The command line. Exit codes live only here."""

from loadgen.cli import driving, reading, sweeping, watching  # noqa: F401  (their commands join the application)
from loadgen.cli.base import Exit, app
from loadgen.cli.entry import main

__all__ = ["Exit", "app", "main"]
