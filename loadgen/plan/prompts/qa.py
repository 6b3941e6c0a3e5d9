"""Prompts for short answers: notes, then one question about them."""

from __future__ import annotations

from loadgen.plan.prompts.lexicon import choices
from loadgen.plan.prompts.voice import Voice, cut, reference
from loadgen.plan.streams import Draw

_ASKS = choices(
    "Answer in one or two sentences.|Reply briefly, in plain words.|One short sentence is enough.|"
    "Give the answer first, then one reason.|Answer for a newcomer, in at most forty words."
)
_QUESTIONS = choices(
    "Who should {verb} the {noun}, and why?|What does a {role} in {place} use a {noun} for?|"
    "Why might a {adj} {noun} be {past} before a {adj} one?|"
    "How many {nouns} does {place} need if each takes {small} hours?|What is the difference between "
    "{gerund} a {noun} and {gerund} a {noun}?|"
    "When is it too late to {verb} the {nouns}?|Which risk does a {adj} {noun} carry for the {role}?|"
    "What would {person} say about the {noun}?"
)


def short_qa(draw: Draw, chars: int) -> str:
    """A question of about `chars` characters, notes included; at least the question."""
    voice = Voice(draw)
    mark = reference(draw)
    question = f"{voice.fill(draw.pick(_QUESTIONS))} {draw.pick(_ASKS)}"
    head, tail = f"Notes {mark} on {voice.field.name}: ", f"\n\nQuestion: {question}"
    notes = cut(voice.sentences(), chars - len(head) - len(tail))
    return f"{head}{notes}{tail}" if notes else f"Question {mark} on {voice.field.name}: {question}"
