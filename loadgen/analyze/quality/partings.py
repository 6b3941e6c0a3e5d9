"""Where two answers part: what both arms are asked again there, and the margin in what they said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loadgen.analyze.quality.diverge import first_difference
from loadgen.analyze.quality.ties import Margin, margin
from loadgen.analyze.quality.types import Output

_KEY_CHARS = 16
#: Of a text that goes on, enough to tell its first token.
_ENOUGH = 64
Ended = Literal["ours", "theirs"] | None


@dataclass(frozen=True, slots=True)
class Parting:
    """Two answers to one case, up to where they part. `arms`: of both, in their order. `ids`, `text`: what they have in
    common. `ours`, `theirs`: how each goes on: (token id, text from there). Ids are None where an arm does not tell
    them; the text in common then ends with a word. `ended`: which of the two ends there, after the text it still has,
    without having told the token that ended it. `key` names the question: equal ones are asked once."""

    case_id: str
    arms: tuple[str, str]
    ids: tuple[int, ...] | None
    text: str
    ours: tuple[int | None, str]
    theirs: tuple[int | None, str]
    ended: Ended = None

    @property
    def key(self) -> str:
        said = self.text if self.ids is None else list(self.ids)
        content = json.dumps([self.case_id, self.arms, said, self.ours, self.theirs])
        return hashlib.sha256(content.encode()).hexdigest()[:_KEY_CHARS]


@dataclass(frozen=True, slots=True)
class Told:
    """What one arm said at a parting: log probabilities (nat) of the two tokens, None where they were not among the top
    ones, and the least of those."""

    ours: float | None
    theirs: float | None
    least: float


def parting_of(a: Output, b: Output) -> Parting | None:
    """None where the two are alike (where both tell ids in those, else in their text), or one ends where the other goes
    on and no token ended it."""
    char = first_difference(a.text, b.text)
    if a.token_ids is None or b.token_ids is None:
        return None if char is None else _by_text(a, b, char)
    at = first_difference(a.token_ids, b.token_ids)
    if at is None:
        return None
    begin = min(len(a.text), len(b.text)) if char is None else char
    ours, theirs = (_from(o, at, begin) for o in (a, b))
    ended: Ended = "ours" if at == len(a.token_ids) else "theirs" if at == len(b.token_ids) else None
    if not _by_a_token(ended, a, b):
        return None
    return Parting(a.case_id, (a.arm, b.arm), a.token_ids[:at], a.text[:begin], ours, theirs, ended)


def _from(output: Output, at: int, begin: int) -> tuple[int | None, str]:
    ids = output.token_ids or ()
    return (ids[at], output.text[begin : begin + _ENOUGH]) if at < len(ids) else (None, "")


def _by_a_token(ended: Ended, a: Output, b: Output) -> bool:
    return ended is None or (a if ended == "ours" else b).finish_reason == "stop"


def _by_text(a: Output, b: Output, char: int) -> Parting | None:
    """From the last space on: a token that both begin alike must not be cut. Where one ends at a space, from there."""
    ended: Ended = "ours" if char == len(a.text) else "theirs" if char == len(b.text) else None
    if not _by_a_token(ended, a, b):
        return None
    longer = b if ended == "ours" else a
    whole = ended is not None and (char == 0 or longer.text[char].isspace())
    begin = char if whole else max(a.text.rfind(" ", 0, char), 0)
    ours, theirs = (o.text[begin : begin + _ENOUGH] for o in (a, b))
    return Parting(a.case_id, (a.arm, b.arm), None, a.text[:begin], (None, ours), (None, theirs), ended)


def margin_of(told: Sequence[Told]) -> Margin | None:
    """Of what both arms said (of a baseline that parts from itself, that one). None where nobody was asked."""
    tops = [_top(one) for one in told]
    return margin(tops[0], tops[-1], "ours", "theirs") if tops else None


def _top(told: Told) -> dict[Hashable, float]:
    """As a server's list: the tokens it told, and the least of all."""
    known: dict[Hashable, float | None] = {"ours": told.ours, "theirs": told.theirs, "least": told.least}
    return {name: value for name, value in known.items() if value is not None}


def to_ask(partings: Iterable[Parting], most: int) -> tuple[list[Parting], int]:
    """What is asked again, each question once, and how many questions there are. Of the baseline with itself and with
    each candidate in turn, so that a budget that is too small leaves some of each."""
    different = {one.key: one for one in partings}
    by_arms: dict[tuple[str, str], list[Parting]] = {}
    for one in different.values():
        by_arms.setdefault(one.arms, []).append(one)
    longest = max(map(len, by_arms.values()), default=0)
    turns = [some[i] for i in range(longest) for some in by_arms.values() if i < len(some)]
    return turns[:most], len(turns)


def margins_of(told: Mapping[str, Sequence[Told]]) -> dict[str, Margin]:
    """By the key of the parting."""
    found = {key: margin_of(some) for key, some in told.items()}
    return {key: one for key, one in found.items() if one is not None}
