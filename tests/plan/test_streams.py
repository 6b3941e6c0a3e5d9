"""Random words and the functions on them, against independent implementations."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import scipy.stats

from loadgen.plan import streams

ROOM = Path(streams.__file__).parent


def test_words_are_those_of_philox_whatever_numpy_does() -> None:
    """Pinned: a change of these words changes every plan ever made."""
    assert streams.words(3, 7, "arrivals", 0).tolist() == [
        2097424615512687094,
        3088452714493310209,
        8518807581555392546,
    ]


def test_streams_of_different_purpose_or_seed_share_nothing() -> None:
    """H14: one seed for all workers repeats prompts; here every purpose has a stream of its own."""
    keys = [(7, "case", 0), (7, "case", 1), (7, "length", 0), (8, "case", 0), (7, "case", 0, 0)]
    seen = np.concatenate([streams.words(1000, *key) for key in keys])
    assert len(np.unique(seen)) == 5000


def test_unit_is_open_and_even() -> None:
    ends = streams.unit(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0 < ends[0] < 2**-52
    assert 1 - 2**-52 < ends[1] < 1
    u = streams.unit(streams.words(20_000, 1, "even"))
    assert scipy.stats.kstest(u, "uniform").pvalue > 0.01


def test_log_and_exp_are_right_to_the_last_bits() -> None:
    x = np.concatenate([np.geomspace(1e-300, 1e300, 20_001), np.linspace(0.5, 2, 20_001)])
    np.testing.assert_allclose(streams.log(x), np.log(x), rtol=4e-16, atol=2e-16)
    y = np.linspace(-700, 700, 20_001)
    np.testing.assert_allclose(streams.exp(y), np.exp(y), rtol=1e-15)
    assert streams.exp(np.array([-1e9]))[0] < 1e-300


def test_normal_quantiles() -> None:
    u = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 10_001), [1e-15, 1e-12, 1 - 1e-12]])
    np.testing.assert_allclose(streams.normal(u), scipy.stats.norm.ppf(u), rtol=1e-12, atol=1e-15)
    for z in (-3.0, -0.5, 0.0, 2.5):
        assert abs(streams.normal_cdf(z) - scipy.stats.norm.cdf(z)) < 1e-14
    assert (streams.normal_cdf(-40.0), streams.normal_cdf(40.0)) == (0.0, 1.0)


def test_draw_chooses_evenly_and_without_repeats() -> None:
    draw = streams.Draw(3, "text")
    counts = np.bincount([draw.below(7) for _ in range(7000)], minlength=7)
    assert scipy.stats.chisquare(counts).pvalue > 0.01
    assert sorted(draw.some("abcde", 5)) == list("abcde")
    assert {draw.between(2, 4) for _ in range(100)} == {2, 3, 4}


def test_no_source_of_chance_but_philox_words() -> None:
    """NEP 19: Generator's methods may change with numpy; hash() changes with the process."""
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numpy.random":
                assert [a.name for a in node.names] == ["Philox"], path
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"default_rng", "RandomState", "Generator", "shuffle", "choice"}, path
                assert not (node.attr == "random" and isinstance(node.value, ast.Name)), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "hash", path
