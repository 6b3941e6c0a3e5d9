"""What leaves for other systems: rules for Prometheus."""

from loadgen.export.rule_files import RULE_FILES, as_prometheus_rule, as_yaml, rule_file
from loadgen.export.rule_types import Burn, Limits, Windows
from loadgen.export.rules_from_run import RunRules, rules_of_run

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
