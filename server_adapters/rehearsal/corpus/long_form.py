"""Open prose: essays of five to fourteen sentences with many interchangeable words."""

from __future__ import annotations

import random

from server_adapters.rehearsal.corpus.choice import pick

_TOPICS = ("a harbour town", "an old railway", "a village garden", "the night market", "a mountain road",
           "the river delta", "a small library", "the winter sea", "a school orchestra", "the grain harvest")  # fmt: skip
_ADJECTIVES = ("old", "quiet", "narrow", "bright", "patient", "broken", "warm", "distant", "careful", "heavy",
               "green", "silver", "empty", "crowded", "gentle", "stubborn", "early", "late", "wooden", "forgotten")  # fmt: skip
_PEOPLE = ("fisherman", "teacher", "gardener", "captain", "baker", "engineer", "child", "traveller", "widow",
           "merchant", "musician", "librarian", "farmer", "driver", "painter", "clerk")  # fmt: skip
_THINGS = ("boat", "bridge", "lamp", "letter", "station", "orchard", "window", "street", "clock", "field", "tower",
           "market", "kitchen", "path", "river", "wall", "train", "harbour", "garden", "song", "map", "door")  # fmt: skip
_VERBS = ("watched", "repaired", "carried", "remembered", "crossed", "painted", "followed", "measured", "sold",
          "opened", "counted", "described", "left", "built", "found", "kept")  # fmt: skip
_STATES = ("stood", "waited", "changed", "slept", "grew", "faded", "returned", "moved", "rested", "began")
_PLACES = ("near the water", "behind the hill", "under the trees", "along the shore", "at the edge of town",
           "beside the road", "in the valley", "above the roofs", "across the square", "beyond the last house")  # fmt: skip
_TIMES = ("in the morning", "before the rain", "after supper", "every autumn", "for many years", "that winter",
          "at dusk", "on market days", "when the bells rang", "during the long summer")  # fmt: skip
_LINKS = ("Later", "Meanwhile", "Still", "Even so", "At first", "In the end", "Sometimes", "Once")
_CAUSES = ("because the work was slow", "although nobody asked", "so that others could rest",
           "while the tide went out", "until the light was gone", "as their parents had done")  # fmt: skip


def document(rng: random.Random) -> tuple[str, str]:
    """A request for prose and the prose."""
    topic = pick(rng, _TOPICS)
    ask = pick(rng, 
        (
            "Write a detailed essay about {}.",
            "Describe {} in several paragraphs of prose.",
            "Tell me a long story about {}.",
            "Explain at length how life around {} has changed.",
        )
    )
    return ask.format(topic), " ".join(_sentence(rng) for _ in range(rng.randint(5, 14)))


def _noun(rng: random.Random) -> str:
    noun = pick(rng, rng.choice((_PEOPLE, _THINGS)))
    return f"the {pick(rng, _ADJECTIVES)} {noun}" if rng.random() < 0.6 else f"the {noun}"


def _sentence(rng: random.Random) -> str:
    form = rng.random()
    if form < 0.3:
        text = f"{_noun(rng)} {pick(rng, _VERBS)} {_noun(rng)} {pick(rng, _PLACES)}"
    elif form < 0.5:
        text = f"{pick(rng, _TIMES)}, {_noun(rng)} {pick(rng, _STATES)} {pick(rng, _PLACES)}"
    elif form < 0.7:
        text = f"{pick(rng, _LINKS)}, the {pick(rng, _PEOPLE)} {pick(rng, _VERBS)} {_noun(rng)} {pick(rng, _TIMES)}"
    elif form < 0.85:
        text = f"{_noun(rng)} {pick(rng, _STATES)} {pick(rng, _TIMES)}, {pick(rng, _CAUSES)}"
    else:
        text = f"there was a {pick(rng, _ADJECTIVES)} {pick(rng, _THINGS)} {pick(rng, _PLACES)}"
    return text[0].upper() + text[1:] + "."
