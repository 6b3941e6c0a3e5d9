"""Imported once, by the process that servers, workers and scrapers are forked from: what each would import."""

import pytest  # noqa: F401  (a child imports the script of who starts it)

import loadgen.experiment  # noqa: F401
import tests.forked  # noqa: F401
from server_adapters.rehearsal.models import load_models

load_models()
