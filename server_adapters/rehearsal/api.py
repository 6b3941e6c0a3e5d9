"""Routes. FastAPI finds the route and reads the body; from there it is plain ASGI, for speed."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from server_adapters.rehearsal import info
from server_adapters.rehearsal.answers import Card, Endpoint, MetricsLevel
from server_adapters.rehearsal.chat import chat_tokens, check_length, max_tokens_for, prompt_tokens
from server_adapters.rehearsal.config import OTHER_TEMPLATE, RehearsalConfig, Template
from server_adapters.rehearsal.control import add_control_routes
from server_adapters.rehearsal.errors import (
    ApiError,
    engine_dead,
    json_response,
    on_api_error,
    on_validation_error,
    queue_full,
    refuse_other_media,
    unknown_model,
)
from server_adapters.rehearsal.faults import Fault, Faults, output_faults
from server_adapters.rehearsal.histograms import HttpCounts
from server_adapters.rehearsal.metrics_page import CONTENT_TYPE, MetricsPage
from server_adapters.rehearsal.protocol import Asked, ChatAsked, CompletionAsked, DetokenizeAsked, TokenizeAsked
from server_adapters.rehearsal.ranges import check_min_tokens, check_ranges
from server_adapters.rehearsal.runner import EngineDeadError, Runner, Stream
from server_adapters.rehearsal.stream_faults import with_faults
from server_adapters.rehearsal.streaming import Events, StreamingAnswer, StreamShape, WholeAnswer
from server_adapters.rehearsal.types import EngineRequest, QueueFullError, RequestError

_KEY_PREFIXES = ("/v1", "/v2", "/inference")
_UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
_HANG_S = 3600.0
_ID_PREFIX: Mapping[Endpoint, str] = {"completions": "cmpl", "chat": "chatcmpl"}


class Face:
    """One server's answers: what the routes do."""

    def __init__(self, config: RehearsalConfig, runner: Runner, faults: Faults) -> None:
        self.config, self.runner, self.faults = config, runner, faults
        self.http = HttpCounts()
        self._sampling_defaults = config.sampling_defaults()
        self._tokenizer = runner.engine.tokenizer
        self._fingerprint = info.fingerprint(config, runner.engine)
        self._level = MetricsLevel(
            config.per_request_metrics, config.per_request_spec_metrics, config.prompt_tokens_details
        )

    async def generate(self, asked: CompletionAsked | ChatAsked, request: Request) -> Response:
        """One completion, streamed or not."""
        number, now_s = self.runner.next_number(), time.monotonic()
        faults = self.faults.for_request(number, now_s)
        _refuse_in_storm(faults)
        self._check_model(asked.model)
        check_ranges(asked, self._tokenizer.vocab_size)
        asked.refuse_unsupported(speculating=self.config.spec != "off")
        scramble = self.faults.active("wrong_tokenizer", now_s) is not None
        template = self._template(now_s)
        limit = self.config.max_model_len
        if isinstance(asked, ChatAsked):
            endpoint: Endpoint = "chat"
            check_length(sum(len(m.text()) for m in asked.messages), limit, self._tokenizer.longest)
            ids = chat_tokens(self._tokenizer, asked.messages, template=template, scramble=scramble)
            wanted, fallback = asked.max_completion_tokens, limit
            wanted = asked.max_tokens if wanted is None else wanted
        else:
            endpoint = "completions"
            prompt = asked.only_prompt()
            check_length(len(prompt) if isinstance(prompt, str) else 0, limit, self._tokenizer.longest)
            ids = prompt_tokens(self._tokenizer, prompt, scramble=scramble)
            wanted, fallback = asked.max_tokens, 16
        asked = asked.with_defaults(self._sampling_defaults)
        most = max_tokens_for(wanted, fallback, len(ids), limit)
        check_min_tokens(asked.min_tokens, most)
        sampling = asked.sampling(most, asked.num_logprobs())
        public_id = request.headers.get("x-request-id") or secrets.token_hex(8)
        priority = self._priority(asked, request)
        wrong = output_faults(faults)
        own_id = self.runner.free_id(public_id, number)
        made = EngineRequest(own_id, tuple(ids), sampling, priority, asked.cache_salt, faults=wrong)
        stream = self._submit(made, number)
        card = Card(
            f"{_ID_PREFIX[endpoint]}-{public_id}",
            int(time.time()),
            self.config.model_name,
            self._fingerprint,
            endpoint,
            ids,
            bool(asked.return_token_ids),
            bool(asked.return_tokens_as_token_ids),
        )
        if not asked.stream:
            return WholeAnswer(self.runner, stream, card, self._level)
        events = Events(self.runner, stream, card, self._shape(asked, faults), self._level, faults)
        return StreamingAnswer(self.runner, stream, with_faults(aiter(events), faults))

    def tokenize(self, asked: TokenizeAsked) -> Response:
        """Token ids of a prompt or of messages."""
        self._check_model(asked.model)
        now_s = time.monotonic()
        scramble = self.faults.active("wrong_tokenizer", now_s) is not None
        if asked.messages is not None:
            ids = chat_tokens(self._tokenizer, asked.messages, template=self._template(now_s), scramble=scramble)
        elif asked.prompt is not None:
            ids = prompt_tokens(self._tokenizer, asked.prompt, scramble=scramble)
        else:
            raise ApiError("Either prompt or messages must be given.", param="prompt")
        texts = [self._tokenizer.token_text(i) for i in ids] if asked.return_token_strs else None
        told = {"count": len(ids), "max_model_len": self.config.max_model_len, "tokens": ids, "token_strs": texts}
        return json_response(told)

    def detokenize(self, asked: DetokenizeAsked) -> Response:
        """Text of token ids."""
        self._check_model(asked.model)
        size = self._tokenizer.vocab_size
        if any(not 0 <= i < size for i in asked.tokens):
            raise ApiError("Token id is out of vocabulary.", param="tokens")
        return json_response({"prompt": self._tokenizer.decode(asked.tokens)})

    async def metrics(self) -> Response:
        """/metrics, or what a fault makes of it."""
        now_s = time.monotonic()
        slow, broken = self.faults.active("slow_metrics", now_s), self.faults.active("broken_metrics", now_s)
        if slow is not None:
            await asyncio.sleep(slow.number("seconds"))
        how = None if broken is None else broken.params["as"]
        if how == "hang":
            await asyncio.sleep(_HANG_S)
        if how == "html":
            page = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"
            return Response(page, media_type="text/html")
        if how == "500":
            return Response("Internal Server Error", 500, media_type="text/plain")
        if how == "empty":
            return Response("", headers={"content-type": CONTENT_TYPE})
        double = self.faults.active("duplicate_engines", now_s) is not None
        engines = ("0", "1") if double else ("0",)
        text = MetricsPage(self.runner, self.http, self.config.model_name, engines).render()
        if how == "truncated":
            text = text[: len(text) // 2]
        return Response(text, headers={"content-type": CONTENT_TYPE})

    def _submit(self, request: EngineRequest, number: int) -> Stream:
        try:
            return self.runner.submit(request, number)
        except RequestError as error:
            raise ApiError(str(error), param=error.param) from None
        except QueueFullError as error:
            raise queue_full(error.reason) from None
        except EngineDeadError as error:
            raise engine_dead(str(error)) from None

    def _check_model(self, asked: str | None) -> None:
        if asked and asked != self.config.model_name:
            raise unknown_model(asked, self.config.model_name)

    def _template(self, now_s: float) -> Template:
        wrong = self.faults.active("wrong_template", now_s) is not None
        return OTHER_TEMPLATE[self.config.template] if wrong else self.config.template

    def _priority(self, asked: Asked, request: Request) -> int:
        """0 under fcfs, which ignores priorities."""
        if self.config.scheduling_policy == "fcfs":
            return 0
        header = request.headers.get("x-vllm-priority")
        try:
            return asked.priority if header is None else int(header)
        except ValueError:
            raise ApiError("X-Vllm-Priority must be a whole number.", param="priority") from None

    def _shape(self, asked: Asked, faults: Mapping[str, Fault]) -> StreamShape:
        interval = max(self.config.stream_interval, asked.stream_interval or 1)
        if "stream_interval" in faults:
            interval = max(interval, int(faults["stream_interval"].number("tokens")))
        told = "no_usage" not in faults
        stop = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
        return StreamShape(asked.include_usage and told, asked.continuous_usage and told, interval, stop)


def build_app(face: Face) -> ASGIApp:
    """The ASGI application: routes behind the key check and the HTTP counts."""
    app = FastAPI(title="rehearsal", docs_url=None, redoc_url=None)
    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    _add_api_routes(app, face)
    _add_state_routes(app, face)
    add_control_routes(app, face.runner, face.faults)
    return Gate(app, face)


def _add_api_routes(app: FastAPI, face: Face) -> None:
    created = int(time.time())

    @app.get("/v1/models")
    async def models() -> Response:
        return json_response(info.model_list(face.config, created))

    only_json = [Depends(refuse_other_media)]

    @app.post("/v1/completions", dependencies=only_json)
    async def completions(asked: CompletionAsked, request: Request) -> Response:
        return await face.generate(asked, request)

    @app.post("/v1/chat/completions", dependencies=only_json)
    async def chat(asked: ChatAsked, request: Request) -> Response:
        return await face.generate(asked, request)

    @app.post("/tokenize", dependencies=only_json)
    async def tokenize(asked: TokenizeAsked) -> Response:
        return face.tokenize(asked)

    @app.post("/detokenize", dependencies=only_json)
    async def detokenize(asked: DetokenizeAsked) -> Response:
        return face.detokenize(asked)


def _add_state_routes(app: FastAPI, face: Face) -> None:
    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=503 if face.runner.dead else 200)

    @app.api_route("/ping", methods=["GET", "POST"], include_in_schema=False)
    async def ping() -> Response:
        return Response(status_code=503 if face.runner.dead else 200)

    @app.get("/version")
    async def version() -> Response:
        return json_response({"version": info.VERSION})

    @app.get("/load")
    async def load() -> Response:
        return json_response({"server_load": face.runner.num_streams})

    @app.get("/metrics")
    async def metrics() -> Response:
        return await face.metrics()

    if face.config.dev_mode:

        @app.get("/server_info")
        async def server_info(config_format: Literal["text", "json"] = "text") -> Response:
            told = info.server_info(face.config, face.runner.engine)
            if config_format == "text":
                told["vllm_config"] = repr(told["vllm_config"])
            return json_response(told)

        @app.post("/reset_prefix_cache")
        async def reset_prefix_cache() -> Response:
            return json_response({"success": face.runner.engine.reset_prefix_cache()})


