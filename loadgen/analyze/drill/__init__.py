"""The kill-switch drill: what the records of a run say of every pull (docs/drill.md)."""

from loadgen.analyze.drill.result import drill_of

__all__ = ["drill_of"]
