"""The cases of a quality run: few prompts, each asked often, the same prompts in every pass that has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loadgen.plan.cases import CaseTable
from loadgen.plan.quality_scenario import DIVERGENCE, DIVERGENCE_SEED
from loadgen.plan.streams import permutation, words
from loadgen.plan.types import Case, PhaseName
from loadgen.scenario import LoadedScenario, OwnPrompt, PassTask, PromptSet, QualityPass


@dataclass(frozen=True)
class PassCases:
    """A pass's prompts in the order asked, each with its first seed."""

    asked: QualityPass
    prompts: tuple[Case, ...]


class QualityCases:
    """Case `index` of a stage is prompt `index` mod prompts. Where each arm has seeds of its own, it has indices of its
    own, too: arm number n takes n × requests and the following."""

    def __init__(self, loaded: LoadedScenario) -> None:
        scenario = loaded.scenario
        self._seed = scenario.seed
        self._own: Mapping[int, PromptSet] = loaded.prompts
        self._warmup = CaseTable(loaded)
        self.passes = tuple(PassCases(p, tuple(_prompts(loaded, n, p))) for n, p in enumerate(loaded.passes))

    def case(self, stage_index: int, phase: PhaseName, index: int) -> Case:
        if phase == "warmup":
            return self._warmup.case(stage_index, phase, index)
        cases = self.passes[stage_index]
        prompt = cases.prompts[index % len(cases.prompts)]
        return replace(prompt, index=index, sampling_seed=self._sampling_seed(cases, prompt, stage_index, index))

    def _sampling_seed(self, cases: PassCases, prompt: Case, stage_index: int, index: int) -> int | None:
        """None: the server's own randomness. The last answers of an arm have the seeds of its first."""
        if prompt.sampling_seed is None or not cases.asked.own_seeds:
            return prompt.sampling_seed
        arm, within = divmod(index, cases.asked.requests)
        different = len(cases.prompts) * cases.asked.samples
        place = arm * cases.asked.requests + within % different
        return int(words(1, self._seed, "quality seed", stage_index, place)[0] >> 33)

    def own_prompt(self, task_index: int, prompt_index: int | None) -> OwnPrompt | None:
        return None if prompt_index is None else self._own[task_index].prompts[prompt_index]


def _prompts(loaded: LoadedScenario, stage_index: int, asked: QualityPass) -> Iterator[Case]:
    """Every task's first prompts, in an order that does not depend on the task."""
    drawn = [case for task in asked.tasks for case in _of_task(loaded, stage_index, asked, task)]
    for place in permutation(len(drawn), loaded.scenario.seed, "quality order", stage_index).tolist():
        yield drawn[place]


def _of_task(loaded: LoadedScenario, stage_index: int, asked: QualityPass, task: PassTask) -> Iterator[Case]:
    """The same in every pass: drawn as the task of the user's scenario, alone."""
    scenario = loaded.scenario
    keys = scenario.workload.tasks[task.index].model_copy(update={"weight": 1.0})
    workload = scenario.workload.model_copy(update={"tasks": [keys]})
    prompts = {0: loaded.prompts[task.index]} if task.index in loaded.prompts else {}
    alone = CaseTable(replace(loaded, scenario=scenario.model_copy(update={"workload": workload}), prompts=prompts))
    longest = max(asked.max_tokens, (keys.sampling or scenario.sampling).min_tokens)
    for i in range(task.prompts):
        case = alone.case(max(task.origin, 0), "measure", i)
        yield replace(
            case,
            stage_index=stage_index,
            task_index=task.index,
            output_len_requested=min(case.output_len_requested, longest),
            sampling_seed=DIVERGENCE_SEED if task.origin == DIVERGENCE else case.sampling_seed,
        )
