"""Row counts of arrival days and shares without a value, on small real tables that delta-rs writes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns, silver_columns
from lakehouse.ledger import ingestions, redactions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import checks as silver_checks
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

NOW = datetime(2024, 3, 1, tzinfo=timezone.utc)
FIRST = date(2024, 2, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


def arrive(lake: Lake, rows: dict[int, list[int]]) -> None:
    """Files with a number of rows per arrival day."""
    for number, counts in rows.items():
        for place, count in enumerate(counts):
            name = f"{number}.{place}"
            file = Ingestion("events", name, name, day(number), f"{name}.csv", 9, None, "ingested", "run", NOW, rows=count)
            ingestions.record(lake, file)


def row_counts(lake: Lake, *numbers: int, **rule: Any) -> list[CheckResult]:
    source = contract(quality={"row_count": rule})
    return bronze_checks.check_source_rules(lake, source, [day(number) for number in numbers])


def test_an_arrival_day_is_held_against_the_days_before_it(lake: Lake) -> None:
    arrive(lake, {1: [100], 2: [60, 60], 3: [80], 5: [20, 20], 6: [50]})
    trailing = {"days": 4, "needs": 3, "at_least": 0.5, "at_most": 2}
    third, fifth, sixth, quiet = row_counts(lake, 3, 5, 6, 7, trailing=trailing)
    assert third.passed
    assert third.numbers == {"row_count": 80, "trailing_days": 2}, "of two days nothing is judged"
    assert not fifth.passed
    assert fifth.numbers == {"row_count": 40, "trailing_days": 3, "trailing_median": 100.0, "ratio": 0.4}
    assert fifth.explanation == (
        "expected 0.5 to 2 times the median of 3 days before, 100 rows; found 40. Numbers of these days are held: "
        "check the files, and have the source send what it left out."
    )
    assert sixth.passed, "four days back from the 6th: 120, 80, 40"
    assert (sixth.numbers["trailing_median"], sixth.numbers["row_count"]) == (80.0, 50)
    assert not quiet.passed, "a day on which nothing came is one of no rows"
    assert quiet.numbers["row_count"] == 0


def test_severity_is_the_contracts(lake: Lake) -> None:
    arrive(lake, {1: [3]})
    assert [one.warns for one in row_counts(lake, 1, min=4)] == [False]
    assert [one.warns for one in row_counts(lake, 1, min=4, severity="warn")] == [True]
    assert [one.passed for one in row_counts(lake, 1, min=3, max=3)] == [True]


@law(200, in_each_run=100)
@given(
    st.dictionaries(st.integers(1, 12), st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=8),
    st.integers(1, 13),
    st.integers(1, 6),
)
def test_the_days_before_are_those_within_reach_that_had_a_file(rows: dict[int, list[int]], number: int, reach: int) -> None:
    totals = {day(one): sum(counts) for one, counts in rows.items()}
    found = bronze_checks._ArrivalDay(day(number), totals)
    assert sorted(found.trailing_counts(reach)) == sorted(sum(rows[one]) for one in rows if number - reach <= one < number)
    assert found.row_count == sum(rows.get(number, []))


@dataclass(frozen=True)
class Row:
    """A record with one field, which may have no value."""

    key: str
    number: int
    amount: int | None
    op: str = "insert"
    malformed: bool = False


ROWS = st.builds(
    Row,
    key=st.sampled_from("abc"),
    number=st.integers(1, 3),
    amount=st.none() | st.integers(0, 9),
    op=st.sampled_from(["insert", "correct", "delete"]),
    malformed=st.booleans(),
)


def write(lake: Lake, source: SourceContract, rows: list[Row]) -> None:
    """All rows into Bronze by arrival day; into silver, by event day, those that belong there."""
    columns = arrow_schema(bronze_columns(source))
    table_rows = []
    for line, row in enumerate(rows):
        whole = dict.fromkeys(columns.names) | {"record_key": row.key, "id": row.key, "amount": row.amount, "change_op": row.op}
        whole |= {"arrival_date": day(row.number), "event_date": day(row.number), "ingestion_id": "i", "line_number": line}
        table_rows.append(whole | {"malformed_reason": "bad" if row.malformed else None})
    table = locations.bronze(lake, "events")
    row_writer.append(table, pa.Table.from_pylist(table_rows, schema=columns), partition_by=["arrival_date"])
    living = [row for row in table_rows if row["change_op"] != "delete" and row["malformed_reason"] is None]
    names = arrow_schema(silver_columns(source))
    content = pa.Table.from_pylist([{name: row[name] for name in names.names} for row in living], schema=names)
    row_writer.append(locations.silver(lake, "events"), content, partition_by=["event_date"])


@pytest.mark.merge
@law(100, in_each_run=20)
@given(st.lists(ROWS, max_size=12), st.sampled_from([Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)]), st.booleans())
def test_shares_without_a_value_are_those_of_the_plain_rows(rows: list[Row], bound: Fraction, redacted: bool) -> None:
    source = contract(quality={"nulls": {"amount": {"at_most": float(bound), "severity": "warn"}}})
    days = [day(number) for number in (1, 2, 3)]
    with TemporaryDirectory() as folder:
        lake = lake_in(Path(folder))
        write(lake, source, rows)
        if redacted:
            redactions.record(lake, "events", Redaction("a", ["amount"], "anna", "asked for", NOW, touched_days=days))
        in_bronze = bronze_checks.check_source_rules(lake, source, days)
        in_silver = silver_checks.check_source_rules(lake, source, days)
    rows_by_layer: dict[tuple[str, date], list[Row]] = defaultdict(list)
    for row in rows:
        if row.op != "delete" and not row.malformed:
            rows_by_layer["bronze", day(row.number)].append(row)
            if not (redacted and row.key == "a"):
                rows_by_layer["silver", day(row.number)].append(row)
    for layer, outcomes in (("bronze", in_bronze), ("silver", in_silver)):
        assert [outcome.day for outcome in outcomes] == days
        for outcome in outcomes:
            expected = rows_by_layer[layer, outcome.day]
            missing = sum(row.amount is None for row in expected)
            assert outcome.numbers["amount_nulls"] == missing
            assert outcome.numbers["amount_null_share"] == (missing / len(expected) if expected else 0)
            assert outcome.passed == (missing <= bound * len(expected))
            assert outcome.warns


def test_a_contract_without_checks_has_no_results(lake: Lake) -> None:
    assert bronze_checks.check_source_rules(lake, contract(), [day(1)]) == []
    assert silver_checks.check_source_rules(lake, contract(), [day(1)]) == []
    asked = contract(quality={"nulls": {"amount": 0}, "row_count": {"min": 1}})
    assert [one.passed for one in silver_checks.check_source_rules(lake, asked, [day(1)])] == [True], "no table, no row"
    assert {one.check: one.passed for one in bronze_checks.check_source_rules(lake, asked, [day(1)])} == {
        "nulls": True,
        "row_count": False,
    }


def test_the_contract_sets_the_severity_of_a_failure(lake: Lake) -> None:
    source = contract()
    write(lake, source, [Row("a", 1, 1)])
    louder = contract(quality={"severity": {"rows_accounted": "warn", "lateness_tolerated": "error"}})
    for asked, wanted in ((source, (False, True)), (louder, (True, False))):
        shown = {one.check: one.warns for one in bronze_checks.check_bronze(lake, asked, [day(1)])}
        assert (shown["rows_accounted"], shown["lateness_tolerated"]) == wanted
