"""docs/drill.md and the drill hold each other: switches, numbers, limits, the example gateway."""

import re
import typing
from pathlib import Path

from loadgen.analyze import DrillPull, DrillResult
from loadgen.analyze.drill.judging import LEAST_AFTER
from loadgen.analyze.drill.lateness import (
    ALIKE,
    CORRELATIONS,
    FAMILY_LEVEL,
    FEWEST,
    FIRST_SERIES,
    MOST_UNITS,
    PLAIN_P,
    STEADY_SERIES,
)
from loadgen.analyze.drill.rows import LEAST_TOLD
from loadgen.analyze.drill.settling import COVERED, LEAST_COVERED, UNSTEADY_P, UNSTEADY_SHARE
from loadgen.analyze.found.drill import KnownBy
from loadgen.scenario import DRILL_SCRAPE_S, AdapterCall, CommandCall, DrillLimits, HttpCall, load_scenario

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "drill.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    part = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)[1:]


def test_every_kind_of_switch_stands_there() -> None:
    kinds = [typing.get_args(call.model_fields["kind"].annotation)[0] for call in (HttpCall, CommandCall, AdapterCall)]
    assert first_cells("The switch") == kinds


def test_every_way_to_know_a_server_stands_there() -> None:
    assert first_cells("How a request's server is known") == list(typing.get_args(KnownBy))
    assert DrillResult.model_fields["known_by"].annotation == KnownBy | None


def test_every_number_of_a_pull_and_every_limit_is_defined() -> None:
    numbers = {n for n in DrillPull.model_fields if n.endswith("_s") and "N" in str(DrillPull.__annotations__[n])}
    for name in numbers - {"longest_ttft_s"}:
        assert f"`{name}`" in TEXT, name
    for name in set(DrillLimits.model_fields) - {"baseline_s"}:
        assert f"`{name}`" in TEXT, name


def test_the_constants_are_those_of_the_analysis() -> None:
    assert f"within {ALIKE:.0%}".replace("%", " %") in TEXT
    assert f"at {COVERED:.0%} for all windows".replace("%", " %") in TEXT
    assert f"below {LEAST_COVERED:.0%} there is none".replace("%", " %") in TEXT
    assert f"more than {UNSTEADY_SHARE:.0%}".replace("%", " %") in TEXT
    assert f"p < {UNSTEADY_P}" in TEXT
    assert f"fewer than {LEAST_AFTER}\nrequests followed" in TEXT
    assert f"every {DRILL_SCRAPE_S} s during a drill" in TEXT
    assert f"if all ({LEAST_TOLD} at least) before the first pull had them" in TEXT


def test_the_constants_of_the_test_of_lateness() -> None:
    words = " ".join(TEXT.split())
    assert f"Up to {MOST_UNITS} units" in words
    assert f"less the {ALIKE:.0%} within which levels are one".replace("%", " %") in words
    assert f"every stretch of {FEWEST} units or more" in words
    assert f"on {STEADY_SERIES:,} steady Gaussian AR(1) series" in words
    assert "for φ = {:g}, {:g}, {:g} and {:g}".format(*CORRELATIONS) in words
    assert f"(where the first {FIRST_SERIES:,} give more than {PLAIN_P:.0%}, that".replace("%", " %") in words
    assert f"(Holm) at {FAMILY_LEVEL:.1%}.".replace("%", " %") in words
    assert f"no p is below 1 ÷ {STEADY_SERIES + 1:,}" in words


def test_the_ready_scenario_fits_the_example_gateway() -> None:
    scenario = load_scenario(ROOT / "scenarios" / "drill.yaml").scenario
    nginx = (ROOT / "examples" / "nginx" / "nginx.conf").read_text()
    arm, drill = scenario.arms["gateway"], scenario.drill
    assert drill is not None
    assert f"listen {str(arm.url).removeprefix('http://')};" in nginx
    assert f"add_header {arm.served_by_header} $upstream_addr always;" in nginx
    for side in ("speculating", "fallback"):
        upstream = (ROOT / "examples" / "nginx" / f"{side}.conf").read_text()
        assert f"server {getattr(drill, side).served_by[0]};" in upstream
    assert isinstance(drill.switch.off, CommandCall)
    assert (ROOT / drill.switch.off.command[1]).is_file()
    for word in ("keepalive_timeout 0", "proxy_next_upstream off", "proxy_buffering off"):
        assert f"{word};" in nginx
        assert f"`{word}`" in TEXT
