"""What a scenario may say in the service: arms name targets, overrides are few, caps are the targets'."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from pydantic import BaseModel, SecretStr

from loadgen.errors import ScenarioError
from loadgen.scenario import Arm, Scenario, SecretSource
from loadgen.service.compose import NOT_UPLOADED, OWN_KEYS, checked_text, compose, named_targets
from loadgen.service.config import ServiceConfig
from loadgen.service.outgoing import Outgoing
from loadgen.service.scenarios import NoScenario, NotOurs, Shelf
from loadgen.service.targets import Targets
from tests.service.conftest import SMALL, scenario

TARGET = {"url": "http://127.0.0.1:1", "headers": {"X-Key": "planted"}, "facts": {"gpu": "a"}}


def made(text: str, **more: Any) -> Scenario:
    keys: dict[str, Any] = {"overrides": {}, "arms": {"base": TARGET}, "environment": "disposable", "caps": {}}
    return compose(text.encode(), "small", Path("/nowhere"), **{**keys, **more}).scenario


def refused(text: str, **more: Any) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        made(text, **more)
    return error.value.problems


def test_an_arm_is_its_target_and_what_the_scenario_says_of_it() -> None:
    arms = {"base": {"target": "one", "speculation": "on", "facts": {"node": 3}, "url": "http://169.254.169.254"}}
    found = made(scenario(arms=arms)).arms["base"]
    assert (found.url, found.speculation) == ("http://127.0.0.1:1", "on")
    assert found.facts == {"gpu": "a", "node": 3}
    assert found.headers["X-Key"].get_secret_value() == "planted"


def test_overrides_are_of_a_list() -> None:
    found = made(scenario(), overrides={"load.0.concurrency": 3, "seed": 9, "sampling.temperature": 0.5})
    assert (found.load[0].concurrency, found.seed, found.sampling.temperature) == (3, 9, 0.5)
    for key in ("arms.base.url", "workload.tasks.0.prompts", "environment", "safety.max_cost", "load.0.kind", "name"):
        assert refused(scenario(), overrides={key: "x"}) == [
            f"overrides: {key} cannot be overridden; docs/service.md says what can"
        ]
    assert "small.yaml" not in refused(scenario(), overrides={"load.0.concurrency": "x"})[0]


@pytest.mark.parametrize(
    ("said", "target", "holds"),
    [
        ("disposable", "production", "production"), ("production", "disposable", "production"),
        ("staging", "staging", "staging"), ("disposable", "disposable", "disposable"),
    ],
)  # fmt: skip
def test_the_strictest_environment_holds(said: str, target: str, holds: str) -> None:
    assert made(scenario(environment=said), environment=target).environment == holds


def test_caps_are_lowered_and_never_raised() -> None:
    caps = {"max_requests": 50, "max_concurrency": 100}
    found = made(scenario(environment="production"), environment="production", caps=caps)
    assert (found.safety.max_requests, found.safety.max_concurrency) == (50, None)  # production's own 64 is lower
    assert made(scenario(safety={"max_requests": 20}), caps=caps).safety.max_requests == 20
    assert refused(scenario(safety={"max_requests": 51}), caps=caps) == [
        "small.yaml:28: safety.max_requests: 51 is more than the targets allow (50)"
    ]
    assert refused(scenario(), caps=caps, overrides={"safety.max_requests": 51}) == [
        "--set safety.max_requests: safety.max_requests: 51 is more than the targets allow (50)"
    ]


def test_no_scenario_makes_light_of_what_its_caps_are_reckoned_with() -> None:
    """I5: a price near nothing would lift max_cost; 0 failures would switch the breaker off."""
    caps = {"max_cost": 5.0, "price_per_million_output_tokens": 20.0, "breaker_failures": 10}
    cheap = {"max_cost": 5.0, "price_per_million_output_tokens": 0.01}
    assert refused(scenario(safety=cheap), caps=caps)[0].endswith(
        "safety.price_per_million_output_tokens: 0.01 is less than the targets say (20)"
    )
    assert refused(scenario(safety={"breaker_failures": 0}), caps=caps)[0].endswith(
        "safety.breaker_failures: 0 is more than the targets allow (10)"
    )
    found = made(scenario(safety={**cheap, "price_per_million_output_tokens": 30.0}), caps=caps).safety
    assert (found.price_per_million_output_tokens, found.breaker_failures) == (30.0, 10)
    assert made(scenario(safety={"breaker_failures": 3}), caps=caps).safety.breaker_failures == 3


def test_no_scenario_waits_longer_for_a_dead_engine_than_its_targets_say() -> None:
    """I5: a run that waits has its targets to itself."""
    _, caps = targets().allowed(["a", "b"])
    assert caps["breaker_wait_s"] == 60.0
    assert refused(scenario(safety={"breaker_wait_s": 61}), caps={"breaker_wait_s": 60.0})[0].endswith(
        "safety.breaker_wait_s: 61 is more than the targets allow (60)"
    )
    assert made(scenario(safety={"breaker_wait_s": 5}), caps={"breaker_wait_s": 60.0}).safety.breaker_wait_s == 5
    own = {"url": "http://127.0.0.1:3", "environment": "disposable", "safety": {"breaker_wait_s": 7}}
    assert targets(c=own).allowed(["a", "c"])[1]["breaker_wait_s"] == 7


def test_nothing_of_a_sweep_is_read() -> None:
    """I5: its launcher has commands and URLs of its own."""
    launch = {"kind": "command", "start": "touch /tmp/x", "health_url": "http://169.254.169.254/"}
    assert made(scenario(sweep={"over": {"k": [1, 2]}, "launch": launch})).sweep is None


def test_only_the_targets_say_that_they_may_be_disrupted() -> None:
    """I5."""
    asked = scenario(environment="staging", safety={"disruptive": True})
    assert refused(asked, environment="staging")[0].endswith("a target on environment: staging must say so itself")
    assert made(asked, environment="staging", caps={"disruptive": True}).safety.disruptive
    assert made(asked, environment="disposable").safety.disruptive
    may = {"url": "http://127.0.0.1:3", "environment": "staging", "safety": {"disruptive": True}}
    assert targets(c=may).allowed(["b", "c"])[1]["disruptive"] is True
    assert "disruptive" not in targets(c=may).allowed(["a", "c"])[1]


def test_who_says_which_target() -> None:
    arms = {"base": {"target": "one"}, "candidate": {}}
    document = checked_text(scenario(arms=arms).encode(), "small", uploaded=True)
    assert named_targets(document, {"candidate": "two"}) == ({"base": "one", "candidate": "two"}, [])
    assert named_targets(document, {"base": "two"})[0] == {"base": "two"}
    assert "arms.candidate: names no target" in named_targets(document, {})[1][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": {"base": {key: value}}}
        for key, value in (
            ("url", "http://169.254.169.254"), ("urls", ["http://a"]), ("metrics_urls", ["http://a"]),
            ("headers", {"A": "b"}), ("api_key", {"env": "HOME"}), ("api_key", {"file": "/etc/passwd"}),
            ("start", "rm -rf /"), ("stop", ["x"]), ("proxy", "http://a"), ("tls", {"ca": "/etc/passwd"}),
            ("tokenizer", "/etc/passwd"), ("health_url", "http://a"), ("telemetry", {"gpu_metrics_urls": ["http://a"]}),
            ("telemetry", {"pid": 1}), ("resolve", {"a": "169.254.169.254"}), ("adapter", "openai"),
        )
    ]
    + [
        {"workload": {"tasks": [{"task_type": "code", "prompts": "/etc/passwd"}]}},
        {"comparison": {"aa_run": "/etc"}},
        {"quality": {"known_answers": {"file": "/etc/passwd"}}},
        {"sweep": {"launcher": {"kind": "command", "start": "rm"}}},
    ],
    ids=str,
)  # fmt: skip
def test_uploaded_scenarios_name_no_urls_commands_headers_keys_or_files(changes: dict[str, Any]) -> None:
    """I5, I8."""
    with pytest.raises(ScenarioError) as error:
        checked_text(scenario(**changes).encode(), "small", uploaded=True)
    assert all(problem.startswith("small.yaml:") for problem in error.value.problems)


@pytest.mark.parametrize("key", ["headers", "api_key", "start", "stop", "proxy_auth"])
def test_nor_do_those_of_the_folder_name_what_would_be_overlooked(key: str) -> None:
    with pytest.raises(ScenarioError, match=r"is the target's, not the scenario's"):
        checked_text(scenario(arms={"base": {key: "x"}}).encode(), "small", uploaded=False)
    checked_text(scenario(arms={"base": {"url": "http://a"}}).encode(), "small", uploaded=False)


def reaching(model: type[BaseModel], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Paths of all fields that hold a place on the disk, a URL, a command or a secret."""
    found: set[tuple[str, ...]] = set()
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        text = repr(hints[name])
        here = (*path, name)
        if any(word in text for word in ("Path", "_url", "SecretStr", "SecretSource", "argv")):
            found.add(here)
            continue
        for inner in models_in(field.annotation):
            found |= reaching(inner, (*here, "*") if "list[" in text else here)
    return found


