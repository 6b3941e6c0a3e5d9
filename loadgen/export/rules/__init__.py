"""Rules for Prometheus: recorded series, alerts on servers and on runs, limits from a run."""

from loadgen.export.rules.files import RULE_FILES, as_prometheus_rule, as_yaml, rule_file
from loadgen.export.rules.from_run import RunRules, rules_of_run
from loadgen.export.rules.types import Burn, Limits, Windows

__all__ = [
    "RULE_FILES",
    "Burn",
    "Limits",
    "RunRules",
    "Windows",
    "as_prometheus_rule",
    "as_yaml",
    "rule_file",
    "rules_of_run",
]
