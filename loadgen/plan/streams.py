"""Random words that are equal on every machine, and the few functions that make numbers of them.

Keying: every stream is a Philox-4x64 bit generator whose 128-bit key is the BLAKE2b digest of
"seed/purpose/stage/…": a stream belongs to what it decides, never to who draws from it or when, so
shards, workers and the order of access cannot change a plan.

Only raw 64-bit words are taken from numpy: they are fixed by the algorithm, while the methods of
`numpy.random.Generator` may change with numpy (NEP 19) and `np.log`, `np.exp` differ in the last bit
between CPUs. What follows uses only operations that IEEE 754 rounds exactly (+ − × ÷ √, rounding,
scaling by powers of two), and running sums in order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b, shake_128
from typing import TypeVar

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Item = TypeVar("Item")

#: words drawn at once for text
_DRAWN = 64

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ATANH = tuple(1.0 / k for k in range(23, 0, -2))
_EXP = tuple(1.0 / f for f in np.cumprod([1.0, *range(1, 15)])[::-1].tolist())

# Wichura (1988), Algorithm AS 241, PPND16: numerator and denominator, highest power first.
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def bits(*key: int | str) -> Philox:
    """The stream of `key`: seed, purpose, then whatever tells it apart."""
    digest = blake2b("/".join(map(str, key)).encode(), digest_size=16, person=b"specload plan 1").digest()
    return Philox(key=int.from_bytes(digest, "little"))


def words(n: int, *key: int | str) -> Words:
    """The first n words of the stream of `key`."""
    return bits(*key).random_raw(n)


def unit(raw: Words) -> Floats:
    """Words to numbers in the open interval (0, 1), on a grid of 2⁻⁵³."""
    return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def below(u: Floats, n: int) -> NDArray[np.int64]:
    """Numbers in (0, 1) to integers 0 … n − 1."""
    return np.minimum(np.floor(u * n), n - 1).astype(np.int64)


def permutation(n: int, *key: int | str) -> NDArray[np.int64]:
    """0 … n − 1 in the random order of `key`."""
    return np.argsort(words(n, *key), kind="stable").astype(np.int64)


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def log(x: Floats) -> Floats:
    """Natural logarithm of positive numbers."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < 0.7071067811865476
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = (exponent - small).astype(np.float64)
    f = (mantissa - 1.0) / (mantissa + 1.0)
    return power * _LN2_HIGH + (2.0 * f * _polynomial(_ATANH, f * f) + power * _LN2_LOW)


def exp(x: Floats) -> Floats:
    """e to the x; x is held to −745 … 709."""
    x = np.clip(x, -745.0, 709.0)
    power = np.rint(x * 1.4426950408889634)
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    return np.ldexp(_polynomial(_EXP, rest), power.astype(np.int32))


def normal(u: Floats) -> Floats:
    """Standard normal quantile of numbers in (0, 1): Wichura's AS 241, about 16 digits."""
    q = u - 0.5
    centre = 0.180625 - q * q
    inner = q * _polynomial(_CENTRE[0], centre) / _polynomial(_CENTRE[1], centre)
    r = np.sqrt(-log(np.minimum(u, 1.0 - u)))
    near, far = r - 1.6, r - 5.0
    outer = np.where(
        r <= 5.0,
        _polynomial(_MIDDLE[0], near) / _polynomial(_MIDDLE[1], near),
        _polynomial(_TAIL[0], far) / _polynomial(_TAIL[1], far),
    )
    return np.where(np.abs(q) <= 0.425, inner, np.copysign(outer, q))


def normal_cdf(z: float) -> float:
    """Inverse of `normal` by bisection: 0 or 1 beyond about ±8."""
    low, high = 2.0**-53, 1.0 - 2.0**-53
    for _ in range(60):
        middle = (low + high) / 2
        if normal(np.array([middle]))[0] < z:
            low = middle
        else:
            high = middle
    if high <= 2.0**-52:
        return 0.0
    return 1.0 if low >= 1.0 - 2.0**-52 else (low + high) / 2


class Draw:
    """A stream for making text: one cheap choice after the other.

    Its words are SHAKE-128 of key and block number (FIPS 202): a short text needs a few dozen, and setting up
    a Philox generator for them costs several times as much.
    """

    def __init__(self, *key: int | str) -> None:
        self._key = "/".join(map(str, ("specload text 1", *key)))
        self._block = 0
        self._words: list[int] = []

    def below(self, n: int) -> int:
        if not self._words:
            digest = shake_128(f"{self._key}/{self._block}".encode()).digest(8 * _DRAWN)
            self._words = list(struct.unpack(f"<{_DRAWN}Q", digest))
            self._block += 1
        return (self._words.pop() * n) >> 64

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def some(self, items: Sequence[Item], n: int) -> list[Item]:
        """n different items, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(n, len(left)))]
