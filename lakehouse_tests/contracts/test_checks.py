"""The key ``checks:`` of a metric: what it means, and that a mistake is named."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts import ContractError, load_contract
from lakehouse.contracts.checks import GoldChecks, problems

TYPES = {"revenue": "decimal(18,2)", "sales": "bigint", "mean": "double", "visits": "int", "best": "string", "last": "timestamp"}


def checks(**rules: Any) -> GoldChecks:
    return GoldChecks.model_validate(rules)


def test_defaults_of_omitted_settings() -> None:
    loaded = checks(
        row_count={"min": 1, "trailing": {}},
        nulls={"revenue": 0.1},
        drift=[{"measure": "revenue", "max_score": 3.5}, {"measure": "sales", "max_distance": 0.3, "against": "published"}],
        change=[{"measure": "revenue", "percent": 20}],
    )
    assert loaded.row_count is not None
    assert loaded.row_count.trailing is not None
    trailing = loaded.row_count.trailing
    assert (trailing.days, trailing.needs, trailing.at_least, trailing.at_most) == (28, 7, Decimal("0.5"), Decimal(2))
    assert trailing.severity is None
    rules = [loaded.row_count, *loaded.nulls.values(), *loaded.drift, *loaded.change]
    assert {rule.severity for rule in rules} == {"error"}
    assert [(rule.against, rule.days, rule.needs, rule.needs_rows) for rule in loaded.drift] == [
        ("trailing", 28, 7, 20),
        ("published", 28, 7, 20),
    ]


def test_no_key_is_no_rule() -> None:
    assert (checks().row_count, checks().nulls, checks().drift, checks().change, checks().trailing_days) == (None, {}, [], [], 0)


def test_a_bound_is_the_decimal_that_was_written() -> None:
    assert checks(nulls={"mean": 0.1}).nulls["mean"].at_most == Decimal("0.1")
    exact = "12345678901234567890123456789012345678.01"
    assert checks(change=[{"measure": "revenue", "absolute": exact}]).change[0].absolute == Decimal(exact)


def test_a_share_of_nulls_in_short_and_in_full() -> None:
    short, full = checks(nulls={"mean": 0.25}), checks(nulls={"mean": {"at_most": 0.25}})
    assert short == full
    assert checks(nulls={"mean": {"at_most": 0.25, "severity": "warn"}}).nulls["mean"].severity == "warn"
    assert GoldChecks.model_validate(short.model_dump()) == short


def test_bounds_may_meet() -> None:
    rule = {"min": 4, "max": 4, "trailing": {"days": 7, "needs": 7, "at_least": 1, "at_most": 1}}
    assert checks(row_count=rule).row_count is not None


def test_trailing_days_are_the_most_that_any_rule_looks_at() -> None:
    drift = [{"measure": "a", "max_score": 3, "days": 40}, {"measure": "a", "max_distance": 0.2, "against": "published"}]
    assert checks(drift=drift).trailing_days == 40
    assert checks(drift=drift, row_count={"trailing": {"days": 50}}).trailing_days == 50
    assert checks(drift=drift[1:]).trailing_days == 0
    assert checks(row_count={"min": 1}).trailing_days == 0


@pytest.mark.parametrize(
    ("rules", "where", "message"),
    [
        ({"row_counts": {"min": 1}}, ("row_counts",), "Extra inputs"),
        ({"row_count": {}}, ("row_count",), "give min, max or trailing"),
        ({"row_count": {"severity": "warn"}}, ("row_count",), "give min, max or trailing"),
        ({"row_count": {"min": 2, "max": 1}}, ("row_count",), "min: 2 lies above max: 1"),
        ({"row_count": {"min": -1}}, ("row_count", "min"), "greater than or equal to 0"),
        ({"row_count": {"min": 1, "severity": "fatal"}}, ("row_count", "severity"), "'error' or 'warn'"),
        ({"row_count": {"trailing": {"needs": 29}}}, ("row_count", "trailing"), "29 of 28 days is impossible"),
        ({"row_count": {"trailing": {"at_least": 3}}}, ("row_count", "trailing"), "at_least: 3 lies above at_most: 2"),
        ({"nulls": {"mean": 1.1}}, ("nulls", "mean", "at_most"), "less than or equal to 1"),
        ({"nulls": {"mean": None}}, ("nulls", "mean", "at_most"), "Decimal"),
        ({"nulls": {"mean": {"at_most": 1, "at_least": 0}}}, ("nulls", "mean", "at_least"), "Extra inputs"),
        ({"drift": [{"measure": "a"}]}, ("drift", 0), "one of the two"),
        ({"drift": [{"measure": "a", "max_score": 3, "max_distance": 0.1}]}, ("drift", 0), "one of the two"),
        ({"drift": [{"measure": "a", "max_score": 3, "against": "published"}]}, ("drift", 0), "set 'against: trailing'"),
        ({"drift": [{"measure": "a", "max_score": 3, "needs_rows": 2}]}, ("drift", 0), "needs_rows: has no effect"),
        (
            {"drift": [{"measure": "a", "max_distance": 0.2, "against": "published", "days": 3, "needs": 1}]},
            ("drift", 0),
            "days: has no effect",
        ),
        ({"drift": [{"measure": "a", "max_distance": 1.5}]}, ("drift", 0, "max_distance"), "less than or equal to 1"),
        ({"drift": [{"measure": "a", "max_score": 3, "days": 5}]}, ("drift", 0), "7 of 5 days is impossible"),
        ({"change": [{"measure": "a"}]}, ("change", 0), "give percent, absolute or both"),
        ({"change": [{"measure": "a", "percent": -1}]}, ("change", 0, "percent"), "greater than or equal to 0"),
        ({"change": [{"measure": "a", "absolute": float("inf")}]}, ("change", 0, "absolute"), "finite"),
        ({"change": [{"measure": "a", "absolute": "1e999999999"}]}, ("change", 0, "absolute"), "76 digits"),
    ],
)
def test_a_mistake_is_named(rules: dict[str, Any], where: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        checks(**rules)
    assert [error["loc"] for error in caught.value.errors()] == [where]
    assert message in caught.value.errors()[0]["msg"]


def test_rules_that_fit_the_metric() -> None:
    fit = checks(
        nulls={"best": 0, "last": 0},
        drift=[{"measure": name, "max_distance": 0.2} for name in ("revenue", "sales", "mean", "visits")],
        change=[{"measure": "revenue", "percent": 1}],
    )
    assert problems(fit, TYPES, ["store"]) == []


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"nulls": {"gone": 0}}, "checks.nulls: no measure is called 'gone'; there are revenue, sales, mean, visits, best, last"),
        ({"drift": [{"measure": "gone", "max_score": 3}]}, "checks.drift: no measure is called 'gone'"),
        ({"change": [{"measure": "gone", "percent": 3}] * 2}, "checks.change: no measure is called 'gone'"),
        ({"change": [{"measure": "best", "percent": 3}]}, "checks.change: 'best' is a string; only numbers"),
        ({"drift": [{"measure": "last", "max_score": 3}]}, "checks.drift: 'last' is a timestamp; only numbers"),
        ({"drift": [{"measure": "mean", "max_distance": 0.3}]}, "checks.drift: max_distance compares grain rows"),
    ],
)
def test_rules_that_do_not(rules: dict[str, Any], expected: str) -> None:
    [found] = problems(checks(**rules), TYPES, [])
    assert found.startswith(expected)


METRIC = """\
metric: turnover
source: shop
measures:
  - {name: total, sql: sum(id), type: long}
checks:
  nulls: {total: 0}
  change:
    - {measure: total, percent: 5}
    - {measure: %s}
"""


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("totals, percent: 5", "7: checks.change: no measure is called 'totals'; there are total"),
        ("total, percents: 5", "9: checks.change.1.percents: unknown key"),
        ("total", "9: checks.change.1: has no bound; give percent, absolute or both"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path: Path, rest: str, expected: str) -> None:
    (tmp_path / "turnover.yaml").write_text(METRIC % rest)
    with pytest.raises(ContractError) as caught:
        load_contract(tmp_path / "turnover.yaml")
    assert f"turnover.yaml:{expected}" in caught.value.mistakes[0]
