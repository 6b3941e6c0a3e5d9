"""Probe, environment and token counts against a server that plays vLLM."""

import asyncio
import contextlib
import gzip
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from server_adapters import adapter_named
from server_adapters.base import Target, TargetError

Played = Any
Play = Callable[[Played], Awaitable[Played]]
VLLM = adapter_named("vllm")
OPENAI = adapter_named("openai")
SERVERS = Path(__file__).resolve().parents[1] / "data" / "servers"


def target(
    played: Played, model: str | None = None, key: str | None = None, pages: tuple[str, ...] | None = None
) -> Target:
    headers = {} if key is None else {"Authorization": SecretStr(f"Bearer {key}")}
    return Target(played.url, (f"{played.url}/metrics",) if pages is None else pages, model, headers)


def sse(*payloads: Any) -> bytes:
    return b"".join(b"data: " + orjson.dumps(p) + b"\n\n" for p in payloads) + b"data: [DONE]\n\n"


PLAIN = sse(
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "one"}}]},
    {"choices": [{"delta": {}, "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}},
)


# ----------------------------------------------------------------------- vLLM


async def test_a_server_that_tells_everything(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """D6, A24: what comes back decides, not what was asked."""
    played = await play(
        played_server(
            server_info={"vllm_config": {"speculative_config": {"method": "draft_model", "num_speculative_tokens": 4}}}
        )
    )
    found = await VLLM.probe(client, target(played, "tiny"))
    assert (found.models, found.max_model_len, found.version) == (("tiny",), 2048, "0.32.0")
    assert (found.metrics, found.speculation, found.k, found.spec_method, found.counts_artefact) == (
        True,
        True,
        4,
        "draft_model",
        False,
    )
    assert (found.stream_usage, found.continuous_usage, found.token_ids, found.cache_salt) == (True, True, True, True)
    assert (found.per_request_spec, found.tokenize, found.dev_mode, found.notes) == ("detailed", True, True, ())
    (asked,) = played.bodies
    assert (asked["max_tokens"], asked["stream"], asked["ignore_eos"], asked["model"]) == (4, True, True, "tiny")
    assert asked["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert asked["return_token_ids"] is True
    assert asked["cache_salt"]


async def test_a_bare_server_gets_notes_that_name_the_flags(
    play: Play, played_server: Played, client: httpx.AsyncClient
) -> None:
    text = [{"choices": [{"text": t}]} for t in ("one", " two")]
    played = await play(
        played_server(
            stream=sse(*text, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}),
            tokens=None,
            version="0.8.5",
        )
    )
    found = await VLLM.probe(client, target(played))
    assert (found.continuous_usage, found.token_ids, found.cache_salt, found.tokenize) == (False, False, False, False)
    assert (found.per_request_spec, found.speculation, found.spec_method, found.counts_artefact) == (
        "none",
        True,
        None,
        None,
    )
    notes = " ".join(found.notes)
    for word in (
        "--per-request-spec-decode-metrics detailed",
        "--enable-per-request-metrics",
        "--enable-prompt-tokens-details",
        "0.10.2",
        "spec_method",
        "/tokenize",
    ):
        assert word in notes


async def test_speculation_off(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """Off is known from the absent families, and is no reason for notes about speculation."""
    page = "".join(
        line
        for line in (SERVERS / "vllm_0.32_metrics_single.txt").read_text().splitlines(True)
        if "spec_decode" not in line
    )
    played = await play(played_server(metrics=page))
    found = await VLLM.probe(client, target(played))
    assert (found.metrics, found.speculation, found.k) == (True, False, None)
    assert "spec" not in " ".join(found.notes)


async def test_summary_level(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    spec = {"num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0, "num_spec_tokens": 4}
    played = await play(
        played_server(
            stream=sse(
                {"choices": [{"text": "a", "token_ids": [1]}]},
                {"choices": [], "usage": {"completion_tokens": 1}, "metrics": {"speculative_decoding": spec}},
            )
        )
    )
    found = await VLLM.probe(client, target(played))
    assert (found.per_request_spec, found.token_ids, found.continuous_usage) == ("summary", True, False)
    assert "instead of summary" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        (None, "HTTP 404"),
        ("", "empty"),
        ("<html>login</html>", "HTML"),
        ("python_info 1\n", "--disable-log-stats"),
    ],
)
async def test_no_usable_metrics_page(
    play: Play, played_server: Played, client: httpx.AsyncClient, metrics: str | None, reason: str
) -> None:
    """D5, D10, G23: unknown, not off."""
    played = await play(played_server(metrics=metrics))
    found = await VLLM.probe(client, target(played))
    assert (found.metrics, found.speculation, found.k, found.per_request_spec) == (False, None, None, "detailed")
    assert reason in found.notes[0]


async def test_metrics_pages_need_not_be_the_replica(
    play: Play, played_server: Played, client: httpx.AsyncClient
) -> None:
    """D5: a gateway without counters, workers with them."""
    gateway, worker = await play(played_server(metrics=None)), await play(played_server())
    found = await VLLM.probe(client, target(gateway, pages=(f"{worker.url}/metrics", f"{gateway.url}/metrics")))
    assert (found.metrics, found.speculation, found.k) == (True, True, 4)
    assert "HTTP 404" in found.notes[0]
    without = await VLLM.probe(client, target(gateway, pages=()))
    assert (without.metrics, without.speculation) == (False, None)


async def test_v0_speculation_is_on_but_its_counters_are_not_used(
    play: Play, played_server: Played, client: httpx.AsyncClient
) -> None:
    """D11."""
    played = await play(
        played_server(
            metrics=(
                'vllm:spec_decode_efficiency{model_name="tiny"} 0.4\nvllm:num_requests_running{model_name="tiny"} 0\n'
            )
        )
    )
    found = await VLLM.probe(client, target(played))
    assert (found.speculation, found.k) == (True, None)
    assert "V0 engine" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("refused", "lacking"),
    [
        ({"return_token_ids"}, {"token_ids"}),
        ({"continuous_usage_stats"}, {"continuous_usage"}),
        ({"stream_options"}, {"stream_usage", "continuous_usage"}),
        ({"cache_salt", "return_token_ids"}, {"cache_salt", "token_ids"}),
    ],
)
async def test_refused_fields_are_found_one_by_one(
    play: Play, played_server: Played, client: httpx.AsyncClient, refused: set[str], lacking: set[str]
) -> None:
    """B17."""
    played = await play(played_server(refused_fields=frozenset(refused)))
    found = await VLLM.probe(client, target(played))
    # The stream is the same whatever was asked; only refusals differ.
    assert {f for f in ("stream_usage", "cache_salt") if not getattr(found, f)} == lacking & {
        "stream_usage",
        "cache_salt",
    }
    assert sorted(n.split()[3] for n in found.notes if "refused" in n) == sorted(lacking)
    last = played.bodies[-1]
    assert not refused & (last.keys() | (last.get("stream_options") or {}).keys())


async def test_refused_whatever_is_asked(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    played = await play(played_server(refused_fields=frozenset({"prompt"})))
    with pytest.raises(TargetError, match="answered a test request with 400: unknown field prompt"):
        await VLLM.probe(client, target(played))


async def test_an_error_inside_the_test_stream(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """A1."""
    played = await play(played_server(stream=(SERVERS / "vllm_0.32_sse_engine_death.txt").read_bytes()))
    with pytest.raises(TargetError, match="EngineCore encountered an issue"):
        await VLLM.probe(client, target(played))


@pytest.mark.parametrize("stream", [b"", b"data: {broken\n\n", b'{"error":"no capacity"}', b"<html></html>"])
async def test_a_test_answer_that_is_none(
    play: Play, played_server: Played, client: httpx.AsyncClient, stream: bytes
) -> None:
    """A4."""
    played = await play(played_server(stream=stream))
    with pytest.raises(TargetError, match="test request"):
        await OPENAI.probe(client, target(played))


# ------------------------------------------------------------ plain OpenAI API


async def test_a_chat_only_server(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    played = await play(played_server(stream=None, chat_stream=PLAIN, metrics=None, version=None, tokens=None))
    found = await OPENAI.probe(client, target(played))
    assert (found.models, found.stream_usage, found.token_ids, found.speculation, found.notes) == (
        ("tiny",),
        True,
        False,
        None,
        (),
    )
    (asked,) = played.bodies
    assert asked["messages"][0]["role"] == "user"
    assert not {"top_k", "return_token_ids", "cache_salt"} & asked.keys()


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
async def test_line_ends(play: Play, played_server: Played, client: httpx.AsyncClient, end: bytes) -> None:
    """A8, A10."""
    stream = PLAIN.replace(b"\n", end).replace(b"data: ", b"data:")
    found = await OPENAI.probe(client, target(await play(played_server(stream=stream))))
    assert found.notes == ()


async def test_usage_refused_or_withheld(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """B17."""
    refusing = await play(played_server(refused_fields=frozenset({"stream_options"})))
    found = await OPENAI.probe(client, target(refusing))
    assert found.stream_usage is False
    assert "stream_usage" in found.notes[0]
    withholding = await play(played_server(stream=sse({"choices": [{"text": "a", "finish_reason": "stop"}]})))
    found = await OPENAI.probe(client, target(withholding))
    assert found.stream_usage is True
    assert "no usage" in found.notes[0]


async def test_a_server_that_does_not_stream(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    played = await play(played_server(stream=b'{"choices": [{"text": "one", "finish_reason": "stop"}]}'))
    assert "did not stream" in (await OPENAI.probe(client, target(played))).notes[0]


# ------------------------------------------------------------- unusable targets


async def test_unreachable(client: httpx.AsyncClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://user:planted@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(TargetError, match="cannot be reached") as caught:
            await VLLM.probe(client, Target(url, (), None, {}))
    assert "planted" not in str(caught.value)


async def test_https_towards_a_plain_port(client: httpx.AsyncClient) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(TargetError, match=r"does not speak TLS on this port .* write http:// in its URL"):
            await VLLM.probe(client, Target(url, (), None, {}))


@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1", "http://[::1"])
async def test_urls_that_are_none(client: httpx.AsyncClient, url: str) -> None:
    with pytest.raises(TargetError, match="cannot be reached"):
        await VLLM.probe(client, Target(url, (), None, {}))


async def test_api_key(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """I1: the key is used and not shown."""
    played = await play(played_server(api_key="planted-key"))
    with pytest.raises(TargetError, match=r"401.*api_key") as caught:
        await VLLM.probe(client, target(played, key="planted-wrong"))
    assert "planted" not in str(caught.value)
    found = await VLLM.probe(client, target(played, key="planted-key"))
    assert found.models == ("tiny",)
    assert "planted" not in repr(found)


async def test_a_key_that_is_no_header(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """I4: the client library's own message would show it."""
    played = await play(played_server())
    with pytest.raises(TargetError, match="line breaks") as caught:
        await VLLM.probe(client, target(played, key="planted\nkey"))
    assert "planted" not in str(caught.value)


async def test_a_server_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(timeout=0.05, trust_env=False, verify=False) as hasty:
            with pytest.raises(TargetError, match=r"did not answer in time \(ReadTimeout\)"):
                await VLLM.probe(hasty, Target(url, (), None, {}))


@pytest.mark.parametrize(
    ("piece", "pause_s", "reason"),
    [(b" ", 0.05, "did not end it in time"), (b" " * 65536, 0.0, "answers with more than 32 MiB")],
)
async def test_an_answer_without_end(piece: bytes, pause_s: float, reason: str) -> None:
    """E16, E26: every byte comes in time and the answer never ends: neither waited for nor kept."""

    ended = asyncio.Event()

    async def dribble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
        writer.close()
        ended.set()

    async with await asyncio.start_server(dribble, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(timeout=0.3 if pause_s else 10, trust_env=False, verify=False) as hasty:
            with pytest.raises(TargetError, match=reason):
                await VLLM.probe(hasty, Target(url, (), None, {}))
        await ended.wait()


async def test_a_compressed_answer_is_read(client: httpx.AsyncClient) -> None:
    """A26: a proxy that compresses against our wish is no reason to refuse a model list."""
    body = gzip.compress(orjson.dumps({"data": [{"id": "tiny"}]}))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(TargetError, match="'huge'; it serves: tiny"):
            await VLLM.probe(client, Target(url, (), "huge", {}))


async def test_only_the_endpoint_that_is_wanted_is_asked(
    play: Play, played_server: Played, client: httpx.AsyncClient
) -> None:
    """What completions can do says nothing of chat."""
    played = await play(played_server())
    found = await VLLM.probe(client, target(played), "completions")
    assert found.token_ids
    with pytest.raises(TargetError, match=r"/v1/chat/completions answered a test request with 404.*another endpoint\?"):
        await VLLM.probe(client, target(played), "chat")


async def test_wrong_model(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    played = await play(played_server(models=[{"id": "tiny"}, {"id": "big"}]))
    with pytest.raises(TargetError, match=r"'huge'; it serves: tiny, big"):
        await VLLM.probe(client, target(played, "huge"))
    assert played.bodies == []


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (HTMLResponse("<!DOCTYPE html><p>Sign in"), "answered HTML, not a model list"),
        (JSONResponse({"detail": "Not Found"}, 404), "not an OpenAI-compatible server.*without /v1"),
        (JSONResponse({"error": "x"}, 403), r"refused us \(403\)"),
        (JSONResponse({"error": {"message": "loading model"}}, 503), "503: loading model"),
        (RedirectResponse("https://user:planted@elsewhere.invalid/"), "redirects to https://elsewhere.invalid/"),
        (JSONResponse({"object": "list", "data": []}), "lists no model"),
        (JSONResponse({"object": "list", "data": [{"name": "x"}, 3]}), "lists no model"),
        (JSONResponse({"data": "x"}), "lists no model"),
        (JSONResponse([1]), "application/json that is not a JSON object"),
        (Response(b"\x00\xff", media_type="application/octet-stream"), "octet-stream"),
    ],
)
async def test_something_else_answers(
    play: Play, played_server: Played, client: httpx.AsyncClient, page: Response, reason: str
) -> None:
    """I5: redirects are not followed; what is wrong is said."""
    played = await play(played_server(every_page=page))
    for adapter in (VLLM, OPENAI):
        with pytest.raises(TargetError, match=reason):
            await adapter.probe(client, target(played))


# ----------------------------------------------------------------- environment


async def test_environment_without_dev_mode(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    labels = 'block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"'
    page = (SERVERS / "vllm_0.32_metrics_single.txt").read_text() + f"vllm:cache_config_info{{{labels}}} 1.0\n"
    played = await play(played_server(metrics=page))
    adapter = adapter_named("vllm")
    before = await adapter.environment(client, target(played))
    assert "engine.config_hash" not in before
    assert played.bodies == []
    await adapter.probe(client, target(played))
    found = await adapter.environment(client, target(played))
    assert {key: fact.value for key, fact in found.items()} == {
        "engine.name": "vllm",
        "engine.version": "0.32.0",
        "engine.config_hash": "ce44aa2b",
        "parallel.tensor": 1,
        "model.served_name": "tiny",
        "model.weights": "/models/tiny",
        "model.max_len": 2048,
        "speculation.on": True,
        "speculation.k": 4,
        "kv_cache.block_size": 16,
        "kv_cache.dtype": "auto",
        "kv_cache.num_blocks": 100,
        "tokenizer.ids": None,
        "template.ids": None,
    }
    assert found["tokenizer.ids"].reason == "/tokenize gave no token ids of fixed texts"
    assert found["kv_cache.dtype"].source == "/metrics cache_config_info"


async def test_environment_with_dev_mode(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    config = {
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
        "model_config": {"dtype": "bfloat16"},
    }
    played = await play(played_server(metrics=None, server_info={"vllm_config": config, "system_env": {"os": "Linux"}}))
    facts = await VLLM.environment(client, target(played))
    told = ("speculation.method", "speculation.k", "model.dtype", "host.os")
    assert [facts[key].value for key in told] == ["ngram", 4, "bfloat16", "Linux"]
    assert "speculation.on" not in facts


async def test_environment_of_a_plain_server(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    played = await play(played_server(models=[{"id": "gpt"}]))
    facts = await OPENAI.environment(client, target(played))
    assert {key: fact.value for key, fact in facts.items()} == {"engine.name": None, "model.served_name": "gpt"}
    assert facts["engine.name"].reason == "an OpenAI-compatible server does not tell what it is"


async def test_token_ids_tell_tokenizers_apart(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """The text is asked once, chats with and without a system message are asked together."""
    played = await play(played_server(token_ids=[5, 6, 7]))
    first = await VLLM.environment(client, target(played))
    played.token_ids = [5, 6, 8]
    second = await VLLM.environment(client, target(played))
    for key, count in (("tokenizer.ids", 3), ("template.ids", 6)):
        assert first[key].value.startswith("sha256:")
        assert first[key].value.endswith(f"({count} tokens)")
        assert first[key].value != second[key].value
    assert ["prompt" in body for body in played.tokenized] == [True, False, False] * 2


# ---------------------------------------------------------------- token counts


async def test_count_tokens(play: Play, played_server: Played, client: httpx.AsyncClient) -> None:
    """B18, B19: the server counts, template included."""
    played = await play(played_server(tokens=11))
    messages = ({"role": "user", "content": "hi"},)
    assert await VLLM.count_tokens(client, target(played, "tiny"), "hi", "completions") == 11
    assert await VLLM.count_tokens(client, target(played), "hi", "chat") == 11
    assert await VLLM.count_tokens(client, target(played), messages, "chat") == 11
    assert played.tokenized == [
        {"prompt": "hi", "model": "tiny"},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "hi"}]},
    ]
    with pytest.raises(ValueError, match="endpoint: chat"):
        await VLLM.count_tokens(client, target(played), messages, "completions")


async def test_count_tokens_where_it_cannot_be_asked(
    play: Play, played_server: Played, client: httpx.AsyncClient
) -> None:
    played = await play(played_server(tokens=None))
    assert await VLLM.count_tokens(client, target(played), "hi", "completions") is None
    assert await OPENAI.count_tokens(client, target(played), "hi", "completions") is None
    html = await play(played_server(every_page=HTMLResponse("<p>")))
    assert await VLLM.count_tokens(client, target(html), "hi", "completions") is None