def models_in(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for part in get_args(annotation) for model in models_in(part)}


def test_no_other_key_of_a_scenario_reaches_out() -> None:
    """What `NOT_UPLOADED` and the arms' own keys leave out is all there is: a new key of a scenario that names a file,
    a URL, a command or a secret must be added there."""
    outside = {path for path in reaching(Scenario) if path[0] != "arms"}
    assert ("workload", "tasks", "*", "prompts") in outside
    assert all(any(path[: len(no)] == no for no in NOT_UPLOADED) for path in outside), outside
    assert not {path[0] for path in reaching(Arm)} & OWN_KEYS
    assert reaching(SecretSource) == {("file",)}
    assert SecretStr.__name__ in repr(get_type_hints(Arm, include_extras=True)["headers"])


def targets(**changes: Any) -> Targets:
    keys = {
        "a": {"url": "http://127.0.0.1:1", "environment": "staging", "safety": {"max_requests": 9}},
        "b": {"url": "http://127.0.0.1:2", "environment": "disposable", "safety": {"max_concurrency": 5}},
        **changes,
    }
    config = ServiceConfig.model_validate({"version": 1, "targets": keys, "outgoing": {"networks": ["127.0.0.0/8"]}})
    return Targets(config, Outgoing(config.outgoing))


def test_several_targets_allow_what_the_strictest_allows() -> None:
    environment, caps = targets().allowed(["a", "b"])
    assert environment == "staging"
    assert (caps["max_requests"], caps["max_concurrency"], caps["max_requests_per_second"]) == (9, 5, 80.0)
    assert caps["breaker_failures"] == 20
    assert targets().allowed(["b"]) == ("disposable", {"max_concurrency": 5})


