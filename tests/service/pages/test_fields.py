"""A start's form: what a scenario lets one change, as fields, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadgen.service.pages.fields import MOST_FIELDS, arms_in, fields_of, lines_of, minutes_in, overrides_in, value_of
from loadgen.service.pages.words import moment, tone, took

DOCUMENT = {
    "description": "x", "name": "n", "seed": 7, "repeats": None,
    "load": [{"kind": "concurrency", "concurrency": 2, "cases": 6},
             {"rate_per_s": {"from": 1, "to": 2}, "duration_s": 5}],
}  # fmt: skip


def test_fields_are_what_is_written_and_may_be_changed() -> None:
    found = fields_of(DOCUMENT, {"seed": 9, "slos.ttft_s": 0.5})
    assert [(f.key, f.value, f.given) for f in found] == [
        ("seed", "7", "9"), ("repeats", "null", ""), ("load.0.concurrency", "2", ""), ("load.0.cases", "6", ""),
        ("load.1.duration_s", "5", ""),
    ]  # fmt: skip
    assert (
        lines_of(DOCUMENT, {"seed": 9, "slos.ttft_s": 0.5, "description": "a b"}) == "slos.ttft_s=0.5\ndescription=a b"
    )


def test_a_long_scenario_has_a_form_of_bounded_length() -> None:
    long = {"load": [{"cases": i} for i in range(100)]}
    assert len(fields_of(long, {})) == MOST_FIELDS
    assert lines_of(long, {"load.99.cases": 1}) == "load.99.cases=1"


def test_a_form_is_read_back() -> None:
    form = {
        "arm.base": "one",
        "arm.other": "",
        "set.seed": " 9 ",
        "set.repeats": "",
        "more": "a.b = 1.5\n\nc=x=y\n=3\nd",
    }
    assert arms_in(form) == {"base": "one"}
    assert overrides_in(form) == (
        {"seed": 9, "a.b": 1.5, "c": "x=y"},
        ["further changes, line 4: write key=value", "further changes, line 5: write key=value"],
    )
    assert (minutes_in(""), minutes_in("1.5")) == ((None, []), (90.0, []))
    for text in ("0", "-1", "nan", "inf", "1e9", "x"):
        assert minutes_in(text)[0] is None
        assert minutes_in(text)[1]


@given(
    st.one_of(st.integers(-(2**60), 2**60), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False))
)
def test_values_come_back_as_they_were_given(value: float | None) -> None:
    (field,) = fields_of({"seed": 1}, {"seed": value})
    found = value_of(field.given)
    assert found == value
    assert type(found) is type(value)


@given(st.text())
def test_any_text_is_some_value(text: str) -> None:
    found = value_of(text)
    assert found is None or isinstance(found, bool | int | float | str)


def test_values_of_the_registry_in_words() -> None:
    assert moment("2026-11-30T07:06:00.123+00:00") == "2026-11-30 07:06:00"
    assert (moment(None), moment("x"), took(None, "x")) == ("", "", "")
    assert took("2026-11-30T07:06:00+00:00", "2026-11-30T07:06:12.5+00:00") == "12.5\u00a0s"
    assert [tone(word) for word in ("pass", "failed", "doubtful", "queued", "else", None)] == [
        "good", "bad", "warning", "info", "", ""
    ]  # fmt: skip
