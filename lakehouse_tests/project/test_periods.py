"""Months, weeks and years are read as their first days, and days may stand in several columns, where no column has days."""

from __future__ import annotations

from datetime import date

import pytest

from lakehouse.project.inference import infer
from lakehouse_tests.support.sample_files import lines


@pytest.mark.parametrize(
    ("columns", "row", "others"),
    [
        ("region,2024-11-01,2024-11-02,2024-11-03", "north,1,2,3", '(* EXCLUDE (\\"region\\"))'),
        ("Country Name,2019,2020,2021", "Chad,1,2,3", '(* EXCLUDE (\\"Country Name\\"))'),
        ("2024-01,2024-02,2024-03", "1,2,3", "(*)"),
    ],
)
def test_columns_that_are_days_or_periods_are_named_with_the_way_to_turn_them(columns: str, row: str, others: str) -> None:
    *_, first, _, last = columns.split(",")
    [doubt] = [doubt for doubt in infer([lines(columns, row)]).doubts if "UNPIVOT" in doubt]
    assert doubt.startswith(f"columns {first} to {last} hold the values of a day or a period each")
    assert others in doubt
    with_event_time = infer([lines(f"at,{columns}", f"2024-11-05,{row}")])
    assert not any("UNPIVOT" in doubt for doubt in with_event_time.doubts)


@pytest.mark.parametrize(
    ("columns", "row", "form", "first"),
    [
        ("month,cases", "2024-11,7", "%Y-%m", "2024-11-01"),
        ("Monat,cases", "Nov 2024,7", "%b %Y", "2024-11-01"),
        ("refmonth,cases", "2024/11,7", "%Y/%m", "2024-11-01"),
        ("period,cases", "202411,7", "%Y%m", "2024-11-01"),
        ("Kalenderwoche,cases", "2011-W22,7", "%G-W%V", "2011-05-30"),
        ("year,cases", "1881,7", "%Y", "1881-01-01"),
        ("Year,month_year,cases", "2024,2024-11,7", "%Y-%m", "2024-11-01"),
    ],
)
def test_a_column_of_periods_is_the_event_day(columns: str, row: str, form: str, first: str) -> None:
    found = infer([lines(columns, row)])
    column = columns.split(",")[-2]
    assert (found.event, found.formats, found.joined) == (column, {column: form}, {})
    assert [of.type for of in found.columns][-2] == "date"
    assert any(f"is read as its first day, {first} (source.formats)" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("columns", "rows", "name", "form", "parts"),
    [
        ("Jahr;Monat;mm", ["1881;01;  -5.5", "1881;02;1.5"], "year_month", "%Y %m", ["Jahr", "Monat"]),
        ("Year;Mon;mm", ["1881;Jan;5.5", "1881;Feb;1.5"], "year_month", "%Y %b", ["Year", "Mon"]),
        ("Year;Month;Day;mm", ["2024;2;29;5.5", "2024;12;31;1.5"], "year_month_day", "%Y %m %d", ["Year", "Month", "Day"]),
        ("year;week;mm", ["2020;53;5.5", "2021;1;1.5"], "year_week", "%G %V", ["year", "week"]),
    ],
)
def test_days_in_several_columns_are_joined(columns: str, rows: list[str], name: str, form: str, parts: list[str]) -> None:
    found = infer([lines(columns.replace(";", ","), *(row.replace(";", ",") for row in rows))])
    assert (found.event, found.formats, found.joined) == (name, {name: form}, {name: parts})
    assert list(found.key) == [name]
    assert [(column.name, column.type) for column in found.columns][-1] == (name, "date")


def test_a_year_beside_a_day_stays_a_number_and_two_years_are_none() -> None:
    beside = infer([lines("date,year,cases", "2024-11-04,2024,7")])
    assert (beside.event, beside.formats) == ("date", {})
    assert infer([lines("begin_year,end_year,cases", "2011,2012,7")]).event is None
    assert infer([lines("id,value,total", "1,1990,2001")]).event is None
    assert infer([lines("year,month,mm", "2024,11,1", "2024,13,2")]).event == "year", "13 is no month"


def test_late_data_of_earlier_periods_has_a_day() -> None:
    assert infer([lines("year,cases", "1881,7")]).first_day == date(1879, 1, 1)


@pytest.mark.parametrize(
    ("day", "clock", "form"),
    [("11/25/2024", "9:05 AM", "%m/%d/%Y %I:%M %p"), ("2024-11-25", "09:05", "%Y-%m-%d %H:%M"), ("2024-11-25", "morning", "")],
)
def test_a_time_of_day_beside_the_event_day_is_named_with_the_lines_that_read_both(day: str, clock: str, form: str) -> None:
    inferred = infer([lines("txn_id,date,time,amount", f"1,{day},{clock},5", f"2,{day},{clock},6")])
    doubts = [doubt for doubt in inferred.doubts if "has the time of day" in doubt]
    read_by = (
        f"source: {{joined: {{at: [date, time]}}, formats: {{at: {form!r}}}}}, clocks: {{event: at, naive_times: in_timezone}}"
    )
    assert inferred.event == "date"
    assert [doubt.partition("both: ")[2] for doubt in doubts] == ([read_by] if form else [])