class Gate:
    """In front of the routes: the key of /v1, and the counts of every answer."""

    def __init__(self, app: ASGIApp, face: Face) -> None:
        self._app, self._face = app, face
        self._key = face.config.api_key()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if not self._allowed(scope):
            await json_response({"error": "Unauthorized"}, 401)(scope, receive, send)
            return
        if path in _UNCOUNTED or path.startswith("/rehearsal"):
            await self._app(scope, receive, send)
            return
        started_s = time.monotonic()
        status = sent = 0

        async def counted(message: AsgiMessage) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = _content_length(message["headers"])
            await send(message)

        await self._app(scope, receive, counted)
        route = getattr(scope.get("route"), "path", "none")
        sizes = _content_length(scope["headers"]), sent
        status = status or 200  # the client went before the answer: a real front-end's handler ends as usual
        self._face.http.observe(route, scope["method"], status, sizes, time.monotonic() - started_s)

    def _allowed(self, scope: Scope) -> bool:
        if self._key is None or scope["method"] == "OPTIONS" or not scope["path"].startswith(_KEY_PREFIXES):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(given, b"Bearer " + self._key.get_secret_value().encode())


def _content_length(headers: Any) -> int:
    value = dict(headers).get(b"content-length", b"0")
    return int(value) if value.isdigit() else 0


def _refuse_in_storm(faults: Mapping[str, Fault]) -> None:
    for name, status, kind in (("storm_429", 429, "Too Many Requests"), ("storm_503", 503, "Service Unavailable")):
        if name in faults:
            wait_s = faults[name].number("retry_after")
            headers = {"retry-after": f"{wait_s:g}"} if wait_s else {}
            raise ApiError(f"the rehearsal engine was told to answer {status}", status, kind, headers=headers)
