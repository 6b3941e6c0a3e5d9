"""Requests of the OpenAI API with vLLM's additions, and what they mean for the engine. Unknown fields are ignored,
as vLLM does; fields that would change the output and that the engine does not have are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from server_adapters.rehearsal.errors import ApiError, not_supported
from server_adapters.rehearsal.types import SamplingParams

#: Stop strings of a request at most.
MOST_STOPS = 4
_MAX_LOGPROBS = 20
_MOST_BIAS = 100.0
_INT64 = 2**63


def _number(param: str) -> BeforeValidator:
    """vLLM takes no text for these numbers, not even "5", and says so in a BadRequestError."""

    def checked(value: Any) -> Any:
        if value is not None and not isinstance(value, int | float):
            message = f"`{param}` must be an integer. (parameter={param}, value={value})"
            raise ApiError(message, param=param)
        return value

    return BeforeValidator(checked)


TokenId = Annotated[int, Field(ge=0)]
Logprobs = Annotated[int, _number("logprobs")]
TopLogprobs = Annotated[int, _number("top_logprobs")]


class StreamOptions(BaseModel):
    """Which usage a stream carries."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class Asked(BaseModel):
    """Fields of both endpoints."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    n: int = 1
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: str | Annotated[list[str], Field(max_length=MOST_STOPS)] | None = None
    stop_token_ids: list[int] | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stream_interval: int | None = Field(None, ge=1)
    logit_bias: dict[str, float] | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    repetition_penalty: float | None = 1.0
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: str | dict[str, Any] | None = None
    use_beam_search: bool = False
    cache_salt: str | None = None
    priority: int = 0
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether every chunk of a stream carries usage."""
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    def refuse_unsupported(self, *, speculating: bool) -> None:
        """Raise ApiError (400) for what the engine cannot do, or vLLM refuses."""
        if self.stream_options is not None and not self.stream:
            raise ApiError("Stream options can only be defined when `stream=True`.", param="stream_options")
        if self.cache_salt == "":
            raise ApiError(
                "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
                param="cache_salt",
            )
        if self.n != 1:
            raise not_supported(f"n = {self.n}", "n")
        min_p = self.min_p if self.temperature != 0 else None  # greedy needs no min_p
        if speculating and (min_p or self.logit_bias):
            raise ApiError(
                "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
            )
        neutral = {
            "presence_penalty": not self.presence_penalty,
            "frequency_penalty": not self.frequency_penalty,
            "repetition_penalty": self.repetition_penalty in (None, 1.0),
            "use_beam_search": not self.use_beam_search,
            "structured_outputs": not self.structured_outputs,
            "guided_json": not self.guided_json,
            "response_format": (self.response_format or {}).get("type", "text") == "text",
        }
        for param, is_neutral in neutral.items():
            if not is_neutral:
                raise not_supported(param, param)

    def with_defaults(self, defaults: Mapping[str, float | int]) -> Self:
        """The request with the server's values for what it leaves out."""
        return self.model_copy(update={key: v for key, v in defaults.items() if getattr(self, key) is None})

    def sampling(self, max_tokens: int, num_logprobs: int | None) -> SamplingParams:
        """Sampling of the engine, which raises RequestError for values outside their range. `num_logprobs`: how many
        of the most likely tokens are told beside each emitted one; None: log probabilities are not asked for."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=self.top_k or 0,
            seed=self.seed,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            ignore_eos=self.ignore_eos,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            logprobs=num_logprobs,
            min_p=self.min_p or 0.0,
            logit_bias=tuple(
                (int(i), min(max(b, -_MOST_BIAS), _MOST_BIAS)) for i, b in (self.logit_bias or {}).items()
            ),
        )


class CompletionAsked(Asked):
    """POST /v1/completions."""

    prompt: list[TokenId] | list[list[TokenId]] | str | list[str] | None = None
    logprobs: Logprobs | None = None
    echo: bool | None = False
    suffix: str | None = None

    def refuse_unsupported(self, *, speculating: bool) -> None:
        super().refuse_unsupported(speculating=speculating)
        _check_logprobs(self.logprobs, "logprobs")
        if self.echo:
            raise not_supported("echo", "echo")
        if self.suffix:
            raise ApiError("suffix is not currently supported", param="suffix")

    def num_logprobs(self) -> int | None:
        """Of `sampling`."""
        return self.logprobs

    def only_prompt(self) -> str | list[int]:
        """The prompt. ApiError where there is none, or more than one."""
        prompt = self.prompt
        if prompt == []:
            raise ApiError("You must pass at least one prompt")
        if not prompt:
            raise ApiError(
                "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", param="prompt"
            )
        if isinstance(prompt, str):
            return prompt
        first = prompt[0]
        if isinstance(first, int):
            return [i for i in prompt if isinstance(i, int)]
        if len(prompt) > 1:
            raise not_supported("more than one prompt in a request", "prompt")
        if not first:
            raise ApiError("The decoder prompt cannot be empty")
        return first


class Message(BaseModel):
    """One message of a chat; text only."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]] | None = None

    @model_validator(mode="before")
    @classmethod
    def _content_is_no_null(cls, data: Any) -> Any:
        """vLLM takes a message without content, and one of the assistant's with null."""
        if isinstance(data, dict) and data.get("content", "") is None and data.get("role") != "assistant":
            raise ValueError("Input should be a valid string")
        return data

    def text(self) -> str:
        """The text of all parts. ApiError for parts that are no text."""
        if not isinstance(self.content, list):
            return self.content or ""
        texts = [part.get("text") for part in self.content]
        if not all(isinstance(text, str) for text in texts):
            raise not_supported("content that is not text", "messages")
        return "".join(text for text in texts if isinstance(text, str))


class ChatAsked(Asked):
    """POST /v1/chat/completions."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: TopLogprobs | None = 0
    tools: list[dict[str, Any]] | None = None

    def refuse_unsupported(self, *, speculating: bool) -> None:
        super().refuse_unsupported(speculating=speculating)
        if not self.messages:
            message = "Cannot apply chat template to an empty conversation. Provide at least one message."
            raise ApiError(message)
        if self.top_logprobs and not self.logprobs and (self.top_logprobs > 0 or self.top_logprobs == -1):
            raise ApiError(
                "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)",
                param="top_logprobs",
            )
        _check_logprobs(self.top_logprobs, "top_logprobs")
        if self.tools:
            raise not_supported("tools", "tools")

    def num_logprobs(self) -> int | None:
        """Of `sampling`."""
        return (self.top_logprobs or 0) if self.logprobs else None


class TokenizeAsked(BaseModel):
    """POST /tokenize: `prompt` or `messages`."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    return_token_strs: bool | None = False


class DetokenizeAsked(BaseModel):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[int]


class SpeculationAsked(BaseModel):
    """POST /rehearsal/speculation."""

    enabled: bool


def _bounded(bias: float) -> float:
    return min(max(bias, -_MOST_BIAS), _MOST_BIAS)


def _check_logprobs(asked: int | None, param: str) -> None:
    """At most 20. -1 means the whole vocabulary, which is more; vLLM names `logprobs` then on both endpoints."""
    if asked is None:
        return
    if asked < -1:
        raise ApiError(f"`{param}` must be a positive value or -1. (parameter={param}, value={asked})", param=param)
    if asked == -1 or asked > _MAX_LOGPROBS:
        wanted = "the whole vocabulary" if asked == -1 else asked
        raise ApiError(
            f"Requested sample logprobs of {wanted}, which is greater than max allowed: {_MAX_LOGPROBS} "
            f"(parameter=logprobs, value={wanted})",
            param="logprobs",
        )
