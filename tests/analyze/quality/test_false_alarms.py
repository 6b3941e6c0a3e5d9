"""A healthy pair of arms: how often any of the tests, or any name of a fault, comes up in one run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta

from loadgen.analyze import (
    LOADS,
    MARGIN_FLOOR_NAT,
    PROMISED,
    Accepted,
    Answers,
    Divergence,
    Evidence,
    Format,
    Load,
    Margin,
    Output,
    compare_answers,
    decide_answers,
    questions,
)
from loadgen.scenario import Match
from server_adapters.rehearsal import Models, SpeculationConfig, TaskType
from server_adapters.rehearsal.corpus import documents

Floats = npt.NDArray[np.float64]
RUNS = 310
REPEATS = 2
#: Standard deviations of a gap between two tokens, nat: noise that is another in every pass, of both arms; and what
#: other kernels or another batch shape make of the arms' difference, the same in all passes. Logits in bfloat16 have
#: steps of 0.06 to 0.125 nat (from 8 to 32), so that a gap differs by some hundredths.
ANEW, STEADY = 0.02, (0.0, 0.03, 0.07)
CASES: Sequence[tuple[TaskType, int]] = (("short_qa", 6), ("long_form", 4), ("structured", 3), ("code", 4))
LENGTH: dict[TaskType, int] = {"short_qa": 16, "long_form": 24, "structured": 64, "code": 24}
FORMATS: dict[TaskType, Format] = {"structured": Format("json"), "code": Format("python")}


class Healthy:
    """Two arms that speculate soundly or not at all, and the noise of numerics that a real server adds to them."""

    def __init__(self, models: Models, server: Callable[..., Any]) -> None:
        self.models = models
        self.arms = {"baseline": server(), "candidate": server(speculation=SpeculationConfig())}
        chat = models.tokenizer.render_chat
        self.cases = [
            (f"{task}-{i}", task, chat([("user", text)]))
            for task, n in CASES
            for i, (text, _) in enumerate(documents(task, n, 11))
        ]
        one = self.arms["baseline"]
        self.greedy = {c: tuple(one.answer(one.sampler(t, ids, 0, 0.0), 48)[0]) for c, t, ids in self.cases}
        rng = np.random.default_rng(99)
        # in nat: how far the second token is behind the first; one of five is within 0.2
        self.margins = {
            c: np.where(rng.random(len(g)) < 0.2, rng.uniform(0, 0.2, len(g)), 5.0) for c, g in self.greedy.items()
        }
        self.steady: dict[tuple[str, str], Floats] = {}

    def begin(self, rng: np.random.Generator, steady: float) -> None:
        """Two arms whose gaps differ steadily by so much; neither has the true ones."""
        self.steady = {
            (arm, c): rng.normal(0, steady / 2**0.5, len(g)) for arm in self.arms for c, g in self.greedy.items()
        }

    def greedy_run(self, rng: np.random.Generator) -> dict[Load, list[Output]]:
        """Both loads, as the command asks: the baseline's reference and as many passes of each arm."""
        passes = [("baseline", REPEATS + 1), ("candidate", REPEATS)]
        return {
            load: [self.noisy(rng, case, arm, i) for arm, n in passes for i in range(n) for case, _, _ in self.cases]
            for load in LOADS
        }

    def gaps(self, rng: np.random.Generator, case: str, arm: str) -> Floats:
        """How far the first token is ahead of the second when an arm computes them once, nat."""
        found: Floats = self.margins[case] + self.steady[arm, case] + rng.normal(0, ANEW, len(self.margins[case]))
        return found

    def noisy(self, rng: np.random.Generator, case: str, arm: str, repeat: int) -> Output:
        """A greedy answer with numerics; what it turns to depends on where."""
        ids, over = self.greedy[case], np.flatnonzero(self.gaps(rng, case, arm) < 0)
        at = int(over[0]) if len(over) else len(ids)
        tail = tuple(1_000_000 + at + i for i in range(5)) if len(over) else ()
        said = (*ids[:at], *tail)
        return Output(case, arm, repeat, said, " ".join(map(str, said)), "stop")

    def asked_again(self, rng: np.random.Generator, evidence: Evidence) -> dict[str, Margin]:
        """What both arms tell where answers part, with the numerics of the asking itself."""
        found = {}
        for one in questions(evidence):
            at = len(one.ids or ())
            found[one.key] = Margin(max(abs(float(self.gaps(rng, one.case_id, arm)[at])) for arm in set(one.arms)))
        return found

    def numerics(self, rng: np.random.Generator) -> list[float]:
        """What is compared where both say the same: 15 tokens of every case."""
        apart = [
            (self.gaps(rng, case, "candidate") - self.gaps(rng, case, "baseline"))[1:16] for case, _, _ in self.cases
        ]
        return [float(one) for some in apart for one in some]

    def sampled(self, run: int) -> tuple[list[Output], list[Accepted]]:
        """Answers at temperature 1 of both arms, and the acceptance of the candidate's."""
        outputs, accepted = [], []
        for n, (arm, one) in enumerate(self.arms.items()):
            for c, (case, task, ids) in enumerate(self.cases):
                seed = (run * 2 + n) * 1000 + c
                for i, (said, finish, drafted, taken) in enumerate(one.answers(task, ids, REPEATS, LENGTH[task], seed)):
                    text = self.models.tokenizer.decode(said)
                    outputs.append(Output(case, arm, i, tuple(said), text, finish, format=FORMATS.get(task)))
                    if arm == "candidate":
                        accepted.append(Accepted(case, drafted, taken))
        return outputs, accepted

    def repeated(self, run: int) -> list[Output]:
        """100 answers of two tokens to each of two prompts, of both arms."""
        prompts = [(case, ids) for case, task, ids in self.cases if task == "long_form"][:2]
        return [
            Output(case, arm, i, tuple(said), "", finish)
            for n, (arm, one) in enumerate(self.arms.items())
            for c, (case, ids) in enumerate(prompts)
            for i, (said, finish, _, _) in enumerate(
                one.answers("long_form", ids, 100, 2, (run * 2 + n) * 1000 + 500 + c, k=1)
            )
        ]

    def known(self) -> dict[str, tuple[str, Match]]:
        """Right is here: begins as the greedy answer does."""
        return {case: (" ".join(map(str, ids[:20])), "contains") for case, ids in self.greedy.items()}


