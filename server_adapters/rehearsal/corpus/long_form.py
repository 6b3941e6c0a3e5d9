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


def _noun(rng: random.Random, number: int, article: str = "the") -> str:
    """Someone or something, most often what the topic brings with it."""
    kinds = _PEOPLE if rng.random() < 0.7 else _THINGS
    noun = kinds[number] if rng.random() < 0.4 else pick(rng, kinds)
    return f"{article} {pick(rng, _ADJECTIVES)} {noun}" if rng.random() < 0.7 else f"{article} {noun}"


def _sentence(rng: random.Random, number: int, at: int) -> str:
    """Sentence `at` of a text: its form and its words move on with the text."""

    def moved(options: tuple[str, ...]) -> str:
        start = (at + number) % len(options)
        return pick(rng, options[start:] + options[:start])

    noun = _noun(rng, number)
    forms = (
        lambda: f"{noun} {moved(_VERBS)} {_noun(rng, number, 'a')} {moved(_PLACES)}",
        lambda: f"{moved(_TIMES)}, {noun} {moved(_STATES)} {moved(_PLACES)}",
        lambda: f"{moved(_LINKS)}, {noun} {moved(_VERBS)} {_noun(rng, number, 'a')} {moved(_TIMES)}",
        lambda: f"{noun} {moved(_STATES)} {moved(_TIMES)}, {moved(_CAUSES)}",
        lambda: f"there was a {moved(_ADJECTIVES)} {moved(_THINGS)} {moved(_PLACES)}",
    )
    start = at % len(forms)
    text = pick(rng, forms[start:] + forms[:start])()
    return text[0].upper() + text[1:] + "."
