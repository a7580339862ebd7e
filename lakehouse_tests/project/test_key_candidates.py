"""The key of a source is chosen by what columns are called and hold, and asked for where two would do."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.project import new_project
from lakehouse.project.inference import infer
from lakehouse_tests.support.inferred_files import infer_file
from lakehouse_tests.support.sample_files import lines

if TYPE_CHECKING:
    from pathlib import Path

T = "2024-11-04T09:00:00Z"
U = "2024-11-05T09:00:00Z"


@pytest.mark.parametrize(
    ("subject", "columns", "rows", "key"),
    [
        ("sales", "sale,shop,at,amount", [f"s-1,north,{T},1.50", f"s-2,south,{T},2.50"], ["sale"]),
        ("sales", "sale,shop,at,amount", [f"1,north,{T},1.50", f"2,south,{T},2.50"], ["shop", "at"]),
        ("till", "sale,shop,at,amount", [f"s-1,north,{T},1.50", f"s-2,south,{T},2.50"], ["sale"]),
        ("orders", "order,shop,at,amount", [f"1,north,{T},1.50", f"2,south,{T},2.50"], ["order"]),
        ("parcel_deliveries", "delivery,depot,at", [f"7,n,{T}", f"8,s,{T}"], ["delivery"]),
        ("sales", "sale,shop,at", [f"10.00,north,{T}", f"n/a,north,{U}", f"12.00,south,{T}"], ["shop", "at"]),
        ("payments", "payment,customer,at", [f"100,c1,{T}", f"200,c1,{U}"], ["customer", "at"]),
        ("health", "number_of_cases,region,day", ["5,n,2024-11-04", "6,s,2024-11-04"], ["region", "day"]),
        ("health", "num_tests,region,day", ["5,n,2024-11-04", "6,s,2024-11-04"], ["region", "day"]),
        ("health", "case_number,region,day", ["5,n,2024-11-04", "6,s,2024-11-04"], ["case_number"]),
        ("rivers", "reference_level,gauge,day", ["5,n,2024-11-04", "6,s,2024-11-04"], ["gauge", "day"]),
        ("export", "ORDERID,customerid,at", [f"1,5,{T}", f"2,6,{T}"], ["orderid"]),
        ("export", "id_customer,at", [f"5,{T}", f"6,{T}"], ["id_customer", "at"]),
        ("spending", "card_number,at,amount", [f"4111,{T},1", f"4112,{T},2", f"4111,{U},3"], ["card_number", "at"]),
        ("rivers", "site_no,date,time,flow", ["A,2024-11-04,09:00,1.5", "A,2024-11-04,10:00,1.5"], ["site_no", "date", "time"]),
        ("stock", "units,warehouse,day", ["kg,n,2024-11-04", "kg,s,2024-11-04"], ["warehouse", "day"]),
    ],
)  # fmt: skip
def test_a_column_that_is_called_like_the_record_is_its_key_and_a_measure_never_is(
    subject: str, columns: str, rows: list[str], key: list[str]
) -> None:
    assert list(infer([lines(columns, *rows)], subject=subject).key) == key


@pytest.mark.parametrize(
    ("subject", "columns", "options"),
    [
        ("stations", "station_id,read_at", ["station_id,read_at", "station_id", "none"]),
        ("stores", "store_id,day", ["store_id,day", "store_id", "none"]),
        ("customers", "customer_id,created_at", []),
        ("tills", "till,sold_at", []),
    ],
)
def test_a_file_about_entities_may_have_a_reading_of_each(subject: str, columns: str, options: list[str]) -> None:
    found = infer([lines(columns, f"A,{T}", f"B,{T}")], subject=subject)
    assert [option for question in found.questions for option in question.options] == options
    assert list(found.key) == (["customer_id"] if subject == "customers" else columns.split(","))


def test_a_code_of_unknown_meaning_is_proposed_before_the_day_alone() -> None:
    found = infer([lines("beleg,datum,betrag", "B-17,2024-11-04,1.50", "B-18,2024-11-05,2.50")])
    assert [list(question.options) for question in found.questions] == [["beleg", "datum", "none"]]
    assert list(found.key) == ["beleg"]
    names = infer([lines("shop,datum,betrag", "north,2024-11-04,1.50", "south,2024-11-05,2.50")])
    assert "shop" in names.key
    assert "datum" in names.key


def test_a_code_of_unknown_meaning_is_asked_for_before_place_and_time_are_taken() -> None:
    file = lines("belegcode,store,at", f"B-17,n,{T}", f"B-18,s,{T}")
    found = infer([lines("beleg,store,at", f"B-17,n,{T}", f"B-18,s,{T}")])
    assert [list(question.options) for question in found.questions] == [["beleg", "store,at", "none"]]
    words = lines("colour,store,at", f"red,n,{T}", f"blue,s,{T}")
    assert (list(infer([words]).key), infer([words]).questions) == (["store", "at"], [])
    assert list(infer([file], {"primary_key": "store,at"}).key) == ["store", "at"]


def test_a_number_of_things_is_a_measure_of_the_first_metric() -> None:
    file = lines("region,day,number_of_cases,num_tests,case_id", "n,2024-11-04,5,6,7", "s,2024-11-04,8,9,10")
    text = new_project.metric_text("health", infer([file]))
    assert "sum(number_of_cases)" in text
    assert "sum(num_tests)" in text
    assert "case_id" not in text


COFFEES = f"time,item,amount\n{T},coffee,3.50\n{T},coffee,3.50\n2024-11-04T09:05:00Z,tea,2.50\n"


def test_equal_lines_of_a_file_without_a_key_are_counted_and_asked_for(tmp_path: Path) -> None:
    each = infer_file(tmp_path, "till.csv", COFFEES)
    assert each.questions == {"primary_key": ["each", "none"]}
    assert "1 of 3 sample records repeat an earlier one of their file, and would not count" in each.text
    assert (sum(row["amount"] for row in each.live), each.malformed) == (Decimal("9.50"), [])
    assert (each.source.reprocess_policy, each.source.materialization.repeated_content) == ("append", "ignored")
    assert each.metric.rows == "all"
    once = infer_file(tmp_path, "till.csv", COFFEES, {"primary_key": "none"})
    assert (sum(row["amount"] for row in once.live), once.questions, once.source.reprocess_policy) == (6, {}, "merge")


@pytest.mark.parametrize(
    ("columns", "rows", "options"),
    [
        ("sold_at,amount", [f"{T},3.50", f"{U},3.50"], ["none", "each", "sold_at"]),
        ("sold_at,note", [f"{T},a b", f"{U},a b"], ["none", "each", "sold_at"]),
        ("sold_at,item,amount", [f"{T},tea,3.50", f"{U},tea,3.50"], ["item,sold_at", "each", "none"]),
        ("read_at,temperature", [f"{T},3.5", f"{U},3.5"], ["read_at", "none"]),
        ("date,amount", ["2024-11-04,3.50", "2024-11-05,3.50"], ["date", "none"]),
        ("date,discharge", ["2024-11-04,3.50", "2024-11-05,3.50"], []),
    ],
)
def test_a_time_alone_is_the_key_of_readings_only(columns: str, rows: list[str], options: list[str]) -> None:
    inferred = infer([lines(columns, *rows)])
    assert [option for question in inferred.questions for option in question.options] == options
    assert ",".join(inferred.key) == ("" if options[:1] == ["none"] else (options or ["date"])[0])


def test_an_identifier_that_a_few_records_lack_is_asked_for() -> None:
    rows = [f"{number or ''},{T},5.00" for number in range(6)]
    inferred = infer([lines("invoice_id,at,amount", *rows)])
    assert [list(question.options) for question in inferred.questions] == [["invoice_id", "each", "none"]]
    assert "1 of 6 sample records have no invoice_id, its key, and will be malformed" in inferred.doubts
