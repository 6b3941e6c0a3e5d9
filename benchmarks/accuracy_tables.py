"""Tables of the accuracy benchmark: differences, ratios, Markdown. Pure: cells (decoded JSON) in, text out.

A cell: `condition` (the fields of `accuracy_cells.Condition`), `tool`, `label`, `version`, `state` (`ok`, or why not:
`absent`, `failed`, `timeout`, `not measured`), `reason`, and where it ran `reported` and `truth`
(`accuracy_results.Reading`), `chunks` and `busy_*` of the server, `cpu_s`, `peak_rss_bytes`, `processes`, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Cell = Mapping[str, Any]
BEGIN, END = "<!-- accuracy:begin -->", "<!-- accuracy:end -->"
#: Fewer chunks between a long and a short run than this say nothing of a chunk's cost.
FEWEST_CHUNKS = 1_000
_NONE = "–"


def cpu_per_million(long: Cell, short: Cell) -> float | None:
    """CPU seconds per million chunks: the difference of two runs of one tool, so that start-up does not count.

    None where a run is missing, the runs hardly differ in length, or the longer cost less (noise).
    """
    if long["state"] != "ok" or short["state"] != "ok":
        return None
    chunks, cpu_s = long["chunks"] - short["chunks"], long["cpu_s"] - short["cpu_s"]
    return cpu_s / chunks * 1e6 if chunks >= FEWEST_CHUNKS and cpu_s > 0 else None


def request_rate(cell: Cell) -> float | None:
    """Requests per second by the server's clock, from the first moment when two ran at once to the last chunk."""
    return cell["busy_done"] / cell["busy_s"] if cell["state"] == "ok" and cell["busy_s"] > 0 else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def number(value: float | None, digits: int = 4) -> str:
    """At most `digits` significant digits, thousands apart; never in powers of ten."""
    if value is None:
        return _NONE
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{min(3, max(0, digits - whole))}f}"


def against(cell: Cell, key: str) -> str:
    """`reported (true)` in ms; – where the tool does not report it."""
    reported, true = cell["reported"][key], cell["truth"][key]
    return _NONE if reported is None else f"{number(reported)} ({number(true)})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _why(cell: Cell) -> str:
    return f"{cell['state']}: {cell['reason']}" if cell["reason"] else str(cell["state"])


def _rows(cells: Iterable[Cell], width: int, fill: Callable[[Cell], list[str]]) -> list[list[str]]:
    """One row a cell: streams, tool, then its `width` numbers, or in their place why there are none."""
    rows = []
    for cell in cells:
        rest = fill(cell) if cell["state"] == "ok" else [_why(cell)] + [""] * (width - 1)
        rows.append([f"{cell['condition']['streams']:,}", cell["label"], *rest])
    return rows


