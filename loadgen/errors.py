"""Errors a user can act on. Only the command line turns them into exit codes.

SpecloadError
├── ScenarioError     the scenario or the command is wrong
├── TargetUnusable    a target is unreachable or fails its preflight
└── StorageError      the run directory cannot be written or read; during a run, what is measured is kept
"""

from __future__ import annotations


class SpecloadError(Exception):
    """A message for the user: what is wrong, where, and what to do next."""


class ScenarioError(SpecloadError):
    """`problems` are whole sentences, each with file, line, key and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class TargetUnusable(SpecloadError):
    pass


class StorageError(SpecloadError):
    pass
