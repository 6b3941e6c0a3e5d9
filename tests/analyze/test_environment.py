"""What differences of environments mean: hand-made facts, each rule by an exact example."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.analyze import ENVIRONMENT_KEYS, EXPECTED_KEYS, Difference, differences
from loadgen.analyze.environment_rules import covers, rule_for
from loadgen.record import ArmFacts
from server_adapters.base import Fact


def arm(speculation: bool = False, **facts: Any) -> ArmFacts:
    """Keys with `__` for a dot; a value of None is a fact that is not shown."""
    named = {key.replace("__", "."): value for key, value in facts.items()}
    return ArmFacts(
        replicas=["http://10.0.0.1"], metrics_sources=[], adapter="vllm", chunk_unit="step", model="m",
        endpoint="chat", capabilities={}, facts={}, spec_method=None, k=4 if speculation else None,
        speculation=speculation, environment={k: Fact(v, "/server_info") for k, v in named.items()},
    )  # fmt: skip


def diff(baseline: ArmFacts, candidate: ArmFacts, *declared: str) -> dict[str, Difference]:
    """By key, without what is merely not shown."""
    scenario = {"arms": {"baseline": {}, "candidate": {"declared_differences": list(declared)}}}
    found = differences({"baseline": baseline, "candidate": candidate}, scenario)
    return {d.key: d for d in found}


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("engine.version", "0.31.0", "0.32.0"),
        ("model.dtype", "bfloat16", "float16"),
        ("model.weights", "org/a", "org/b"),
        ("model.revision", "not set", "v2"),
        ("model.quantization", "not set", "fp8"),
        ("kv_cache.dtype", "auto", "fp8"),
        ("tokenizer.ids", "sha256:1", "sha256:2"),
        ("template.sha256", "sha256:1", "sha256:2"),
        ("sampling.override", {}, {"temperature": 0.6}),
        ("sampling.defaults", {"top_k": 20}, {"top_k": 40}),
        ("kernels.attention_backend", "FLASH_ATTN", "FLASHINFER"),
        ("parallel.tensor", 4, 8),
        ("gpu.name", "H100", "H200"),
        ("gpu.driver", "550.1", "560.2"),
        ("host.memory_bytes", 100, 200),
        ("scheduling.max_num_seqs", 128, 256),
        ("scheduling.chunked_prefill", True, False),
        ("network.gateway", ["server: uvicorn"], ["server: nginx", "via: 1.1 gate"]),
        ("network.round_trip_s", 0.001, 0.0061),
    ],
)
def test_what_makes_a_verdict_inconclusive(key: str, one: Any, other: Any) -> None:
    """H9, H15: named with both values, and passing again once it is declared."""
    facts = {key.replace(".", "__"): one}, {key.replace(".", "__"): other}
    found = diff(arm(**facts[0]), arm(speculation=True, **facts[1]))
    assert found[key].rule == "inconclusive"
    assert found[key].values == {"baseline": one, "candidate": other}
    assert found[key].text == f"candidate differs from baseline: {rule_for(key).why}"
    for name in (key, key.partition(".")[0], key.rpartition(".")[2]):
        assert diff(arm(**facts[0]), arm(**facts[1]), name)[key].rule == "declared"
    assert diff(arm(**facts[0]), arm(**facts[1]), "something_else")[key].rule == "inconclusive"


@pytest.mark.parametrize(
    ("key", "one", "other"), [("network.round_trip_s", 0.001, 0.0059), ("host.memory_bytes", 96, 100)]
)
def test_numbers_within_their_limit_are_equal(key: str, one: float, other: float) -> None:
    name = key.replace(".", "__")
    assert key not in diff(arm(**{name: one}), arm(**{name: other}))


def test_speculation_may_differ_and_what_it_takes() -> None:
    """H17: the drafter's memory is the KV blocks that it leaves, by the engine's own word, and is no obstacle."""
    candidate = arm(speculation=True, speculation__method="eagle3", kv_cache__num_blocks=90)
    found = diff(arm(speculation__on=False, kv_cache__num_blocks=100), candidate)
    rules = {key: d.rule for key, d in found.items()}
    assert rules["speculation.method"] == rules["kv_cache.num_blocks"] == "may_differ"
    assert found["kv_cache.num_blocks"].values == {"baseline": 100, "candidate": 90}
    assert "takes memory from the KV cache" in found["kv_cache.num_blocks"].text
    assert "inconclusive" not in rules.values()


@pytest.mark.parametrize(("speculating", "rule"), [(True, "noted"), (False, "inconclusive")])
def test_flags_that_servers_set_along_with_speculation(speculating: bool, rule: str) -> None:
    """H15: async scheduling lost to speculation is part of its cost; between two plain servers it is another server."""
    found = diff(arm(scheduling__async=True), arm(speculation=speculating, scheduling__async=False))
    assert found["scheduling.async"].rule == rule


def test_an_unknown_key_is_noted_and_never_dropped() -> None:
    found = diff(arm(brand_new__flag=1), arm(brand_new__flag=2))
    assert found["brand_new.flag"].rule == "noted"
    assert "the rule table does not know it" in found["brand_new.flag"].text


def test_known_of_one_arm_only_is_noted() -> None:
    found = diff(arm(model__dtype="bfloat16"), arm())["model.dtype"]
    assert (found.rule, found.values) == ("noted", {"baseline": "bfloat16", "candidate": None})
    assert found.text == "known of baseline only: whether candidate has the same is not shown"


def test_what_no_arm_shows_is_said_with_its_reason() -> None:
    one = arm()
    one.environment["gpu.name"] = Fact(None, None, "no GPU telemetry")
    found = diff(one, arm())["gpu.name"]
    assert (found.rule, found.values, found.text) == (
        "noted", {"baseline": None, "candidate": None}, "no GPU telemetry",
    )  # fmt: skip
    one.environment["model.seed"] = Fact(None, None, "not told")
    assert "model.seed" not in diff(one, arm())


def test_another_name_of_the_same_thing_is_noted_where_the_thing_is_known() -> None:
    """Two models on one gateway differ in name: the weights tell whether they are the same."""
    names = {"model__served_name": "plain"}, {"model__served_name": "fast"}
    assert diff(arm(**names[0]), arm(**names[1]))["model.served_name"].rule == "inconclusive"
    known = {"model__weights": "org/a"}
    found = diff(arm(**names[0], **known), arm(**names[1], **known))
    assert found["model.served_name"].rule == "noted"
    paths = {"tokenizer__name": "/a", "tokenizer__ids": "x"}, {"tokenizer__name": "/b", "tokenizer__ids": "x"}
    assert diff(arm(**paths[0]), arm(**paths[1]))["tokenizer.name"].rule == "noted"


@pytest.mark.parametrize("held", ["in clumps", "held to the end"])
def test_buffering_is_inconclusive_on_one_side_and_on_both(held: str) -> None:
    """A26: chunk times are then the proxy's."""
    for baseline in ("none", held):
        found = diff(arm(network__buffering=baseline), arm(network__buffering=held))["network.buffering"]
        assert found.rule == "inconclusive"
        assert "candidate do not come as they are made" in found.text
    assert "network.buffering" not in diff(arm(network__buffering="none"), arm(network__buffering="none"))


