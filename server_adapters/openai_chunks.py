"""What the JSON of an OpenAI-compatible answer means: chunks, whole bodies and errors.

Every shape here was seen on a real server (the OpenAI API reference, vLLM, SGLang, TGI, llama.cpp, gateways).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from server_adapters.base import Chunk, ServerError, ServerTimings, SpecStats

#: Fields of a delta or message that are framing, not generated text.
_FRAMING = frozenset({"role", "name", "id", "type", "index"})
_UNDERSTOOD = _FRAMING | {"content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call"}
#: Finish reasons of answers that the server gave up.
_FAILED_FINISHES = frozenset({"error", "abort"})
_NOTHING: dict[str, Any] = {}
_MAX_COUNT = 2**31 - 1  # token counts live in 32-bit arrays
_MESSAGE_LIMIT = 2000  # characters of a server's message that are kept
_CONTEXT_LENGTH = re.compile(
    r"(?i)maximum context length|model's context length|context_length_exceeded"
    r"|exceed\w*[ _](?:the |available )*context"
)


def read_object(data: bytes) -> dict[str, Any]:
    """Raise ValueError where `data` is not one JSON object."""
    payload = orjson.loads(data)  # its error is a ValueError
    if not isinstance(payload, dict):
        raise ValueError(f"expected a JSON object, got {type(payload).__name__}")
    return payload


def read_chunk(
    payload: Mapping[str, Any], spec: SpecStats | None = None, timings: ServerTimings | None = None
) -> Chunk:
    """A streaming payload or a whole body. ValueError where a known field has an impossible type.

    Of several choices the texts are joined; the last finish reason counts. `spec` and `timings` are passed on.
    """
    choices = [_mapping(c, "choice") for c in _sequence(payload.get("choices"), "choices")]
    answer = reasoning = tool = ""
    other = False
    finishes: list[str] = []
    for choice in choices:
        output = _output(choice)
        answer, reasoning, tool = answer + output.answer, reasoning + output.reasoning, tool + output.tool
        other = other or output.other
        if reason := _text(choice.get("finish_reason"), "finish_reason"):
            finishes.append(reason)
    usage = _mapping(payload.get("usage") or _NOTHING, "usage")
    prompt = _mapping(usage.get("prompt_tokens_details") or _NOTHING, "prompt_tokens_details")
    completion = _mapping(usage.get("completion_tokens_details") or _NOTHING, "completion_tokens_details")
    return Chunk(
        has_choices=bool(choices),
        answer=answer,
        reasoning=reasoning,
        tool=tool,
        has_output=other or bool(answer or reasoning or tool),
        token_ids=_token_ids(choices),
        logprobs=_logprobs(choices),
        completion_tokens=_count(usage.get("completion_tokens")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
        finish_reason=finishes[-1] if finishes else None,
        error=read_error(payload, None) or _choice_error(choices, finishes),
        spec=spec,
        timings=timings,
    )


def read_error(payload: Mapping[str, Any], status: int | None) -> ServerError | None:
    """The error a JSON object tells of, None where it tells of none.

    Shapes: {"error": {…}}, {"error": "text"}, {"object": "error", …}, {"detail": …}. `status` is the HTTP status,
    None inside a stream, where the error's own code stands in.
    """
    error = payload.get("error")
    if error is not None and error is not False and error != "":
        fields = error if isinstance(error, dict) else {"message": error, "type": payload.get("error_type")}
    elif payload.get("object") == "error":
        fields = dict(payload)
    elif "detail" in payload and "choices" not in payload:
        fields = {"message": payload["detail"]}
    else:
        return None
    code = fields.get("code")
    if status is None:
        status = _http_status(code)
    kind = next((str(v) for v in (fields.get("type"), code) if isinstance(v, str) and v), None)
    message = _message(fields)
    if _CONTEXT_LENGTH.search(f"{message} {code} {kind}"):
        kind = "context_length"
    return ServerError(status, kind or ("error" if status is None else f"http_{status}"), message)


def read_http_error(status: int, body: bytes) -> ServerError:
    """The error of an HTTP answer that is not a success, whatever its body is."""
    try:
        error = read_error(read_object(body), status)
    except ValueError:
        error = None
    if error is not None:
        return error
    text = " ".join(body[: 4 * _MESSAGE_LIMIT].decode("utf-8", "replace").split())
    return ServerError(status, f"http_{status}", text[:_MESSAGE_LIMIT] or "no message")


class _Output(NamedTuple):
    answer: str = ""
    reasoning: str = ""
    tool: str = ""
    other: bool = False


def _output(choice: Mapping[str, Any]) -> _Output:
    """Generated channels of one choice: a `delta`, a `message`, or a completion's `text`."""
    text = _text(choice.get("text"), "text")
    fields = choice.get("delta") or choice.get("message")
    if not fields:
        return _Output(text)
    fields = _mapping(fields, "delta")
    thought, said = _content(fields.get("content"))
    # Both names carry the same text on servers that send both (vLLM 0.11.2-0.15.1): one of them counts.
    reasoning = _text(fields.get("reasoning"), "reasoning") or _text(
        fields.get("reasoning_content"), "reasoning_content"
    )
    calls = [*_sequence(fields.get("tool_calls"), "tool_calls"), fields.get("function_call")]
    tool = "".join([_call(call) for call in calls if call])
    unknown = fields.keys() - _UNDERSTOOD
    other = any(_holds_text(fields[key]) for key in unknown) if unknown else False
    return _Output(text + said + _text(fields.get("refusal"), "refusal"), reasoning + thought, tool, other)


