"""Format validity: JSON, JSON Schema, Python; fences, cut outputs, references to elsewhere."""

from collections.abc import Callable

import pytest

from loadgen.analyze import Format, Output, format_check

Make = Callable[..., Output]
SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
    "required": ["age"],
    "additionalProperties": False,
    "$defs": {"t": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("text", "valid", "why"),
    [
        ('{"age": 3, "tags": ["a"]}', True, None),
        ('```json\n{"age": 3}\n```\n', True, None),
        ('{"age": -1}', False, "not of the schema: $.age: -1 is less than the minimum of 0"),
        ('{"age": 3, "tags": ["c"]}', False, "not of the schema: $.tags[0]: 'c' is not one of ['a', 'b']"),
        ('{"tags": []}', False, "not of the schema: $: 'age' is a required property"),
        ('{"age": 3} ', True, None),
        ('{"age": 3} so', False, "no JSON: Extra data: line 1 column 12 (char 11)"),
        ('{"age": NaN}', False, "no JSON: NaN is no JSON"),
        ("", False, "no JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_json_of_a_schema(output: Make, text: str, valid: bool, why: str | None) -> None:
    found = format_check(output(text, format=Format("json_schema", SCHEMA)))
    assert (found.valid, found.reason) == (valid, why)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("def f(x):\n    return x\n", True),
        ("```python\nx = '\\d'\n```", True),
        ("def f(x)\n    return x", False),
        ("x = 1\0", False),
        ("(" * 2000, False),
        ("  ", False),
    ],
)
def test_python(output: Make, text: str, valid: bool) -> None:
    assert format_check(output(text, format=Format("python"))).valid is valid


def test_cut_outputs_and_outputs_without_a_format_are_not_judged(output: Make) -> None:
    cut = format_check(output('{"age": 3, "ta', format=Format("json"), finish="length"))
    assert cut.valid is None
    assert (cut.reason or "").startswith("cut at max_tokens; as far as it goes: no JSON")
    assert format_check(output("[1]", format=Format("json"), finish="length")).valid is True
    assert format_check(output("[1]")).reason == "no format was asked for"


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://example.com/schema.json"}])
def test_a_schema_that_is_wrong_or_elsewhere_is_an_error_and_nothing_is_fetched(
    output: Make, schema: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="the schema"):
        format_check(output("[1]", format=Format("json_schema", schema)))
