"""Variables as Grafana puts them into queries."""

import pytest

from grafana.dashboards_src.interpolate import built_in, chosen, interpolated

ONE = {"name": "run_id"}
SEVERAL = {"name": "arm", "multi": True, "includeAll": True, "allValue": ".+"}


@pytest.mark.parametrize(
    ("scrape_s", "interval_s", "expected"),
    [(5, 1, "20s"), (5, 15, "20s"), (5, 60, "65s"), (1, 2, "4s"), (15, 15, "60s")],
)
def test_rate_interval_is_four_scrapes_or_a_step_and_one(scrape_s: float, interval_s: float, expected: str) -> None:
    assert built_in(scrape_s, 600, interval_s)["__rate_interval"] == expected


def test_every_way_to_write_a_variable() -> None:
    values = {"a": "1", "__range": "600s"}
    assert interpolated('x{a="$a",b="${a}",c="${a:regex}",d="[[a]]"}[$__range]', values) == (
        'x{a="1",b="1",c="1",d="1"}[600s]'
    )
    with pytest.raises(KeyError, match="b"):
        interpolated("$b", values)


def test_values_are_escaped_as_their_place_needs() -> None:
    assert chosen(ONE, ['a"b\\c']) == 'a\\"b\\\\c'
    assert chosen(SEVERAL, []) == ".+"
    assert chosen(SEVERAL, ["a.b"]) == "a\\\\.b"
    assert chosen(SEVERAL, ["a.b", "c"]) == "(a\\\\.b|c)"
