"""What the numbers say, as rules (docs/findings.md). Each finding holds for its conditions and for no others."""

from loadgen.analyze.findings.base import Facts, Rule
from loadgen.analyze.findings.collect import RULES, findings_of

__all__ = ["RULES", "Facts", "Rule", "findings_of"]