def _content(content: Any) -> tuple[str, str]:
    """(reasoning, answer) of `content`: text, or a list of typed parts."""
    if not isinstance(content, list):
        return "", _text(content, "content")
    thought = said = ""
    for part in content:
        fields = _mapping(part, "content part")
        text = "".join(_texts(v for k, v in fields.items() if k not in _FRAMING))
        if fields.get("type") in ("thinking", "reasoning"):
            thought += text
        else:
            said += text
    return thought, said


def _call(call: Any) -> str:
    """Name and arguments of a tool call; its id, type and index are made up by the server."""
    fields = _mapping(call, "tool call")
    function = fields.get("function", fields)
    inside = _mapping(function, "function") if function else {}
    named = _text(inside.get("name"), "function name")
    rest = (v for k, v in inside.items() if k not in _FRAMING)
    return named + "".join(_texts(rest))


def _texts(values: Iterable[Any]) -> list[str]:
    """All text inside JSON values, in order; no recursion, since a server decides the depth. Types are framing."""
    found: list[str] = []
    stack = [iter(values)]
    while stack:
        value = next(stack[-1], stack)
        if value is stack:
            stack.pop()
        elif isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            stack.append(iter(value))
        elif isinstance(value, dict):
            stack.append(iter([v for k, v in value.items() if k != "type"]))
    return found


def _holds_text(value: Any) -> bool:
    return any(_texts([value]))


def _token_ids(choices: list[Mapping[str, Any]]) -> tuple[int, ...] | None:
    told = [ids for choice in choices if (ids := choice.get("token_ids")) is not None]
    if not told:
        return None
    flat = [i for ids in told for i in _sequence(ids, "token_ids")]
    if set(map(type, flat)) - {int}:
        raise ValueError("token_ids holds something else than integers")
    return tuple(flat)


def _logprobs(choices: list[Mapping[str, Any]]) -> tuple[float, ...] | None:
    """Of the emitted tokens: `token_logprobs` of completions, `content` of chats."""
    told = [found for choice in choices if (found := choice.get("logprobs"))]
    if not told:
        return None
    flat: list[Any] = []
    for one in told:
        fields = _mapping(one, "logprobs")
        if "content" in fields:
            flat += [_mapping(entry, "logprob").get("logprob") for entry in _sequence(fields["content"], "content")]
        else:
            flat += _sequence(fields.get("token_logprobs"), "token_logprobs")
    if set(map(type, flat)) - {float, int}:
        raise ValueError("logprobs hold something else than numbers")
    return tuple(flat)


def _choice_error(choices: list[Mapping[str, Any]], finishes: list[str]) -> ServerError | None:
    for choice in choices:
        if choice.get("error") and (error := read_error({"error": choice["error"]}, None)) is not None:
            return error
    if not finishes:
        return None
    failed = next((reason for reason in finishes if reason in _FAILED_FINISHES), None)
    if failed is None:
        return None
    return ServerError(None, f"finish_reason_{failed}", f"the server ended the answer with finish_reason {failed}")


def _message(fields: Mapping[str, Any]) -> str:
    message = fields.get("message")
    if not isinstance(message, str):
        message = orjson.dumps(message if message is not None else fields).decode()
    return message[:_MESSAGE_LIMIT]


def _http_status(code: Any) -> int | None:
    number = int(code) if isinstance(code, str) and re.fullmatch(r"[0-9]{3}", code) else code
    return number if type(number) is int and 100 <= number <= 599 else None


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {type(value).__name__}, not an object")
    return value


def _sequence(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{what} is {type(value).__name__}, not a list")
    return value


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {type(value).__name__}, not text")
    return value


def _count(value: Any) -> int | None:
    if value is None:
        return None
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not whole or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"a token count is {str(value)[:40]}")
    return int(value)
