"""Two sources of one number over one window, and identities of counts (docs/method.md, "Reconciliation").

`ok` is True within the tolerance, False beyond it, None where it cannot be judged: no idle edges, a counter
window that is not whole, a request that told nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.spec_counts import chunk_steps, countable, merged, tokens_after_first
from loadgen.analyze.summary import Reconciliation
from loadgen.analyze.windows import SegmentWindow

FEWER = "the server counted less: lost scrapes, another metrics page, a restart, or statistics disabled"
MORE = "the server counted more: other traffic in the window, requests lost on the way, or tokens cut after us"
NOT_IDLE = "the server was not seen idle at both edges: other work may be in the window"
#: decode steps may differ by this share: chunks merged on the server
STEPS_AGREE = 0.01


@dataclass(frozen=True)
class _Window:
    """One measured segment with its rows. `clean`: every request ended ok."""

    arm: str
    frame: Frame
    rows: Ints
    window: SegmentWindow
    k: int | None
    chunk_unit: str

    @property
    def failed(self) -> Ints:
        return self.rows[~self.frame.ok[self.rows]]

    def row(
        self, name: str, client: float | None, server: float | None, tolerance: float, note: str, *, ok: bool | None
    ) -> Reconciliation:
        difference = None if client is None or server is None else client - server
        return Reconciliation(
            arm=self.arm, window=self.window.label, name=name, client=client, server=server, difference=difference,
            tolerance=tolerance, idle_edges=self.window.idle is True, ok=ok, note=note,
        )  # fmt: skip

    def compare(
        self, name: str, client: float | None, counter: str, tolerance: float, doubt: str = ""
    ) -> Reconciliation:
        """Client number against a counter. `doubt`: why the client's side is not whole; then nothing is judged."""
        counters = self.window.counters
        server = counters.deltas.get(counter)
        why = self._unjudged(client, server, counter, doubt)
        if why is not None or client is None or server is None:
            return self.row(name, client, server, tolerance, why or "", ok=None)
        ok = abs(client - server) <= tolerance
        return self.row(name, client, server, tolerance, "" if ok else FEWER if server < client else MORE, ok=ok)

    def _unjudged(self, client: float | None, server: float | None, counter: str, doubt: str) -> str | None:
        counters = self.window.counters
        if server is None:
            return counters.absent.get(counter, "the server's metrics do not hold it")
        if client is None or doubt:
            return doubt
        if counters.incomplete or counters.restarts:
            return "; ".join(counters.incomplete) or f"{counters.restarts} restarts inside the window"
        if self.window.idle is not True:
            return NOT_IDLE
        return None


def reconcile(
    frame: Frame, windows: tuple[SegmentWindow, ...], chunk_unit: str, k: int | None
) -> Iterator[Reconciliation]:
    for window in windows:
        rows = np.flatnonzero(frame.segment == window.phase.segment)
        one = _Window(frame.arm, frame, rows, window, k, chunk_unit)
        yield from _accounting(one)
        yield _tokens(one)
        yield _finished(one)
        yield _decode_steps(one)
        if frame.stats.told[rows].any():
            yield from _per_request(one)
            yield _chunks_against_statistics(one)
        yield from _identities(one)


def _accounting(one: _Window) -> Iterator[Reconciliation]:
    """scheduled = sent + dropped + unsent; sent = Σ outcomes (no server in it: both are the client's)."""
    account = one.window.phase.accounting
    if account is None:
        yield one.row("accounting", len(one.rows), None, 0, "the segment was never closed", ok=None)
        return
    told = account.sent + account.dropped + account.unsent
    yield one.row(
        "accounting_scheduled", account.scheduled, told, 0, "scheduled = sent + dropped + unsent",
        ok=account.scheduled == told,
    )  # fmt: skip
    lost = "" if account.sent == len(one.rows) else "records are missing: the run directory is not whole"
    yield one.row("accounting_sent", len(one.rows), account.sent, 0, lost, ok=account.sent == len(one.rows))


def _tokens(one: _Window) -> Reconciliation:
    """Failed requests may have made tokens we never saw: at most what they asked for."""
    frame, failed = one.frame, one.failed
    output = frame.output_len[one.rows]
    if np.isnan(frame.output_len[one.rows[frame.ok[one.rows]]]).any():
        return one.compare("output_tokens", None, "generation_tokens", 0, "some answers have no token count")
    unseen = frame.max_tokens[failed] - np.nan_to_num(frame.output_len[failed])
    tolerance = float(np.maximum(np.nan_to_num(unseen), 0).sum())
    return one.compare("output_tokens", float(np.nansum(output)), "generation_tokens", tolerance)


def _finished(one: _Window) -> Reconciliation:
    """Requests: whatever the reason they finished for; failed ones may not have reached the server."""
    by_reason = one.window.counters.by_detail.get("requests_finished")
    if by_reason is None:
        return one.compare("requests", len(one.rows), "requests_finished", 0)
    server = sum(by_reason.values())
    tolerance = len(one.failed)
    why = one._unjudged(len(one.rows), server, "requests_finished", "")
    if why is not None:
        return one.row("requests", len(one.rows), server, tolerance, why, ok=None)
    ok = abs(len(one.rows) - server) <= tolerance
    note = "" if ok else FEWER if server < len(one.rows) else MORE
    return one.row("requests", len(one.rows), server, tolerance, note, ok=ok)


