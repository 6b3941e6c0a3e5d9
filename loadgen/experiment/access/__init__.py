"""Who is let in, and what can be seen from outside (docs/access.md)."""

from loadgen.experiment.access.work import run_access

__all__ = ["run_access"]
