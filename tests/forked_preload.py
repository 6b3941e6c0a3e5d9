"""Imported once, by the process that servers and commands are forked from: what each would import and train.

Not loadgen.cli itself: it looks at its outputs when it is imported."""

import pytest  # noqa: F401  (a child imports the script of who starts it)
import typer.testing  # noqa: F401

import loadgen.experiment
import loadgen.report
import loadgen.service  # noqa: F401
import tests.forked  # noqa: F401
from server_adapters.rehearsal.models import load_models

load_models()
