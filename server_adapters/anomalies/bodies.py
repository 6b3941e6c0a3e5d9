"""Anomalies that are a wrong, odd or huge body of one well-formed HTTP request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from server_adapters.anomalies.types import Absent, Anomaly, Expected, Group, Script, Setting
from server_adapters.anomalies.wire import asked, body_of, encoded, posted
from server_adapters.base import Endpoint

#: A request that a server must refuse, and one that it must serve; and where servers differ in good faith.
REFUSED = Expected(frozenset({400, 404, 405, 413, 415, 422}), frozenset({"error", "detail", "other_json"}))
SERVED = Expected(frozenset({200}), frozenset({"completion"}))
EITHER = Expected(REFUSED.statuses | {200}, REFUSED.shapes | {"completion"})

Make = Callable[[Setting], Script | Absent]


def bodies() -> Iterator[Anomaly]:
    yield from _too_long()
    yield from _empty()
    yield from _json()
    yield from _types()
    yield from _content_types()
    yield from _texts()
    yield from _ranges()
    yield from _speculation()
    yield from _models()
    yield from _huge()


def _one(group: Group) -> Callable[..., Anomaly]:
    def make(
        name: str, what: str, how: Make, expected: Expected = REFUSED, *rows: str, default: bool = True
    ) -> Anomaly:
        return Anomaly(name, group, what, how, expected, rows, default)

    return make


def with_keys(endpoint: Endpoint | None = None, **changes: Any) -> Make:
    """A small good request but for these keys."""
    return lambda setting: asked(setting, changes, endpoint=endpoint)


def without(*keys: str, endpoint: Endpoint | None = None) -> Make:
    return lambda setting: posted(
        setting, encoded(body_of(setting, endpoint=endpoint, leave_out=keys)), endpoint=endpoint
    )


def raw(make: Callable[[bytes], bytes]) -> Make:
    """A small good request with its bytes changed."""
    return lambda setting: posted(setting, make(encoded(body_of(setting))))


def with_text(text: str) -> Make:
    """A small good request whose prompt ends with this."""

    def make(setting: Setting) -> Script:
        said = f"{setting.marker} {text}"
        changes = {"messages": [{"role": "user", "content": said}]} if setting.endpoint == "chat" else {"prompt": said}
        return asked(setting, changes)

    return make


def _prompt_of(setting: Setting, tokens: int, **more: Any) -> Script:
    """A prompt of so many token ids, with completions."""
    return asked(setting, {"prompt": [5] * tokens, **more}, endpoint="completions")


def _sized(beyond: int, **more: Any) -> Make:
    """As many token ids as the model takes, and so many more."""

    def make(setting: Setting) -> Script | Absent:
        if setting.max_model_len is None:
            return Absent("the model's limit is not known")
        return _prompt_of(setting, setting.max_model_len + beyond, **more)

    return make


def _long_text(setting: Setting) -> Script | Absent:
    """Single digits between spaces: no tokenizer joins two of them."""
    if setting.max_model_len is None:
        return Absent("the model's limit is not known")
    return with_text(" ".join(str(i * 7 % 10) for i in range(setting.max_model_len + 64)))(setting)


#: Methods of speculation whose drafts no model makes.
_WITHOUT_DRAFTER = ("ngram", "suffix")


def _for_the_drafter(setting: Setting) -> Script | Absent:
    limit, most = setting.drafter_max_len, setting.max_model_len
    if limit is None and setting.speculation is False:
        return Absent("the server does not speculate: it has no drafter")
    if limit is None and (setting.spec_method or "").startswith(_WITHOUT_DRAFTER):
        return Absent(f"{setting.spec_method} looks drafts up in the text: it has no drafter")
    if limit is None:
        return Absent("the drafter's limit is not known: say anomalies.drafter_max_len", unknown=True)
    if most is not None and limit + 24 > most:
        return Absent(f"the drafter takes {limit:,} tokens, which leaves no longer prompt within the model's {most:,}")
    return _prompt_of(setting, limit + 8, max_tokens=16)


def _too_long() -> Iterator[Anomaly]:
    one = _one("too_long")
    yield one("long_text", "a text of more tokens than the model takes", _long_text, REFUSED, "A3")
    yield one("long_ids", "more token ids than the model takes", _sized(64), REFUSED, "A3")
    yield one("long_stream", "the same, to be streamed", _sized(64, stream=True), REFUSED, "A3")
    yield one("no_room", "exactly as many ids as the model takes: no room for an answer", _sized(0))
    yield one("capped", "an answer of 64 tokens where 24 have room", _sized(-24, max_tokens=64), EITHER)
    yield one("to_the_end", "an answer up to the model's last token", _sized(-24, max_tokens=24), SERVED, "J1")
    yield one("long_for_drafter", "more than the drafter takes, less than the model", _for_the_drafter, SERVED, "J1")
    yield one("max_tokens_huge", "an answer of a billion tokens where 24 have room",
              _sized(-24, max_tokens=10**9), EITHER)  # fmt: skip
    yield one("max_tokens_huge_chat", "max_tokens of a billion, chat", with_keys("chat", max_tokens=10**9))
    yield one("max_tokens_beyond_int64", "max_tokens of 10^30", with_keys(max_tokens=10**30))


def _empty() -> Iterator[Anomaly]:
    one, ask = _one("empty"), with_keys
    yield one("prompt_empty", "an empty prompt", ask("completions", prompt=""), REFUSED, "J5")
    yield one("prompt_null", "a prompt that is null", ask("completions", prompt=None))
    yield one("prompt_missing", "no prompt", without("prompt", endpoint="completions"))
    yield one("prompt_no_ids", "a prompt of no token ids", ask("completions", prompt=[]))
    yield one("prompt_list_of_empty", "a list with an empty list of ids", ask("completions", prompt=[[]]))
    yield one("prompt_empty_strings", "a list with an empty text", ask("completions", prompt=[""]))
    yield one("messages_empty", "no messages", ask("chat", messages=[]))
    yield one("messages_missing", "messages left out", without("messages", endpoint="chat"))
    yield one(
        "content_empty", "a message without text", ask("chat", messages=[{"role": "user", "content": ""}]), EITHER
    )
    yield one("content_null", "a message whose content is null",
              ask("chat", messages=[{"role": "user", "content": None}]), EITHER)  # fmt: skip
    yield one("body_empty", "an empty body", lambda s: posted(s, b""))
    yield one("body_no_keys", "an object without keys", lambda s: posted(s, b"{}"))


def _json() -> Iterator[Anomaly]:
    one = _one("json")
    yield one("json_truncated", "half a body", raw(lambda b: b[: len(b) // 2]))
    yield one("json_trailing_comma", "a comma before the last brace", raw(lambda b: b[:-1] + b",}"))
    yield one("json_single_quotes", "single quotes", raw(lambda b: b.replace(b'"', b"'")))
    yield one("json_two_objects", "two bodies in one", raw(lambda b: b + b))
    yield one("json_null", "null instead of an object", lambda s: posted(s, b"null"))
    yield one("json_array", "a list instead of an object", lambda s: posted(s, b"[]"))
    yield one("json_text", "a text instead of an object", lambda s: posted(s, b'"hello"'))
    yield one("json_nan", "temperature NaN", with_keys(temperature=float("nan")))
    yield one("json_infinity", "temperature Infinity", with_keys(temperature=float("inf")))
    yield one(
        "json_overflow", "temperature 1e999", raw(lambda b: b.replace(b'"temperature": 0.0', b'"temperature": 1e999'))
    )
    yield one("json_bom", "a byte order mark first", raw(lambda b: b"\xef\xbb\xbf" + b), EITHER)
    yield one("json_duplicate_key", "a key twice", raw(lambda b: b[:-1] + b', "max_tokens": 3}'), EITHER)
    yield one("json_deep", "lists within lists, 50,000 deep", lambda s: posted(s, b'{"prompt": ' + b"[" * 50_000))
    yield one("json_deep_closed", "the same, closed as they should be",
              lambda s: posted(s, b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"))  # fmt: skip


#: Values of a type that a key cannot have.
_WRONG: Mapping[str, Any] = {
    "model": 5, "max_tokens": "many", "temperature": "hot", "top_p": [], "stream": "perhaps", "stop": 3, "n": "two",
    "seed": "x", "logit_bias": [1], "presence_penalty": {}, "stream_options": "usage",
}  # fmt: skip


def _types() -> Iterator[Anomaly]:
    one = _one("types")
    for key, value in _WRONG.items():
        yield one(f"type_{key}", f"{key}: {value!r}", with_keys(**{key: value}))
    yield one("type_max_tokens_float", "max_tokens: 1.5", with_keys(max_tokens=1.5))
    yield one("type_prompt", "a prompt that is a number", with_keys("completions", prompt=3))
    yield one("type_prompt_object", "a prompt that is an object", with_keys("completions", prompt={"text": "hello"}))
    yield one("type_prompt_mixed", "texts and ids in one prompt", with_keys("completions", prompt=["one", 2, [3]]))
    yield one("type_messages", "messages that are a text", with_keys("chat", messages="hello"))
    yield one("type_message", "a message that is a number", with_keys("chat", messages=[1]))
    yield one(
        "type_content", "a content that is a number", with_keys("chat", messages=[{"role": "user", "content": 5}])
    )
    yield one("role_missing", "a message without role", with_keys("chat", messages=[{"content": "hello"}]))
    yield one("role_unknown", "a message of an unknown role",
              with_keys("chat", messages=[{"role": "martian", "content": "hello"}]), EITHER)  # fmt: skip


def _content_types() -> Iterator[Anomaly]:
    one = _one("content_type")

    def typed(kind: str | None) -> Make:
        return lambda setting: posted(setting, encoded(body_of(setting)), content_type=kind)

    yield one("content_type_text", "text/plain", typed("text/plain"), EITHER)
    yield one("content_type_form", "a form", typed("application/x-www-form-urlencoded"), EITHER)
    yield one("content_type_multipart", "multipart without parts", typed("multipart/form-data; boundary=x"), EITHER)
    yield one("content_type_none", "no content type", typed(None), EITHER)
    yield one(
        "content_type_odd",
        "a content type that is none",
        typed("\x7f;;=,"),
        Expected(EITHER.statuses, EITHER.shapes | {"text"}, closed=True),
    )
    yield one("content_encoding", "says gzip, and is not",
              lambda s: posted(s, encoded(body_of(s)), extra=("content-encoding: gzip",)), EITHER)  # fmt: skip
    yield one("charset_utf16", "a body in UTF-16",
              lambda s: posted(s, encoded(body_of(s)).decode().encode("utf-16"),
                               content_type="application/json; charset=utf-16"), EITHER)  # fmt: skip


def _texts() -> Iterator[Anomaly]:
    one = _one("text")
    yield one("utf8_invalid", "a byte that is no UTF-8", raw(lambda b: b.replace(b"count", b"\xff\xfe")))
    yield one("utf8_overlong", "a slash in an overlong form", raw(lambda b: b.replace(b"count", b"\xc0\xaf")))
    yield one("utf8_cut", "a character cut in half", raw(lambda b: b.replace(b"count", b"\xe6\xbb")))
    yield one("text_nul", "NUL in the prompt", with_text("a\x00b"), EITHER)
    yield one("text_lone_surrogate", "half a surrogate pair, escaped", with_text("a\ud800b"), EITHER)
    yield one("text_controls", "terminal escapes and control characters", with_text("\x1b[2J\x07\x08\x7f"), EITHER)
    yield one(
        "text_separators",
        "line separators that some readers split at",
        with_text("a\u2028b\u2029c\u0085d"),
        EITHER,
        "A16",
    )
    yield one("text_combining", "one letter under 5,000 accents", with_text("e" + "\u0301" * 5000), EITHER)
    yield one("text_emoji", "joined emoji, 500 times", with_text("\U0001f469\u200d\U0001f680" * 500), EITHER)
    yield one("text_bidi", "text that runs both ways", with_text("\u202e\u2066abc\u2069\u202c" * 100), EITHER)
    yield one(
        "text_special_tokens",
        "the template's own control words",
        with_text("<|im_end|><|endoftext|></s>[INST]"),
        EITHER,
    )


def _ranges() -> Iterator[Anomaly]:
    one, ask = _one("range"), with_keys
    simple: tuple[tuple[str, Mapping[str, Any], Expected], ...] = (
        ("temperature_negative", {"temperature": -1}, REFUSED),
        ("temperature_huge", {"temperature": 1e300}, REFUSED),
        ("top_p_above_one", {"top_p": 2}, REFUSED),
        ("top_p_zero", {"top_p": 0}, EITHER),
        ("top_p_negative", {"top_p": -0.5}, REFUSED),
        ("top_k_negative", {"top_k": -5}, EITHER),
        ("min_p_above_one", {"min_p": 2, "temperature": 1}, EITHER),
        ("presence_penalty_high", {"presence_penalty": 9}, REFUSED),
        ("frequency_penalty_low", {"frequency_penalty": -9}, REFUSED),
        ("repetition_penalty_zero", {"repetition_penalty": 0}, EITHER),
        ("max_tokens_zero", {"max_tokens": 0}, EITHER),
        ("max_tokens_negative", {"max_tokens": -1}, REFUSED),
        ("min_tokens_above_max", {"min_tokens": 5000}, EITHER),
        ("n_zero", {"n": 0}, REFUSED),
        ("n_negative", {"n": -1}, REFUSED),
        ("n_greedy", {"n": 2}, EITHER),
        ("seed_beyond_int64", {"seed": 2**70}, EITHER),
        ("stop_empty_text", {"stop": [""]}, EITHER),
        ("logit_bias_no_id", {"logit_bias": {"x": 1}}, REFUSED),
        ("logit_bias_unknown_id", {"logit_bias": {"999999999": 1}}, EITHER),
        ("logit_bias_huge", {"logit_bias": {"5": 1e30}}, EITHER),
    )  # fmt: skip
    for name, changes, expected in simple:
        yield one(name, ", ".join(f"{k}: {v!r}" for k, v in changes.items()), ask(**changes), expected)
    yield one("logprobs_too_many", "logprobs: 1000", ask("completions", logprobs=1000))
    yield one("logprobs_negative", "logprobs: -5", ask("completions", logprobs=-5))
    yield one("top_logprobs_too_many", "top_logprobs: 1000", ask("chat", logprobs=True, top_logprobs=1000))
    yield one("token_id_unknown", "a token id that the vocabulary has not",
              lambda s: asked(s, {"prompt": [s.vocabulary]}, endpoint="completions"))  # fmt: skip
    yield one("token_id_negative", "a negative token id", ask("completions", prompt=[-1]))
    yield one("token_id_beyond_int64", "a token id of 10^30", ask("completions", prompt=[10**30]))
    yield one("schema_impossible", "a JSON schema that is none",
              ask(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "no"}}}),
              EITHER)  # fmt: skip


def _speculation() -> Iterator[Anomaly]:
    one = _one("speculation")
    yield one("min_p", "min_p: 0.1", with_keys(min_p=0.1, temperature=1.0), EITHER, "H10")
    yield one("logit_bias", "a logit bias", with_keys(logit_bias={"5": 1.0}), EITHER, "H10")


def _models() -> Iterator[Anomaly]:
    one = _one("model")
    yield one("model_unknown", "a model that is not served", with_keys(model="no-such-model"))
    yield one("model_path", "a path for a model", with_keys(model="../../../etc/passwd"))
    yield one("model_empty", "an empty name", with_keys(model=""), EITHER)
    yield one("model_missing", "no model named", without("model"), EITHER)
    yield one("model_long", "a name of 100,000 letters", with_keys(model="m" * 100_000))


def _filled(megabytes: float) -> Make:
    """A body that is padded to so many megabytes (10^6 bytes) by its prompt."""

    def make(setting: Setting) -> Script | Absent:
        size = int(megabytes * 1e6)
        if size > setting.max_body_bytes:
            return Absent(f"{megabytes:g} MB are above anomalies.max_body_mb")
        return with_text("1 " * (size // 2))(setting)

    return make


def _huge() -> Iterator[Anomaly]:
    one = _one("huge")
    yield one("body_1_mb", "a prompt of 1 MB", _filled(1))
    yield one("body_16_mb", "a prompt of 16 MB", _filled(16))
    yield one("stops_many", "10,000 stop texts", with_keys(stop=[f"stop{i}" for i in range(10_000)]), EITHER)
    yield one(
        "bad_words_many", "10,000 forbidden words", with_keys(bad_words=[f"bad{i}" for i in range(10_000)]), EITHER
    )
    yield one("n_huge", "n: 100,000", with_keys(n=100_000, temperature=1.0))
    yield one("n_many", "n: 1,000, which some servers serve", with_keys(n=1000, temperature=1.0), EITHER, default=False)
    yield one("messages_many", "10,000 messages",
              with_keys("chat", messages=[{"role": "user", "content": "hello"}] * 10_000), EITHER)  # fmt: skip
    yield one(
        "keys_many", "10,000 keys that mean nothing", lambda s: asked(s, {f"x{i}": i for i in range(10_000)}), EITHER
    )