async def test_a_target_is_placed_where_it_was_checked() -> None:
    """I7: the run is told the address, and looks nothing up."""

    async def resolver(host: str, port: int) -> list[str]:
        return ["127.0.0.7"]

    config = ServiceConfig.model_validate(
        {
            "version": 1,
            "targets": {"a": {"urls": ["http://Model.internal.:8000", "http://127.0.0.1:2"],
                              "metrics_urls": ["http://Metrics.internal/x?y=1"]}},
            "outgoing": {"networks": ["127.0.0.0/8"]},
        }
    )  # fmt: skip
    placed = await Targets(config, Outgoing(config.outgoing, resolver)).placed("a")
    arm = Arm.model_validate(placed.keys)
    assert arm.urls == ["http://model.internal:8000", "http://127.0.0.1:2"]
    assert arm.metrics_urls == ["http://metrics.internal/x?y=1"]
    assert arm.resolve == {"model.internal": "127.0.0.7", "metrics.internal": "127.0.0.7"}
    assert placed.servers == {("127.0.0.7", 8000), ("127.0.0.1", 2)}


def test_a_target_at_a_literal_address_inside_is_refused_at_the_start() -> None:
    with pytest.raises(ScenarioError, match=r"targets\.c: http://10\.0\.0\.1.*outgoing\.networks"):
        targets(c={"url": "http://10.0.0.1"})


def test_the_shelf_keeps_the_servers_own_apart(tmp_path: Path) -> None:
    config = ServiceConfig.model_validate(
        {"version": 1, "folders": {"scenarios": tmp_path / "s", "uploads": tmp_path / "u"}}
    )
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "own.yaml").write_text(scenario())
    (tmp_path / "s" / "broken.yaml").write_text("a: [")
    (tmp_path / "s" / "no name.yaml").write_text(scenario())
    shelf = Shelf(config.folders, config.limits)
    assert shelf.put("mine", scenario(description="d").encode())
    assert not shelf.put("mine", scenario(description="e").encode())
    listed = {one.name: one for one in shelf.listed()}
    assert set(listed) == {"own", "broken", "mine"}
    assert (listed["mine"].source, listed["mine"].description, listed["mine"].arms) == (
        "uploaded",
        "e",
        {"base": "one"},
    )
    assert listed["broken"].problem is not None
    assert shelf.get("own").source == "folder"
    for name in ("own", "broken"):
        with pytest.raises(NotOurs):
            shelf.put(name, b"")
        with pytest.raises(NotOurs):
            shelf.delete(name)
    for name in ("..", "../x", "a/b", "nothing", ""):
        with pytest.raises(NoScenario):
            shelf.delete(name)
    shelf.delete("mine")
    with pytest.raises(NoScenario):
        shelf.get("mine")
    assert yaml.safe_load(shelf.get("own").text) == SMALL
