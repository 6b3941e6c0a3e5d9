"""From a case to what goes on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from loadgen.drive import Asking, DriveArm, asking_of, drive_limits_of
from loadgen.drive.request import Outgoing, Prepared, RequestBuilder, unique_line, with_first_line
from loadgen.drive.slack import Slack
from loadgen.plan import Case, Rendered
from loadgen.scenario import DeadlineKeys, Scenario
from server_adapters.base import Capabilities, Sampling, Target

CASE = Case(0, "measure", 3, "c3", 0, "short_qa", 10, 16, 7, 1, None, False, True)
CAPABILITIES = Capabilities(
    ("m",), 2048, "1", True, True, 4, None, True, True, "detailed", False, True, True, True, False
)


@pytest.fixture
def builder(adapter: Any, segments: Any) -> Callable[..., RequestBuilder]:
    """builder(cold=True, shared=False, salt=True, prompt="Hello") -> RequestBuilder of two replicas"""

    def make(
        cold: bool = True, shared: bool = False, salt: bool = True, prompt: Any = "Hello", keep: bool = False
    ) -> RequestBuilder:
        targets = (
            Target("http://a:1/", (), "m", {"Authorization": SecretStr("Bearer s3cret")}),
            Target("http://user:pass@b:2", (), "m", {}),
        )
        arm = DriveArm("base", adapter, targets, "m", replace(CAPABILITIES, cache_salt=salt), "completions")
        asking = Asking((Sampling(temperature=0.7, seed=0),), cold, shared, keep)

        def render(case: Case) -> Rendered:
            if isinstance(prompt, Exception):
                raise prompt
            return Rendered(prompt, None)

        return RequestBuilder(arm, asking, segments.open([0]), render)

    return make


def body(outgoing: Outgoing) -> dict[str, Any]:
    assert outgoing.post is not None
    found = orjson.loads(outgoing.post.body)
    assert isinstance(found, dict)
    return found


def test_what_goes_on_the_wire(builder: Callable[..., RequestBuilder]) -> None:
    """A26: identity is asked for; the sampling and the case's seed are always sent."""
    outgoing = builder().build(replace(CASE, index=4))
    assert outgoing.post is not None
    request = outgoing.post.as_httpx()
    assert str(request.url) == "http://a:1/v1/x"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.headers["x-request-id"] == outgoing.request_id
    assert request.extensions["exchange"] is outgoing.exchange
    sent = body(outgoing)
    assert (sent["temperature"], sent["seed"], sent["max_tokens"], sent["stream"]) == (0.7, 7, 16, True)
    assert outgoing.sampling.seed == 7
    assert outgoing.prompt is None


def test_ids_and_salts_are_unique_per_attempt(builder: Callable[..., RequestBuilder]) -> None:
    """A25: equal cases, in repeats too, never share an id; a cold run never shares a salt."""
    built = [b.build(case) for b in (builder(), builder()) for case in (CASE, replace(CASE, index=5))]
    assert len({b.request_id for b in built}) == 4
    assert len({body(b)["cache_salt"] for b in built}) == 4


def test_replica_is_index_mod_replicas(builder: Callable[..., RequestBuilder]) -> None:
    made = builder()
    replicas = [made.build(replace(CASE, index=i)).replica for i in range(4)]
    assert replicas == ["http://a:1", "http://b:2", "http://a:1", "http://b:2"]


def test_shared_prefix_shares_the_salt_of_its_segment(builder: Callable[..., RequestBuilder]) -> None:
    one, other = builder(shared=True), builder(shared=True)
    salts = [body(b.build(replace(CASE, index=i)))["cache_salt"] for b in (one, other) for i in (0, 1)]
    assert salts[0] == salts[1] != salts[2] == salts[3]


def test_no_salt_known_means_a_first_line_like_no_other(builder: Callable[..., RequestBuilder]) -> None:
    made = builder(salt=False)
    prompts = [body(made.build(replace(CASE, index=i))) for i in (0, 2)]
    assert [p["cache_salt"] for p in prompts] == [None, None]
    lines = [p["prompt"].split("\n") for p in prompts]
    assert [line[1:] for line in lines] == [["Hello"], ["Hello"]]
    assert lines[0][0] != lines[1][0]
    assert len(lines[0][0]) == len(lines[1][0])


