"""Where two outputs part, and what kind of difference it is (docs/quality.md, "Classes")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from loadgen.analyze.quality.endings import ends_for_no_reason, goes_past_end, no_matter_of_numerics
from loadgen.analyze.quality.formats import format_check
from loadgen.analyze.quality.loops import loop_in
from loadgen.analyze.quality.ties import Margin, NearTieLimit, near_tie
from loadgen.analyze.quality.types import Kind, Output

#: Characters shown on each side of a divergence.
CONTEXT_CHARS = 40
ALIKE: frozenset[Kind] = frozenset({"identical", "near_tie"})


@dataclass(frozen=True, slots=True)
class Context:
    """Text at a divergence: what both have before it, and how each goes on."""

    before: str
    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """One pair of outputs compared.

    `token_index`: first token that differs (0-based; the shorter one's length where it is the other's beginning);
    None where ids agree or are not told. `char_index`: likewise in the text. Both None where all agrees.
    `margin`: of the tokens there, where it was asked for. `also`: every other kind that holds, so that none is hidden
    by the first. `why`: a sentence with the numbers. `hard`: the candidate's end is wrong whatever the log
    probabilities were.
    """

    case_id: str
    repeat: int
    kind: Kind
    token_index: int | None
    char_index: int | None
    context: Context | None
    margin: Margin | None
    also: tuple[Kind, ...]
    why: str
    hard: bool = False

    @property
    def at(self) -> int | None:
        """Where the outputs part: the token, else the character."""
        return self.char_index if self.token_index is None else self.token_index


def compare_outputs(
    pairs: Iterable[tuple[Output, Output]],
    *,
    margins: Mapping[tuple[str, int], Margin] | None = None,
    limit: NearTieLimit | None = None,
) -> list[Divergence]:
    """Each (baseline, candidate) pair of one case, in order; a pair may also be two outputs of the baseline.

    `margins`: by (case, repeat of the first), for pairs asked again at their divergence; `limit`: what is a near tie.
    By token ids where both have them, else by text. Raises ValueError where a pair is of two cases.
    """
    known = margins or {}
    return [_compare(a, b, known.get((a.case_id, a.repeat)), limit or NearTieLimit()) for a, b in pairs]


def _compare(baseline: Output, candidate: Output, margin: Margin | None, limit: NearTieLimit) -> Divergence:
    if baseline.case_id != candidate.case_id:
        raise ValueError(f"a pair of two cases: {baseline.case_id} and {candidate.case_id}")
    case, repeat = baseline.case_id, baseline.repeat
    token = first_difference(baseline.token_ids, candidate.token_ids)
    char = first_difference(baseline.text, candidate.text)
    hard = no_matter_of_numerics(baseline, candidate)
    if token is None and char is None:
        if baseline.finish_reason == candidate.finish_reason:
            return Divergence(case, repeat, "identical", None, None, None, None, (), "the same")
        why = ends_for_no_reason(baseline, candidate) or _finishes(baseline, candidate)
        return Divergence(case, repeat, "finish_reason", None, None, None, None, (), why, hard)
    holds = dict(_kinds(baseline, candidate, token, char))
    if margin is not None and near_tie(margin, limit) and not hard:
        holds = {"near_tie": f"{margin.nat:.3g} nat apart, within {limit.nat:.3g}", **holds}
    kind = next(iter(holds))
    also = tuple(other for other in holds if other not in (kind, "divergent"))
    context = None if char is None else _context(baseline.text, candidate.text, char)
    return Divergence(case, repeat, kind, token, char, context, margin, also, holds[kind], hard)


def _kinds(baseline: Output, candidate: Output, token: int | None, char: int | None) -> Iterable[tuple[Kind, str]]:
    """All kinds that hold, the one that names the difference first."""
    if past := goes_past_end(baseline, candidate):
        yield "text_after_stop", past
    elif _begins(baseline, candidate, token, char):
        yield "text_after_stop", f"goes on where the baseline ended ({baseline.finish_reason})"
    elif _begins(candidate, baseline, token, char):
        early = f"ended ({candidate.finish_reason}) where the baseline goes on"
        yield "early_stop", ends_for_no_reason(baseline, candidate) or early
    loop = loop_in(candidate)
    if loop is not None and loop_in(baseline) is None:
        yield "looping", f"repeats {loop.period} tokens {loop.times:.1f} times from {loop.start} on"
    if format_check(baseline).valid and (broken := format_check(candidate)).valid is False:
        yield "format_broken", broken.reason or ""
    unit, at = ("character", char) if token is None else ("token", token)
    if at == 0:
        yield "first_token", "different from the first token"
    yield "divergent", f"different from {unit} {at}"
    if baseline.finish_reason != candidate.finish_reason:
        yield "finish_reason", _finishes(baseline, candidate)


def _begins(short: Output, long: Output, token: int | None, char: int | None) -> bool:
    """Whether `short` ended where `long` goes on. Its last id may be the one that ended it, which has no text."""
    text_begins = char == len(short.text) < len(long.text)
    if short.token_ids is None or token is None:
        return text_begins
    if token == len(short.token_ids):
        return True
    ended = short.finish_reason == "stop" and token == len(short.token_ids) - 1
    return ended and (text_begins or short.token_ids[token] in short.stop_ids)


def _finishes(baseline: Output, candidate: Output) -> str:
    return f"finish reason {baseline.finish_reason} became {candidate.finish_reason}"


def first_difference(a: Sequence[object] | None, b: Sequence[object] | None) -> int | None:
    """First place where they differ, the shorter one's length where it is the other's beginning; None where they are
    equal, or one is not known."""
    if a is None or b is None or a == b:
        return None
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _context(baseline: str, candidate: str, at: int) -> Context:
    before = baseline[max(at - CONTEXT_CHARS, 0) : at]
    return Context(before, baseline[at : at + CONTEXT_CHARS], candidate[at : at + CONTEXT_CHARS])
