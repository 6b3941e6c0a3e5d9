"""The environment diff on a terminal: small, the worst first, nothing dropped."""

import io

from rich.console import Console

from loadgen.analyze import Difference
from loadgen.report import render_environment


def shown(*differences: Difference, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_environment(differences, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def diff(key: str, rule: str, one: object, other: object) -> Difference:
    return Difference.model_validate(
        {"key": key, "values": {"baseline": one, "candidate": other}, "rule": rule, "text": "because"}
    )


def test_what_blocks_a_verdict_stands_in_the_table_with_its_values() -> None:
    text = shown(
        diff("model.dtype", "inconclusive", "bfloat16", "float16"),
        diff("gpu.name", "declared", "H100", None),
        diff("network.gateway", "inconclusive", ["server: uvicorn"], ["server: nginx", "via: 1.1 gate"]),
    )
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "model.dtype bfloat16 float16 is inconclusive" in rows
    assert "gpu.name H100 – holds: declared" in rows
    assert "network.gateway server: uvicorn server: nginx, via: 1.1 gate is inconclusive" in rows


def test_the_rest_is_one_line_each() -> None:
    noted = [diff(f"x.k{i}", "noted", i, None) for i in range(7)]
    unknown = diff("gpu.driver", "noted", None, None)
    meant = [diff("speculation.k", "may_differ", None, 4), diff("speculation.method", "may_differ", None, "ngram")]
    text = shown(*noted, unknown, *meant, diff("kv_cache.num_blocks", "may_differ", 1, 2), width=200)
    assert [line.strip() for line in text.splitlines()] == [
        "noted: x.k0 0 / –; x.k1 1 / –; x.k2 2 / –; x.k3 3 / –; x.k4 4 / –; 2 more in summary.json",
        "part of what is compared: speculation (2), kv_cache (1)",
        "not shown of any arm: gpu.driver",
    ]


def test_long_values_are_cut_and_cannot_steer_a_terminal() -> None:
    text = shown(diff("model.weights", "inconclusive", "a" * 40, "b\x1b[2J"))
    assert "a" * 32 + "…" in text
    assert "a" * 33 not in text
    assert "\x1b" not in text


def test_arms_that_are_alike_print_nothing() -> None:
    assert shown() == ""
