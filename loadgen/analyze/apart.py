"""Two runs made apart (docs/method.md, "Runs made apart").

Where their plans are equal the cases are, so blocks and cases are paired, although not in one window. Else the
windows of equally named stages, each with the median of its requests, are two independent samples: Mann–Whitney,
Hodges–Lehmann, and the share of pairs in which the second is larger. Requests of one window share its load and are no
independent ones, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.absolute import Chosen, with_value
from loadgen.analyze.arms import arm_data
from loadgen.analyze.columns import Floats
from loadgen.analyze.comparison import compare, shown
from loadgen.analyze.estimates import Estimates
from loadgen.analyze.metrics import METRICS, column
from loadgen.analyze.pairs import unknown
from loadgen.analyze.statistics import MIN_BLOCKS, MannWhitney, holm, inflation, mann_whitney
from loadgen.analyze.summary import RunsCompared, Unpaired
from loadgen.record import RunData

FIRST, SECOND = "first", "second"
#: Numbers that are compared by their medians in windows
COMPARED = (
    "ttft_s",
    "tpot_s",
    "total_time_s",
    "non_stream_total_time_s",
    "generation_speed",
    "output_len",
    "server_queue_s",
    "server_prefill_s",
    "server_decode_s",
)
#: Chance of a false alarm over all rows
ALPHA = 0.05
NOT_ONE_WINDOW = "the runs were not made in one window: a drift of server, host or network between them looks the same"


@dataclass(frozen=True)
class _Row:
    stage: str
    arm: str
    name: str
    first: Floats
    second: Floats
    found: MannWhitney | None


def compare_runs(first: RunData, second: RunData) -> RunsCompared:
    """`second` against `first`, arm by arm of equal name (of one arm each: these). Pure.

    Percentiles and tails of `rows` count failures; `unpaired` is of ok requests only, with the failures named beside.
    """
    pairs = _arms(first, second)
    names = f"{first.manifest.run_id} and {second.manifest.run_id}"
    if not pairs:
        why = f"{names} have no arm in common: {', '.join(first.manifest.arms)}; {', '.join(second.manifest.arms)}"
        return _result(first, second, False, why, notes=[why])
    if first.manifest.plan_hash == second.manifest.plan_hash:
        rows = [row for arms in pairs for row in compare(_estimates(first, second, arms))]
        return _result(
            first, second, True, "their plans are equal, so their cases are", rows=rows, notes=[NOT_ONE_WINDOW]
        )
    found = _adjusted([row for arms in pairs for row in _unpaired(first, second, arms)])
    why = "their plans differ, so their cases do: their windows are compared as two independent samples"
    return _result(first, second, False, why, unpaired=found, notes=[NOT_ONE_WINDOW, *_shares(first, second, pairs)])


def _result(first: RunData, second: RunData, paired: bool, why: str, **parts: Sequence[object]) -> RunsCompared:
    names = {"first": first.manifest.run_id, "second": second.manifest.run_id}
    return RunsCompared.model_validate({**names, "paired": paired, "why": why, **parts})


def _arms(first: RunData, second: RunData) -> list[tuple[str, str]]:
    one, other = list(first.manifest.arms), list(second.manifest.arms)
    if len(one) == 1 and len(other) == 1:
        return [(one[0], other[0])]
    return [(name, name) for name in one if name in other]


def _estimates(first: RunData, second: RunData, arms: tuple[str, str]) -> Estimates:
    """As if the two runs were the arms of one."""
    names = _labels(arms)
    data = {names[0]: arm_data(first, arms[0]), names[1]: arm_data(second, arms[1])}
    return Estimates(first, data, baseline=names[0], design="apart")


def _labels(arms: tuple[str, str]) -> tuple[str, str]:
    return f"{FIRST}: {arms[0]}", f"{SECOND}: {arms[1]}"


def _unpaired(first: RunData, second: RunData, arms: tuple[str, str]) -> Iterator[_Row]:
    one = Estimates(first, {arms[0]: arm_data(first, arms[0])})
    other = Estimates(second, {arms[1]: arm_data(second, arms[1])})
    label = arms[0] if arms[0] == arms[1] else f"{arms[0]} → {arms[1]}"
    for stage in (s for s in one.stages() if s in other.stages()):
        chosen = [e.chosen(arm, {"stage": stage}) for e, arm in ((one, arms[0]), (other, arms[1]))]
        for name in COMPARED:
            a, b = (_medians(c, name) for c in chosen)
            if len(a) or len(b):
                yield _Row(stage, label, name, a, b, _tested(b, a))


def _medians(chosen: Chosen, name: str) -> Floats:
    """Of the ok requests of each window that have the number, in order of time."""
    rows = with_value(chosen.side, chosen.rows, name)
    block, values = chosen.block[rows], column(chosen.side.frame, name)[rows]
    return np.array([np.median(values[block == at]) for at in np.unique(block)], dtype=np.float64)


def _tested(second: Floats, first: Floats) -> MannWhitney | None:
    """None: too few windows to see how much each says of the next."""
    if min(len(second), len(first)) < MIN_BLOCKS:
        return None
    return mann_whitney(second, first, inflated=max(inflation(second), inflation(first)))


def _adjusted(rows: list[_Row]) -> list[Unpaired]:
    """Holm over all of them."""
    tested = [row for row in rows if row.found is not None and row.found.p is not None]
    p = np.array([row.found.p for row in tested if row.found is not None], dtype=np.float64)
    adjusted = dict(zip(map(id, tested), holm(p).tolist(), strict=True)) if len(tested) else {}
    return [_shown(row, adjusted.get(id(row))) for row in rows]


def _shown(row: _Row, adjusted: float | None) -> Unpaired:
    few = unknown(f"not enough data: needs {MIN_BLOCKS} windows with it in each run", unit="windows")
    shift, share = (few, few) if row.found is None else (row.found.hodges_lehmann, row.found.cles)
    word = "not enough data"
    if adjusted is not None and share.value is not None:
        word = "no difference shown"
        if adjusted <= ALPHA:
            word = "higher" if share.value > 0.5 else "lower"
    return Unpaired.model_validate(
        {
            "stage": row.stage, "arm": row.arm, "name": row.name, "unit": METRICS[row.name].unit,
            "first_median": _median(row.first), "second_median": _median(row.second),
            "first_n": len(row.first), "second_n": len(row.second),
            "p": None if row.found is None else row.found.p, "p_adjusted": adjusted,
            "shift": shown(shift), "larger_share": shown(share), "word": word,
        }
    )  # fmt: skip


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


def _shares(first: RunData, second: RunData, pairs: list[tuple[str, str]]) -> list[str]:
    """F10: what the samples do not hold."""
    told = []
    for arms in pairs:
        for run, arm in ((first, arms[0]), (second, arms[1])):
            frame = arm_data(run, arm).frame
            failed = int((~frame.ok).sum())
            if failed:
                told.append(
                    f"{run.manifest.run_id}, {arm}: {failed} of {frame.n} requests did not end ok and are not in it"
                )
    return told


def estimates_apart(first: RunData, second: RunData) -> dict[str, tuple[str, Estimates]]:
    """Of each arm of `second` that `first` has too: the name of that one's side, and both as the arms of one run.

    Their blocks are paired by number, which means the same cases only where the plans are equal."""
    return {
        arms[1]: (_labels(arms)[1], _estimates(first, second, arms)) for arms in _arms(first, second)
    }  # fmt: skip


def arms_in_common(first: RunData, second: RunData) -> dict[str, str]:
    """Arm of `second` to the arm of `first` it is compared with."""
    return {other: one for one, other in _arms(first, second)}
