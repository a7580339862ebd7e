"""What is inferred from samples is what can be ingested: each value converts, the key is unique, and doubts are said."""

from __future__ import annotations

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze import type_conversion
from lakehouse.project.inference import InferenceError, Sample, field_names, infer, type_of


def sample(*records: dict[str, Any], file: str = "a.csv") -> Sample:
    return Sample(file, list(records[0]) if records else [], list(records))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20"], "bigint"),
        (["0", "1"], "bigint"),
        (["9" * 30], "decimal(30,0)"),
        (["9" * 40], "string"),
        (["0012", "0450"], "string"),
        (["1.5", "20"], "decimal(18,2)"),
        (["1.12345", "2"], "decimal(18,5)"),
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
    found = infer([sample({"word": "a"}, {"word": "a"})])
    assert found.key == []
    assert "no columns identify a record: a record is known by a hash of all of its values (synthetic_key)" in found.doubts


def test_the_clocks_are_chosen_by_type_and_name() -> None:
    record = {"id": "1", "received_at": "2024-11-06T06:00:00Z", "due": "2024-12-01", "sold_at": "2024-11-05T23:30:00Z"}
    found = infer([sample(record)])
    assert (found.event, found.arrival, found.naive, found.first_day) == ("sold_at", "received_at", False, date(2024, 11, 5))
    assert "event time is taken from sold_at; due could be it, too" in found.doubts
    local = infer([sample({"id": "1", "at": "2024-11-05 23:30:00"})])
    assert (local.event, local.arrival, local.naive) == ("at", None, True)
    assert any("set clocks.timezone" in doubt for doubt in local.doubts)
    none = infer([sample({"id": "1"})])
    assert none.event is None
    assert any("name the column of the event time under clocks.event" in doubt for doubt in none.doubts)
    day = infer([sample({"id": "1", "day": "2024-11-05"})])
    assert (day.event, day.naive, day.first_day) == ("day", False, date(2024, 11, 5))


def test_columns_become_fields_with_a_name_each() -> None:
    names = field_names(["Order ID", "orderID", "Größe", "2nd", "--"])
    assert names == {"Order ID": "order_id", "orderID": "order_id_2", "Größe": "gr_e", "2nd": "c_2nd", "--": "column"}


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
