"""Small Python functions in a fenced block."""

from __future__ import annotations

import random

from server_adapters.rehearsal.corpus.choice import pick

_LISTS = ("values", "items", "numbers", "rows", "names", "records")
_NAMES = ("total", "count", "result", "best", "found")
_CONDITIONS = (
    "item > limit",
    "item is not None",
    "item in seen",
    "item % 2 == 0",
    "item == target",
    "len(item) > 3",
)
_RAISES = ("ValueError", "TypeError", "KeyError")
_TASKS = {
    "adds up": "total += item",
    "counts": "count += 1",
    "collects": "result.append(item)",
    "finds the largest of": "best = max(best, item)",
    "removes duplicates from": "seen.add(item)",
}


def document(rng: random.Random) -> tuple[str, str]:
    """A request for code and the code."""
    task = rng.choice(list(_TASKS))
    source = rng.choice(_LISTS)
    ask = pick(
        rng,
        (
            "Write a Python function that {} the {}.",
            "Implement a Python function which {} a list of {}. Return only code.",
            "Show me Python code: a function that {} {}.",
        ),
    )
    lines = _function(rng, source, _TASKS[task])
    return ask.format(task, source), "```python\n" + "\n".join(lines) + "\n```"


def _function(rng: random.Random, source: str, action: str) -> list[str]:
    name = pick(rng, _NAMES)
    argument = pick(rng, ("", ", limit=10", ", target=None", ", start=0"))
    lines = [f"def process_{source}({source}{argument}):"]
    if rng.random() < 0.25:
        lines.append(f'    """Return the {name} of the {source}."""')
    if rng.random() < 0.7:
        lines += [f"    if not {source}:", f'        raise {pick(rng, _RAISES)}("no {source} given")']
    lines.append(f"    {name} = {pick(rng, ('0', '[]', 'None', 'start'))}")
    if rng.random() < 0.25:
        lines.append("    seen = set()")
    loop = pick(rng, (f"    for item in {source}:", f"    for index, item in enumerate({source}):"))
    lines.append(loop)
    if rng.random() < 0.3:
        lines += [
            f"        if {pick(rng, _CONDITIONS)}:",
            f"            {pick(rng, ('continue', 'break', action))}",
        ]
    lines += [f"        {action}", f"    return {name}"]
    return lines
