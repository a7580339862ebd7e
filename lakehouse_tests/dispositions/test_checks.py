"""How the checks of row rules describe themselves. No Spark."""

from __future__ import annotations

from lakehouse.dispositions.checks import row_check_names
from lakehouse_tests.support.lake import contract

RULES = [
    {"name": "positive", "sql": "amount > 0", "category": "validity"},
    {"name": "small", "sql": "amount < 9", "description": "No till takes more.", "category": "plausibility"},
    {"name": "plain", "sql": "amount <> 5", "severity": "warn"},
]


def test_the_description_of_a_rule_shows_its_category() -> None:
    descriptions = row_check_names(contract(quality={"row_rules": RULES}))
    assert descriptions["rule_positive"] == "Rows meet amount > 0 (else: quarantine). Category: validity."
    assert descriptions["rule_small"] == "No till takes more. Category: plausibility."
    assert descriptions["rule_plain"] == "Rows meet amount <> 5 (else: warn)."