def _decode_steps(one: _Window) -> Reconciliation:
    """Chunks after the first ÷ decode outputs: fewer chunks are merged chunks."""
    frame = one.frame
    usable = countable(frame, one.chunk_unit)[one.rows]
    client = float(chunk_steps(frame)[one.rows].sum())
    server = one.window.counters.deltas.get("output_events")
    doubt = "" if usable.all() and len(usable) else "not every request is a stream with a count for every chunk"
    found = one.compare("decode_steps", client, "output_events", STEPS_AGREE * (server or 0.0), doubt)
    if found.ok is False and found.difference is not None and found.difference < 0:
        return found.model_copy(update={"note": "fewer chunks than steps: the server merged chunks, or other traffic"})
    return found


def _per_request(one: _Window) -> Iterator[Reconciliation]:
    """Σ of the responses' statistics against the counters: equal with idle edges, no aborts and no stop strings."""
    stats = one.frame.stats
    silent = int((~stats.told[one.rows]).sum())
    doubt = f"{silent} of {len(one.rows)} requests gave no statistics (aborts, stop strings)" if silent else ""
    columns = (
        ("drafted_tokens", stats.drafted, "draft_tokens"),
        ("accepted_tokens", stats.accepted, "accepted_tokens"),
        ("rounds", stats.rounds, "drafts"),
    )
    for name, values, counter in columns:
        yield one.compare(name, float(np.nansum(values[one.rows])), counter, 0, doubt)
    yield _histograms(one, doubt)


def _histograms(one: _Window, doubt: str) -> Reconciliation:
    """Σ_j j·h_j of the responses against Σ_j a_j of the counters, position by position."""
    histogram = one.frame.stats.histogram
    at = histogram.at(one.rows)
    exactly = np.bincount(histogram.place[at], weights=histogram.values[at], minlength=1)
    client = [float(exactly[j + 1 :].sum()) for j in range(len(exactly) - 1)]
    server = one.window.counters.by_position.get("accepted_at")
    if server is None:
        return one.row("accepted_by_position", sum(client), None, 0, "the counters hold no positions", ok=None)
    why = one._unjudged(sum(client), sum(server), "accepted_at", doubt)
    pairs = zip_longest(client, server, fillvalue=0.0)
    unequal = [j for j, (a, b) in enumerate(pairs) if a != b]
    note = why or (f"positions {unequal} differ" if unequal else "")
    return one.row(
        "accepted_by_position", sum(client), sum(server), 0, note, ok=None if why is not None else not unequal
    )


def _chunks_against_statistics(one: _Window) -> Reconciliation:
    """Tokens per chunk give the accepted count within k + 1 of the server's, request by request (D22)."""
    frame, stats = one.frame, one.frame.stats
    usable = countable(frame, one.chunk_unit) & stats.told & ~merged(frame, one.k)
    rows = one.rows[usable[one.rows]]
    if not len(rows) or one.k is None:
        note = "k is not known" if one.k is None else "no request has both statistics and a count for every chunk"
        return one.row("accepted_by_chunks", None, None, 0, note, ok=None)
    chunk = tokens_after_first(frame)[rows] - chunk_steps(frame)[rows]
    apart = np.abs(chunk - stats.accepted[rows])
    beyond = int((apart > one.k + 1).sum())
    note = f"{len(rows)} requests compared one by one, each within k + 1 = {one.k + 1}"
    if beyond:
        note = f"{beyond} of {len(rows)} requests differ by more than k + 1 = {one.k + 1}: chunks merged on the server"
    return one.row(
        "accepted_by_chunks", float(chunk.sum()), float(stats.accepted[rows].sum()), float((one.k + 1) * len(rows)),
        note, ok=beyond == 0,
    )  # fmt: skip


def _identities(one: _Window) -> Iterator[Reconciliation]:
    """Σ_j a_j = A (so E_verified = 1 + Σ_j a_j/D), A ≤ T, T ≤ kD: both sides are the server's counters (D1)."""
    counters = one.window.counters
    rounds, drafted, accepted = (counters.deltas.get(n) for n in ("drafts", "draft_tokens", "accepted_tokens"))
    at = counters.by_position.get("accepted_at")
    if accepted is None or drafted is None or rounds is None:
        return
    broken = "the counters contradict each other: a family or an engine was missed"
    whole = not counters.incomplete and not counters.restarts
    if at is not None:
        holds = sum(at) == accepted
        yield one.row(
            "identity_positions_sum_to_accepted", sum(at), accepted, 0, "" if holds else broken,
            ok=holds or (False if whole else None),
        )  # fmt: skip
        holds = drafted <= len(at) * rounds
        yield one.row(
            "identity_drafted_at_most_k_rounds", drafted, len(at) * rounds, 0, "" if holds else broken,
            ok=holds or (False if whole else None),
        )  # fmt: skip
    holds = accepted <= drafted
    yield one.row(
        "identity_accepted_at_most_drafted", accepted, drafted, 0, "" if holds else broken,
        ok=holds or (False if whole else None),
    )  # fmt: skip
