"""The family of tests, the acceptance anomaly, and the names given to what is found."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    FAMILY_LEVEL,
    PROMISED,
    Accepted,
    Output,
    acceptance_anomaly,
    case_findings,
    compare_outputs,
    diagnose,
    family,
    per_test_level,
)

Make = Callable[..., Output]


def test_holm_by_hand() -> None:
    found = family({"a": 0.0004, "b": 0.04, "c": None, "d": 0.0009})
    assert found.adjusted == pytest.approx({"a": 0.0012, "b": 0.04, "d": 0.0018})
    assert (found.alarms, found.not_made, found.level) == (("a", "d"), ("c",), FAMILY_LEVEL)
    assert FAMILY_LEVEL < PROMISED
    assert family({}).alarms == ()
    with pytest.raises(ValueError, match="level"):
        family({"a": 0.1}, level=0)


@given(p=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), min_size=1))
@settings(max_examples=60, deadline=None)
def test_holm_is_between_none_and_bonferroni(p: dict[str, float]) -> None:
    found = family(p)
    by_bonferroni = {name for name, one in p.items() if one <= per_test_level(len(p))}
    assert by_bonferroni <= set(found.alarms) <= {name for name, one in p.items() if one <= FAMILY_LEVEL}


def asked(share: float, cases: int = 24) -> list[Accepted]:
    return [Accepted(f"c{i}", 100, round(100 * share) + (i % 5)) for i in range(cases) for _ in range(2)]


@pytest.mark.parametrize(("share", "direction"), [(0.35, "low"), (0.94, "high")])
def test_acceptance_is_two_sided(share: float, direction: str) -> None:
    """D29: very low goes with garbled output, very high with a repetition loop."""
    found = acceptance_anomaly(asked(0.6), [*asked(share), Accepted("c0", 0, 0)], seed=1)
    assert found.direction == direction
    assert found.compared.p == 2 * 2.0**-24
    assert found.reference.value == pytest.approx(0.62, abs=0.001)
    assert found.compared.difference.value == pytest.approx(share - 0.6)
    assert (len(found.moved), found.undrafted) == (5, 1)
    named = diagnose([], family({"acceptance": found.compared.p}), found)
    assert [d.fault for d in named] == [f"acceptance_{direction}"]
    assert named[0].text.startswith("acceptance has " + ("fallen" if direction == "low" else "risen"))


def test_equal_acceptance_is_no_anomaly() -> None:
    found = acceptance_anomaly(asked(0.6), asked(0.6), seed=1)
    assert (found.direction, found.compared.p, found.moved) == (None, 1.0, ())


def test_names_of_faults(output: Make) -> None:
    base = [output("a b", [1, 2], case=f"c{i}") for i in range(8)]
    other = [output("x b", [3, 2], case=f"c{i}") if i < 5 else output("a x", [1, 3], case=f"c{i}") for i in range(8)]
    cases = case_findings(compare_outputs([*zip(base, other, strict=True)] * 2))
    found = diagnose(cases)
    assert [(d.fault, len(d.cases)) for d in found] == [("wrong_template", 5), ("divergent", 3)]
    assert found[0].text == (
        "5 of 8 cases differ from the first token: another chat template, system message or tokenizer"
    )
    few = diagnose(case_findings(compare_outputs(zip(base[3:], other[3:], strict=True))))
    assert few[0].fault == "first_token"
    assert few[0].text == "2 of 5 cases differ from the first token (2 of them were asked only once)"


def test_the_sampler_is_named_where_greedy_answers_agree(output: Make) -> None:
    same = case_findings(compare_outputs([(output("a", [1]), output("a", [1]))] * 2))
    other = case_findings(compare_outputs([(output("a", [1]), output("b", [2]))] * 2))
    tests = family({"next_token": 1e-5, "length": 1e-5, "noise_floor": 1e-6, "known_answers": 1e-6, "looping": 0.5})
    found = diagnose(same, tests)
    faults = ["differs_more_than_noise", "wrong_answers", "sampling", "outputs_shifted"]
    assert [d.fault for d in found] == faults
    assert "the correction step after a rejected draft is missing" in found[2].text
    assert "correction step" not in diagnose(other, tests)[3].text
    assert diagnose(same, family({"next_token": 0.4})) == []
