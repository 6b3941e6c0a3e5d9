"""From a case to the text that is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.plan.calibration import chars_for
from loadgen.plan.prompts import generate
from loadgen.plan.schedule import Plan
from loadgen.plan.types import Case, LengthModel
from server_adapters.base import Prompt

_PREFIX_TASK = "long_form"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is sent. `json_schema` is for the server to enforce: None unless the task asks for that."""

    prompt: Prompt
    json_schema: Mapping[str, Any] | None


def render(plan: Plan, case: Case, lengths: LengthModel) -> Rendered:
    """The prompt of a case: the user's own, or one made to `input_len_requested` tokens by `lengths`.

    The shared prefix comes first, the same text in every request that has one, and counts in
    `input_len_requested`. Too short a length gives the shortest meaningful prompt. Equal
    (plan, case, lengths) give equal text.
    """
    task = plan.task(case)
    own = plan.own_prompt(case)
    if own is not None:
        return Rendered(own.prompt, own.json_schema if task.json_schema else None)
    tokens = case.input_len_requested or 0
    prefix = ""
    if case.shared_prefix:
        shared = plan.workload.shared_prefix.tokens
        tokens -= shared
        prefix = plan.shared_prefix(chars_for(lengths, _PREFIX_TASK, shared, whole=False)) + "\n\n"
    prompt, schema = generate(case.task_type, case.prompt_seed, chars_for(lengths, case.task_type, tokens))
    return Rendered(prefix + prompt, schema if task.json_schema else None)
