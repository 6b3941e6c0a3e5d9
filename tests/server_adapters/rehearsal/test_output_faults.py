"""Faults of the tokens themselves: in virtual time beside a sound arm, and at the face."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from server_adapters.rehearsal.faults import ENGINE_FAULTS, OUTPUT_FAULTS, Faults, output_faults
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.scripts import Garble, Loop
from server_adapters.rehearsal.simulate import Case, Record, Simulation, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, OutputFaults, SpeculationConfig

Start = Callable[..., Awaitable[Any]]
MakeCases = Callable[..., tuple[Case, ...]]
SPEC = EngineConfig(speculation=SpeculationConfig())
PLAIN = EngineConfig()


def beside(models: Models, cases: tuple[Case, ...], *faults: str, config: EngineConfig = SPEC) -> Simulation:
    """The same cases on a sound arm and on a broken one, eight at once."""
    plan = SimulationPlan({"sound": config, "broken": config}, (Stage(cases, 8),), faults={"broken": faults})
    return simulate(plan, 5, models)


def pairs(played: Simulation) -> list[tuple[Record, Record]]:
    """(sound, broken) of every case that was hit; all others must be the same on both arms."""
    sound = {r.case_id: r for r in played.records if r.arm == "sound"}
    found = []
    for broken in (r for r in played.records if r.arm == "broken"):
        one = sound[broken.case_id]
        if broken.faults is None:
            assert (broken.token_ids, broken.finish_reason) == (one.token_ids, one.finish_reason)
        else:
            found.append((one, broken))
    return found


def acceptance(records: list[Record]) -> float:
    specs = [r.spec for r in records if r.spec is not None]
    return sum(s.num_accepted_tokens for s in specs) / sum(s.num_draft_tokens for s in specs)


def common(one: list[int], other: list[int]) -> int:
    """Length of the common prefix."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def test_scripts() -> None:
    assert Loop([7, 8, 9], 10).tokens(10, 5) == [7, 8, 9, 7, 8]
    assert Loop([7, 8, 9], 10).tokens(14, 2) == [8, 9]
    garble = Garble(3, 50)
    assert garble.tokens(4, 6) == garble.tokens(4, 2) + garble.tokens(6, 4)
    assert set(garble.tokens(0, 2000)) == set(range(1, 50))
    assert Garble(4, 50).tokens(0, 9) != garble.tokens(0, 9)


@pytest.mark.parametrize("config", [PLAIN, SPEC], ids=["plain", "draft"])
def test_output_goes_on_past_its_stop(models: Models, make_cases: MakeCases, config: EngineConfig) -> None:
    """H3: the sound answer with its EOS, then ten more tokens."""
    cases = make_cases(6, temperature=0.0, max_tokens=200)
    hit = pairs(beside(models, cases, "junk_after_stop:share=0.5,tokens=10", config=config))
    assert 4 <= len(hit) <= 20
    stopped = [(one, broken) for one, broken in hit if one.finish_reason == "stop"]
    assert len(stopped) > 3
    for one, broken in stopped:
        assert one.token_ids[-1] == models.tokenizer.eos_id
        assert broken.token_ids[: len(one.token_ids)] == one.token_ids
        assert len(broken.token_ids) == min(len(one.token_ids) + 10, 200)
        assert broken.finish_reason == "stop"


@pytest.mark.parametrize("config", [PLAIN, SPEC], ids=["plain", "draft"])
def test_output_ends_early(models: Models, make_cases: MakeCases, config: EngineConfig) -> None:
    hit = pairs(beside(models, make_cases(5, temperature=0.0), "early_stop:at_tokens=7", config=config))
    assert len(hit) == 20
    for one, broken in hit:
        assert broken.token_ids == one.token_ids[:7]
        assert broken.finish_reason == "stop"


@pytest.mark.parametrize("config", [PLAIN, SPEC], ids=["plain", "draft"])
def test_output_loops(models: Models, make_cases: MakeCases, config: EngineConfig) -> None:
    """It never stops, and drafts of a loop are always right."""
    played = beside(models, make_cases(5, max_tokens=64), "loop:share=0.6,at_tokens=12,period=4", config=config)
    hit = pairs(played)
    looped = [(one, broken) for one, broken in hit if len(one.token_ids) > 20]
    assert len(looped) > 5
    for one, broken in looped:
        begin = common(one.token_ids, broken.token_ids)
        assert begin >= 12
        rest = broken.token_ids[begin:]
        assert len(broken.token_ids) == 64
        assert rest == (rest[:4] * 16)[: len(rest)]
        assert broken.finish_reason == "length"
    if config is SPEC:
        assert acceptance([b for _, b in looped]) > acceptance([o for o, _ in looped]) + 0.1


def test_output_is_garbled(models: Models, make_cases: MakeCases) -> None:
    """No drafter foresees it: acceptance falls."""
    hit = pairs(beside(models, make_cases(5, max_tokens=64), "garble:at_tokens=6"))
    long = [(one, broken) for one, broken in hit if len(one.token_ids) > 20]
    for one, broken in long:
        assert 6 <= common(one.token_ids, broken.token_ids) < 14
        assert len(broken.token_ids) == 64
        assert models.tokenizer.eos_id not in broken.token_ids[14:]
    assert acceptance([b for _, b in long]) < 0.5 * acceptance([o for o, _ in long])


