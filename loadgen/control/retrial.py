"""Was it the anomaly? What was seen once is tried again, at times with it and at times without, in random order.

Pure. If the anomaly has no effect, whatever a try shows it would have shown without it, too: that all tries with it
show the symptom, and none without it, is then the work of the drawn order, one of all there are. So it is however
often the server fails by itself, and however failures cluster: nothing is assumed of it (Fisher's argument).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

#: Tries with the anomaly. More would wear out a server that each of them hurts; tries without it cost little.
SENDS = 5
#: Chance of one or more false confirmations in a run, of all that is tried again together (Bonferroni).
RETRIAL_LEVEL = 0.0005


def chance_of(controls: int) -> float:
    """p of a trial in which every try with the anomaly shows it, and none of `controls` without."""
    return 1 / comb(SENDS + controls, SENDS)


def controls_for(suspects: int) -> int:
    """The fewest tries without it that keep `RETRIAL_LEVEL` for so many suspects; 5 at least."""
    controls = SENDS
    while suspects * chance_of(controls) > RETRIAL_LEVEL:
        controls += 1
    return controls


@dataclass(slots=True)
class Trial:
    """The tries of one suspect. It is over with the first that speaks against it: the others could not change that."""

    order: tuple[bool, ...]
    done: int = 0
    refuted: bool = False

    @classmethod
    def drawn(cls, controls: int, *seed: int) -> Trial:
        """In an order that `seed` gives, numbers from 0 on. True: with the anomaly."""
        places = np.random.default_rng(seed).permutation(SENDS + controls)
        return cls(tuple(bool(place < SENDS) for place in places))

    @property
    def next(self) -> bool | None:
        """Whether the next try is with it; None: there is none."""
        return None if self.refuted or self.done == len(self.order) else self.order[self.done]

    def note(self, shown: bool) -> None:
        """What the try that was `next` has shown."""
        self.refuted = shown is not self.order[self.done]
        self.done += 1

    @property
    def confirmed(self) -> bool:
        return not self.refuted and self.done == len(self.order)
