"""The command line. Exit codes live only here."""

try:
    from loadgen.cli import driving, reading, sweeping, watching  # noqa: F401  (their commands join the application)
    from loadgen.cli.base import Exit, app
    from loadgen.cli.entry import main
except KeyboardInterrupt:  # the imports take a second or more, and `main` cannot catch it yet
    raise SystemExit(130) from None

__all__ = ["Exit", "app", "main"]
