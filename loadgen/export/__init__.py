"""What leaves for other systems: rules for Prometheus."""

from loadgen.export.rules import (
    RULE_FILES,
    Burn,
    Limits,
    RunRules,
    Windows,
    as_prometheus_rule,
    as_yaml,
    rule_file,
    rules_of_run,
)

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