@pytest.mark.slow
def test_false_alarms_of_a_run_are_at_most_one_percent(models: Models, server: Callable[..., Any]) -> None:
    """310 healthy runs, fixed seeds: the upper bound (95 %) of the share with any alarm, named fault or state "fail" is
    below 1 %. Everything `specload quality` computes is in it: both loads, classes, what is asked again, all tests.

    H1, H5, H6: with numerics that flip near ties anew in each run on both arms, and in two runs of three with numerics
    that always set the arms apart in the same way, so that differences are repeatable.
    """
    healthy, alarms, floors, wide = Healthy(models, server), 0, 0, 0
    pvalues: dict[str, list[float]] = {}
    for run in range(RUNS):
        found, state = one_run(healthy, run, STEADY[run % len(STEADY)])
        alarms += state == "fail" or bool(found.diagnoses)
        floors += sum(d.kind != "identical" for one in found.greedy.values() for d in one.floor)
        wide += any(beyond_a_tenth(one.found) for one in found.greedy.values())
        for name, one in pvalues_of(found).items():
            pvalues.setdefault(name, []).extend(() if one is None else (one,))
    made = {name for name, ps in pvalues.items() if len(ps) == RUNS}
    assert made == {
        "length", "distinct_ngrams", "token_histogram", "next_token", "looping", "formats", "noise_floor",
        "noise_floor_alone", "known_answers", "acceptance",
    }  # fmt: skip
    assert floors / (RUNS * 2 * REPEATS * len(healthy.cases)) > 0.1, "the noise is real"
    assert wide > RUNS / 10, "steady numerics reaches beyond a tenth of a nat"
    # each test keeps its level: at 5 %, no more than chance allows (99.99 %)
    for name in made:
        assert sum(x <= 0.05 for x in pvalues[name]) / RUNS <= 0.05 + 3.7 * np.sqrt(0.05 * 0.95 / RUNS), name
    upper = float(beta.ppf(0.95, alarms + 1, RUNS - alarms))
    assert upper <= PROMISED, (alarms, upper)


def one_run(healthy: Healthy, run: int, steady: float) -> tuple[Answers, str]:
    rng = np.random.default_rng(run)
    healthy.begin(rng, steady)
    outputs, accepted = healthy.sampled(run)
    asked = Evidence(
        "baseline",
        ("candidate",),
        healthy.greedy_run(rng),
        outputs,
        healthy.repeated(run),
        healthy.known(),
        {"candidate": ([a for i, a in enumerate(accepted) if i % REPEATS], accepted[::REPEATS])},
        numerics={"candidate": healthy.numerics(rng)},
        prompt_tokens={arm: {case: len(ids) for case, _, ids in healthy.cases} for arm in healthy.arms},
        seed=run * 100,
    )
    compared = compare_answers(replace(asked, margins=healthy.asked_again(rng, asked)))
    (found,) = compared.answers
    return found, decide_answers(found, compared)[0]


def beyond_a_tenth(pairs: Sequence[Divergence]) -> bool:
    """Whether a case differs in all of its passes with margins beyond a tenth of a nat: what failed a run alone."""
    far = Counter(d.case_id for d in pairs if d.margin is not None and d.margin.nat > MARGIN_FLOOR_NAT)
    return REPEATS in far.values()


def pvalues_of(found: Answers) -> dict[str, float | None]:
    """p before the correction."""
    noise = {"noise_floor": found.greedy["greedy"].noise, "noise_floor_alone": found.greedy["alone"].noise}
    acceptance = found.acceptance
    return {
        **{name: None if one is None else one.excess.p for name, one in noise.items()},
        "known_answers": found.known.p,
        **found.sampled.pvalues(),
        "acceptance": None if acceptance is None else acceptance.compared.p,
    }
