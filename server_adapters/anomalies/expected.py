"""What servers of a family are known to answer, where that is more than any OpenAI-compatible server must."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from server_adapters.anomalies.bodies import EITHER, SERVED
from server_adapters.anomalies.types import Anomaly, Expected, Setting, Shape

Known = Expected | Callable[[Setting], Expected]

_SEEN = "vLLM 0.32.0, seen"
_READ = "its code and documentation, not seen"


def _answers(statuses: Iterable[int], shapes: Iterable[Shape], source: str) -> Expected:
    return Expected(frozenset(statuses), frozenset(shapes), source=source)


_ERROR = _answers([400], ["error"], _SEEN)
_DETAIL = _answers([400], ["detail"], _SEEN)
_UNKNOWN_MODEL = _answers([404], ["error"], _SEEN)
_SERVED = _answers(SERVED.statuses, SERVED.shapes, _SEEN)


def _with_speculation(setting: Setting) -> Expected:
    """min_p and logit_bias: refused where the server speculates, served where it does not (H10)."""
    if setting.speculation is None:
        return EITHER
    return _ERROR if setting.speculation else _SERVED


def _each(expected: Known, names: str) -> dict[str, Known]:
    return dict.fromkeys(names.split(), expected)


_VLLM_ERRORS = (
    "long_text long_ids long_stream no_room max_tokens_huge_chat max_tokens_beyond_int64 prompt_empty prompt_null "
    "prompt_missing prompt_no_ids prompt_list_of_empty prompt_empty_strings messages_empty messages_missing body_empty "
    "body_no_keys json_truncated json_trailing_comma json_single_quotes json_two_objects json_null json_array "
    "json_text json_nan json_infinity json_overflow type_model type_max_tokens type_temperature type_top_p type_stream "
    "type_stop type_n type_seed type_logit_bias type_presence_penalty type_stream_options type_max_tokens_float "
    "type_prompt type_prompt_object type_prompt_mixed type_messages type_message type_content role_missing "
    "content_type_text content_type_form content_type_multipart content_type_none temperature_negative "
    "temperature_huge top_p_above_one top_p_zero top_p_negative top_k_negative min_p_above_one presence_penalty_high "
    "frequency_penalty_low repetition_penalty_zero max_tokens_zero max_tokens_negative min_tokens_above_max n_zero "
    "n_negative n_greedy seed_beyond_int64 stop_empty_text logit_bias_no_id logit_bias_unknown_id logprobs_too_many "
    "logprobs_negative top_logprobs_too_many token_id_unknown token_id_negative token_id_beyond_int64 body_1_mb "
    "body_16_mb n_huge"
)
_VLLM: dict[str, Known] = {
    **_each(_ERROR, _VLLM_ERRORS),
    **_each(_DETAIL, "utf8_invalid utf8_overlong utf8_cut json_deep json_deep_closed"),
    **_each(_UNKNOWN_MODEL, "model_unknown model_path model_long"),
    **_each(_SERVED, "capped model_missing text_separators text_controls"),
    "min_p": _with_speculation,
    "logit_bias": _with_speculation,
}
_LONG = "long_text long_ids"

#: By adapter, by anomaly.
KNOWN: Mapping[str, Mapping[str, Known]] = {
    "vllm": _VLLM,
    "sglang": {
        **_each(_answers([400], ["error"], _READ), _LONG),
        "long_stream": _answers([200, 400], ["error", "stream_error"], _READ),
        "capped": _answers([200, 400], ["completion", "error"], _READ),
    },
    "llamacpp": _each(_answers([400], ["error"], _READ), _LONG),
    "tgi": _each(_answers([422], ["error"], _READ), _LONG),
    "tensorrt_llm": _each(_answers([400], ["error", "other_json"], _READ), _LONG),
}


def expected_of(anomaly: Anomaly, setting: Setting) -> Expected:
    """Of this server: by its family, else of any."""
    known = KNOWN.get(setting.adapter, {}).get(anomaly.name, anomaly.expected)
    return known if isinstance(known, Expected) else known(setting)
