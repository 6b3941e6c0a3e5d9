"""Text in, ids out, the same text back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_adapters.rehearsal.corpus import TASK_TYPES, documents
from server_adapters.rehearsal.models import load_models
from server_adapters.rehearsal.tokenizer import SPECIALS, Tokenizer

TOKENIZER = load_models().tokenizer


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab the\n  "{}_.,:1🙂é'), max_size=60))
def test_text_near_the_vocabulary_survives(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("special", SPECIALS)
def test_the_name_of_a_special_is_ordinary_text(special: str) -> None:
    ids = TOKENIZER.encode(f"say {special} now")
    specials = {TOKENIZER.eos_id, TOKENIZER.user_id, TOKENIZER.assistant_id, TOKENIZER.system_id}
    assert not specials & set(ids)
    assert TOKENIZER.decode(ids) == f"say {special} now"


def test_vocabulary_has_the_size_the_models_need() -> None:
    assert 1000 <= TOKENIZER.vocab_size <= 4000
    assert TOKENIZER.output_size < TOKENIZER.vocab_size


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_answers_consist_of_ids_a_model_can_say(task_type: str) -> None:
    for _, answer in documents(task_type, 50, 0):
        assert max(TOKENIZER.encode(answer)) < TOKENIZER.output_size


def test_a_character_cut_in_two_becomes_a_replacement_character() -> None:
    ids = TOKENIZER.encode("🙂")
    assert len(ids) == 4
    assert TOKENIZER.decode_bytes(ids[:2]) == "🙂".encode()[:2]
    assert TOKENIZER.decode(ids[:2]) == "\ufffd"


def test_chat_marks_every_turn_and_opens_the_answer() -> None:
    ids = TOKENIZER.render_chat([("system", "Be brief."), ("user", "How much is 2 plus 3?")])
    assert ids[0] == TOKENIZER.system_id
    assert ids[-1] == TOKENIZER.assistant_id
    at = ids.index(TOKENIZER.user_id)
    assert TOKENIZER.decode(ids[at + 1 : -1]) == "How much is 2 plus 3?"


def test_known_pieces_are_one_token() -> None:
    tokenizer = Tokenizer(["the red boat"], ["a boat"])
    assert [tokenizer.token_text(i) for i in tokenizer.encode("the red boat")] == ["the", " red", " boat"]
    assert tokenizer.token_text(tokenizer.eos_id) == "<|eos|>"


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("x\ud800y")) == "x?y"
