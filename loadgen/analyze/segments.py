"""Segments of input and output length (docs/method.md, "Groups")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.columns import Floats

#: Lower edges of the length segments, tokens: as the server counted them. The last one is open.
INPUT_EDGES = (0, 128, 512, 2048, 8192)
OUTPUT_EDGES = (0, 32, 128, 512)


def segment_names(edges: Sequence[int]) -> list[str]:
    """ "0-127", …, "8192+"."""
    inner = [f"{low}-{high - 1}" for low, high in pairwise(edges)]
    return [*inner, f"{edges[-1]}+"]


def segment_of(lengths: Floats, edges: Sequence[int]) -> NDArray[np.object_]:
    """The segment's name of each length; None where the length is not known."""
    names = np.array([*segment_names(edges), None], dtype=object)
    told = ~np.isnan(lengths)
    place = np.full(len(lengths), len(edges))
    place[told] = np.searchsorted(edges, lengths[told], side="right") - 1
    found: NDArray[np.object_] = names[place]
    return found
