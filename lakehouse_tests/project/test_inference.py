"""What is inferred from samples is what can be ingested: each value converts, the key is unique, and doubts are said."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze import type_conversion
from lakehouse.project.column_types import DOUBLE_ADVICE, field_names, type_of
from lakehouse.project.inference import infer
from lakehouse.project.questions import InferenceError, Sample
from lakehouse_tests.support.sample_files import lines


def sample(*records: dict[str, Any], file: str = "a.csv") -> Sample:
    return Sample(file, list(records[0]) if records else [], list(records))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20"], "bigint"),
        (["0", "1"], "bigint"),
        (["9" * 30], "decimal(36,0)"),
        (["9" * 40], "string"),
        (["0012", "0450"], "string"),
        (["1.5", "20"], "decimal(20,4)"),
        (["1.12345", "2"], "decimal(23,7)"),
        (["1e300", "2"], "double"),
        (["true", "no"], "boolean"),
        (["2024-11-05", "2024-02-29"], "date"),
        (["2024-11-05T10:00:00Z", "2024-11-05 10:00"], "timestamp"),
        (["2024-11-05", "2024-11-05T10:00:00Z"], "string"),
        (["a", "1"], "string"),
        ([7, 8], "bigint"),
        ([{"a": 1}], "string"),
    ],
)
def test_a_column_has_the_first_type_that_holds_all_of_its_values(values: list[Any], kind: str) -> None:
    assert type_of(values)[0] == kind


def test_a_word_among_numbers_and_a_column_without_values_are_doubts() -> None:
    assert type_of(["1.5", "2", "n/a", "3"]) == (
        "string",
        "is a number in most records, but not 'n/a': it may be a word for 'no value' (source.null_values)",
    )
    assert type_of(["2024-11-05T10:00:00Z"] * 3 + ["soon"])[1] == "is a time in most records, but not 'soon'"
    assert type_of([]) == ("string", "has no value in the samples: a string until you know better")


texts = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.dates().map(str),
    st.datetimes(timezones=st.just(ZoneInfo("UTC"))).map(lambda moment: moment.isoformat()),
    st.sampled_from(["yes", "0", "007", "-", "x"]),
)


@given(values=st.lists(texts, min_size=1, max_size=5))
def test_every_value_converts_to_the_inferred_type(values: list[str]) -> None:
    convert = type_conversion.converter(type_of(values)[0], ZoneInfo("UTC"))
    for value in values:
        convert(value)


def test_the_key_is_unique_in_each_file_and_is_called_like_one() -> None:
    monday = sample({"row": "1", "order_id": "7", "amount": "1.50"}, {"row": "2", "order_id": "8", "amount": "2.50"})
    tuesday = sample(
        {"row": "1", "order_id": "7", "amount": "1.75"}, {"row": "2", "order_id": "9", "amount": "2.50"}, file="b.csv"
    )
    found = infer([monday, tuesday])
    assert found.key == ["order_id"], "the same order in two files is a correction"
    assert "the key order_id is unique in 4 sample records; check that it always is" in found.doubts


def test_a_key_of_two_columns_and_none_at_all() -> None:
    pairs = [{"store": store, "day": day, "open": "yes"} for store in ("n", "s") for day in ("2024-11-05", "2024-11-06")]
    assert infer([sample(*pairs)]).key == ["store", "day"]
    found = infer([sample({"word": "a"}, {"word": "a"})], {"primary_key": "none"})
    assert found.key == []
    assert "no columns identify a record: a record is known by a hash of all of its values (synthetic_key)" in found.doubts


def test_the_clocks_are_chosen_by_type_and_name() -> None:
    record = {"id": "1", "received_at": "2024-11-06T06:00:00Z", "due": "2024-12-01", "sold_at": "2024-11-05T23:30:00Z"}
    found = infer([sample(record)])
    assert (found.event, found.arrival, found.naive, found.first_day) == ("sold_at", "received_at", False, date(2020, 1, 1))
    assert "event time is taken from sold_at; due could be it, too" in found.doubts
    local = infer([sample({"id": "1", "at": "2024-11-05 23:30:00"})])
    assert (local.event, local.arrival, local.naive) == ("at", None, True)
    assert any("set clocks.timezone" in doubt for doubt in local.doubts)
    none = infer([sample({"id": "1"})])
    assert none.event is None
    assert any("name the column of the event time under clocks.event" in doubt for doubt in none.doubts)
    day = infer([sample({"id": "1", "day": "2024-11-05"})])
    assert (day.event, day.naive, day.first_day) == ("day", False, date(2020, 1, 1))


def test_columns_become_fields_with_a_name_each() -> None:
    names = field_names(["Order ID", "orderID", "Größe", "2nd", "--"])
    assert names == {"Order ID": "order_id", "orderID": "order_id_2", "Größe": "grosse", "2nd": "c_2nd", "--": "column"}


def test_a_column_of_operations_is_recognized_by_name_and_words() -> None:
    found = infer([sample({"id": "1", "op": "insert", "word": "c"}, {"id": "2", "op": "Delete", "word": "d"})])
    assert found.op == "op"
    assert [column.name for column in found.columns] == ["id", "word"]
    assert infer([sample({"id": "1", "op": "buy"})]).op is None
    keyless = infer([sample({"word": "a", "op": "insert"}, {"word": "a", "op": "insert"})])
    assert (keyless.op, [column.name for column in keyless.columns]) == (None, ["word", "op"])


def test_empty_and_contradictory_files_are_refused() -> None:
    with pytest.raises(InferenceError, match=r"b.csv: has no record; give a file with at least one"):
        infer([sample({"id": "1"}), sample(file="b.csv")])
    with pytest.raises(InferenceError, match=r"b.csv: has no column in common with a.csv; infer one source at a time"):
        infer([sample({"id": "1"}), sample({"name": "x"}, file="b.csv")])
    found = infer([sample({"id": "1", "size": "2"}), sample({"id": "x"}, file="b.csv")])
    assert [(column.name, column.type) for column in found.columns] == [("id", "string")]
    assert "column size is not in every file: it is left out" in found.doubts


T = "2024-11-04T09:00:00Z"
U = "2024-11-05T09:00:00Z"


@pytest.mark.parametrize(
    ("sample_file", "key", "order", "arrival", "questions"),
    [
        pytest.param(lines("amount,id,at", f"1.50,7,{T}", f"2.50,8,{T}"), ["id"], None, None, [], id="an id, not a measure"),
        pytest.param(
            lines("claim amount,claim_number,at", f"1.5,A,{T}", f"2.5,B,{T}"), ["claim_number"], None, None, [], id="number"
        ),
        pytest.param(
            lines("order_id,status,ordered_at,updated_at", f"1,a,{T},{T}", f"1,b,{T},{U}", f"2,a,{T},{T}"),
            ["order_id"], None, "updated_at", [], id="change log by time",
        ),
        pytest.param(
            lines("claim_id,version,service_date,amount", "C1,1,2024-11-04,500.00", "C1,2,2024-11-04,450.00"),
            ["claim_id"], "version", None, [], id="change log by version",
        ),
        pytest.param(
            lines("sensor,read_at,kwh", f"A,{T},7.1", f"B,{T},7.2"), ["sensor", "read_at"], None, None, [], id="unique sensor"
        ),
        pytest.param(
            lines("date,country,cases", "2024-11-04,DE,5", "2024-11-04,FR,6", "2024-11-05,DE,7"),
            ["country", "date"], None, None, [], id="a count of cases is no key",
        ),
        pytest.param(
            lines("stock_code,day,on_hand", "A1,2024-11-04,5", "B2,2024-11-04,6", "A1,2024-11-05,9"),
            ["stock_code", "day"], None, None, [], id="stock by day",
        ),
        pytest.param(lines("date,discharge", "2024-11-04,5.1", "2024-11-05,5.2"), ["date"], None, None, [], id="one gauge"),
        pytest.param(
            lines("order_id,line_no,at", f"1,1,{T}", f"1,2,{T}", f"2,1,{T}"), ["order_id", "line_no"], None, None, [], id="lines"
        ),
        pytest.param(
            lines("customer_id,at,amount", f"c1,{T},1.00", f"c2,{T},2.00"),
            ["customer_id", "at"], None, None, ["primary_key"], id="who buys is not what is bought",
        ),
        pytest.param(
            lines("date,wind,weather", "2024-11-04,5.1,sun", "2024-11-05,5.2,sun"),
            ["date"], None, None, ["primary_key"], id="a day each, and a word",
        ),
        pytest.param(lines("word,at", f"a,{T}", f"b,{T}"), ["word", "at"], None, None, ["primary_key"], id="not called a key"),
        pytest.param(
            lines("order_id,payment_id,at", f"1,5,{T}", f"2,6,{T}"), ["order_id"], None, None, ["primary_key"], id="two ids"
        ),
    ],
)  # fmt: skip
def test_the_key_is_chosen_by_meaning_or_asked(
    sample_file: Sample, key: list[str], order: str | None, arrival: str | None, questions: list[str]
) -> None:
    found = infer([sample_file])
    assert (list(found.key), found.order, found.arrival) == (key, order, arrival)
    assert [question.about for question in found.questions] == questions


def test_a_number_that_is_used_again_in_the_next_file_is_no_key() -> None:
    monday, tuesday = lines("no,till,at", f"1,n,{T}", f"2,n,{T}"), lines("no,till,at", f"1,n,{U}", f"2,n,{U}")
    assert infer([monday]).key == ["no"]
    assert infer([monday, tuesday]).key != ["no"]


def test_an_answer_decides_and_its_question_is_closed() -> None:
    file = lines("customer_id,at,amount", f"c1,{T},1.00", f"c2,{T},2.00")
    found = infer([file], {"primary_key": "customer_id"})
    assert (list(found.key), found.questions) == (["customer_id"], [])
    assert list(infer([file], {"primary_key": "none"}).key) == []


@pytest.mark.parametrize(
    ("columns", "event", "asked_for"),
    [
        ("due_date,created_at", "created_at", False),
        ("valid_until,expiry_date,order_date", "order_date", False),
        ("updated_at,ordered_at", "ordered_at", False),
        ("paid_on,service_date", "service_date", False),
        ("modified,date", "date", False),
        ("paid_at", "paid_at", False),
        ("due_date", "due_date", True),
        ("updated_at", "updated_at", True),
        ("start_one,start_two", "start_one", True),
        ("alpha,beta", "alpha", True),
    ],
)
def test_the_event_time_is_chosen_by_meaning_or_asked(columns: str, event: str, asked_for: bool) -> None:
    names = columns.split(",")
    found = infer([lines(f"id,{columns}", ",".join(["1", *("2024-11-04" for _ in names)]))])
    assert found.event == event
    assert ("clocks.event" in [question.about for question in found.questions]) is asked_for


def test_doubles_stay_doubles_and_numbers_with_two_readings_are_asked_for() -> None:
    assert type_of(["0.30000000000000004", "7.1"]) == ("double", DOUBLE_ADVICE)
    file = lines("id,at,price", f"1,{T},1.234", f"2,{T},2.500")
    assert [question.about for question in infer([file]).questions] == ["column price"]
    kinds = {answer: infer([file], {"column price": answer}).columns[2].type for answer in ("decimal", "text")}
    assert kinds == {"decimal": "decimal(21,5)", "text": "string"}


@pytest.mark.parametrize(("value", "words"), [("12 EUR", "currency"), ("2024-Q4", "has quarters")])
def test_what_is_not_read_is_told_with_how_to_write_it(value: str, words: str) -> None:
    kind, doubt = type_of([value])
    assert kind == "string"
    assert words in f"{doubt}"


@pytest.mark.parametrize(
    ("value", "form", "kind"),
    [
        ("1,100.00", "1,234.56", "decimal(20,4)"),
        ("1.100,00", "1.234,56", "decimal(20,4)"),
        ("3,5", "1.234,56", "decimal(20,4)"),
        ("$5.00", "$1,234.56", "decimal(20,4)"),
        ("1.100,50 €", "1.234,56 €", "decimal(20,4)"),
        ("250K", "1,234.56K", "bigint"),
        ("25/11/2024", "%d/%m/%Y", "date"),
        ("11/25/2024", "%m/%d/%Y", "date"),
        ("04-Nov-24 10:00:00", "%d-%b-%y %H:%M:%S", "timestamp"),
        ("Jan 1 2000", "%b %d %Y", "date"),
        ("4.11.2024 09:30", "%d.%m.%Y %H:%M", "timestamp"),
        ("4.11.2024", "%d.%m.%Y", "date"),
        ("05.11.24", "%d.%m.%y", "date"),
        ("2024.11.05", "%Y.%m.%d", "date"),
        ("1.234.567", "1.234,56", "bigint"),
        ("0,500", "1.234,56", "decimal(21,5)"),
        ("2014-7-1", "%Y-%m-%d", "date"),
        ("12:55:39  5 Feb 2020", "%H:%M:%S %d %b %Y", "timestamp"),
        ("3.00-", "1,234.56", "decimal(20,4)"),
        ("\u22123,50", "1.234,56", "decimal(20,4)"),
        ("1\u00a0234,50", "1 234,56", "decimal(20,4)"),
        ("1 250.00", "1 234.56", "decimal(20,4)"),
        ("₹1,25,000.00", "₹1,234.56", "decimal(20,4)"),
        ("1\u202f234,50 €", "1 234,56 €", "decimal(20,4)"),
        ("1\u2019234.50", "1'234.56", "decimal(20,4)"),
        ("Fri, 01 Nov 2024 10:00:00 GMT", "%a, %d %b %Y %H:%M:%S GMT", "timestamp"),
        ("Fri, 01 Nov 2024 10:00:00 +0100", "%a, %d %b %Y %H:%M:%S %z", "timestamp"),
        ("Fri Nov  1 10:00:00 2024", "%a %b %d %H:%M:%S %Y", "timestamp"),
        ("01/Nov/2024:10:00:00 +0000", "%d/%b/%Y:%H:%M:%S %z", "timestamp"),
        ("2024-11-01 10:00:00,123", "%Y-%m-%d %H:%M:%S,%f", "timestamp"),
        ("2024-11-01 10:00:00 +0000 UTC", "%Y-%m-%d %H:%M:%S %z UTC", "timestamp"),
        ("20241101T100000Z", "%Y%m%dT%H%M%S%z", "timestamp"),
        ("2024.11.01 10:00", "%Y.%m.%d %H:%M", "timestamp"),
        ("11/13/2024, 10:00:00 AM", "%m/%d/%Y, %I:%M:%S %p", "timestamp"),
        ("Nov  1 2024 10:00AM", "%b %d %Y %I:%M%p", "timestamp"),
        ("01-NOV-24 10.00.00.000000 AM", "%d-%b-%y %I.%M.%S.%f %p", "timestamp"),
        ("2024年11月1日", "%Y年%m月%d日", "date"),
    ],
)
def test_values_that_are_written_otherwise_get_a_format(value: str, form: str, kind: str) -> None:
    inferred = infer([sample({"id": "1", "at": T, "x": value})])
    assert inferred.formats == {"x": form}
    assert inferred.columns[-1].type == kind
    assert any(f"column x: {value!r} is read as" in doubt for doubt in inferred.doubts)
    assert not inferred.questions


@pytest.mark.parametrize(
    ("value", "readings"),
    [
        ("1,234", {"1,234.56": "1234", "1.234,56": "1.234"}),
        ("04/11/2024", {"%d/%m/%Y": "2024-11-04", "%m/%d/%Y": "2024-04-11"}),
    ],
)
def test_two_readings_are_asked_for_and_never_guessed(value: str, readings: dict[str, str]) -> None:
    file = sample({"id": "1", "at": T, "x": value})
    [question] = [question for question in infer([file]).questions if question.about == "column x"]
    assert question.options == {form: f"{value} is {reading}" for form, reading in readings.items()}
    for form in readings:
        answered = infer([file], {"column x": form})
        assert (answered.formats, answered.questions) == ({"x": form}, [])
    with pytest.raises(InferenceError, match="column x=%Y: its values are not written so; they may be"):
        infer([file], {"column x": "%Y"})


def test_a_value_further_on_decides_what_the_first_leaves_open() -> None:
    inferred = infer([lines("id,at,x", f"1,{T},04/11/2024", f"2,{T},25/11/2024")])
    assert (inferred.formats, inferred.questions) == ({"x": "%d/%m/%Y"}, [])


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("20241104", "%Y%m%d"),
        ("1730714400", "epoch_seconds"),
        ("1730714400.125", "epoch_seconds"),
        ("1730714400000", "epoch_milliseconds"),
        ("1730714400000123", "epoch_microseconds"),
        ("1730714400000123000", "epoch_nanoseconds"),
    ],
)
def test_numbers_of_a_column_that_is_called_a_time_are_times(value: str, form: str) -> None:
    inferred = infer([lines("id,created_at", f"1,{value}")])
    assert (inferred.event, inferred.formats) == ("created_at", {"created_at": form})
    for name in ("units", "order_id", "sale_value", "order"):
        assert infer([lines(f"id,at,{name}", f"1,{T},{value}")]).formats == {}


def test_days_as_excel_counts_them_are_no_event_time() -> None:
    inferred = infer([lines("id,date,amount", "1,45600,2.50", "2,45601,3.50")])
    assert inferred.event is None
    assert any(doubt.startswith("column date: has days as Excel counts them (45600)") for doubt in inferred.doubts)
    assert not any("Excel" in doubt for doubt in infer([lines("id,at,sale_value", f"1,{T},45600")]).doubts)


@pytest.mark.parametrize("column", ["tracking_number", "EAN", "Sendungsnummer"])
def test_numbers_that_a_spreadsheet_has_cut_are_told_and_no_key(column: str) -> None:
    inferred = infer([lines(f"{column},shipped_at,kg", f"4.00638E+12,{T},1.2", f"4.00639E+12,{U},1.3", f"77,{U},1.4")])
    assert (inferred.columns[0].type, list(inferred.key)) == ("string", [])
    assert f"column {column}: a spreadsheet has cut its numbers (4.00638E+12)" in inferred.doubts[0]
    assert infer([lines("id,at,watts", f"1,{T},4.00638E+12")]).columns[2].type == "double"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("2024-11-04 10:00:00 EST", "2024-11-05 10:00:00 EDT", "has times with the abbreviation of a zone"),
        ("Mon Nov 25 10:00:00 PST 2024", "Mon Nov 25 11:00:00 PST 2024", "has times with the abbreviation of a zone"),
        ("2024-11-04", "25/11/2024", "has days or times that no single format reads ('2024-11-04' and '25/11/2024')"),
    ],
)
def test_times_that_are_not_read_are_told_with_their_column(first: str, second: str, words: str) -> None:
    inferred = infer([lines("id,sold_at,amount", f"1,{first},1.50", f"2,{second},2.50")])
    assert inferred.event is None
    assert any(doubt.startswith(f"column sold_at: {words}") for doubt in inferred.doubts)
    assert any("no column is a date or a time (sold_at may be it, but is not read)" in doubt for doubt in inferred.doubts)


def test_late_data_of_earlier_years_has_a_day() -> None:
    assert infer([lines("id,at", "1,2025-01-02T09:00:00Z")]).first_day == date(2020, 1, 1)
    assert infer([lines("id,at", "1,1999-05-02T09:00:00Z")]).first_day == date(1997, 1, 1)


def test_amounts_with_the_code_of_a_currency_are_told() -> None:
    at = "2024-11-04T09:00:00Z"
    found = infer([lines("id,at,amount,place", f"1,{at},5.50 EUR,ABC 12", f"2,{at},USD 7,ABC 13")])
    assert [column.type for column in found.columns[2:]] == ["string", "string"]
    assert [doubt for doubt in found.doubts if "currency" in doubt] == [
        "column amount: has numbers with the code of a currency: have the code sent in a column of its own ('5.50 EUR')"
    ]


@pytest.mark.parametrize(("count", "told"), [(4_999, []), (6_000, ["the samples have 6,000 event days"])])
def test_many_event_days_are_told(count: int, told: list[str]) -> None:
    first = date(2001, 1, 1)
    found = infer([lines("id,day,level", *(f"{number},{first + timedelta(days=number)},1.5" for number in range(count)))])
    assert [doubt[:33] for doubt in found.doubts if "event days" in doubt] == told
