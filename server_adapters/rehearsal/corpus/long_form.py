"""Open prose: essays of five to fourteen sentences with many interchangeable words."""

from __future__ import annotations

import random

from server_adapters.rehearsal.corpus.choice import pick

_TOPICS = (
    "a harbour town",
    "an old railway",
    "a village garden",
    "the night market",
    "a mountain road",
    "the river delta",
    "a small library",
    "the winter sea",
    "a school orchestra",
    "the grain harvest",
)
_ADJECTIVES = (
    "old",
    "quiet",
    "narrow",
    "bright",
    "patient",
    "broken",
    "warm",
    "distant",
    "careful",
    "heavy",
    "green",
    "silver",
    "empty",
    "crowded",
    "gentle",
    "stubborn",
    "early",
    "late",
    "wooden",
    "forgotten",
)
_PEOPLE = (
    "fisherman",
    "teacher",
    "gardener",
    "captain",
    "baker",
    "engineer",
    "child",
    "traveller",
    "widow",
    "merchant",
    "musician",
    "librarian",
    "farmer",
    "driver",
    "painter",
    "clerk",
)
_THINGS = (
    "boat",
    "bridge",
    "lamp",
    "letter",
    "station",
    "orchard",
    "window",
    "street",
    "clock",
    "field",
    "tower",
    "market",
    "kitchen",
    "path",
    "river",
    "wall",
    "train",
    "harbour",
    "garden",
    "song",
    "map",
    "door",
)
_VERBS = (
    "watched",
    "repaired",
    "carried",
    "remembered",
    "crossed",
    "painted",
    "followed",
    "measured",
    "sold",
    "opened",
    "counted",
    "described",
    "left",
    "built",
    "found",
    "kept",
)
_STATES = ("stood", "waited", "changed", "slept", "grew", "faded", "returned", "moved", "rested", "began")
_PLACES = (
    "near the water",
    "behind the hill",
    "under the trees",
    "along the shore",
    "at the edge of town",
    "beside the road",
    "in the valley",
    "above the roofs",
    "across the square",
    "beyond the last house",
)
_TIMES = (
    "in the morning",
    "before the rain",
    "after supper",
    "every autumn",
    "for many years",
    "that winter",
    "at dusk",
    "on market days",
    "when the bells rang",
    "during the long summer",
)
_LINKS = ("Later", "Meanwhile", "Still", "Even so", "At first", "In the end", "Sometimes", "Once")
_CAUSES = (
    "because the work was slow",
    "although nobody asked",
    "so that others could rest",
    "while the tide went out",
    "until the light was gone",
    "as their parents had done",
)


def document(rng: random.Random) -> tuple[str, str]:
    """A request for prose and the prose."""
    number = rng.randrange(len(_TOPICS))
    ask = pick(
        rng,
        (
            "Write a detailed essay about {}.",
            "Describe {} in several paragraphs of prose.",
            "Tell me a long story about {}.",
            "Explain at length how life around {} has changed.",
        ),
    )
    sentences = [_sentence(rng, number, at) for at in range(rng.randint(5, 14))]
    return ask.format(_TOPICS[number]), " ".join(sentences)


def _noun(rng: random.Random, number: int) -> str:
    """Someone or something, most often what the topic brings with it."""
    kinds = _PEOPLE if rng.random() < 0.7 else _THINGS
    return kinds[number] if rng.random() < 0.5 else pick(rng, kinds)


def _sentence(rng: random.Random, number: int, at: int) -> str:
    """Sentence `at` of a text on topic `number`; the favourite form moves on with the text."""
    noun, other = f"the {_noun(rng, number)}", f"one {_noun(rng, number)}"
    if rng.random() < 0.7:
        noun = f"the {pick(rng, _ADJECTIVES)} {_noun(rng, number)}"
    place, time, verb = pick(rng, _PLACES), pick(rng, _TIMES), pick(rng, _VERBS)
    forms = (
        f"{noun} {verb} {other} {place}",
        f"{time}, {noun} just {pick(rng, _STATES)} {place}",
        f"{pick(rng, _LINKS)}, {noun} {verb} {other} {place}",
        f"{noun} just {pick(rng, _STATES)} {place}, {pick(rng, _CAUSES)}",
        f"there was {other} {place}",
    )
    start = at % len(forms)
    text = pick(rng, forms[start:] + forms[:start])
    return text[0].upper() + text[1:] + "."