TIMES = ("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "gap_p50_ms", "gap_p99_ms")


def timing_table(cells: Sequence[Cell]) -> list[str]:
    header = ("streams", "tool", "TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99", "gap P50", "gap P99", "note")

    def fill(cell: Cell) -> list[str]:
        return [against(cell, key) for key in TIMES] + [cell["reported"]["note"]]

    return table(header, _rows(cells, len(TIMES) + 1, fill))


def cost_table(long: Sequence[Cell], short: Sequence[Cell]) -> list[str]:
    """CPU by difference, memory of the long run; `specload / tool` below 1 means specload is cheaper."""
    header = ("streams", "tool", "CPU s per million chunks", "specload / tool", "peak memory, MB (processes)",
              "chunks/s at the server")  # fmt: skip
    pairs = {(c["condition"]["streams"], c["tool"]): c for c in short}
    costs = {
        (c["condition"]["streams"], c["tool"]): cpu_per_million(c, pairs[c["condition"]["streams"], c["tool"]])
        for c in long
        if (c["condition"]["streams"], c["tool"]) in pairs
    }

    def fill(cell: Cell) -> list[str]:
        streams = cell["condition"]["streams"]
        cost = costs.get((streams, cell["tool"]))
        ours = next((v for (n, tool), v in costs.items() if n == streams and tool.startswith("specload") and v), None)
        speed = cell["chunks"] / cell["busy_s"] if cell["busy_s"] else None
        memory = f"{number(cell['peak_rss_bytes'] / 1e6)} ({cell['processes']})"
        return [number(cost), number(ratio(ours, cost), 2), memory, number(speed)]

    return table(header, _rows(long, 4, fill))


def error_table(cells: Sequence[Cell]) -> list[str]:
    header = ("streams", "tool", "errors sent", "errors counted", "requests counted")

    def fill(cell: Cell) -> list[str]:
        told = cell["reported"]
        counted = [_NONE if told[k] is None else f"{told[k]:,}" for k in ("errors", "requests")]
        return [f"{cell['truth']['errors']:,}", *counted]

    return table(header, _rows(cells, 3, fill))


def rate_table(cells: Sequence[Cell]) -> list[str]:
    header = ("streams", "tool", "requests/s", "specload / tool", "most in flight at the server")
    ours = next((r for c in cells if c["tool"].startswith("specload") and (r := request_rate(c))), None)

    def fill(cell: Cell) -> list[str]:
        rate = request_rate(cell)
        return [number(rate), number(ratio(ours, rate), 2), f"{cell['max_running']:,}"]

    return table(header, _rows(cells, 3, fill))


def conditions(cells: Sequence[Cell], machine: Mapping[str, str]) -> list[str]:
    """Where, when and under what the cells were measured."""
    ran = [c for c in cells if c.get("started")]
    lines = [f"* {name}: {text}" for name, text in machine.items()]
    if ran:
        loads = [c["load_before"] for c in ran]
        others = [c["other_cpu_share"] for c in ran]
        lines += [
            f"* measured: {min(c['started'] for c in ran)} to {max(c['started'] for c in ran)} (UTC), {len(ran)} runs",
            "* " + "; ".join(sorted({c["pinned"] for c in ran})),
            f"* load average before a run: {min(loads):.2f} to {max(loads):.2f}; CPU time of others during a run:"
            f" {min(others):.1%} to {max(others):.1%} of the machine",
            f"* the server was late (P99 of its sends) by at most {max(c['late_p99_us'] for c in ran) / 1e3:.2f} ms,"
            f" and skipped {sum(c['resets'] for c in ran):,} of {sum(c['chunks'] for c in ran):,} sends",
        ]
    versions = sorted({f"{c['label']} {c['version']}" for c in cells if c["version"]})
    return [*lines, "* versions: " + ", ".join(versions)]


def _chosen(cells: Iterable[Cell], kind: str, per_chunk: int | None = None) -> list[Cell]:
    """Cells of a kind by streams; within one, in the order of the tools at first."""
    cells = list(cells)
    ranks = list(dict.fromkeys(c["tool"] for c in cells))
    found = [
        c for c in cells if c["condition"]["kind"] == kind and per_chunk in (None, c["condition"]["tokens_per_chunk"])
    ]
    return sorted(found, key=lambda c: (c["condition"]["streams"], ranks.index(c["tool"])))


def markdown(cells: Sequence[Cell], machine: Mapping[str, str]) -> str:
    """Everything between the markers. Tables without a cell are left out."""
    steady = _chosen(cells, "steady", 1)
    parts = (
        ("One token a chunk: reported (true), ms", timing_table, steady),
        ("Four tokens a chunk: reported (true), ms", timing_table, _chosen(cells, "steady", 4)),
        ("A stall of 1 s in the middle of every stream: reported (true), ms", timing_table, _chosen(cells, "stall")),
        ("An error object in the stream of every tenth request", error_table, _chosen(cells, "errors")),
        ("Cost, one token a chunk", lambda found: cost_table(found, _chosen(cells, "short", 1)), steady),
        ("Closed loop without waiting, four tokens a request", rate_table, _chosen(cells, "rate")),
    )
    lines = ["### Conditions", "", *conditions(cells, machine)]
    for title, make, found in parts:
        if found:
            lines += ["", f"### {title}", "", *make(found)]
    return "\n".join(lines) + "\n"


def fill_between(text: str, filling: str) -> str:
    """`text` with what stands between the markers replaced. ValueError unless each marker stands there once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the file needs one line {BEGIN} and after it one line {END}")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{filling}{END}{after}"
