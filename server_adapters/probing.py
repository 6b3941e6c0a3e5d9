"""Questions a probe asks of any OpenAI-compatible server, and messages for what can go wrong with them."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from server_adapters.base import (
    Ask,
    Capabilities,
    Chunk,
    Endpoint,
    HttpRequest,
    Sampling,
    ServerError,
    Target,
    TargetError,
)
from server_adapters.openai_chunks import read_http_error, read_object

NOTHING_KNOWN = Capabilities(
    models=(), max_model_len=None, version=None, metrics=False, speculation=None, k=None, spec_method=None,
    continuous_usage=False, token_ids=False, per_request_spec=None, counts_artefact=None, stream_usage=False,
    cache_salt=False, tokenize=False, dev_mode=False,
)  # fmt: skip
#: Repeats itself, so that a drafter that looks back into the prompt drafts within the few tokens asked for.
_PROMPT = "one two three four five six one two three four five six one two three four five six one two"
_MAX_TOKENS = 4
_ENDPOINTS: tuple[Endpoint, ...] = ("completions", "chat")
_REFUSED_FIELD = {400, 422}
_NO_SUCH_ROUTE = {404, 405, 501}
#: An answer to a probe, a metrics page included, that is larger is none.
_MAX_ANSWER_BYTES = 32 * 2**20
#: Headers about how the body came, which is read and decoded by then.
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class Asking(Protocol):
    """The part of an adapter that a test request needs."""

    @property
    def features(self) -> Mapping[str, frozenset[str]]: ...

    @property
    def probe_sampling(self) -> Sampling: ...

    def build(self, ask: Ask, capabilities: Capabilities) -> HttpRequest: ...

    def parse_chunk(self, data: bytes) -> Chunk: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """What a test request showed. `accepted` are the optional features the server did not refuse."""

    accepted: frozenset[str]
    chunks: tuple[Chunk, ...]
    fingerprint: str | None
    notes: tuple[str, ...]


def shown(url: str) -> str:
    """A URL without user and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def headers_of(target: Target) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in target.headers.items()}


def address(target: Target, path: str) -> str:
    return target.url.rstrip("/") + path


async def ask_server(client: httpx.AsyncClient, target: Target, method: str, url: str, **more: Any) -> httpx.Response:
    """One request with the target's headers, its answer read. TargetError where the server cannot be reached, or its
    answer does not end: the client's read timeout is between two bytes, so twice that is all an answer may take."""
    headers = {**more.pop("headers", {}), **headers_of(target)}
    idle_s = client.timeout.read
    try:
        async with asyncio.timeout(None if idle_s is None else 2 * idle_s):
            return await _read(client, method, url, headers, more)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, UnicodeError) as error:
        raise TargetError(_unreachable(shown(url), error)) from None


async def _read(
    client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str], more: Mapping[str, Any]
) -> httpx.Response:
    async with client.stream(method, url, headers=headers, **more) as response:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _MAX_ANSWER_BYTES:
                raise TargetError(
                    f"{shown(url)} answers with more than {_MAX_ANSWER_BYTES >> 20} MiB; is the URL right?"
                )
    kept = [(k, v) for k, v in response.headers.multi_items() if k not in _OF_THE_WIRE]
    return httpx.Response(response.status_code, headers=kept, content=bytes(body), request=response.request)