def test_work_of_others_at_preflight_is_inconclusive_also_of_one_arm() -> None:
    """H20."""
    (found,) = differences({"only": arm(load__running=2.0, load__waiting=0.0)}, {})
    assert (found.key, found.rule, found.values) == ("load.running", "inconclusive", {"only": 2.0})
    assert differences({"only": arm(load__running=0.0)}, {}) == []


def test_synthetic_acceptance_is_inconclusive() -> None:
    candidate = arm(speculation=True, speculation__synthetic_length=3.2, speculation__synthetic_rates="not set")
    found = [d for d in differences({"baseline": arm(), "candidate": candidate}, {}) if "synthetic" in d.key]
    assert [(d.key, d.rule) for d in found] == [("speculation.synthetic_length", "inconclusive")]


def test_draft_and_target_with_other_tokenizers_are_noted() -> None:
    both = {"tokenizer__sha256": "a", "speculation__draft_tokenizer_sha256": "b"}
    found = differences({"only": arm(speculation=True, **both)}, {})
    assert [(d.key, d.rule) for d in found] == [("speculation.draft_tokenizer_sha256", "noted")]


def test_three_arms_are_held_against_the_baseline_and_all_that_differ_must_declare() -> None:
    arms = {
        "baseline": arm(model__dtype="bf16"), "candidate": arm(True, model__dtype="bf16"),
        "small": arm(model__dtype="fp8"), "tiny": arm(model__dtype="fp4"),
    }  # fmt: skip
    scenario: dict[str, Any] = {"arms": {"small": {"declared_differences": ["model.dtype"]}}}
    (found,) = [d for d in differences(arms, scenario) if d.key == "model.dtype"]
    assert (found.rule, found.text) == (
        "inconclusive", "small, tiny differs from baseline: another model answers",
    )  # fmt: skip
    scenario["arms"]["tiny"] = {"declared_differences": ["model"]}
    (found,) = [d for d in differences(arms, scenario) if d.key == "model.dtype"]
    assert found.rule == "declared"


def test_the_scenario_names_the_baseline() -> None:
    arms = {"a": arm(model__dtype="x"), "b": arm(model__dtype="y")}
    (found,) = differences(arms, {"comparison": {"baseline": "b"}})
    assert found.text.startswith("a differs from b")


def test_a_declared_difference_that_goes_by_no_name_is_said() -> None:
    found = diff(arm(model__dtype="a"), arm(model__dtype="a"), "modle.dtype")["declared.modle.dtype"]
    assert (found.rule, found.values) == ("noted", {"candidate": "modle.dtype"})


def test_the_worst_comes_first() -> None:
    one = arm(model__dtype="a", host__os="x", speculation__k=1, gpu__name="g")
    other = arm(True, model__dtype="b", host__os="y", speculation__k=2, gpu__name="h")
    scenario = {"arms": {"candidate": {"declared_differences": ["gpu.name"]}}}
    found = differences({"baseline": one, "candidate": other}, scenario)
    assert [d.rule for d in found] == ["inconclusive", "declared", "noted", "may_differ"]


@pytest.mark.parametrize(
    ("entry", "key", "meant"),
    [
        ("model.dtype", "model.dtype", True),
        ("dtype", "model.dtype", True),
        ("model", "model.dtype", True),
        ("mod", "model.dtype", False),
        ("type", "model.dtype", False),
        ("template", "requests.prompt_tokens", True),
        ("kv_cache", "requests.cache_hit_share", True),
    ],
)
def test_what_a_declaration_covers(entry: str, key: str, meant: bool) -> None:
    assert covers(entry, key) is meant


def test_expected_keys_have_rules() -> None:
    assert set(EXPECTED_KEYS) <= ENVIRONMENT_KEYS


def test_bare_values_of_older_runs_are_read() -> None:
    old = arm().model_dump() | {"environment": {"engine": "vllm", "odd": {"value": 1}}}
    assert ArmFacts.model_validate(old).environment["engine"] == Fact("vllm", "the server")
    assert ArmFacts.model_validate(old).environment["odd"].value == {"value": 1}
    new = arm(model__dtype="x")
    assert ArmFacts.model_validate_json(new.model_dump_json()) == new
