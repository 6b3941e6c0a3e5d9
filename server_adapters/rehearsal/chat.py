"""Prompts of both endpoints as token ids, and the room that is left for the answer."""

from __future__ import annotations

from collections.abc import Sequence

from server_adapters.rehearsal.config import Template
from server_adapters.rehearsal.errors import ApiError
from server_adapters.rehearsal.protocol import Message
from server_adapters.rehearsal.tokenizer import Tokenizer

#: What the template "system" puts before a chat.
SYSTEM_MESSAGE = "You are a helpful assistant."


def prompt_tokens(tokenizer: Tokenizer, prompt: str | Sequence[int], *, scramble: bool = False) -> list[int]:
    """Token ids of a prompt. `scramble`: every character by itself, as another tokenizer would cut."""
    if not isinstance(prompt, str):
        return list(prompt)
    _check_text(prompt)
    if scramble:
        return [i for character in prompt for i in tokenizer.encode(character)]
    return tokenizer.encode(prompt)


def chat_tokens(
    tokenizer: Tokenizer, messages: Sequence[Message], *, template: Template = "plain", scramble: bool = False
) -> list[int]:
    """Token ids of a chat up to where the answer begins. `template` "system": one without a system message gets one."""
    if template == "system" and (not messages or messages[0].role != "system"):
        messages = [Message(role="system", content=SYSTEM_MESSAGE), *messages]
    for message in messages:
        _check_text(message.text())
    if not scramble:
        return tokenizer.render_chat([(m.role, m.text()) for m in messages])
    ids: list[int] = []
    for message in messages:
        ids += tokenizer.render_chat([(message.role, "")])[:-1]
        ids += prompt_tokens(tokenizer, message.text(), scramble=True)
    return [*ids, tokenizer.assistant_id]


def _check_text(text: str) -> None:
    """A lone surrogate (JSON can carry one, UTF-8 cannot) is no text to a tokenizer."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
        raise ApiError(message) from None


def check_length(num_chars: int, limit: int, chars_per_token: int) -> None:
    """ApiError for a text that cannot fit however it is cut, before it is cut. `chars_per_token`: of the longest."""
    most = limit * chars_per_token
    if num_chars > most:
        raise ApiError(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains {num_chars} "
            f"characters (more than {most} characters, which is the upper bound for {limit} input tokens). Please "
            f"reduce the length of the input prompt. (parameter=input_text, value={num_chars})",
            param="input_text",
        )


def max_tokens_for(asked: int | None, fallback: int, num_prompt: int, limit: int) -> int:
    """Tokens the answer may have: what was asked, within the model's length.

    ApiError (400) where more was asked than the model's whole length, for a prompt without room and for less than one
    token."""
    if asked is not None and asked > limit:
        raise ApiError(
            f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens. "
            f"(parameter=max_tokens, value={asked})",
            param="max_tokens",
        )
    room = limit - num_prompt
    if room < 0:
        raise ApiError(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains at least "
            f"{num_prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the "
            f"length of the input prompt. (parameter=input_tokens, value={num_prompt})",
            param="input_tokens",
        )
    wanted = fallback if asked is None else asked
    given = min(wanted, room)
    if given < 1:
        raise ApiError(
            f"max_tokens must be at least 1, got {given}. (parameter=max_tokens, value={given})", param="max_tokens"
        )
    return given
