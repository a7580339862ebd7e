"""How the checks of row rules describe themselves, and the checks of tiers. No Spark."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.bronze.checks import bronze_check_names, check_bronze
from lakehouse.dispositions.checks import check_dispositions, judgement_counts, row_check_names
from lakehouse_tests.support.api_client import write_source_rows
from lakehouse_tests.support.arrivals import append_to_bronze, at, bronze_row
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAY, HOUR = date(2024, 2, 20), timedelta(hours=1)
TIERS = [
    {"within": "PT1H", "serves": "the live board", "tolerated": 0.5},
    {"within": "PT6H", "serves": "daily close", "tolerated": 0.1},
    {"within": "P7D", "serves": "reporting"},
]

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


def of_tiers(lake: Lake, tiers: list[dict[str, Any]], days: list[date], **keys: Any) -> dict[tuple[str, date], Any]:
    outcomes = check_bronze(lake, contract(lateness={"tiers": tiers}, **keys), days)
    return {(outcome.check, outcome.day): outcome for outcome in outcomes if outcome.check.startswith("tier_")}


def test_a_tier_has_a_check_of_the_share_that_it_tolerates(lake: Lake) -> None:
    lags = [HOUR, HOUR, 2 * HOUR, 6 * HOUR, 6 * HOUR, 7 * HOUR, 8 * HOUR, HOUR, HOUR, HOUR]
    append_to_bronze(lake, contract(), [bronze_row(at(DAY, 12), lag) for lag in lags])
    append_to_bronze(lake, contract(), [bronze_row(at(DAY, 13), HOUR)])
    next_day = DAY + timedelta(days=1)
    outcomes = of_tiers(lake, TIERS, [next_day, DAY])
    assert {(*key, outcome.passed) for key, outcome in outcomes.items()} == {
        ("tier_the_live_board", DAY, True),
        ("tier_daily_close", DAY, False),
        ("tier_the_live_board", next_day, True),
        ("tier_daily_close", next_day, True),
    }
    failed = outcomes["tier_daily_close", DAY]
    assert failed.warns
    assert failed.numbers == {"rows": 11, "beyond_tier": 2, "share": 0.181818}
    assert failed.explanation == (
        "of the rows of the day 18.18% (2) came later than 6 h, the tier that serves 'daily close'; the contract tolerates 10.00%"
    )
    by_severity = of_tiers(lake, TIERS, [DAY], quality={"severity": {"tier_daily_close": "error"}})
    assert not by_severity["tier_daily_close", DAY].warns


def test_a_share_that_is_exactly_tolerated_passes(lake: Lake) -> None:
    append_to_bronze(lake, contract(), [bronze_row(at(DAY, 12), lag) for lag in [7 * HOUR, *[HOUR] * 9]])
    assert all(outcome.passed for outcome in of_tiers(lake, TIERS, [DAY]).values())


def test_a_day_that_the_key_log_lacks_fails_all_days_and_one_without_rows_passes(lake: Lake) -> None:
    source, next_day, empty = contract(), DAY + timedelta(days=1), DAY + timedelta(days=2)
    arrived = at(DAY, 12)
    write_source_rows(lake, source, [("a", arrived - HOUR, arrived, "insert", "quarantined")])

    def disposed(days: list[date]) -> dict[date, Any]:
        outcomes = check_dispositions(lake, source, Counter({DAY: 1, next_day: held}), days)
        return {outcome.day: outcome for outcome in outcomes}

    held = 0
    assert {day: outcome.passed for day, outcome in disposed([DAY, empty]).items()} == {DAY: True, empty: True}
    late = at(next_day, 12)
    row = bronze_row(late, HOUR, record_key="b", id="b", ingestion_id="file2", line_number=1, source_file="two.csv")
    append_to_bronze(lake, source, [row])
    held = 1
    failed = disposed([DAY, next_day])
    assert {day: outcome.passed for day, outcome in failed.items()} == {DAY: False, next_day: False}
    assert {"is in bronze/events and not in the key log" in f"{outcome.explanation}" for outcome in failed.values()} == {True}


def test_rows_are_counted_by_what_their_judgement_says() -> None:
    rows = [("insert", [], None), ("insert", ["positive"], False), ("correct", ["positive", "small"], True), ("retire", [], True)]
    schema = pa.schema(
        [("arrival_date", pa.date32()), ("kind", pa.string()), ("failed_rules", pa.list_(pa.string())), ("beyond", pa.bool_())]
    )
    claims = pa.Table.from_pylist([dict(zip(schema.names, (DAY, *row))) for row in rows], schema=schema)
    assert judgement_counts(claims) == ({DAY: 3}, {DAY: 1}, {(DAY, "positive"): 2, (DAY, "small"): 1})


def test_checks_of_tiers_have_names_of_their_own() -> None:
    tiers = [
        {"within": f"PT{hours}H", "serves": serves, "tolerated": 0}
        for hours, serves in enumerate(["a b", "A-B", "Ωμ", "Büro 1"], 1)
    ]
    names = [name for name in bronze_check_names(contract(lateness={"tiers": tiers})) if name.startswith("tier")]
    assert names == ["tier_a_b", "tier_a_b_2", "tier_3", "tier_buro_1"]
