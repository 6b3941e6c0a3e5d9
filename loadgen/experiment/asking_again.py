"""Where answers part, both arms are asked again: what is in common, one token, top log probabilities."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from loadgen.analyze import Parting, quality_records, questions, to_ask
from loadgen.errors import TargetUnusable
from loadgen.experiment.afterwards import Done
from loadgen.experiment.preflight import ReadyArm
from loadgen.plan import Case, render
from loadgen.record import open_run
from loadgen.scenario import QualityKeys
from server_adapters.base import Ask, Endpoint, Prompt, Said, Sampling, TargetError, Tops
from server_adapters.next_token import logprob_of

_TIMEOUT_S = 60.0
#: Names of the events: one divergence with what the arms told there; how many there were.
ASKED_AGAIN, QUESTIONS = "asked_again", "asked_again_all"
_Told = dict[str, Any]


async def ask_again(done: Done, keys: QualityKeys) -> None:
    """Every divergence once, at most `keys.reasks`, one request at a time and one arm after the other; into the run's
    events. No text goes there."""
    found, all_ = to_ask(questions(quality_records(open_run(done.writer.path)).evidence), keys.reasks)
    if found:
        done.say(f"asking again at {len(found)} of {all_} divergences, {keys.top_logprobs} log probabilities each")
    prompts = _prompts(done)
    told: dict[str, dict[str, _Told]] = {one.key: {} for one in found}
    for name, arm in done.ready.arms.items():
        mine = [one for one in found if name in one.arms]
        if mine:
            for key, answer in (await _of_arm(done, arm, mine, prompts, keys.top_logprobs)).items():
                told[key][name] = answer
    for one in found:
        if all(name in told[one.key] for name in one.arms):
            answers = [{"arm": name, **told[one.key][name]} for name in dict.fromkeys(one.arms)]
            done.event(ASKED_AGAIN, key=one.key, case=one.case_id, told=answers)
    done.event(QUESTIONS, questions=all_)


def _prompts(done: Done) -> dict[str, Prompt]:
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
) -> dict[str, _Told]:
    """By key; what is left when the run is interrupted is missing."""
    told: dict[str, _Told] = {}
    try:
        await done.stands(arm.name)
    except TargetUnusable as error:
        return {one.key: {"reason": str(error)} for one in found}
    async with arm.client(_TIMEOUT_S) as client:
        for one in found:
            if done.stopped():
                return told
            told[one.key] = await _told(client, arm, one, prompts[one.case_id], top)
    return told


async def _told(client: httpx.AsyncClient, arm: ReadyArm, one: Parting, prompt: Prompt, top: int) -> _Told:
    unique = f"again-{uuid.uuid4().hex}"
    salt = unique if arm.capabilities.cache_salt else None
    endpoint: Endpoint = "chat" if arm.facts.endpoint == "chat" else "completions"
    ask = Ask(endpoint, arm.model, prompt, 1, Sampling(), False, unique, cache_salt=salt)
    said = Said(one.ids, one.text)
    try:
        tops = await arm.adapter.next_token(client, arm.targets[0], ask, said, top, arm.capabilities)
    except TargetError as error:
        return {"reason": str(error)}
    return _numbers(tops, one)


def _numbers(tops: Tops, one: Parting) -> _Told:
    ours, theirs = logprob_of(tops, *one.ours), logprob_of(tops, *one.theirs)
    return {"ours": ours, "theirs": theirs, "least": min(tops.values())}
