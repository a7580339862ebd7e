"""Values as a sender writes them: what is read, what is refused, and that nothing is guessed."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.inputs import NotWrittenSoError, reader

#: The years that two digits can say.
FIRST, LAST = (datetime.fromisoformat(day) for day in ("1970-01-01", "2068-12-31"))


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("1.234,56", "1.100,00", "1100.00"),
        ("1.234,56", "1100,5", "1100.5"),
        ("1.234,56", "(12,50)", "-12.50"),
        ("1.234,56", "5-", "-5"),
        ("1.234,56 €", "1.100,00 €", "1100.00"),
        ("1.234,56 €", "3,5€", "3.5"),
        ("$1,234.56", "-$5.20", "-5.20"),
        ("$1,234.56", "$ 3", "3"),
        ("1 234,56", "1\u00a0100,00", "1100.00"),
        ("1'234.56", "1'000'000.10", "1000000.10"),
        ("1,234", "1,100", "1100"),
        ("₹1,234.56", "₹1,25,000.50", "125000.50"),
        ("1,234.56", "12,34,567", "1234567"),
        ("1234.56K", "250K", "250000"),
        ("1234.56K", "1.2M", "1200000"),
        ("1.234,56", 12.5, 12.5),
        ("1.234,56", "+12,50", "12.50"),
        ("$1,234.56", "$-5", "-5"),
        ("$1,234.56", "- $220.00", "-220.00"),
        ("$1,234.56", "+ $1,000.00", "1000.00"),
        ("1.234,56 €", "- 1.000,50 €", "-1000.50"),
        ("%Y-%m", "2024-11", "2024-11-01"),
        ("%Y%m", 202411, "2024-11-01"),
        ("%b-%y", "Nov-24", "2024-11-01"),
        ("%Y %m", "1881 01", "1881-01-01"),
        ("%Y %m", "1881 1", "1881-01-01"),
        ("%G-W%V", "2011-W22", "2011-05-30"),
        ("%G-W%V", "2020-W53", "2020-12-28"),
        ("%Y", "1881", "1881-01-01"),
        ("%Y", 2016, "2016-01-01"),
        ("%Y%m%d", 20241104.0, "2024-11-04"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-11-04 09:00:00.5", "2024-11-04T09:00:00.500000"),
        ("%Y%m%d%H%M%S%f", "20241104101112345678", "2024-11-04T10:11:12.345678"),
        ("%d.%m.%Y %H:%M%z", "04.11.2024 09:00+01:00", "2024-11-04T09:00:00+01:00"),
        ("epoch_seconds", Decimal("1730710800.5"), "2024-11-04T09:00:00.500000+00:00"),
        ("%d-%b-%y %H:%M:%S", "04-Nov-24 09:00:00", "2024-11-04T09:00:00"),
        ("%d.%m.%Y", "4.11.2024", "2024-11-04"),
        ("%Y-%m-%d", "2014-7-1", "2014-07-01"),
        ("%H:%M:%S %d %b %Y", "12:55:39  5 Feb 2020", "2020-02-05T12:55:39"),
        ("%Y%m%d", "20241104", "2024-11-04"),
        ("%Y%m%d", 20241104, "2024-11-04"),
        ("%d/%m/%Y %H:%M %z", "04/11/2024 09:00 +0100", "2024-11-04T09:00:00+01:00"),
        ("epoch_seconds", "1730710800", "2024-11-04T09:00:00+00:00"),
        ("epoch_milliseconds", 1730710800123, "2024-11-04T09:00:00.123000+00:00"),
        ("epoch_microseconds", "1730710800123456", "2024-11-04T09:00:00.123456+00:00"),
        ("epoch_nanoseconds", 1730710800123456000, "2024-11-04T09:00:00.123456+00:00"),
        ("epoch_days", 20031, "2024-11-04"),
        ("epoch_days", "20031.0", "2024-11-04"),
        ("epoch_days", Decimal(-1), "1969-12-31"),
        ("1.234,56", "\u221212,50", "-12.50"),
        ("1'234.56", "1\u2019234.50", "1234.50"),
        ("%Y%m%dT%H%M%SZ", "20241104T090000Z", "2024-11-04T09:00:00+00:00"),
        ("%Y-%m-%d %H:%M:%S.%fZ", "2024-11-04 09:00:00.5Z", "2024-11-04T09:00:00.500000+00:00"),
        ("%a, %d %b %Y %H:%M:%S GMT", "Mon, 04 Nov 2024 09:00:00 GMT", "2024-11-04T09:00:00+00:00"),
        ("%d.%m.%Y %H:%M UTC", "04.11.2024 09:00 UTC", "2024-11-04T09:00:00+00:00"),
        ("%d.%m.%Y %H:%M BUTC", "04.11.2024 09:00 BUTC", "2024-11-04T09:00:00"),
    ],
)
def test_a_value_is_read_as_it_is_written(form: str, value: Any, expected: Any) -> None:
    assert reader(form)(value) == expected


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("1.234,56", "0.500"),  # a leading zero is in no group of thousands
        ("1,234.56", "0,123"),
        ("1,234.56", "01,234"),
        ("₹1,234.56", "0,25,000"),
        ("1.234,56", "1,100.00"),
        ("1.234,56", "1.10,00"),
        ("1.234,56", "12.50"),
        ("1.234,56", "(12,50"),
        ("$1,234.56", "€3"),
        ("1,234", "1.5"),
        ("1,234.56", "250K"),
        ("%Y%m%d", "2024110"),
        ("%Y%m%d%H%M%S%f", "20241104101112"),
        ("%Y%m%d%z", "2024110+0100"),
        ("1.234,56", "-12,50-"),
        ("%Y-%m", "2024-13"),
        ("%Y-%m", "2024-11-04"),
        ("%G-W%V", "2021-W53"),
        ("%Y", "16"),
        ("1.234,56", "(-12,50)"),
        ("1.234,56", "\u0663,\u0665"),
        ("epoch_seconds", "1e9"),
        ("epoch_days", "20031.5"),
        ("epoch_days", "2024-11-04"),
        ("epoch_days", 99999999),
        ("epoch_seconds", "1_730_714_400"),
        ("epoch_seconds", "1730714400.1234567"),
        ("epoch_nanoseconds", "1730714400123456789"),
        ("%d.%m.%Y", "2024-11-04"),
        ("%d/%m/%Y", "11/31/2024"),
        ("epoch_seconds", "yesterday"),
        ("epoch_seconds", "1e30"),
    ],
)
def test_what_is_written_otherwise_is_refused_with_the_format(form: str, value: str) -> None:
    with pytest.raises(NotWrittenSoError) as refused:
        reader(form)(value)
    assert str(refused.value) == f"{value} is not written as {form}"


@pytest.mark.parametrize("form", ["%H:%M:%S.%f", "%B", "%m/%d", "%Y-%m %H:%M", "%Y-%V", "%G-%m", "%m-%b", "%Y-%y"])
def test_a_pattern_without_a_whole_day_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match=r"names no day: a pattern needs year, month and day"):
        reader(form)


@pytest.mark.parametrize("form", ["", "abc", "%Y%m%d%Q", "1.234.56", "12", "1234.567"])
def test_a_text_that_is_no_format_is_refused_with_those_that_are(form: str) -> None:
    with pytest.raises(ValueError, match=r"use a pattern such as '%d.%m.%Y %H:%M' or '%Y-%m', one of epoch_seconds"):
        reader(form)


@given(
    number=st.decimals(-(10**9), 10**9, places=2),
    marks=st.sampled_from([(".", ","), (",", "."), (" ", ","), ("'", "."), ("", ","), ("", ".")]),
    signs=st.sampled_from([("", ""), ("$", ""), ("", " €"), ("EUR ", "")]),
)
def test_a_number_that_is_written_in_a_form_is_read_in_it(
    number: Decimal, marks: tuple[str, str], signs: tuple[str, str]
) -> None:
    group, point = marks
    before, after = signs
    digits = f"{abs(number):,.2f}".replace(",", "_").replace(".", point).replace("_", group)
    text = f"{'-' if number < 0 else ''}{before}{digits}{after}"
    assert Decimal(reader(f"{before}1{group}234{point}56{after}")(text)) == number


@given(
    moment=st.datetimes(FIRST, LAST),
    form=st.sampled_from(["%d.%m.%Y %H:%M:%S", "%Y%m%d%H%M%S", "%d-%b-%y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p"]),
)
def test_a_time_that_is_written_in_a_form_is_read_in_it(moment: datetime, form: str) -> None:
    moment = moment.replace(microsecond=0)
    assert datetime.fromisoformat(reader(form)(moment.strftime(form))) == moment


@given(day=st.dates(FIRST.date(), LAST.date()), form=st.sampled_from(["%d.%m.%Y", "%Y%m%d", "%d %B %Y", "%d/%m/%y"]))
def test_a_day_that_is_written_in_a_form_is_read_in_it(day: date, form: str) -> None:
    assert reader(form)(day.strftime(form)) == day.isoformat()


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S %Z", "%a, %d %b %Y %H:%M:%S %Z", "%H:%M %Z %d.%m.%Y"])
def test_a_pattern_with_an_abbreviation_of_a_zone_is_refused_with_what_to_write(form: str) -> None:
    with pytest.raises(ValueError, match=r"%Z reads no zone, .* write UTC \(or GMT, or Z\) in the pattern if all values end so"):
        reader(form)
    assert reader(form.replace(" %Z", " %%Z"))(f"{FIRST:{form.replace(' %Z', ' %%Z')}}") == "1970-01-01T00:00:00"
