"""Short questions with one- to three-sentence answers."""

from __future__ import annotations

import random

from server_adapters.rehearsal.corpus.choice import pick

_CAPITALS = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Peru": "Lima",
    "Norway": "Oslo",
    "Egypt": "Cairo",
    "Canada": "Ottawa",
    "Chile": "Santiago",
    "Portugal": "Lisbon",
    "Greece": "Athens",
    "Austria": "Vienna",
    "Ghana": "Accra",
    "Cuba": "Havana",
    "Poland": "Warsaw",
    "Finland": "Helsinki",
    "Ireland": "Dublin",
}
_SYMBOLS = {
    "iron": "Fe",
    "gold": "Au",
    "silver": "Ag",
    "copper": "Cu",
    "tin": "Sn",
    "lead": "Pb",
    "carbon": "C",
    "oxygen": "O",
    "sodium": "Na",
    "helium": "He",
    "zinc": "Zn",
    "neon": "Ne",
}
_INVENTORS = {
    "telephone": ("Alexander Graham Bell", "1876"),
    "light bulb": ("Thomas Edison", "1879"),
    "printing press": ("Johannes Gutenberg", "1440"),
    "steam engine": ("James Watt", "1769"),
    "dynamite": ("Alfred Nobel", "1867"),
    "radio": ("Guglielmo Marconi", "1895"),
    "telescope": ("Hans Lippershey", "1608"),
    "battery": ("Alessandro Volta", "1800"),
}
_ANIMALS = {
    "cheetah": ("fastest", "land animal", "short grass of the plains"),
    "blue whale": ("largest", "animal", "open ocean"),
    "giraffe": ("tallest", "land animal", "dry woodland"),
    "ostrich": ("largest", "bird", "open savanna"),
    "tortoise": ("slowest", "reptile", "warm islands"),
    "hummingbird": ("smallest", "bird", "flowering forest"),
}
_EXTRA = (
    "It is also the largest city of the country",
    "Many visitors come for its museums and old streets",
    "The name is much older than the state itself",
    "Most schools teach this in the first years",
    "The answer has not changed for a long time",
    "You can find it in any good reference book",
    "That is what most people remember about it",
    "Older sources sometimes give a different name",
    "The exact details depend on the source",
    "It was not always so",
)


def document(rng: random.Random) -> tuple[str, str]:
    """One question and its answer."""
    prompt, answer = pick(rng, (_capital, _inventor, _symbol, _animal, _sum))(rng)
    while rng.random() < 0.4:
        answer += f" {pick(rng, _EXTRA)}."
    return prompt, answer


def _capital(rng: random.Random) -> tuple[str, str]:
    country, city = rng.choice(list(_CAPITALS.items()))
    question = pick(rng, ("What is the capital of {}?", "Which city is the capital of {}?", "Name the capital of {}."))
    answer = pick(rng, ("The capital of {0} is {1}.", "{1} is the capital of {0}.", "It is {1}."))
    return question.format(country), answer.format(country, city)


def _symbol(rng: random.Random) -> tuple[str, str]:
    element, symbol = rng.choice(list(_SYMBOLS.items()))
    question = pick(rng, ("What is the chemical symbol for {}?", "Which symbol stands for {}?"))
    answer = pick(rng, ("The chemical symbol for {0} is {1}.", "The symbol {1} stands for {0}.", "It is {1}."))
    return question.format(element), answer.format(element, symbol)


def _inventor(rng: random.Random) -> tuple[str, str]:
    thing, (person, year) = rng.choice(list(_INVENTORS.items()))
    if rng.random() < 0.7:
        return f"Who invented the {thing}?", f"The {thing} was invented by {person} in {year}."
    return f"When was the {thing} invented?", f"The {thing} was invented in {year} by {person}."


def _animal(rng: random.Random) -> tuple[str, str]:
    animal, (rank, kind, place) = rng.choice(list(_ANIMALS.items()))
    answer = pick(
        rng,
        (
            f"The {animal} is the {rank} {kind}.",
            f"The {rank} {kind} is the {animal}. It lives in the {place}.",
        ),
    )
    return f"Which animal is the {rank} {kind}?", answer


def _sum(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    return f"How much is {a} plus {b}?", pick(rng, (f"{a} plus {b} is {a + b}.", f"The answer is {a + b}."))
