"""How answers end, and which ends no numerics explain."""

from __future__ import annotations

from loadgen.analyze.quality.types import Output

_BY_TOKEN = frozenset({"stop", "length"})
#: Finish reasons that neither a token nor a limit is the reason of.
_CUT = frozenset({"abort", "error", "content_filter"})


def goes_past_end(baseline: Output, candidate: Output) -> str | None:
    """Why the candidate goes on after an end that is known: a stop id or stop string that it holds itself, or
    max_tokens. None where it does not, or where the baseline does so, too."""
    if passes_stop(candidate) and not passes_stop(baseline):
        return "the candidate holds a stop and goes on after it"
    most = candidate.max_tokens
    if most is not None and _tokens(candidate, 0) > most and _tokens(baseline, 0) <= most:
        return f"the candidate has {_tokens(candidate, 0)} tokens where {most} were asked for at most"
    if baseline.finish_reason == "length" and _ids_begin(baseline, candidate):
        return f"the candidate goes on after {_tokens(baseline, 0)} tokens, where the baseline ended by max_tokens"
    return None


def ends_for_no_reason(baseline: Output, candidate: Output) -> str | None:
    """Why the candidate's end is none that a token or a limit makes, where it is the baseline's beginning: it was cut
    off, lacks the id that ends an answer where ids tell it, or says "length" with fewer tokens than were asked for.
    None where nothing contradicts it."""
    if not _begins_with(baseline, candidate):
        return None
    if candidate.finish_reason in _CUT and baseline.finish_reason != candidate.finish_reason:
        return f"the candidate was cut off ({candidate.finish_reason})"
    if (
        candidate.finish_reason == "stop"
        and _ids_begin(candidate, baseline)
        and candidate.stop_ids
        and not candidate.stop
    ):
        return "the candidate ended without any token that ends an answer"
    if candidate.finish_reason != "length":
        return None
    if _ids_begin(candidate, baseline):
        return f'the candidate says "length" after {_tokens(candidate, 0)} tokens; the baseline has more'
    most = candidate.max_tokens
    if baseline.finish_reason != "length" and most is not None and (n := _tokens(candidate, most)) < most:
        return f'the candidate says "length" after {n} of {most} tokens'
    return None


def no_matter_of_numerics(baseline: Output, candidate: Output) -> bool:
    """Whether the candidate's end is wrong whatever the log probabilities were."""
    return bool(goes_past_end(baseline, candidate) or ends_for_no_reason(baseline, candidate))


def same_but_for_the_end(a: Output, b: Output) -> bool:
    """Whether two answers say the same and differ otherwise for certain. By ids they do; of texts alone "stop" and
    "length" may be a token without text in one of them."""
    if a.token_ids is not None and b.token_ids is not None:
        return a.token_ids == b.token_ids
    return a.text == b.text and not {a.finish_reason, b.finish_reason} <= _BY_TOKEN


def passes_stop(output: Output) -> bool:
    """An id of `stop_ids` before the last place, or a stop string before the end of the text."""
    ids = output.token_ids or ()
    if not set(output.stop_ids).isdisjoint(ids[:-1]):
        return True
    return any(0 <= output.text.find(stop) < len(output.text) - len(stop) for stop in output.stop if stop)


def _tokens(output: Output, unknown: int) -> int:
    if output.token_ids is not None:
        return len(output.token_ids)
    return unknown if output.n_tokens is None else output.n_tokens


def _ids_begin(short: Output, long: Output) -> bool:
    """Whether all ids of `short` are the beginning of those of `long`, which has more."""
    a, b = short.token_ids, long.token_ids
    return a is not None and b is not None and len(a) < len(b) and b[: len(a)] == a


def _begins_with(long: Output, short: Output) -> bool:
    if long.token_ids is not None and short.token_ids is not None:
        return long.token_ids[: len(short.token_ids)] == short.token_ids
    return long.text.startswith(short.text)
