"""While load runs no full collection stops the loop, and afterwards the process is as it was."""

from __future__ import annotations

import gc

import pytest

from loadgen.drive import quiet_gc


@pytest.mark.parametrize("frozen_before", [True, False])
def test_what_was_frozen_before_stays_so(frozen_before: bool) -> None:
    """C21: nested, the outermost one thaws, and nothing that somebody else had frozen."""
    thresholds, kept = gc.get_threshold(), gc.get_freeze_count() > 0
    try:
        gc.unfreeze()
        if frozen_before:
            gc.freeze()
        with quiet_gc():
            with quiet_gc():
                assert gc.get_threshold() > thresholds
            assert gc.get_freeze_count() > 0
            assert gc.get_threshold() > thresholds
        assert (gc.get_freeze_count() > 0) is frozen_before
        assert gc.get_threshold() == thresholds
    finally:
        if kept:
            gc.freeze()
