"""Values into column types: exactly, or not at all."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import copysign
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.bronze.type_conversion import (
    converter,
    is_date_only,
    to_boolean,
    to_date,
    to_decimal,
    to_double,
    to_integer,
    to_text,
    to_timestamp,
)

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NESTED: list[Any] = [[1], {"a": 1}, [], {}, None]


def utc(year: int, month: int, day: int, *time_of_day: int) -> datetime:
    return datetime.combine(date(year, month, day), time(*time_of_day), timezone.utc)  # type: ignore[arg-type]


def naive(year: int, month: int, day: int, *time_of_day: int) -> datetime:
    return utc(year, month, day, *time_of_day).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        (" 12\u00a0", 12),
        ("+7", 7),
        ("-0", 0),
        ("0" * 5_000 + "1", 1),
        ("-9223372036854775808", -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (Decimal(5), 5),
    ],
)
def test_an_integer(value: Any, expected: int) -> None:
    assert to_integer(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1.5",
        "1e3",
        "1_000",
        "0x10",
        "\u0661",
        "- 1",
        "NaN",
        True,
        1.5,
        1e16,
        Decimal("1.5"),
        Decimal("1E+2"),
        Decimal("1E+400"),
        *NESTED,
    ],
)
def test_invalid_integers(value: Any) -> None:
    with pytest.raises(ValueError, match="is not an integer"):
        to_integer(value)


@pytest.mark.parametrize(
    ("value", "spark_type"),
    [
        (2**63, "bigint"),
        (-(2**63) - 1, "bigint"),
        (2**31, "int"),
        ("-2147483649", "int"),
        ("9" * 5_000, "bigint"),
        ("-" + "9" * 5_000, "int"),
    ],
)
def test_an_integer_that_does_not_fit(value: Any, spark_type: str) -> None:
    with pytest.raises(ValueError, match=f"does not fit {spark_type}$"):
        to_integer(value, spark_type)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e-3", -0.0015),
        ("1e0308", 1e308),
        ("5e-324", 5e-324),
        ("0e-9999", 0.0),
        ("-0.000", 0.0),
        (10**300, 1e300),
        (Decimal("0.1"), 0.1),
        (1e-7, 1e-7),
    ],
)
def test_a_double(value: Any, expected: float) -> None:
    assert to_double(value) == expected


@pytest.mark.parametrize("value", ["", "nan", "inf", "1,5", "1_0", "e5", ".", "1e99999", "0x1p3", False, float("nan"), *NESTED])
def test_invalid_doubles(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        to_double(value)


@pytest.mark.parametrize("value", ["1e309", 10**400, Decimal("-1E+400"), "9" * 5_000])
def test_a_number_too_large_for_a_double(value: Any) -> None:
    with pytest.raises(ValueError, match="is too large for a double"):
        to_double(value)


@pytest.mark.parametrize("value", ["1e-400", "-1e-9999", Decimal("1E-400"), "0." + "0" * 400 + "1"])
def test_a_number_too_small_for_a_double_is_not_made_zero(value: Any) -> None:
    with pytest.raises(ValueError, match="is too small for a double"):
        to_double(value)


@pytest.mark.parametrize(
    ("value", "precision", "scale", "expected"),
    [
        ("1.5", 10, 2, "1.50"),
        ("1.500", 10, 2, "1.50"),
        ("1.5" + "0" * 5_000, 10, 2, "1.50"),
        ("-99.99", 4, 2, "-99.99"),
        ("0.001", 3, 3, "0.001"),
        ("1e2", 5, 2, "100.00"),
        ("120E-1", 4, 0, "12"),
        ("-0.0", 4, 2, "0.00"),
        ("0e9999", 4, 2, "0.00"),
        (Decimal("1.10"), 4, 1, "1.1"),
        (7, 3, 2, "7.00"),
        (0.1, 3, 2, "0.10"),
        ("1234567890123456789012345678901234567.8", 38, 1, "1234567890123456789012345678901234567.8"),
    ],
)
def test_a_decimal_has_the_scale_of_its_column(value: Any, precision: int, scale: int, expected: str) -> None:
    assert str(to_decimal(value, precision, scale)) == expected


@pytest.mark.parametrize("value", ["1.555", Decimal("0.001"), "1e-9999", Decimal("1E-400"), "0." + "1" * 40])
def test_a_decimal_is_not_rounded(value: Any) -> None:
    with pytest.raises(ValueError, match="has more than 2 decimals"):
        to_decimal(value, 38, 2)


def test_a_decimal_longer_than_the_default_context_is_not_rounded() -> None:
    with pytest.raises(ValueError, match="has more than 30 decimals"):
        to_decimal("1." + "1" * 31, 38, 30)


@pytest.mark.parametrize("value", ["100", "-100.00", "1e9999", Decimal("1E+400"), 10**400, "9" * 5_000])
def test_a_decimal_that_does_not_fit(value: Any) -> None:
    with pytest.raises(ValueError, match=r"does not fit decimal\(4,2\)"):
        to_decimal(value, 4, 2)


@pytest.mark.parametrize("value", ["", "nan", "1,5", True, Decimal("NaN"), Decimal("1E+400000"), *NESTED])
def test_invalid_decimals(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        to_decimal(value, 4, 2)


@settings(deadline=None)
@given(
    number=st.decimals(allow_nan=False, allow_infinity=False) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
def test_a_decimal_is_exact_or_refused(number: Any) -> None:
    try:
        exact = to_decimal(number, 20, 5)
    except ValueError:
        return
    assert exact == Decimal(str(number))
    assert exact.as_tuple().exponent == -5
    assert exact or copysign(1, exact) == 1


@pytest.mark.parametrize("value", ["true", "T", " 1 ", "Yes", "y", 1, True])
def test_true(value: Any) -> None:
    assert to_boolean(value) is True


@pytest.mark.parametrize("value", ["FALSE", "f", "0", "no", "N", 0, False])
def test_false(value: Any) -> None:
    assert to_boolean(value) is False


@pytest.mark.parametrize("value", ["", "on", "2", 1.5, Decimal("0.1"), *NESTED])
def test_invalid_booleans(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a boolean"):
        to_boolean(value)


@pytest.mark.parametrize("value", [" 2024-02-29 ", date(2024, 2, 29)])
def test_a_date(value: Any) -> None:
    assert to_date(value) == date(2024, 2, 29)


@pytest.mark.parametrize("value", ["0001-01-01", "9999-12-31"])
def test_the_first_and_the_last_date(value: str) -> None:
    assert to_date(value).isoformat() == value


@pytest.mark.parametrize("value", ["2023-02-29", "2024-13-01", "2024-00-10", "0000-01-01", "2024-01-32"])
def test_an_impossible_date(value: str) -> None:
    with pytest.raises(ValueError, match="is no day of the calendar"):
        to_date(value)


@pytest.mark.parametrize(
    "value", ["", "20240101", "2024-1-1", "01.02.2024", "2024-01-01T00:00:00Z", 20240101, utc(2024, 1, 1), *NESTED]
)
def test_invalid_dates(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a date as YYYY-MM-DD"):
        to_date(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-03-01T12:30:15Z", utc(2024, 3, 1, 12, 30, 15)),
        (" 2024-03-01 12:30Z ", utc(2024, 3, 1, 12, 30)),
        ("2024-03-01 12:30:15 UTC", utc(2024, 3, 1, 12, 30, 15)),
        ("2024-03-01T12:30:15.5z", utc(2024, 3, 1, 12, 30, 15, 500_000)),
        ("2024-03-01T12:30:15.000001000Z", utc(2024, 3, 1, 12, 30, 15, 1)),
        ("2024-03-01T00:30:00+01", utc(2024, 2, 29, 23, 30)),
        ("2024-03-01T00:30:00 -0530", utc(2024, 3, 1, 6, 0)),
        ("2024-03-01T00:30:00+00:00", utc(2024, 3, 1, 0, 30)),
        ("0001-01-01T00:00:00Z", utc(1, 1, 1)),
        ("9999-12-31T23:59:59.999999Z", utc(9999, 12, 31, 23, 59, 59, 999_999)),
        (datetime(2024, 3, 1, 1, tzinfo=timezone(timedelta(hours=1))), utc(2024, 3, 1)),
    ],
)
def test_a_time_with_a_zone(value: Any, expected: datetime) -> None:
    moment = to_timestamp(value)
    assert (moment, moment.tzinfo) == (expected, timezone.utc)


@pytest.mark.parametrize("value", ["2024-03-01T12:30:15", naive(2024, 3, 1, 12)])
def test_a_time_without_a_zone_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="names no zone"):
        to_timestamp(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-15T00:30", utc(2024, 1, 14, 23, 30)),
        ("2024-07-15 00:30:00", utc(2024, 7, 14, 22, 30)),
        ("2024-07-15 00:30:00Z", utc(2024, 7, 15, 0, 30)),
        (naive(2024, 7, 15, 0, 30), utc(2024, 7, 14, 22, 30)),
        ("2024-03-31T03:00:00", utc(2024, 3, 31, 1)),
    ],
)
def test_a_time_without_a_zone_is_read_in_the_given_one(value: Any, expected: datetime) -> None:
    assert to_timestamp(value, BERLIN) == expected


def test_a_local_time_that_occurs_twice_is_decided_by_the_contract() -> None:
    for value in ("2024-10-27T02:00:00", "2024-10-27 02:59:59.999999", naive(2024, 10, 27, 2, 30)):
        with pytest.raises(ValueError, match=r"occurs twice in Europe/Berlin.*clocks.repeated_hour"):
            to_timestamp(value, BERLIN)
    assert to_timestamp("2024-10-27T02:30:00", BERLIN, "first") == utc(2024, 10, 27, 0, 30)
    assert to_timestamp("2024-10-27T02:30:00", BERLIN, "second") == utc(2024, 10, 27, 1, 30)
    assert to_timestamp("2024-10-27T03:00:00", BERLIN) == utc(2024, 10, 27, 2)


def test_a_whole_number_is_the_same_id_however_it_is_written() -> None:
    assert {to_integer(value) for value in ("1001", "1001.0", 1001, 1001.0, Decimal("1001.00"))} == {1001}
    assert {to_text(value) for value in (1001, 1001.0, Decimal("1001.00"))} == {"1001"}
    assert to_text("1001.0") == "1001.0"
    for text in ("1.000", "-12.000"):
        with pytest.raises(ValueError, match="is not an integer"):
            to_integer(text)  # one, or a thousand
    with pytest.raises(ValueError, match="larger than 2\\^53"):
        to_integer("9007199254740993.0")
    for value in (1e16, 9007199254740994.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"have it sent as|source\.null_values"):
            to_text(value)


@pytest.mark.parametrize("value", ["2024-03-31T02:00:00", "2024-03-31 02:59:59.999999"])
def test_a_time_that_the_zone_skips_is_impossible(value: str) -> None:
    with pytest.raises(ValueError, match="the clock of Europe/Berlin skips it"):
        to_timestamp(value, BERLIN)


@pytest.mark.parametrize(
    "value",
    [
        "2023-02-29T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T23:60:00Z",
        "2024-06-30T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "2024-01-01T00:00:00+24:00",
    ],
)
def test_an_impossible_time(value: str) -> None:
    with pytest.raises(ValueError, match="is an impossible time"):
        to_timestamp(value)


@pytest.mark.parametrize("value", ["2024-03-01T12:30:15.0000001Z", "2024-03-01T12:30:15.123456789"])
def test_digits_below_a_microsecond_are_not_cut_off(value: str) -> None:
    with pytest.raises(ValueError, match="is finer than a microsecond"):
        to_timestamp(value, BERLIN)


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        ("0001-01-01T00:00:00+01:00", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("0001-01-01T00:00:00", BERLIN),
        (naive(1, 1, 1), BERLIN),
        ("9999-12-31T23:59:59", NEW_YORK),
        (datetime(9999, 12, 31, 23, 59, tzinfo=NEW_YORK), None),
    ],
)
def test_a_time_beyond_the_calendar_in_utc(value: Any, zone: ZoneInfo | None) -> None:
    with pytest.raises(ValueError, match="is out of range"):
        to_timestamp(value, zone)


@pytest.mark.parametrize(
    ("value", "zone"), [("0001-01-01T00:00:00", NEW_YORK), ("9999-12-31T23:59:59", ZoneInfo("Pacific/Kiritimati"))]
)
def test_a_time_at_the_end_of_the_calendar(value: str, zone: ZoneInfo) -> None:
    assert to_timestamp(value, zone).astimezone(zone).replace(tzinfo=None).isoformat() == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "2024-03-01",
        "2024-03-01T12",
        "2024-03-01T12:30.5Z",
        "2024-03-01T12:30:15,5Z",
        "2024-03-01T12:30:15+1",
        "2024-03-01T12:30:15+01:60",
        "2024-03-01T12:30:15 CET",
        "1709296215",
        1709296215,
        date(2024, 3, 1),
        *NESTED,
    ],
)
def test_invalid_times(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a time as"):
        to_timestamp(value)


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("1709296215", "seconds"),
        (1709296215123, "milliseconds"),
        ("1709296215123456", "microseconds"),
        (1709296215123456789, "nanoseconds"),
        (19783, "days"),
    ],
)
def test_a_number_that_may_count_the_time_since_1970_names_its_format(value: Any, unit: str) -> None:
    with pytest.raises(ValueError, match=f"is not a time as .* source.formats: epoch_{unit} reads it"):
        to_timestamp(value)
    with pytest.raises(ValueError, match=f"is not a date as .* source.formats: epoch_{unit} reads it"):
        to_date(value)


@settings(deadline=None)
@given(moment=st.datetimes(naive(2, 1, 1), naive(9999, 1, 1)), minutes=st.integers(-1439, 1439))
def test_a_written_time_is_read_back(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert to_timestamp(zoned.isoformat()) == zoned


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (" 2024-01-01", True),
        ("2024-99-99", True),
        ("2024-01-01T00:00Z", False),
        (date(2024, 1, 1), True),
        (utc(2024, 1, 1), False),
        ([1], False),
    ],
)
def test_a_day_without_time_of_day_is_recognised(value: Any, *, expected: bool) -> None:
    assert is_date_only(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (" a\u00e9\n", " a\u00e9\n"),
        ("", ""),
        (5, "5"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        ("b\u00e9".encode(), "b\u00e9"),
        ({"a": [1, "\u00e9", None, True]}, '{"a":[1,"\u00e9",null,true]}'),
        ([Decimal("0.10"), Decimal("1E+400"), {}], "[0.10,1E+400,{}]"),
        ([("k", date(2024, 1, 1))], '[["k","2024-01-01"]]'),
    ],
)
def test_text(value: Any, expected: str) -> None:
    assert to_text(value) == expected


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        to_text(b"\xff")


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
    ).filter(lambda value: isinstance(value, (list, dict)))
)
@settings(deadline=None)
def test_nested_text_is_json_of_the_same_values(value: Any) -> None:
    def exact(number: str) -> Decimal:
        return Decimal(number)

    assert json.loads(to_text(value), parse_float=exact) == value


@pytest.mark.parametrize(
    ("spark_type", "value", "expected"),
    [
        ("string", 5, "5"),
        ("int", "5", 5),
        ("bigint", "5", 5),
        ("double", "5", 5.0),
        ("boolean", "1", True),
        ("date", "2024-01-01", date(2024, 1, 1)),
        ("timestamp", "2024-01-01 00:00", utc(2023, 12, 31, 23)),
        ("decimal(4,2)", "5", Decimal("5.00")),
    ],
)
def test_a_converter_for_each_type(spark_type: str, value: Any, expected: Any) -> None:
    converted = converter(spark_type, BERLIN)(value)
    assert (converted, type(converted)) == (expected, type(expected))


@pytest.mark.parametrize("spark_type", ["int", "double", "decimal(4,2)", "boolean", "date", "timestamp"])
def test_a_message_shows_no_more_than_the_beginning(spark_type: str) -> None:
    with pytest.raises(ValueError, match=r"^'x{57}\.\.\.' is not") as caught:
        converter(spark_type)("x" * 100_000)
    assert len(str(caught.value)) < 200
