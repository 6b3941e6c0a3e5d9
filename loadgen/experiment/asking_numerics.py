"""Where arms part, their numerics: by how much their log probabilities differ where both say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.analyze import NUMERICS, Parting, gaps_apart
from loadgen.errors import TargetUnusable
from loadgen.experiment.afterwards import Done
from loadgen.experiment.asking_again import next_tokens
from loadgen.experiment.preflight import ReadyArm
from loadgen.scenario import QualityKeys
from server_adapters.base import NextToken, Prompt, Said, TargetError

_TIMEOUT_S = 60.0
#: Prompts that are asked once more, spread over all, and tokens of each: some hundreds of positions.
PROMPTS, TOKENS = 20, 16
_Answers = dict[str, tuple[NextToken, ...]]


async def ask_numerics(
    done: Done, keys: QualityKeys, prompts: Mapping[str, Prompt], baseline: str, parted: Sequence[Parting]
) -> None:
    """The baseline and every candidate that parts from it, one request at a time; numbers alone go into the run's
    events. Nothing is asked where nobody parts, or nothing may be asked again."""
    candidates = [n for n in done.ready.arms if n != baseline and any(one.arms == (baseline, n) for one in parted)]
    if not candidates:
        return
    chosen = _spread(prompts)
    done.say(f"comparing log probabilities where the arms agree: {len(chosen)} prompts, {TOKENS} tokens each")
    base = await _of_arm(done, done.ready.arms[baseline], chosen, keys.top_logprobs)
    for name in candidates:
        answers = (
            base if isinstance(base, str) else await _of_arm(done, done.ready.arms[name], chosen, keys.top_logprobs)
        )
        if isinstance(base, str) or isinstance(answers, str):
            done.event(NUMERICS, arm=name, reason=answers)
            continue
        gaps = {case: gaps_apart(_places(base[case]), _places(answers[case])) for case in base if case in answers}
        done.event(NUMERICS, arm=name, differences=[round(one, 6) for some in gaps.values() for one in some])


def _spread(prompts: Mapping[str, Prompt]) -> dict[str, Prompt]:
    cases = sorted(prompts)
    step = max(len(cases) // PROMPTS, 1)
    return {case: prompts[case] for case in cases[::step][:PROMPTS]}


async def _of_arm(done: Done, arm: ReadyArm, prompts: Mapping[str, Prompt], top: int) -> _Answers | str:
    """By case, or why there are none."""
    found: _Answers = {}
    try:
        await done.stands(arm.name)
        async with arm.client(_TIMEOUT_S) as client:
            for case, prompt in prompts.items():
                if done.stopped():
                    break
                found[case] = await next_tokens(client, arm, prompt, Said((), ""), TOKENS, top)
    except (TargetUnusable, TargetError) as error:
        return str(error)
    return found


def _places(said: Sequence[NextToken]) -> list[tuple[int | str, Mapping[int | str, float]]]:
    return [(one.chosen, one.tops) for one in said]
