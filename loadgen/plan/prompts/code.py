"""Prompts about code: a Python module to be worked on, and the work."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.plan.prompts import lexicon as lx
from loadgen.plan.prompts.voice import Voice, cut, reference
from loadgen.plan.streams import Draw

_TASKS = lx.choices(
    "Write the missing function `{f}` with type hints and a docstring.|Add unit tests for `{f}` with pytest.|"
    "Find the bug in `{f}` and show the corrected function.|Rewrite `{f}` so that it runs in linear time.|"
    "Turn `{f}` into a class that can be pickled, and show how it is used.|"
    "Write `{f}`, and explain its edge cases in comments."
)
#: Bodies of functions, one after each bar.
_BODIES = lx.choices(
    """    {a} = [{x} for {x} in {b} if {x}.{c} > {k}]
    return sorted({a}, key=lambda {x}: {x}.{d}, reverse={flag})
|    {a}: dict[str, list[float]] = {{}}
    for {x} in {b}:
        {a}.setdefault({x}.{c}, []).append({x}.{d} * {r})
    return {a}
|    if not {b}:
        raise ValueError(f"no {c} in {{{b}!r}}")
    {a} = max({b}, key=lambda {x}: ({x}.{c}, -{x}.{d}))
    return {a}.{e}
|    {a} = 0
    while {a} < len({b}) and {b}[{a}].{c} != {k}:
        {a} += {s}
    return {b}[{a} :]
|    with {b}.{c}(timeout={r}) as {x}:
        for {a} in {x}.{d}():
            yield {a}.{e}, "{note}"
|    {a} = {{{x}.{c}: {x} for {x} in {b}}}
    {d} = {a}.get({k})
    return {d}.{e} if {d} is not None else {r}
|    try:
        {a} = {b}.{c}({k}, {d}={r})
    except KeyError as error:
        raise {cls}Error({k}) from error
    return {a} or []
|    {a}, {d} = divmod({b}.{c} + {k}, {s})
    if {d}:
        {a} += 1
    return min({a}, {b}.{e})
|    for {x}, {a} in zip({b}.{c}, {b}.{d}, strict=True):
        if {x} == {a}:
            continue
        {b}.{e}[{x}] = {a} - {k}
|    {a} = sum({x}.{c} for {x} in {b}) / max(len({b}), 1)
    return [{x} for {x} in {b} if abs({x}.{c} - {a}) < {r}]
"""
)
_TYPES = ("Sequence[float]", "dict[str, int]", "list[str]", "Iterator[bytes]", "tuple[int, ...]", "Mapping[str, Any]")


def code(draw: Draw, chars: int) -> str:
    """A programming task of about `chars` characters, the module included; at least one sentence."""
    voice = Voice(draw)
    mark = reference(draw).replace("-", "_").lower()
    module = f"{_name(voice, 'noun')}_{mark}"
    task = draw.pick(_TASKS).replace("{f}", f"{_name(voice, 'verb')}_{_name(voice, 'noun')}")
    short = f"In `{module}.py`: {task}"
    head, tail = f"# {module}.py\n", f"\n\n# {task}"
    body = cut(_definitions(voice), chars - len(head) - len(tail))
    return f"{head}{body}{tail}" if body else short


def _name(voice: Voice, kind: str) -> str:
    return voice.word(kind).replace(" ", "_").replace("-", "_")


def _definitions(voice: Voice) -> Iterator[str]:
    """Functions, constants and data classes for ever."""
    draw = voice.draw
    yield f"# Helpers for {voice.field.name}.\nfrom __future__ import annotations\n\n"
    while True:
        kind = draw.below(8)
        if kind == 0:
            name = f"{_name(voice, 'adj')}_{draw.pick(lx.CONSTANTS)}".upper()
            yield f"{name} = {draw.below(10**6) / 10 ** draw.below(4):g}  # {voice.word('unit')}\n"
        elif kind == 1:
            yield _data_class(voice)
        else:
            yield _function(voice)


def _data_class(voice: Voice) -> str:
    fields = {_name(voice, "noun"): voice.draw.pick(("int", "str", "float", "bool")) for _ in range(4)}
    lines = "".join(f"    {name}: {kind}\n" for name, kind in fields.items())
    return f'@dataclass(frozen=True)\nclass {_class(voice)}:\n    """{voice.sentence()}"""\n\n{lines}\n\n'


def _class(voice: Voice) -> str:
    return "".join(word.title() for word in f"{_name(voice, 'adj')}_{_name(voice, 'noun')}".split("_"))


def _function(voice: Voice) -> str:
    draw = voice.draw
    a, b, c, d, e = (_name(voice, kind) for kind in ("noun", "nouns", "noun", "adj", "noun"))
    body = draw.pick(_BODIES).format(
        a=a, b=b, c=c, d=d, e=e, x=f"{c[0]}{d[0]}x", cls=_class(voice),
        k=draw.between(1, 9_999), r=draw.below(10_000) / 100, s=draw.between(2, 9),
        flag=draw.pick((True, False)), note=voice.fill("{past} in {place}"),
    )  # fmt: skip
    name = f"{_name(voice, 'verb')}_{e}"
    doc = f'    """{voice.sentence()}"""\n' if draw.below(2) else ""
    return f"def {name}({b}: {draw.pick(_TYPES)}, {d}: {draw.pick(_TYPES)}) -> {draw.pick(_TYPES)}:\n{doc}{body}\n\n"
