"""Numerics: what rounding does to the logits of a real target.

Sums are rounded in another order when a batch has another shape, so the same context gets slightly different logits in
every step, and where two tokens are nearly tied another one wins. Here every logit of every position gets normal noise
of `sigma` nat. Seed, step and the order of the positions inside the step decide it: a server that is asked the same
again is in another step and may answer otherwise; the same sequence of steps gives the same answers."""

from __future__ import annotations

import numpy as np

from server_adapters.rehearsal.ngram import Floats

_WORD = (1 << 64) - 1


class Numerics:
    """The noise of one engine. `begin` each step before its positions are perturbed."""

    def __init__(self, sigma: float, seed: int) -> None:
        self._sigma, self._seed = sigma, seed & _WORD
        self.begin(0)

    def begin(self, step: int) -> None:
        """From here on the noise is that of a step."""
        self._generator = np.random.Generator(np.random.Philox(key=np.array([self._seed, step], dtype=np.uint64)))

    def perturb(self, vector: Floats) -> Floats:
        """A distribution with noise on the logarithms of its probabilities; changes and returns `vector`."""
        vector *= np.exp(self._sigma * self._generator.standard_normal(len(vector)))
        vector /= vector.sum()
        return vector
