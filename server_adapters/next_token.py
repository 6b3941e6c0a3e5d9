"""What a server would say next: top log probabilities of the one token after a prompt and the beginning of an answer.

How an answer can be continued depends on the server: by token ids where it takes and tells them (vLLM), by text on the
completions endpoint, by a chat whose last message goes on (vLLM). A server that has no such way cannot be asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from server_adapters.base import Ask, Prompt, Target, TargetError, Tops
from server_adapters.openai_chunks import read_http_error, read_object
from server_adapters.probing import address, ask_json, ask_server

_ID = re.compile(r"token_id:(\d+)")
#: More than this the completions endpoint of the OpenAI API refuses.
OPENAI_MOST = 5
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


async def next_by_ids(client: httpx.AsyncClient, target: Target, ask: Ask, said: tuple[int, ...], top: int) -> Tops:
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
) -> Tops:
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


async def _asked(client: httpx.AsyncClient, target: Target, ask: Ask, endpoint: str, body: dict[str, Any]) -> Tops:
    body |= {"model": ask.model, "max_tokens": 1, "temperature": 0.0, "stream": False}
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
        tops = read_tops(read_object(answer.content))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise TargetError(f"log probabilities that cannot be read: {error}") from None
    if not tops:
        raise TargetError("the server told no log probabilities")
    return tops


def read_tops(body: Mapping[str, Any]) -> Tops:
    """Of the first token of a whole answer; empty where none were told. ValueError, LookupError, TypeError or
    AttributeError: of another shape than completions and chats have."""
    told = body["choices"][0].get("logprobs")
    if not told:
        return {}
    if isinstance(told.get("top_logprobs"), list):
        first = dict(told["top_logprobs"][0] or {})
        first |= dict(zip(told["tokens"][:1], told["token_logprobs"][:1], strict=True))
    else:
        entry = told["content"][0]
        first = {one["token"]: one["logprob"] for one in (*entry["top_logprobs"], entry)}
    return {_named(token): float(logprob) for token, logprob in first.items() if logprob is not None}


def _named(token: str) -> int | str:
    found = _ID.fullmatch(token)
    return int(found[1]) if found else token


def logprob_of(tops: Tops, token_id: int | None, text: str) -> float | None:
    """Of the token with this id, or where the server tells texts, of the longest token with which `text` begins."""
    if token_id is not None and token_id in tops:
        return tops[token_id]
    begins = [token for token in tops if isinstance(token, str) and token and text.startswith(token)]
    return tops[max(begins, key=len)] if begins else None
