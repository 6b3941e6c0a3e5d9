"""The table "Resources and cost", for the terminal, the page and Markdown. Nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.table import Table as RichTable

from loadgen.analyze import N, ResourceDelta, Resources, ResourceUse
from loadgen.report.format import DASH, significant
from loadgen.report.page import Cell, Row, Table, bounded, told

#: Rows of one table
ROWS = 60
CAPTION = "Resources and cost (steady windows; all GPUs of an arm together)"
HEAD = (
    "load", "arm", "GPU memory peak", "GPU busy", "DRAM active", "power", "J/token", "KV tokens", "CPU cores",
    "RSS peak", "cost per 1M tokens", "cost per request",
)  # fmt: skip
_BESIDE = ("load", "arm", "KV tokens", "KV ratio", "memory peak", "energy per token", "cost per token")
_STEPS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))


def size(value: float | None) -> str:
    """Bytes in the largest binary unit that leaves at least 1."""
    if value is None:
        return DASH
    for step, unit in _STEPS:
        if abs(value) >= step:
            return f"{significant(value / step)}\u00a0{unit}"
    return f"{value:.0f}\u00a0B"


def is_known(resources: Resources) -> bool:
    """Whether any arm has telemetry or a cost."""
    return any(
        arm.sources or arm.price_per_gpu_hour.value is not None for arm in resources.arms.values()
    )  # fmt: skip


def _uses(resources: Resources) -> Iterator[tuple[str, str, ResourceUse, N]]:
    """(load, arm, numbers, KV capacity), stage by stage, each arm as a whole last."""
    stages = list(dict.fromkeys(use.stage for arm in resources.arms.values() for use in arm.stages))
    for stage in stages:
        for name, arm in resources.arms.items():
            yield from ((str(stage), name, use, arm.kv_capacity_tokens) for use in arm.stages if use.stage == stage)
    if len(stages) != 1:
        yield from (("all", name, arm.overall, arm.kv_capacity_tokens) for name, arm in resources.arms.items())


def _cells(use: ResourceUse, kv: N) -> list[Cell]:
    return [
        _sized(use.memory_peak_bytes), told(use.utilization, "share"), told(use.dram_active, "share"),
        _unit(use.power_watts, "W"), told(use.joules_per_output_token, "number"), told(kv, "number"),
        told(use.process_cpu_cores, "number"), _sized(use.process_rss_peak_bytes),
        told(use.cost_per_million_output_tokens, "number"), told(use.cost_per_request, "number"),
    ]  # fmt: skip


def _sized(n: N) -> Cell:
    return Cell(size(n.value), (n.reason or "") if n.value is None else "")


def _unit(n: N, unit: str) -> Cell:
    cell = told(n, "number")
    return cell if n.value is None else Cell(f"{cell.text}\u00a0{unit}", cell.why)


def page_tables(resources: Resources) -> list[Table]:
    """Of the page: each arm at each load, then the candidates beside the baseline, and what both rest on."""
    kept, note = bounded(
        [Row([load, arm, *_cells(use, kv)]) for load, arm, use, kv in _uses(resources)], ROWS, "rows"
    )  # fmt: skip
    beside, more = bounded([_delta(d) for d in resources.comparison], ROWS, "rows")
    return [
        Table(CAPTION, HEAD, kept, 2, note),
        Table("Resources beside the baseline (above 1: dearer)", _BESIDE, beside, 2, more),
        Table("What these rest on", ("arm", "fact", "value"), _facts(resources), 3),
    ]


def _delta(d: ResourceDelta) -> Row:
    kv = d.kv_capacity_difference_tokens
    difference = Cell(DASH if kv.value is None else f"{kv.value:+,.0f}", kv.reason or "" if kv.value is None else "")
    cells = [difference, told(d.kv_capacity_ratio, "times"), _sized(d.memory_peak_difference_bytes)]
    return Row([d.stage, d.candidate, *cells, told(d.joules_ratio, "times"), told(d.cost_ratio, "times")])


def _facts(resources: Resources) -> list[Row]:
    rows = []
    for name, arm in resources.arms.items():
        shown: Sequence[tuple[str, str | Cell]] = (
            ("sources", ", ".join(arm.sources) or DASH),
            ("GPUs seen", ", ".join(arm.devices) or DASH),
            ("GPUs paid for", told(arm.gpus, "number")),
            ("price per GPU hour", told(arm.price_per_gpu_hour, "number")),
            ("background power (nothing asked)", _unit(arm.background_power_watts, "W")),
            *(("note", note) for note in arm.notes),
        )
        rows += [Row([name, fact, value]) for fact, value in shown]
    return rows


def _texts(resources: Resources) -> tuple[list[str], list[list[str]]]:
    """Head and rows as text, without columns that nothing is known of; no row where nothing is known at all."""
    if not is_known(resources):
        return [], []
    rows = [[load, arm, *(cell.text for cell in _cells(use, kv))] for load, arm, use, kv in _uses(resources)]
    filled = [i for i in range(len(HEAD)) if i < 2 or any(row[i] != DASH for row in rows)]
    return [HEAD[i] for i in filled], [[row[i] for i in filled] for row in rows]


def terminal_table(resources: Resources) -> RichTable | None:
    """None where nothing is known of any arm."""
    head, rows = _texts(resources)
    if not rows:
        return None
    table = RichTable(title=CAPTION, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(head):
        table.add_column(column, justify="left" if i < 2 else "right", overflow="fold", no_wrap=i < 2)
    for row in rows:
        table.add_row(*row)
    return table


def sentences(resources: Resources) -> list[str]:
    """Each candidate beside the baseline at each load; nothing where nothing was looked at and nothing has a price."""
    if not is_known(resources):
        return []
    return [f"{d.stage}: {d.sentence}" for d in resources.comparison if d.sentence]


def markdown_lines(resources: Resources, code: Callable[[str], str], plain: Callable[[str], str]) -> list[str]:
    """The same for a pull request; `code` and `plain` write names and sentences as they are, never as markup."""
    head, rows = _texts(resources)
    if not rows:
        return []
    beside = [f"- {plain(text)}" for text in sentences(resources)]
    return [
        "",
        f"**{CAPTION}**",
        "",
        _line(head),
        "|" + "---|" * len(head),
        *(_line([code(row[0]), code(row[1]), *row[2:]]) for row in rows[:ROWS]),
        *(["", *beside] if beside else []),
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
