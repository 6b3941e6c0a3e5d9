"""Prometheus text to samples; anything else is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_adapters.base import CollectionError
from server_adapters.exposition import Sample, read_samples


def every(name: str) -> bool:
    return True


def test_names_labels_and_values_are_as_on_the_wire() -> None:
    """A counter without `_total` keeps its name, whatever its TYPE line says."""
    text = '# HELP a:b Help.\n# TYPE a:b counter\na:b{x="1",y="é, \\"q\\" } \\\\ {"} 2.5e3\na:b 7 1395066363000\n'
    assert read_samples(text, every) == [
        Sample("a:b", {"x": "1", "y": 'é, "q" } \\ {'}, 2500.0),
        Sample("a:b", {}, 7.0),
    ]


def test_only_wanted_samples_are_read() -> None:
    assert [s.name for s in read_samples("a 1\nb 2\na 3\n", lambda n: n == "a")] == ["a", "a"]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "nan", "9" * 400])
def test_values_that_are_no_numbers_are_absent(value: str) -> None:
    assert read_samples(f"a {value}\nb 1\n", every) == [Sample("b", {}, 1.0)]


def test_openmetrics_exemplars_and_eof() -> None:
    text = (
        '# TYPE a counter\na_total{x="1"} 5 # {trace_id="a b"} 0.67\n'
        'a_created{x="1"} 1.7567e9\nh_bucket{le="1.0"} 8 # {trace_id="} 3"} 0.5 1520879607.789\n# EOF\n'
    )
    assert read_samples(text, every) == [
        Sample("a_total", {"x": "1"}, 5.0),
        Sample("a_created", {"x": "1"}, 1.7567e9),
        Sample("h_bucket", {"le": "1.0"}, 8.0),
    ]


def test_line_separators_of_other_kinds_stay_inside_labels() -> None:
    """A16: only line feeds end a line."""
    assert read_samples('a{x="1\u20282\u00853"} 1\r\nb 2\r\n', every)[0].labels == {"x": "1\u20282\u00853"}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("<!DOCTYPE html><html><body>Sign in</body></html>", "HTML"),
        ("\n<html>\na 1\n</html>", "HTML"),
        ('{"detail":"Not Found"}', "line 1"),
        ('a 1\nb{x="1\n', "line 2"),
        ("a 1\nb\n", "line 2"),
        ("a 1\n404 page not found\n", "line 2"),
        ("\x1f\ufffd\x08\x00\x00\ufffd", "line 1"),
        ("a{x=1} 5\n", "not Prometheus"),
        ("a 1.2.3\n", "not Prometheus"),
    ],
)
def test_other_pages_are_refused(page: str, reason: str) -> None:
    """G23: an empty body or an HTML page is a failed collection, never zeros."""
    with pytest.raises(CollectionError, match=reason) as caught:
        read_samples(page, every)
    assert caught.value.kind == "not_metrics"


def test_unwanted_broken_lines_refuse_the_page_too() -> None:
    with pytest.raises(CollectionError):
        read_samples("a 1\n<b>\n", lambda n: n == "a")


def test_a_page_of_comments_holds_no_samples() -> None:
    assert read_samples("# HELP a b\n# EOF\n", every) == []


def test_huge_pages() -> None:
    """G22: twenty thousand lines nobody wants cost no label parsing."""
    bulk = "".join(f'h_bucket{{le="{i}"}} {i}\n' for i in range(20_000))
    assert read_samples(bulk + "a 1\n", lambda n: n == "a") == [Sample("a", {}, 1.0)]


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_gives_samples_or_a_collection_error(text: str) -> None:
    try:
        samples = read_samples(text, every)
    except CollectionError:
        return
    assert all(abs(s.value) < float("inf") for s in samples)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(st.characters(exclude_characters="\r", codec="utf-8"))
    )
)
def test_label_values_survive(labels: dict[str, str]) -> None:
    labels = {k: v for k, v in labels.items() if not k.startswith("__")}
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for k, v in labels.items()}
    line = "a{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "} 1\n"
    assert read_samples(line, every) == [Sample("a", labels, 1.0)]
