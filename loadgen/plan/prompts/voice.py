"""Sentences of one field of work, endless and each different, from a stream of choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from loadgen.plan.prompts import lexicon as lx
from loadgen.plan.streams import Draw

_CLAUSES = lx.choices(
    "the {adj} {noun} was {past} by {person} of {place}|{person} {past} the {noun} {adverb}|"
    "nobody {past} the {adj} {noun} near {place}|every {noun} in {place} needs {adj} {nouns}|"
    "the {role} {third} {nouns} faster than {adj} {nouns}|{number} {nouns} were {past} between {month} "
    "and {month}|"
    "a {noun} of {number} {unit} is too {adj} for the {noun}|{person} wrote that {nouns} should be "
    "{past} {adverb}|"
    "the {noun} from {place} arrived {number} {unit} short|two {adj} {nouns} replaced the {noun}|"
    "{gerund} a {noun} costs about {number} {unit}|the {role} refuses to {verb} {nouns} without a {noun}|"
    "most {nouns} are {adj}, a few are {adj}|the {noun} and the {noun} were {past} together|"
    "{place} ordered {number} {nouns} from {place}|no {role} had {past} such a {noun} since {year}|"
    "the {adj} side of the {noun} faces {place}|{person} and {person} disagreed about the {noun}|"
    "the {noun} failed at {number} {unit}|one {noun} in {small} turned out to be {adj}|"
    "whoever {third} the {noun} also {third} the {noun}|the cost of {gerund} {nouns} rose by {small} percent|"
    "the {role} asked {person} to {verb} the {noun} again|it takes {small} people to {verb} a {adj} {noun}|"
    "the {noun} had been {adj} since {month} {year}|{nouns} without a {noun} are {past} {adverb}|"
    "{person} kept the {noun} in {place} as a {adj} {noun}|the {nouns} were {adj}, not {adj}"
)
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_LARGEST = 99_999


class Voice:
    """Writes about one field of work, one sentence in four about another. Not shared: it uses up its "
    "stream."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.field = draw.pick(lx.FIELDS)
        self._words = _words_of(self.field)
        self._fill: dict[str, Callable[[], str]] = {
            "person": self.person,
            "number": lambda: f"{draw.between(2, _LARGEST) >> draw.below(15)}",
            "small": lambda: str(draw.between(2, 40)),
            "year": lambda: str(draw.between(1890, 2029)),
        }

    def word(self, kind: str) -> str:
        """A word of a kind: noun, nouns, verb, past, third, gerund, adj, role, adverb, place, month, unit, "
        "…"""
        words = self._words.get(kind)
        return self.draw.pick(words) if words else self._fill[kind]()

    def person(self) -> str:
        return f"{self.draw.pick(lx.GIVEN_NAMES)} {self.draw.pick(lx.FAMILY_NAMES)}"

    def fill(self, template: str) -> str:
        """A template with its {slots} filled."""
        text = "".join(self.word(part) if odd else part for part, odd in _parts(template))
        return _ARTICLE.sub(r"\1n ", text)

    def sentence(self) -> str:
        draw = self.draw
        self._words = _words_of(self.field if draw.below(4) else draw.pick(lx.FIELDS))
        text = self.fill(draw.pick(_CLAUSES))
        shape = draw.below(8)
        if shape >= 4:
            text += draw.pick(lx.LINKS) + self.fill(draw.pick(_CLAUSES))
        if shape in (3, 6, 7):
            return f"{draw.pick(lx.OPENERS)} {text}."
        return text[0].upper() + text[1:] + "."

    def sentences(self) -> Iterator[str]:
        """Sentences for ever, in paragraphs of three to eight."""
        while True:
            for left in range(self.draw.between(2, 7), -1, -1):
                yield self.sentence() + (" " if left else "\n\n")


def cut(pieces: Iterator[str], chars: int) -> str:
    """The first `chars` characters of endless pieces, ended at a word: short by less than a word."""
    if chars <= 0:
        return ""
    parts, length = [], 0
    while length <= chars:
        piece = next(pieces)
        parts.append(piece)
        length += len(piece)
    text = "".join(parts)
    end = max(text.rfind(" ", 0, chars + 1), text.rfind("\n", 0, chars + 1))
    return text[: max(end, 0)].rstrip()


def reference(draw: Draw) -> str:
    """A document number of 50 random bits: what makes a prompt unique from its first words on."""
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    code = "".join(draw.pick(alphabet) for _ in range(10))
    return f"{code[:4]}-{code[4:]}"


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[tuple[str, bool], ...]:
    return tuple((part, i % 2 == 1) for i, part in enumerate(_SLOT.split(template)) if part)


@lru_cache(maxsize=len(lx.FIELDS))
def _words_of(field: lx.Field) -> dict[str, tuple[str, ...]]:
    nouns, verbs = field.nouns + lx.NOUNS, field.verbs + lx.VERBS
    return {
        "noun": nouns,
        "nouns": tuple(map(lx.plural, nouns)),
        "verb": verbs,
        "past": tuple(map(lx.past, verbs)),
        "third": tuple(map(lx.third, verbs)),
        "gerund": tuple(map(lx.gerund, verbs)),
        "adj": field.adjectives + lx.ADJECTIVES,
        "role": field.roles,
        "adverb": lx.ADVERBS,
        "place": lx.PLACES,
        "month": lx.MONTHS,
        "unit": lx.UNITS,
    }
