"""What a server would say next: top log probabilities of the tokens after a prompt and the beginning of an answer.

How an answer can be continued depends on the server: by token ids where it takes and tells them (vLLM), by text on the
completions endpoint, by a chat whose last message goes on (vLLM). A server that has no such way cannot be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import orjson

from server_adapters.base import Ask, NextToken, Prompt, Target, TargetError, Tops
from server_adapters.openai_chunks import read_http_error, read_object
from server_adapters.probing import address, ask_json, ask_server

_ID = re.compile(r"token_id:(\d+)")
#: More than this the completions endpoint of the OpenAI API refuses.
OPENAI_MOST = 5
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


async def next_by_ids(
    client: httpx.AsyncClient, target: Target, ask: Ask, said: tuple[int, ...], top: int
) -> tuple[NextToken, ...]:
    """The prompt's own ids, as this server renders it, and those said so far; completions endpoint. TargetError where
    the server does not tell the prompt's ids."""
    asked = _messages(ask.prompt) if ask.endpoint == "chat" else {"prompt": ask.prompt}
    told = (await ask_json(client, target, "/tokenize", {"model": ask.model, **asked}) or {}).get("tokens")
    if not isinstance(told, list) or not told or {type(one) for one in told} != {int}:
        raise TargetError("/tokenize gave no token ids of the prompt")
    body: dict[str, Any] = {"prompt": [*told, *said], "logprobs": top, "return_tokens_as_token_ids": True}
    return await _asked(client, target, ask, "completions", body)


async def next_by_text(
    client: httpx.AsyncClient, target: Target, ask: Ask, said: str, top: int, *, continues: bool
) -> tuple[NextToken, ...]:
    """Prompt and text so far. `continues`: the server's chats can go on with an answer that has begun. TargetError
    where they cannot."""
    if ask.endpoint == "completions":
        return await _asked(client, target, ask, "completions", {"prompt": f"{ask.prompt}{said}", "logprobs": top})
    body: dict[str, Any] = {**_messages(ask.prompt), "logprobs": True, "top_logprobs": top}
    if said:
        if not continues:
            raise TargetError("chats of the OpenAI API cannot go on with an answer that has begun")
        body["messages"] = [*body["messages"], {"role": "assistant", "content": said}]
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return await _asked(client, target, ask, "chat", body)


def _messages(prompt: Prompt) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)}


async def _asked(
    client: httpx.AsyncClient, target: Target, ask: Ask, endpoint: str, body: dict[str, Any]
) -> tuple[NextToken, ...]:
    body |= {"model": ask.model, "max_tokens": ask.max_tokens, "temperature": 0.0, "stream": False}
    if ask.cache_salt is not None:
        body["cache_salt"] = ask.cache_salt
    headers = {"Content-Type": "application/json", "X-Request-Id": ask.request_id}
    content = orjson.dumps(body, default=dict)
    answer = await ask_server(
        client, target, "POST", address(target, PATHS[endpoint]), content=content, headers=headers
    )
    if answer.status_code != 200:
        error = read_http_error(answer.status_code, answer.content)
        raise TargetError(f"answered {answer.status_code}: {error.message[:200]}")
    try:
        said = read_tokens(read_object(answer.content), ask.max_tokens)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise TargetError(f"log probabilities that cannot be read: {error}") from None
    if not said:
        raise TargetError("the server told no log probabilities")
    return said


def read_tokens(body: Mapping[str, Any], asked: int) -> tuple[NextToken, ...]:
    """Of a whole answer of at most `asked` tokens; empty where no log probabilities were told. ValueError, LookupError,
    TypeError or AttributeError: of another shape than completions and chats have.

    Which token ends an answer is told where one alone was asked for: that one, with finish reason "stop". Of a longer
    answer the last token told may be the one before."""
    choice = body["choices"][0]
    told = choice.get("logprobs")
    if not told:
        return ()
    ends = asked == 1 and choice.get("finish_reason") == "stop"
    places = _of_completion(told) if isinstance(told.get("top_logprobs"), list) else _of_chat(told["content"])
    return tuple(NextToken(tops, chosen, ends) for tops, chosen in places)


def _of_completion(told: Mapping[str, Any]) -> Iterator[tuple[Tops, int | str]]:
    for token, logprob, top in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True):
        yield _tops({**(top or {}), token: logprob}), _named(token)


def _of_chat(content: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Tops, int | str]]:
    for entry in content:
        yield _tops({one["token"]: one["logprob"] for one in (*entry["top_logprobs"], entry)}), _named(entry["token"])


def _tops(told: Mapping[str, Any]) -> Tops:
    return {_named(token): float(logprob) for token, logprob in told.items() if logprob is not None}


def _named(token: str) -> int | str:
    found = _ID.fullmatch(token)
    return int(found[1]) if found else token


def token_of(tops: Tops, token_id: int | None, text: str) -> int | str | None:
    """The token with this id, or where the server tells texts, the longest token with which `text` begins; None where
    it is not among those told."""
    if token_id is not None and token_id in tops:
        return token_id
    begins = [token for token in tops if isinstance(token, str) and token and text.startswith(token)]
    return max(begins, key=len, default=None)
