"""From kinds and alarms to the fault they look like, as a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loadgen.analyze.quality.acceptance import AcceptanceAnomaly
from loadgen.analyze.quality.cases import CaseFinding
from loadgen.analyze.quality.diverge import ALIKE
from loadgen.analyze.quality.family import Family
from loadgen.analyze.quality.types import Kind

Fault = Literal[
    "text_after_stop", "early_stop", "finish_reason", "looping", "format_broken", "wrong_template", "first_token",
    "divergent", "garbled", "differs_more_than_noise", "wrong_answers", "sampling", "outputs_shifted", "acceptance_low",
    "acceptance_high",
]  # fmt: skip

_LOOKS_LIKE: dict[Kind, str] = {
    "text_after_stop": "go on after a stop: an EOS accepted in the middle of a round, or a stop string not cut",
    "early_stop": "end where the baseline goes on",
    "finish_reason": "have the same text and another finish reason",
    "looping": "fall into a loop that the baseline does not have: drafts accepted unseen, or broken state",
    "format_broken": "no longer have the format they were asked for",
    "first_token": "differ from the first token",
    "divergent": "differ, and not by a near tie",
}
#: So many cases, also as a share of all, that differ from the first token are no chance: it is another prompt.
TEMPLATE_SHARE, TEMPLATE_CASES = 0.5, 3
_FLOORS = ("noise_floor", "noise_floor_alone")
_DISTRIBUTION = ("next_token", "token_histogram", "mean_logprob")
_SHIFTED = ("length", "distinct_ngrams", "looping", "formats")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`fault`: what it looks like. `text`: the sentence. `cases`: those it was seen in; `tests`: alarms behind it."""

    fault: Fault
    text: str
    cases: tuple[str, ...] = ()
    tests: tuple[str, ...] = field(default=())


def diagnose(
    cases: Sequence[CaseFinding], tests: Family | None = None, acceptance: AcceptanceAnomaly | None = None
) -> list[Diagnosis]:
    """What is wrong with the candidate, worst evidence first; nothing for a healthy one.

    A case counts where its difference is repeatable; where it was asked once (`repeatable` None) the sentence says so.
    A distribution that differs while greedy answers agree is the sampler: the correction step, or other parameters.
    """
    return [*_of_cases(cases), *(_of_tests(cases, tests, acceptance) if tests is not None else ())]


def other_prompts(baseline: Mapping[str, int], candidate: Mapping[str, int]) -> Diagnosis | None:
    """Prompt tokens by case, as both arms counted them for the same text: another number is another template, system
    message or tokenizer, also where the answers do not show it. None where no case differs."""
    common = [case for case in baseline if case in candidate]
    other = tuple(case for case in common if baseline[case] != candidate[case])
    if not other:
        return None
    gaps = sorted({candidate[case] - baseline[case] for case in other})
    by = f"{gaps[0]:+d}" if len(gaps) == 1 else f"{gaps[0]:+d} to {gaps[-1]:+d}"
    text = (
        f"{len(other)} of {len(common)} prompts have another number of tokens than in the baseline ({by}): another "
        "chat template, system message or tokenizer"
    )
    return Diagnosis("wrong_template", text, other)


def _of_cases(cases: Sequence[CaseFinding]) -> Iterator[Diagnosis]:
    counted = [c for c in cases if c.kind not in ALIKE and c.repeatable is not False]
    garbled = [c for c in counted if c.kind == "divergent" and _unlikely(c)]
    if garbled:
        what = "go on with a token that neither arm counts among its likeliest: garbled, or another request's answer"
        yield _named("garbled", garbled, what, len(cases))
    for kind, what in _LOOKS_LIKE.items():
        some = [c for c in counted if c.kind == kind and c not in garbled]
        if not some:
            continue
        fault: Fault = kind  # type: ignore[assignment]
        if kind == "first_token" and len(some) >= max(TEMPLATE_CASES, TEMPLATE_SHARE * len(cases)):
            fault, what = "wrong_template", f"{what}: another chat template, system message or tokenizer"
        yield _named(fault, some, what, len(cases))


def _unlikely(case: CaseFinding) -> bool:
    return case.first is not None and case.first.margin is not None and case.first.margin.unlikely


def _named(fault: Fault, some: Sequence[CaseFinding], what: str, total: int) -> Diagnosis:
    once = sum(c.repeatable is None for c in some)
    note = f" ({once} of them were asked only once)" if once else ""
    return Diagnosis(fault, f"{len(some)} of {total} cases {what}{note}", tuple(c.case_id for c in some))


def _of_tests(cases: Sequence[CaseFinding], tests: Family, acceptance: AcceptanceAnomaly | None) -> Iterator[Diagnosis]:
    def told(names: Sequence[str]) -> str:
        return ", ".join(f"{name} p = {tests.adjusted[name]:.2g}" for name in names)

    alarms = tests.alarms
    if floors := [name for name in _FLOORS if name in alarms]:
        text = f"greedy answers differ more often than the baseline's own do ({told(floors)})"
        yield Diagnosis("differs_more_than_noise", text, tests=tuple(floors))
    if "known_answers" in alarms:
        text = f"known answers: the arms are not right equally often ({told(['known_answers'])})"
        yield Diagnosis("wrong_answers", text, tests=("known_answers",))
    if distribution := [name for name in _DISTRIBUTION if name in alarms]:
        greedy = [c for c in cases if c.kind not in ALIKE and c.repeatable is not False]
        agree = (
            f"all {len(cases)} greedy cases agree"
            if cases and not greedy
            else "greedy answers differ too, or were not asked"
        )
        text = f"sampled tokens have another distribution ({told(distribution)}) and {agree}"
        if cases and not greedy:
            text += ": the correction step after a rejected draft is missing, or sampling parameters differ"
        yield Diagnosis("sampling", text, tests=tuple(distribution))
    if shifted := [name for name in _SHIFTED if name in alarms]:
        yield Diagnosis("outputs_shifted", f"sampled outputs have shifted ({told(shifted)})", tests=tuple(shifted))
    if acceptance is not None and acceptance.direction is not None and "acceptance" in alarms:
        low = acceptance.direction == "low"
        sign = "has fallen, as with garbled output" if low else "has risen, as with a repetition loop"
        text = f"acceptance {sign} ({told(['acceptance'])})"
        moved = tuple(case for case, _, _ in acceptance.moved)
        yield Diagnosis("acceptance_low" if low else "acceptance_high", text, moved, ("acceptance",))
