"""docs/environment.md and the code hold each other: the rule table, the aliases, and every limit."""

import re
from pathlib import Path

from loadgen.analyze.environment_rules import CACHE_APART, FIRST_LINE_TOKENS, FOREIGN_SHARE, RULES, KeyRule
from loadgen.experiment.background import LOOKS, PAUSE_S
from loadgen.experiment.environment import ALIASES
from loadgen.experiment.network import CLUMP_EVENTS, HELD_SHARE, LEAST_EVENTS, LEAST_S, ROUND_TRIPS, STREAM_TOKENS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "environment.md").read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())


def row(rule: KeyRule) -> list[str]:
    near = f"{rule.apart:g}" if rule.apart else f"{rule.share:.0%}" if rule.share else "–"
    settled = ", ".join(f"`{key}`" for key in rule.settled_by) or "–"
    mark = " *" if rule.expected else ""
    return [f"`{rule.key}`{mark}", rule.rule.replace("_", " "), near, settled, rule.why]


def test_every_rule_is_documented_in_order() -> None:
    table = TEXT.split("## Rules\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    assert rows == [row(rule) for rule in RULES]


def test_no_key_has_two_rules() -> None:
    keys = [rule.key for rule in RULES]
    assert len(keys) == len(set(keys))


def test_every_alias_is_documented_and_is_a_key() -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("| the user |"))
    assert set(re.findall(r"`([a-z_]+)`", line.split("one of", 1)[1].split("fills", 1)[0])) == set(ALIASES)
    assert {rule.key for rule in RULES} >= set(ALIASES.values())


def test_every_limit_is_documented() -> None:
    for words in (
        f"Up to {LOOKS} looks, {PAUSE_S:g} s apart",
        f"the shortest of {ROUND_TRIPS} `GET /v1/models`",
        f"one streamed answer of {STREAM_TOKENS} tokens",
        f"within the last {HELD_SHARE:.0%} of its time".replace("%", " %"),
        f"on average {CLUMP_EVENTS} or more came together",
        f"fewer than {LEAST_EVENTS} events or was over within {1e3 * LEAST_S:g} ms",
        f"the median difference may be up to {FIRST_LINE_TOKENS:g} tokens",
        f"more than {100 * CACHE_APART['cold']:g} % apart within a stage and repeat (`cache: cold`)",
        f"(`cache: cold`) or {100 * CACHE_APART['warm']:g} % (`cache: warm`)",
        f"More than {100 * FOREIGN_SHARE:g} % is inconclusive",
    ):
        assert words in FLAT, words
