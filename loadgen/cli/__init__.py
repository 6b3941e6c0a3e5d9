"""The command line. Exit codes live only here."""

__all__ = ["main"]


def main() -> None:
    """Entry point. The commands are imported only now: each process that a run spawns imports the script of its parent,
    and with it this package, and needs none of them."""
    try:
        from loadgen.cli.entry import main as entered
    except KeyboardInterrupt:  # the imports take a second or more
        raise SystemExit(130) from None

    entered()