def _unreachable(where: str, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{where} began an answer and did not end it in time; check that the server is ready, and the URL right"
    if isinstance(error, httpx.LocalProtocolError):  # its text holds the header, and so the key
        return f"{where} cannot be asked: a header is no valid HTTP; check api_key and headers for line breaks"
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return f"{where} did not answer in time ({reason}); check that the server is ready and not overloaded"
    if "WRONG_VERSION_NUMBER" in reason:
        return f"{where} does not speak TLS on this port ({reason}); write http:// in its URL"
    return f"{where} cannot be reached ({reason}); check that the server runs and that the URL is right"


async def ask_json(client: httpx.AsyncClient, target: Target, path: str, body: object = None) -> dict[str, Any] | None:
    """JSON object of an optional route (POST where there is a body); None where the server has no such route."""
    try:
        more: dict[str, Any] = {} if body is None else {"json": body}
        method = "GET" if body is None else "POST"
        response = await ask_server(client, target, method, address(target, path), **more)
        return read_object(response.content) if response.status_code == 200 else None
    except (TargetError, ValueError):
        return None


async def list_models(client: httpx.AsyncClient, target: Target) -> list[dict[str, Any]]:
    """Entries of /v1/models, each with a text `id`. TargetError says what is wrong where this is no such server."""
    url = address(target, "/v1/models")
    response = await ask_server(client, target, "GET", url)
    where = shown(url)
    if (refusal := _refusal(where, response)) is not None:
        raise TargetError(refusal)
    if response.status_code in _NO_SUCH_ROUTE:
        raise TargetError(
            f"{where} answered {response.status_code}: not an OpenAI-compatible server; give the base URL, without /v1"
        )
    if response.status_code != 200:
        error = read_http_error(response.status_code, response.content)
        raise TargetError(f"{where} answered {response.status_code}: {_short(error)}; is the server ready?")
    try:
        data = read_object(response.content).get("data")
    except ValueError:
        raise TargetError(f"{where} answered {_kind(response)}, not a model list; check the URL and port") from None
    cards = [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []
    cards = [card for card in cards if isinstance(card.get("id"), str)]
    if not cards:
        raise TargetError(f"{where} lists no model; check that the server serves one")
    return cards


def choose_model(cards: Iterable[Mapping[str, Any]], target: Target) -> str:
    """The target's model, or the first listed. TargetError where it is not among those listed."""
    listed = [str(card["id"]) for card in cards]
    if target.model is None:
        return listed[0]
    if target.model not in listed:
        raise TargetError(
            f"{shown(target.url)} does not serve the model {target.model!r}; it serves: {', '.join(listed)}"
        )
    return target.model


async def try_stream(
    client: httpx.AsyncClient, target: Target, adapter: Asking, model: str, wanted: Endpoint | None = None
) -> Trial:
    """One streaming request of four tokens with every optional feature, to the endpoint `wanted` or the first there is.

    A server that refuses it (400, 422) is asked once bare and once for each feature. TargetError where not even the
    bare request is answered.
    """
    features = adapter.features
    accepted = frozenset(features)
    endpoints = _ENDPOINTS if wanted is None else (wanted,)
    endpoint, response = await _first_route(client, target, adapter, model, accepted, endpoints)
    notes: list[str] = []
    if response.status_code in _REFUSED_FIELD and accepted:
        bare = await _send(client, target, adapter, model, endpoint, frozenset())
        _check_answered(bare)
        answers = {f: await _send(client, target, adapter, model, endpoint, features[f] | {f}) for f in features}
        accepted = frozenset(f for f, answer in answers.items() if answer.status_code == 200)
        notes += [_refused_feature(f, answers[f]) for f in features if f not in accepted]
        response = await _send(client, target, adapter, model, endpoint, accepted) if accepted else bare
    _check_answered(response)
    chunks, fingerprint = _read_stream(adapter, response)
    if not chunks:
        notes.append("the server did not stream its answer to a streaming request; check for a proxy that buffers")
    elif "stream_usage" in accepted and all(c.completion_tokens is None for c in chunks):
        notes.append("the server sends no usage in streams, so token counts are not known")
    return Trial(accepted, chunks, fingerprint, tuple(notes))


async def _first_route(
    client: httpx.AsyncClient,
    target: Target,
    adapter: Asking,
    model: str,
    features: frozenset[str],
    endpoints: Sequence[Endpoint],
) -> tuple[Endpoint, httpx.Response]:
    """The first of `endpoints` that the server has, else the last."""
    for endpoint in endpoints:
        response = await _send(client, target, adapter, model, endpoint, features)
        if response.status_code not in _NO_SUCH_ROUTE:
            break
    return endpoint, response


async def _send(
    client: httpx.AsyncClient, target: Target, adapter: Asking, model: str, endpoint: Endpoint, on: frozenset[str]
) -> httpx.Response:
    unique = f"probe-{uuid.uuid4().hex}"
    ask = Ask(endpoint, model, _PROMPT, _MAX_TOKENS, adapter.probe_sampling, True, unique, cache_salt=unique)
    known: dict[str, Any] = dict.fromkeys(on, True)
    request = adapter.build(ask, dataclasses.replace(NOTHING_KNOWN, **known))
    return await ask_server(
        client, target, "POST", address(target, request.path), content=request.body, headers=dict(request.headers)
    )


def _check_answered(response: httpx.Response) -> None:
    where = shown(str(response.url))
    if (refusal := _refusal(where, response)) is not None:
        raise TargetError(refusal)
    if response.status_code != 200:
        error = read_http_error(response.status_code, response.content)
        hint = "; another endpoint?" if response.status_code in _NO_SUCH_ROUTE | _REFUSED_FIELD else ""
        raise TargetError(f"{where} answered a test request with {response.status_code}: {_short(error)}{hint}")


def _read_stream(adapter: Asking, response: httpx.Response) -> tuple[tuple[Chunk, ...], str | None]:
    """Chunks of the answer and the server's fingerprint. TargetError for an error inside it, or bytes of no sense."""
    where = shown(str(response.url))
    chunks: list[Chunk] = []
    fingerprint: str | None = None
    for data in _payloads(response):
        try:
            chunk, told = adapter.parse_chunk(data), read_object(data).get("system_fingerprint")
        except ValueError as error:
            raise TargetError(f"{where} answered a test request with a stream that cannot be read: {error}") from None
        if chunk.error is not None:
            raise TargetError(f"{where} answered a test request with an error: {_short(chunk.error)}")
        chunks.append(chunk)
        fingerprint = told if isinstance(told, str) else fingerprint
    return tuple(chunks), fingerprint


def _payloads(response: httpx.Response) -> list[bytes]:
    """Data of each event; a whole body counts as one where it is an error (the rest are answers not streamed)."""
    lines = re.split(rb"\r\n|\r|\n", response.content)
    found = [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]
    if not found and b'"choices"' not in response.content:
        found = [response.content.strip()]
    return [data for data in found if data != b"[DONE]"]


def _refusal(where: str, response: httpx.Response) -> str | None:
    if response.status_code in (401, 403):
        return f"{where} refused us ({response.status_code}); set api_key (or headers) of the arm"
    if 300 <= response.status_code < 400:
        to = shown(response.headers.get("location", "somewhere else"))
        return f"{where} redirects to {to}; redirects are not followed, so give the final URL"
    return None


def _refused_feature(feature: str, response: httpx.Response) -> str:
    error = read_http_error(response.status_code, response.content)
    return f"the server refused {feature} ({response.status_code}: {_short(error)})"


def _kind(response: httpx.Response) -> str:
    html = response.content.lstrip()[:1] == b"<"
    return "HTML" if html else f"{response.headers.get('content-type', 'no content type')} that is not a JSON object"


def _short(error: ServerError) -> str:
    return error.message if len(error.message) <= 200 else error.message[:200] + "…"
