"""An ordinary scenario to that of its quality run: which prompts are asked, how often, at which load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from loadgen.errors import ScenarioError
from loadgen.plan.derive import checked
from loadgen.scenario import (
    ArrivalStage,
    ConcurrencyStage,
    KnownAnswer,
    LoadedScenario,
    OwnPrompt,
    PassKind,
    PassTask,
    PromptSet,
    QualityKeys,
    QualityPass,
    Scenario,
    Task,
    limits_of,
)

#: Users under load, where neither the scenario's load nor its section says.
USERS = 8
#: Parts of each stage, where the scenario does not say: what drifts meets all passes alike.
BLOCKS = 4
KNOWN, DIVERGENCE = -1, -2  # origins of our own prompts
_OURS = {KNOWN: "known_answers", DIVERGENCE: "known_divergence"}
SECOND_TOKENS = 2
#: Prompts at which servers are known to answer otherwise when they speculate (vLLM issue 41758).
DIVERGENCES = (OwnPrompt("serving-48", _OURS[DIVERGENCE], "serving" * 48, 32, None),)
DIVERGENCE_SEED = 42


def quality_scenario(loaded: LoadedScenario) -> LoadedScenario:
    """The same arms and tasks, laid out in passes. Raises ScenarioError where the scenario has one arm, is another
    experiment, or its quality run would not fit into its caps.

    Greedy tasks keep everything but the temperature, which is 0; sampled ones have one above 0.
    """
    scenario = loaded.scenario
    if scenario.experiment not in ("run", "quality"):
        raise ScenarioError(
            [f"experiment: {scenario.experiment} cannot be compared by its answers: say run or quality"]
        )
    if len(scenario.arms) < 2:
        raise ScenarioError(["arms: a quality run needs two or more: a candidate is compared with the baseline"])
    tasks = _Tasks(loaded)
    passes = tuple(_passes(scenario, tasks))
    keys = scenario.model_dump()
    keys |= {"experiment": "quality", "thresholds": [], "sweep": None, "repeats": 1}
    keys["load"] = [_stage(one, scenario) for one in passes]
    keys["warmup"] |= {"warmup_seconds": 0.0, "max_windows": 1}
    keys["workload"] |= {"tasks": tasks.keys, "keep_text": True}
    restart = scenario.comparison.design == "restart"
    keys["comparison"] |= {"design": "restart" if restart else "interleaved", "blocks": None, "unpaired": []}
    keys["comparison"] |= {"swap": False, "aa_run": None}
    return replace(loaded, scenario=checked(keys, "the quality run"), prompts=tasks.prompts, passes=passes)


class _Tasks:
    """The tasks of the quality run, as they are asked for."""

    def __init__(self, loaded: LoadedScenario) -> None:
        self.keys: list[dict[str, Any]] = []
        self.prompts: dict[int, PromptSet] = {}
        self._loaded = loaded
        self._scenario = loaded.scenario
        self.known = loaded.known
        self.used = [i for i, task in enumerate(loaded.scenario.workload.tasks) if task.weight > 0]

    def add(self, origin: int, prompts: int, temperature: float, min_tokens: int | None = None) -> PassTask:
        """A task of the scenario at another temperature; at most as many prompts as it has."""
        task = self._scenario.workload.tasks[origin]
        own = self._loaded.prompts.get(origin)
        sampling = (task.sampling or self._scenario.sampling).model_dump() | {"temperature": temperature}
        if min_tokens is not None:
            sampling["min_tokens"] = min(sampling["min_tokens"], min_tokens)
        first = temperature == 0  # the others are not asked in warm-up
        index = self._added(task.model_dump() | {"sampling": sampling, "weight": task.weight if first else 0.0}, own)
        return PassTask(index, prompts if own is None else min(prompts, len(own.prompts)), origin)

    def add_ours(self, origin: int, prompts: Sequence[OwnPrompt], **sampling: Any) -> PassTask:
        kept = self._scenario.sampling.model_dump() | {"temperature": 0.0, "ignore_eos": False, "min_tokens": 0}
        task = {"task_type": _OURS[origin], "prompts": f"built in: {_OURS[origin]}", "weight": 0.0}
        keys = Task.model_validate(task).model_dump() | {"sampling": kept | sampling}
        return PassTask(self._added(keys, PromptSet("", tuple(prompts))), len(prompts), origin)

    def _added(self, keys: dict[str, Any], own: PromptSet | None) -> int:
        index = len(self.keys)
        self.keys.append(keys)
        if own is not None:
            self.prompts[index] = own
        return index

    def temperature(self, origin: int, asked: float | None) -> float:
        task = self._scenario.workload.tasks[origin]
        return asked or (task.sampling or self._scenario.sampling).temperature or 1.0


def _passes(scenario: Scenario, tasks: _Tasks) -> Iterator[QualityPass]:
    keys = scenario.quality
    greedy = tuple(_greedy(keys, tasks))
    for kind, stage in (("greedy", "greedy"), ("alone", "greedy-alone")):
        yield _pass(stage, kind, greedy, scenario)  # type: ignore[arg-type]
    if keys.sampled is not None:
        asked = keys.sampled
        some = tuple(tasks.add(i, asked.prompts_per_task, tasks.temperature(i, asked.temperature)) for i in tasks.used)
        yield replace(_pass("sampled", "sampled", some, scenario), samples=asked.samples, again=1)
    if keys.second_tokens is not None:
        few = tuple(_second(scenario, keys, tasks))
        made = _pass("second-tokens", "second", few, scenario)
        yield replace(made, samples=keys.second_tokens.samples, max_tokens=SECOND_TOKENS)


def _pass(stage: str, kind: PassKind, tasks: tuple[PassTask, ...], scenario: Scenario) -> QualityPass:
    keys, blocks = scenario.quality, scenario.comparison.blocks or BLOCKS
    greedy = kind in ("greedy", "alone")
    repeats = keys.repeats if greedy else 1
    return QualityPass(
        stage, kind, tasks, 1, 0, not greedy, repeats + greedy, repeats, keys.max_tokens, blocks
    )  # fmt: skip


def _greedy(keys: QualityKeys, tasks: _Tasks) -> Iterator[PassTask]:
    yield from (tasks.add(i, keys.cases_per_task, 0.0) for i in tasks.used)
    if tasks.known:
        yield tasks.add_ours(KNOWN, [_prompt(answer) for answer in tasks.known])
    if keys.known_divergences:
        yield tasks.add_ours(DIVERGENCE, DIVERGENCES, top_p=1.0, top_k=-1)


def _prompt(answer: KnownAnswer) -> OwnPrompt:
    return OwnPrompt(answer.case_id, _OURS[KNOWN], answer.prompt, answer.max_tokens, None)


def _second(scenario: Scenario, keys: QualityKeys, tasks: _Tasks) -> Iterator[PassTask]:
    """Prompts of the task that is asked for, or of all in turn."""
    assert keys.second_tokens is not None
    asked, wanted = keys.second_tokens, keys.second_tokens.task_type
    of = [i for i in tasks.used if wanted in (None, scenario.workload.tasks[i].task_type)]
    if not of:
        raise ScenarioError([f"quality.second_tokens.task_type: {wanted} has weight 0"])
    for place, origin in enumerate(of):
        prompts = len(range(place, asked.prompts, len(of)))
        if prompts:
            yield tasks.add(origin, prompts, tasks.temperature(origin, asked.temperature), SECOND_TOKENS)


def _stage(one: QualityPass, scenario: Scenario) -> dict[str, Any]:
    users = 1 if one.kind == "alone" else min(_users(scenario), one.requests)
    return {"kind": "concurrency", "name": one.stage, "concurrency": users, "cases": one.requests}


def _users(scenario: Scenario) -> int:
    """As the section says, else the most of the scenario's closed loops, at most `USERS`; never above the cap."""
    closed = [stage.peak for stage in scenario.load if isinstance(stage, ConcurrencyStage)]
    opened = [USERS for stage in scenario.load if isinstance(stage, ArrivalStage)]
    users = scenario.quality.concurrency or min(USERS, max([*closed, *opened]))
    return min(users, limits_of(scenario).max_concurrency or users)
