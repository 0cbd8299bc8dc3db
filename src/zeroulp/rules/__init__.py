"""
Other tools' tolerance rules, for comparison: what would they say of the same kernel?

``base`` is what a rule is, ``table`` the rules as their sources state them, ``run`` applies
them. None of those tools is needed, and none of their code is here.
"""

from zeroulp.rules.base import Rule, RuleResult
from zeroulp.rules.run import run_rules
from zeroulp.rules.table import RULES

__all__ = ["RULES", "Rule", "RuleResult", "run_rules"]