def test_warm_has_neither(builder: Callable[..., RequestBuilder]) -> None:
    for salt in (True, False):
        sent = body(builder(cold=False, salt=salt).build(CASE))
        assert (sent["cache_salt"], sent["prompt"]) == (None, "Hello")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ({"role": "user", "content": "x"}, "L\nx"),
        ({"role": "system", "content": None}, "L\n"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            [{"type": "text", "text": "L\n"}, {"type": "text", "text": "x"}],
        ),
    ],
)
def test_first_line_of_messages(first: Mapping[str, Any], expected: Any) -> None:
    second = {"role": "user", "content": "y"}
    prompt = with_first_line((first, second), "L")
    assert isinstance(prompt, tuple)
    assert prompt[0] == {**first, "content": expected}
    assert prompt[1] is second


def test_unique_lines_are_of_one_length() -> None:
    assert len({len(unique_line(str(i))) for i in range(200)}) == 1
    assert len({unique_line(str(i)) for i in range(200)}) == 200


def test_prompt_is_kept_only_where_asked(builder: Callable[..., RequestBuilder]) -> None:
    assert builder(keep=True).build(CASE).prompt == "Hello"
    messages = ({"role": "user", "content": "x"},)
    assert builder(keep=True, prompt=messages).build(CASE).prompt == '[{"role":"user","content":"x"}]'


def test_a_request_that_cannot_be_built_says_why(builder: Callable[..., RequestBuilder]) -> None:
    """C11: it stays a request of the plan, with our fault in it."""
    outgoing = builder(prompt=KeyError("no such task")).build(CASE)
    assert outgoing.post is None
    assert outgoing.fault == "KeyError: 'no such task'"


async def test_prepared_keeps_the_order(builder: Callable[..., RequestBuilder]) -> None:
    """Made ahead or on demand, the cases come in the plan's order."""
    prepared = Prepared((replace(CASE, index=i) for i in count()), builder(), ahead=3)
    filling = asyncio.create_task(prepared.fill(Slack()))
    taken = []
    for round_ in range(5):
        taken.append(prepared.take().case.index)
        if round_ == 2:
            prepared.skip()
        if round_ % 2:
            await asyncio.sleep(0.01)
    filling.cancel()
    assert taken == [0, 1, 2, 4, 5]


async def test_prepared_ends_with_its_cases(builder: Callable[..., RequestBuilder]) -> None:
    prepared = Prepared(iter([CASE]), builder())
    await prepared.fill(Slack())
    prepared.take()
    with pytest.raises(LookupError):
        prepared.take()


def test_asking_and_limits_of_a_scenario() -> None:
    task = {
        "task_type": "short_qa",
        "input_len": {"kind": "fixed", "value": 9},
        "output_len": {"kind": "fixed", "value": 9},
    }
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "name": "t",
            "arms": {"base": {"url": "http://127.0.0.1:1"}},
            "sampling": {"temperature": 0.5, "stop": ["x"], "extra": {"a": 1}},
            "workload": {
                "tasks": [task, {**task, "sampling": {"top_p": 0.9}}],
                "cache": "warm",
                "shared_prefix": {"fraction": 0.5, "tokens": 8},
            },
            "load": [{"kind": "concurrency", "concurrency": 1, "duration_s": 1}],
        }
    )
    asking = asking_of(scenario)
    assert asking.sampling == (
        Sampling(temperature=0.5, stop=("x",), extra={"a": 1}),
        Sampling(temperature=0.0, top_p=0.9),
    )
    assert (asking.cold, asking.shared_prefix, asking.keep_text) == (False, True, False)
    limits = drive_limits_of(DeadlineKeys(connect_s=1.5, byte_idle_s=None, token_idle_s=2, total_s=None, drain_s=3))
    assert limits.drain_ns == 3_000_000_000
    assert limits.deadlines.connect_ns == 1_500_000_000
    assert (limits.deadlines.byte_idle_ns, limits.deadlines.token_idle_ns) == (None, 2_000_000_000)
