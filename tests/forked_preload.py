"""Imported once, by the process that servers are forked from: all that each of them would import and train."""

import tests.forked  # noqa: F401
from server_adapters.rehearsal.models import load_models

load_models()
