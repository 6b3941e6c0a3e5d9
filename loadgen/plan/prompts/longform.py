"""Prompts for long answers: a piece of writing to be done, with what is known about its subject."""

from __future__ import annotations

from itertools import chain

from loadgen.plan.prompts.lexicon import choices
from loadgen.plan.prompts.voice import Voice, cut, reference
from loadgen.plan.streams import Draw

_FORMS = choices(
    "a detailed report|an essay|a step-by-step guide|a feature article|a chapter of a handbook|"
    "a speech of ten minutes|a comparison of two approaches|a case study"
)
_AUDIENCES = choices(
    "new colleagues|the town council|readers of a weekend paper|students in their second year|an "
    "insurance company|"
    "sceptical engineers|the board|a general audience"
)
_ASPECTS = choices(
    "why the {noun} was {past}|what {nouns} cost over {small} years|the part of the {role}|"
    "the history of the {noun} in {place}|how to {verb} {adj} {nouns}|mistakes made when {gerund} "
    "{nouns}|who gains from a {adj} {noun}|"
    "the limits of {adj} {nouns}|what {place} does differently"
)


def prose(draw: Draw, chars: int) -> str:
    """Plain text of `chars` characters, to within a word."""
    return cut(Voice(draw).sentences(), chars)


def long_form(draw: Draw, chars: int) -> str:
    """An assignment of about `chars` characters, background included; at least its first sentence."""
    voice = Voice(draw)
    mark = reference(draw)
    title = voice.fill("the {adj} {noun} of {place}")
    short = f"Brief {mark}: write {draw.pick(_FORMS)} about {title} for {draw.pick(_AUDIENCES)}."
    aspects = [voice.fill(template) for template in draw.some(_ASPECTS, draw.between(2, 4))]
    order = f" Cover {', '.join(aspects[:-1])} and {aspects[-1]}. Use several sections with headings."
    background = f"\n\nBackground, from {voice.field.name}:\n\n"
    return short + cut(chain((order, background), voice.sentences()), chars - len(short))
