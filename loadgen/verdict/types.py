"""What a verdict is made from: answers to questions about a run."""

from __future__ import annotations

from typing import Protocol

from loadgen.scenario import Relative


class EstimateLike(Protocol):
    """A number and its two-sided interval at `level`. Infinities are values: failed requests count as +∞.

    `value` None: not known. `low` and `high` None beside a value: too little data for an interval. `reason` says why.
    """

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def n(self) -> int: ...
    @property
    def unit(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def needs_n(self) -> int | None: ...


class Evidence(Protocol):
    """The estimates of one run, or of two that are compared."""

    def answer(
        self, metric: str, aggregate: str, where: tuple[tuple[str, str], ...], relative: Relative | None, level: float
    ) -> EstimateLike:
        """Never raises for absent data: `value` None and a `reason`."""

    def samples(self, metric: str, where: tuple[tuple[str, str], ...]) -> int:
        """How many requests of the arm stand behind the metric."""
