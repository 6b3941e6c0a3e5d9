"""Where answers part, both arms are asked again: what is in common, one token, top log probabilities."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from loadgen.analyze import Parting, quality_records, questions, to_ask
from loadgen.errors import TargetUnusable
from loadgen.experiment.afterwards import Done
from loadgen.experiment.preflight import ReadyArm
from loadgen.plan import Case, render
from loadgen.record import open_run
from loadgen.scenario import QualityKeys
from server_adapters.base import Ask, Endpoint, NextToken, Prompt, Said, Sampling, TargetError
from server_adapters.next_token import token_of

_TIMEOUT_S = 60.0
#: Of texts alone: tokens that both answers still begin with, at most.
_MOST_SHARED = 8
#: Names of the events: one divergence with what the arms told there; how many there were.
ASKED_AGAIN, QUESTIONS = "asked_again", "asked_again_all"
#: By arm: numbers, or the reason why there are none.
_Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SaidAgain:
    """What an arm said where two answers part, and how each goes on from there: (token id, text)."""

    answer: NextToken
    ours: tuple[int | None, str]
    theirs: tuple[int | None, str]


async def ask_again(done: Done, keys: QualityKeys, prompts: Mapping[str, Prompt]) -> list[Parting]:
    """Every divergence once, at most `keys.reasks`, one request at a time and one arm after the other; into the run's
    events. No text goes there. What was asked."""
    found, all_ = to_ask(questions(quality_records(open_run(done.writer.path)).evidence), keys.reasks)
    if found:
        done.say(f"asking again at {len(found)} of {all_} divergences, {keys.top_logprobs} log probabilities each")
    said: dict[str, dict[str, SaidAgain | str]] = {one.key: {} for one in found}
    for name, arm in done.ready.arms.items():
        mine = [one for one in found if name in one.arms]
        if mine:
            for key, answer in (await _of_arm(done, arm, mine, prompts, keys.top_logprobs)).items():
                said[key][name] = answer
    ends = {answer.chosen for some in said.values() for answer in _answers(some) if answer.ends}
    for one in found:
        if all(name in said[one.key] for name in one.arms):
            answers = told_of_arms(one, {name: said[one.key][name] for name in one.arms}, ends)
            done.event(ASKED_AGAIN, key=one.key, case=one.case_id, told=answers)
    done.event(QUESTIONS, questions=all_)
    return found


def prompts_asked(done: Done) -> dict[str, Prompt]:
    """By case, as they were asked."""
    plan = done.plan
    stages = dict.fromkeys(s.stage_index for s in plan.segments if s.phase == "measure")
    cases: dict[str, Case] = {}
    for stage in stages:
        for i in range(plan.requests(stage, "measure") or 0):
            case = plan.case(stage, "measure", i)
            cases.setdefault(case.case_id, case)
    return {case_id: render(plan, case, done.lengths).prompt for case_id, case in cases.items()}


async def _of_arm(
    done: Done, arm: ReadyArm, found: Sequence[Parting], prompts: Mapping[str, Prompt], top: int
) -> dict[str, SaidAgain | str]:
    """By key; what is left when the run is interrupted is missing."""
    said: dict[str, SaidAgain | str] = {}
    try:
        await done.stands(arm.name)
    except TargetUnusable as error:
        return {one.key: str(error) for one in found}
    async with arm.client(_TIMEOUT_S) as client:
        for one in found:
            if done.stopped():
                return said
            try:
                said[one.key] = await _said(client, arm, one, prompts[one.case_id], top)
            except TargetError as error:
                said[one.key] = str(error)
    return said


async def next_tokens(
    client: httpx.AsyncClient, arm: ReadyArm, prompt: Prompt, said: Said, tokens: int, top: int
) -> tuple[NextToken, ...]:
    """What the arm's first server says next, at temperature 0 and with an empty cache where it has a salt. TargetError
    where it cannot tell."""
    unique = f"again-{uuid.uuid4().hex}"
    salt = unique if arm.capabilities.cache_salt else None
    endpoint: Endpoint = "chat" if arm.facts.endpoint == "chat" else "completions"
    ask = Ask(endpoint, arm.model, prompt, tokens, Sampling(), False, unique, cache_salt=salt)
    return await arm.adapter.next_tokens(client, arm.targets[0], ask, said, top, arm.capabilities)


async def _said(client: httpx.AsyncClient, arm: ReadyArm, one: Parting, prompt: Prompt, top: int) -> SaidAgain:
    """Without ids, two words that part may begin with the same token: then behind it."""
    text, ours, theirs = one.text, one.ours, one.theirs
    for _ in range(_MOST_SHARED):
        answer = (await next_tokens(client, arm, prompt, Said(one.ids, text), 1, top))[0]
        shared = token_of(answer.tops, *ours)
        if one.ids is not None or not isinstance(shared, str) or shared != token_of(answer.tops, *theirs):
            return SaidAgain(answer, ours, theirs)
        text, ours, theirs = text + shared, (None, ours[1][len(shared) :]), (None, theirs[1][len(shared) :])
    raise TargetError(f"the words that part begin with {_MOST_SHARED} tokens alike")


def _answers(said: Mapping[str, SaidAgain | str]) -> list[NextToken]:
    return [one.answer for one in said.values() if isinstance(one, SaidAgain)]


def told_of_arms(one: Parting, said: Mapping[str, SaidAgain | str], ends: set[int | str]) -> list[_Told]:
    """Of each arm. `ends`: tokens that ended an answer when any arm was asked again."""
    if one.ended is not None:
        ends = _end_tokens(said, ends)
        if not ends:
            why = "one answer ends here, and which token ends it is not known: neither arm ended when asked again"
            return _unknown(said, why)
    if _elsewhere(one, said[one.arms[0]], ends):
        return _unknown(said, "asked again by text the baseline says neither: text is not cut into the same tokens")
    return [
        {"arm": name, **({"reason": told} if isinstance(told, str) else _logprobs(one, told, ends))}
        for name, told in said.items()
    ]


def _unknown(said: Mapping[str, SaidAgain | str], why: str) -> list[_Told]:
    return [{"arm": name, "reason": told if isinstance(told, str) else why} for name, told in said.items()]


def _elsewhere(one: Parting, base: SaidAgain | str, ends: set[int | str]) -> bool:
    """By text, whether the baseline was asked at another place than where it parted: it then says neither word."""
    if one.ids is not None or isinstance(base, str):
        return False
    words = {token_of(base.answer.tops, *way) for way in (base.ours, base.theirs)}
    return base.answer.chosen not in words | (ends if one.ended else set())


def _end_tokens(said: Mapping[str, SaidAgain | str], ends: set[int | str]) -> set[int | str]:
    """With which an arm ended right here; else those of other places, where both arms told one of them."""
    answers = _answers(said)
    here = {answer.chosen for answer in answers if answer.ends}
    return here or (ends if all(ends & set(answer.tops) for answer in answers) else set())


def _logprobs(one: Parting, told: SaidAgain, ends: set[int | str]) -> _Told:
    tops = told.answer.tops

    def of(way: tuple[int | None, str], ended: bool) -> float | None:
        if ended and not way[1]:
            return max((tops[token] for token in ends if token in tops), default=None)
        token = token_of(tops, *way)
        return None if token is None else tops[token]

    return {
        "ours": of(told.ours, one.ended == "ours"),
        "theirs": of(told.theirs, one.ended == "theirs"),
        "least": min(tops.values()),
    }