@pytest.mark.parametrize("config", [PLAIN, SPEC], ids=["plain", "draft"])
def test_outputs_are_crossed(models: Models, make_cases: MakeCases, config: EngineConfig) -> None:
    """The rest of a crossed answer is a part of the sound answer to another prompt, unless that one was crossed too."""
    cases = make_cases(8, temperature=0.0, max_tokens=80)
    played = beside(models, cases, "cross_talk:share=0.2,at_tokens=6", config=config)
    sound = [r.token_ids for r in played.records if r.arm == "sound"]
    hit = pairs(played)
    crossed = 0
    for one, broken in hit:
        begin = common(one.token_ids, broken.token_ids)
        assert begin >= 6
        rest = broken.token_ids[begin:]
        others = [ids for ids in sound if ids != one.token_ids]
        found = any(ids[i : i + len(rest)] == rest for ids in others for i in range(len(ids)))
        crossed += found and len(rest) >= 4
    assert crossed >= 4
    assert crossed > len(hit) / 2


def test_a_request_alone_is_not_crossed(models: Models, make_cases: MakeCases) -> None:
    cases = make_cases(1, temperature=0.0)
    plan = SimulationPlan({"a": SPEC, "b": SPEC}, (Stage(cases, 1),), faults={"b": ("cross_talk",)})
    hit = pairs(simulate(plan, 5, models))
    assert [broken.token_ids for _, broken in hit] == [one.token_ids for one, _ in hit]


@pytest.mark.parametrize("name", sorted(OUTPUT_FAULTS))
def test_counts_stay_true_and_runs_repeat(models: Models, make_cases: MakeCases, name: str) -> None:
    """D18: the engine's counters are the sum over its requests, whatever the requests say."""
    cases = make_cases(4, logprobs=1)
    played = beside(models, cases, f"{name}:share=0.7")
    counters = played.counters["broken"]
    records = [r for r in played.records if r.arm == "broken"]
    specs = [r.spec for r in records if r.spec is not None]
    assert counters.num_draft_tokens == sum(s.num_draft_tokens for s in specs)
    assert (
        counters.num_accepted_tokens
        == sum(s.num_accepted_tokens for s in specs)
        == sum(counters.num_accepted_tokens_per_pos)
    )
    assert counters.generation_tokens == sum(len(r.token_ids) for r in records)
    assert all([t.token_id for t in r.logprobs or ()] == r.token_ids for r in records)
    assert beside(models, cases, f"{name}:share=0.7") == played


def test_a_drift_that_grows(models: Models, make_cases: MakeCases) -> None:
    """D29: acceptance falls step by step from the healthy one; greedy outputs are the same on both arms."""
    cases = make_cases(20, temperature=0.0)
    played = beside(models, cases, "draft_drift:bias=1,ramp_s=8")
    sound, broken = ([r for r in played.records if r.arm == arm] for arm in ("sound", "broken"))
    assert {r.case_id: r.token_ids for r in broken} == {r.case_id: r.token_ids for r in sound}
    thirds = [acceptance(broken[i : i + 26]) for i in (0, 27, 54)]
    assert thirds[0] > thirds[1] > thirds[2]
    assert acceptance(sound[:26]) - thirds[0] < 0.5 * acceptance(sound[:26])


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"a": ("truncate",)}, "not inside the engine; virtual time knows"),
        ({"a": ("nothing",)}, "unknown fault"),
        ({"b": ("loop",)}, "no such arm"),
    ],
)
def test_faults_virtual_time_has_not(
    models: Models, make_cases: MakeCases, faults: dict[str, tuple[str, ...]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        simulate(SimulationPlan({"a": SPEC}, (Stage(make_cases(1), 1),), faults=faults), 1, models)


def test_which_requests_are_hit() -> None:
    faults = Faults(seed=1)
    assert output_faults(faults.for_request(1, 0.0)) is None
    for text in ("no_done", "loop:period=3", "garble:share=0"):
        faults.set_text(text, 0.0)
    assert output_faults(faults.for_request(1, 0.0)) == OutputFaults(loop_at=16, loop_period=3)
    assert OUTPUT_FAULTS < ENGINE_FAULTS


BODY = {"prompt": "def add(numbers):", "temperature": 0, "max_tokens": 60}


async def test_at_the_face(start_server: Start) -> None:
    """H3: text, token ids, usage and the server's counters agree about what was sent; the truth tells the fault."""
    live = await start_server(faults=("junk_after_stop:tokens=5",))
    asked = {**BODY, "stop": "return", "return_token_ids": True, "stream_options": {"include_usage": True}}
    events = await live.events(asked)
    text = "".join(e["choices"][0]["text"] for e in events[:-2])
    ids = [i for e in events[:-2] for i in e["choices"][0]["token_ids"]]
    assert "return" in text
    assert not text.endswith("return")
    assert live.server.runner.engine.tokenizer.decode(ids) == text
    assert (events[-3]["choices"][0]["finish_reason"], events[-3]["choices"][0]["stop_reason"]) == ("stop", "return")
    assert events[-2]["usage"]["completion_tokens"] == len(ids)
    told = await live.truth()
    assert told["counters"]["generation_tokens"] == len(ids)
    assert told["requests"][0]["output_faults"]["junk_after_stop"] == 5
    await live.fault("junk_after_stop", clear=True)
    await live.raw(BODY)
    assert (await live.truth())["requests"][1]["output_faults"] is None


async def test_answers_of_two_clients_are_crossed(start_server: Start) -> None:
    live = await start_server(faults=("cross_talk:at_tokens=4",))
    bodies = [{**BODY, "ignore_eos": True, "prompt": text} for text in ("def add(numbers):", "Describe the harbour.")]
    first, second = [a.json()["choices"][0]["text"] for a in await asyncio.gather(*map_post(live, bodies))]
    await live.fault("cross_talk", clear=True)
    sound = [a.json()["choices"][0]["text"] for a in await asyncio.gather(*map_post(live, bodies))]
    assert [first, second] != sound


def map_post(live: Any, bodies: list[dict[str, Any]]) -> list[Awaitable[Any]]:
    return [live.post("/v1/completions", body) for body in bodies]
