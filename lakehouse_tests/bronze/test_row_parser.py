"""Records into bronze rows: fields, clocks, keys, and what a record does to which key."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.bronze.file_formats import Record
from lakehouse.bronze.row_parser import RowParser, record_key
from lakehouse.contracts.source import SourceContract
from lakehouse.ledger.ids import DeliveredFile

RECEIVED = datetime(2024, 5, 10, 6, tzinfo=timezone.utc)
DELIVERY = DeliveredFile("landing/sales.csv", "0123456789abcdef", date(2024, 5, 10), RECEIVED)
CONTRACT: dict[str, Any] = {
    "dataset": "sales",
    "primary_key": ["id"],
    "model": {
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "amount", "type": "decimal(6,2)", "required": True, "column": "Amount"},
            {"name": "note", "type": "string"},
        ]
    },
    "clocks": {"event": "sold_at", "arrival": "received_at", "start_date": "2024-01-01"},
    "changes": {"op": "op", "is_correction": "fix", "corrects_event_id": "corrects"},
}
VALUES: dict[str, Any] = {"id": "7", "Amount": "1.5", "note": "n", "sold_at": "2024-05-09T12:00:00Z"}
TWO_KEYS: dict[str, Any] = {"primary_key": ["id", "note"], "changes": {}}
IN_BERLIN = {"timezone": "Europe/Berlin", "naive_times": "in_timezone"}


def parser(**changes: Any) -> RowParser:
    merged = {**CONTRACT, **changes, "clocks": {**CONTRACT["clocks"], **changes.get("clocks", {})}}
    return RowParser(SourceContract.model_validate(merged), DELIVERY)


def row(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return parser(**changes).row(Record(3, "raw", values))


def good(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made = row(values, **changes)
    assert "malformed_reason" not in made
    return made


def reason(values: dict[str, Any], **changes: Any) -> str:
    made = row(values, **changes)
    known = {"event_date", "record_key", "corrects_key", "arrival_ts", "source_sequence", "source_order"}
    assert set(made) - known == {*PROVENANCE, "malformed_reason"}
    return str(made["malformed_reason"])


PROVENANCE = {
    "arrival_date": date(2024, 5, 10),
    "source_system": "sales",
    "source_file": "landing/sales.csv",
    "ingestion_id": "0123456789abcdef",
    "line_number": 3,
    "raw_payload": "raw",
}


def test_a_record_becomes_a_typed_row() -> None:
    assert row(VALUES) == PROVENANCE | {
        "id": 7,
        "amount": Decimal("1.50"),
        "note": "n",
        "arrival_ts": RECEIVED,
        "event_ts": datetime(2024, 5, 9, 12, tzinfo=timezone.utc),
        "event_date": date(2024, 5, 9),
        "change_op": "insert",
        "is_correction": False,
        "corrects_key": None,
        "corrected_by": None,
        "correction_reason": None,
        "corrected_field": None,
        "source_sequence": -1,
        "source_order": None,
        "record_key": "7",
    }


def test_a_malformed_record_becomes_a_row_with_its_text_and_the_reason() -> None:
    assert parser().row(Record(3, "raw", None, "not CSV")) == PROVENANCE | {"malformed_reason": "not CSV"}


def test_every_record_becomes_one_row_in_order() -> None:
    records = [Record(1, "a", VALUES), Record(2, "b", None, "why"), Record(3, "c", {})]
    assert [made["line_number"] for made in parser().rows(iter(records))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"id": ""}, "id: required and empty"),
        ({"id": None}, "id: required and empty"),
        ({"Amount": ""}, "Amount: required and empty"),
        ({"sold_at": ""}, "sold_at: required and empty"),
        ({"id": "x"}, "id: 'x' is not an integer"),
        ({"id": "9" * 10}, "id: '9999999999' does not fit int"),
        ({"Amount": "1.555"}, "Amount: '1.555' has more than 2 decimals"),
        ({"Amount": Decimal("1E+400")}, "Amount: '1E+400' does not fit decimal(6,2)"),
        ({"Amount": [1]}, "Amount: '[1]' is not a number"),
        ({"note": b"\xff"}, "note: \"b'\\\\xff'\" is not text in UTF-8"),
        ({"sold_at": "2024-02-30"}, "sold_at: '2024-02-30' is no day of the calendar"),
        ({"sold_at": "2024-05-09T12:00:00"}, "sold_at: '2024-05-09T12:00:00' names no zone"),
        ({"sold_at": {"at": 1}}, "sold_at: \"{'at': 1}\" is not a time"),
        ({"received_at": "yesterday"}, "received_at: 'yesterday' is not a time"),
        ({"fix": "perhaps"}, "fix: 'perhaps' is not a boolean"),
        ({"corrects": "x"}, "corrects: 'x' is not an integer"),
        ({"op": "merge"}, "op: 'merge' is none of c, correct, d, delete, i, insert"),
        ({"op": {"a": 1}}, "op: '{\"a\":1}' is none of"),
        ({"op": b"\xff"}, "op: \"b'\\\\xff'\" is not text in UTF-8"),
    ],
)
def test_a_reason_names_the_column_in_the_file(values: dict[str, Any], expected: str) -> None:
    assert reason(VALUES | values).startswith(expected)


def test_columns_absent_from_a_json_record_are_empty() -> None:
    assert reason({}) == "id: required and empty"


def test_an_optional_field_may_be_empty() -> None:
    assert good(VALUES | {"note": ""})["note"] is None


def test_a_required_field_may_be_empty_in_a_correction_by_hand_and_where_it_is_redacted() -> None:
    contract = SourceContract.model_validate(CONTRACT)
    values = VALUES | {"Amount": ""}
    by_hand = replace(DELIVERY, path="arrival_date=2024-05-10.correction-0123456789ab.csv")
    signed = values | {"lakehouse_correction": "0123456789ab"}
    for exempt, of in ((RowParser(contract, by_hand), signed), (RowParser(contract, DELIVERY, {"amount"}), values)):
        parsed = exempt.row(Record(3, "raw", of))
        assert ("malformed_reason" in parsed, parsed["amount"]) == (False, None)
        assert exempt.row(Record(3, "raw", of | {"id": ""}))["malformed_reason"] == "id: required and empty"
    assert reason(values) == "Amount: required and empty"
    other = RowParser(contract, by_hand).row(Record(3, "raw", values))
    assert other["malformed_reason"] == "Amount: required and empty", "a sender's file may be called like one"


def test_the_contract_defines_which_words_mean_empty() -> None:
    words = {"null_values": ["NA"]}
    assert [good(VALUES | {"note": note}, source=words)["note"] for note in ("", "NA", "nan")] == [None, None, "nan"]
    assert good(VALUES | {"note": ""}, source=words | {"blank_is_null": False})["note"] == ""


def test_what_is_no_number_may_be_declared_as_no_value() -> None:
    for value in ("nan", "NaN", float("nan")):
        assert good(VALUES | {"note": value}, source={"null_values": ["NaN"]})["note"] is None
    assert (
        reason(VALUES | {"note": float("nan")})
        == "note: 'nan' is not a text (source.null_values: [NaN] would read it as no value)"
    )
    for value in ("-999", -999, Decimal("-999.00"), -999.0):
        assert good(VALUES | {"note": value}, source={"null_values": ["-999"]})["note"] is None


def test_a_field_source_system_may_differ_by_row_and_falls_back_to_the_contract() -> None:
    fields = [*CONTRACT["model"]["fields"], {"name": "source_system", "type": "string"}]
    made = [good(VALUES | {"source_system": name}, model={"fields": fields})["source_system"] for name in ("till", "")]
    assert made == ["till", "sales"]


@pytest.mark.parametrize(
    ("event", "day"),
    [
        ("2024-05-08T21:59:59Z", date(2024, 5, 8)),
        ("2024-05-08T22:00:00Z", date(2024, 5, 9)),
        ("2024-05-08T23:59:59", date(2024, 5, 8)),
        ("2024-05-09T00:00:00", date(2024, 5, 9)),
        ("2024-01-01T00:00:00", date(2024, 1, 1)),
    ],
)
def test_the_event_day_ends_at_the_midnight_of_the_contracts_zone(event: str, day: date) -> None:
    assert good(VALUES | {"sold_at": event}, clocks=IN_BERLIN)["event_date"] == day


def test_an_event_date_without_time_is_the_day_itself() -> None:
    made = good(VALUES | {"sold_at": "2024-05-09"}, clocks={"timezone": "Pacific/Kiritimati"})
    assert (made["event_ts"], made["event_date"]) == (None, date(2024, 5, 9))


def test_a_field_that_is_the_event_clock() -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "event_date", "type": "date"}]
    made = good({"id": 1, "event_date": "2024-05-09"}, model={"fields": fields}, clocks={"event": None})
    assert (made["event_ts"], made["event_date"]) == (None, date(2024, 5, 9))


def test_the_arrival_time_of_the_record_goes_before_that_of_the_file() -> None:
    made = good(VALUES | {"received_at": "2024-05-09T14:00:00+02:00"})
    assert made["arrival_ts"] == datetime(2024, 5, 9, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("event", ["2024-05-11T06:00:00Z", "2024-05-11"])
def test_an_event_may_lie_a_little_ahead_of_its_arrival(event: str) -> None:
    good(VALUES | {"sold_at": event})


@pytest.mark.parametrize(
    "event",
    ["2024-05-11T06:00:00.000001Z", "2024-05-12", "9999-12-31", "9999-12-30T00:00:00Z", date(9999, 12, 31)],
)
def test_an_event_far_ahead_of_its_arrival_is_malformed(event: Any) -> None:
    assert "lies more than 1 day, 0:00:00 after the arrival at 2024-05-10 06:00Z" in reason(VALUES | {"sold_at": event})


@pytest.mark.parametrize("arrival", ["2024-05-12T00:00:00Z", "2024-05-11T23:58:59-00:01"])
def test_a_senders_clock_may_be_ahead_of_the_delivery_by_as_much_as_clocks_may_differ(arrival: str) -> None:
    good(VALUES | {"received_at": arrival})


@pytest.mark.parametrize("arrival", ["2024-05-12T00:00:00.000001Z", "2034-05-10T06:00:00Z"])
@pytest.mark.parametrize("op", ["insert", "delete"])
def test_a_senders_clock_in_the_future_is_malformed_and_its_event_day_still_known(arrival: str, op: str) -> None:
    made = row(VALUES | {"received_at": arrival, "op": op})
    assert made["malformed_reason"] == (
        f"received_at: {arrival} lies more than 1 day, 0:00:00 after the delivery: the sender's clock is ahead"
    )
    assert (made["event_date"], made["record_key"]) == (date(2024, 5, 9), "7")


@pytest.mark.parametrize(("zone", "allowed"), [("Pacific/Honolulu", True), ("Europe/Berlin", False), ("UTC", False)])
def test_an_arrival_day_ends_in_the_sources_zone_or_in_utc_whichever_is_later(zone: str, *, allowed: bool) -> None:
    made = row(VALUES | {"received_at": "2024-05-11T09:00:00Z"}, clocks={"timezone": zone, "max_ahead": timedelta(0)})
    assert ("malformed_reason" not in made) is allowed


@pytest.mark.parametrize(("timezone_", "allowed"), [("Pacific/Kiritimati", True), ("Pacific/Honolulu", False)])
def test_a_day_ahead_begins_at_the_midnight_of_the_contracts_zone(timezone_: str, *, allowed: bool) -> None:
    made = row(VALUES | {"sold_at": "2024-05-11"}, clocks={"timezone": timezone_, "max_ahead": timedelta(hours=4)})
    assert ("malformed_reason" not in made) is allowed


@pytest.mark.parametrize("event", ["2023-12-31", "2023-12-31T23:59:59.999999Z", "0001-01-01", "0001-01-02T00:00:00Z"])
def test_an_event_before_the_first_event_day_is_malformed(event: str) -> None:
    assert "lies before the first event day, 2024-01-01" in reason(VALUES | {"sold_at": event})


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Honolulu", "Europe/Berlin"])
@pytest.mark.parametrize("naive_times", ["reject", "in_timezone"])
@pytest.mark.parametrize(
    "event",
    [
        "0001-01-01",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "0001-01-01T00:00:00",
        "9999-12-31",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
        "9999-12-31T23:59:59",
    ],
)
def test_the_ends_of_the_calendar_are_malformed_events(event: str, zone: str, naive_times: str) -> None:
    clocks = {"timezone": zone, "naive_times": naive_times, "max_ahead": timedelta.max}
    reason(VALUES | {"sold_at": event, "received_at": "2024-05-10T00:00:00Z"}, clocks={**clocks, "max_ahead": timedelta(0)})
    row(VALUES | {"sold_at": event}, clocks=clocks)


@pytest.mark.parametrize("arrival", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_an_arrival_at_the_ends_of_the_calendar_is_malformed(arrival: str) -> None:
    assert "received_at: " in reason(VALUES | {"received_at": arrival})


@pytest.mark.parametrize("event", ["2024-05-09", "2024-05-09T00:00:00Z"])
def test_the_longest_allowance_does_not_overflow(event: str) -> None:
    good(VALUES | {"sold_at": event}, clocks={"max_ahead": timedelta.max})


@pytest.mark.parametrize(
    ("word", "op", "is_correction"),
    [
        ("insert", "insert", False),
        (" I ", "insert", False),
        ("c", "insert", False),
        ("R", "insert", False),
        ("", "insert", False),
        ("Correct", "correct", True),
        ("UPDATE", "correct", True),
        ("upsert", "correct", True),
        ("u", "correct", True),
        ("delete", "delete", False),
        ("D", "delete", False),
    ],
)
def test_op_words(word: str, op: str, *, is_correction: bool) -> None:
    made = good(VALUES | {"op": word})
    assert (made["change_op"], made["is_correction"]) == (op, is_correction)


def test_the_contract_may_have_op_words_of_its_own() -> None:
    changes = {"op": "op", "insert_words": ["NEU"], "correct_words": [], "delete_words": ["weg", "1"]}
    assert [good(VALUES | {"op": word}, changes=changes)["change_op"] for word in ("neu", "WEG", 1)] == [
        "insert",
        "delete",
        "delete",
    ]
    assert reason(VALUES | {"op": "insert"}, changes=changes) == "op: 'insert' is none of 1, neu, weg"


@pytest.mark.parametrize(("flag", "expected"), [("1", ("correct", True)), ("0", ("insert", False)), ("", ("insert", False))])
def test_a_flag_marks_a_correction(flag: str, expected: tuple[str, bool]) -> None:
    made = good(VALUES | {"fix": flag})
    assert (made["change_op"], made["is_correction"]) == expected


@pytest.mark.parametrize("word", ["insert", "delete"])
def test_the_op_word_goes_before_the_flag(word: str) -> None:
    made = good(VALUES | {"fix": "1", "op": word})
    assert (made["change_op"], made["is_correction"]) == (word, True)


@pytest.mark.parametrize(("corrects", "key"), [("7", "7"), (" 08 ", "8"), ("", None)])
def test_a_correction_names_the_key_it_corrects_as_that_key_is_written(corrects: str, key: str | None) -> None:
    made = good(VALUES | {"op": "correct", "corrects": corrects})
    assert (made["record_key"], made["corrects_key"]) == ("7", key)


def test_a_delete_needs_its_key_only() -> None:
    made = good({"op": "delete", "id": "7"})
    assert {name: made[name] for name in ("record_key", "amount", "event_ts", "event_date", "arrival_ts")} == {
        "record_key": "7",
        "amount": None,
        "event_ts": None,
        "event_date": None,
        "arrival_ts": RECEIVED,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "id: required and empty"),
        ({"id": "7", "sold_at": "?"}, "sold_at: '?' is not"),
        ({"id": "7", "Amount": "?"}, "Amount: '?' is not"),
    ],
)
def test_a_delete_is_malformed_without_key_or_with_values_that_mean_nothing(values: dict[str, Any], expected: str) -> None:
    assert reason({"op": "delete", **values}).startswith(expected)


def test_a_delete_by_a_key_of_two_columns_needs_both() -> None:
    contract = {**TWO_KEYS, "changes": {"op": "op"}}
    assert good({"op": "d", "id": "7", "note": "x"}, **contract)["record_key"] == '["7","x"]'
    assert reason({"op": "d", "id": "7"}, **contract) == "note: required and empty"


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (["a"], "a"),
        ([7], "7"),
        ([Decimal("1.50")], "1.50"),
        ([date(2024, 1, 1)], "2024-01-01"),
        ([True], "true"),
        (["a", 7], '["a","7"]'),
        (['a","b', "\u00e9"], '["a\\",\\"b","\u00e9"]'),
    ],
)
def test_a_key_as_text(values: list[Any], key: str) -> None:
    assert record_key(values) == key


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), min_size=2, max_size=2, unique_by=tuple))
@settings(deadline=None)
def test_different_keys_of_two_columns_are_different_text(keys: list[list[Any]]) -> None:
    assert record_key(keys[0]) != record_key(keys[1])


@pytest.mark.parametrize("spelling", ["1", "1.0", "+01.00", "1e0", 1, Decimal("1.000")])
def test_equal_numbers_are_the_same_key(spelling: Any) -> None:
    assert good(VALUES | {"Amount": spelling}, primary_key=["amount"])["record_key"] == "1.00"


@pytest.mark.parametrize("spelling", ["2024-05-09T12:00:00Z", "2024-05-09 14:00:00.000+02:00"])
def test_equal_times_are_the_same_key(spelling: str) -> None:
    fields = [*CONTRACT["model"]["fields"], {"name": "at", "type": "timestamp"}]
    made = good(VALUES | {"at": spelling}, model={"fields": fields}, primary_key=["at"])
    assert made["record_key"] == "2024-05-09 12:00:00+00:00"


@pytest.mark.parametrize(("value", "sequence"), [("12", 12), (2**63 - 1, 2**63 - 1), ("-1", -1)])
def test_the_sequence_of_the_source(value: Any, sequence: int) -> None:
    assert good(VALUES | {"lsn": value}, order={"sequence": "lsn"})["source_sequence"] == sequence


@pytest.mark.parametrize("op", ["insert", "delete"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "lsn: required and empty (the contract orders by it)"),
        ("1.5", "lsn: '1.5' is not an integer"),
        (2**63, "lsn: '9223372036854775808' does not fit bigint"),
    ],
)
def test_a_record_without_a_sequence_cannot_be_ordered(value: Any, expected: str, op: str) -> None:
    assert reason(VALUES | {"lsn": value, "op": op}, order={"sequence": "lsn"}) == expected


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dates()
    | st.datetimes()
    | st.binary()
    | st.decimals(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
times = st.datetimes(timezones=st.timezones() | st.none()).map(str) | st.dates().map(str) | st.datetimes(timezones=st.timezones())
columns = ["id", "Amount", "note", "sold_at", "received_at", "op", "fix", "corrects", "at", "ratio"]
fields = [*CONTRACT["model"]["fields"], {"name": "at", "type": "timestamp"}, {"name": "ratio", "type": "double"}]


@settings(deadline=None)
@given(
    values=st.dictionaries(st.sampled_from(columns), anything | times),
    zone=st.sampled_from(["UTC", "Pacific/Kiritimati", "America/New_York"]),
    naive_times=st.sampled_from(["reject", "in_timezone"]),
    max_ahead=st.timedeltas(min_value=timedelta(0)),
)
def test_any_values_of_a_record_become_a_row(values: dict[str, Any], zone: str, naive_times: str, max_ahead: timedelta) -> None:
    clocks = {"timezone": zone, "naive_times": naive_times, "max_ahead": max_ahead}
    made = row({"id": 1, "Amount": 2, "sold_at": "2024-05-09", **values}, clocks=clocks, model={"fields": fields})
    assert "record_key" in made or "malformed_reason" in made
    assert "arrival_ts" in made or "malformed_reason" in made
    json.dumps(made, default=str, ensure_ascii=False).encode()


DIMENSION: dict[str, Any] = {"kind": "dimension", "changes": {"op": "op"}, "dimension": {"valid_to": "until"}}


def test_the_key_of_a_dimensions_change_is_its_primary_key_and_its_event_time() -> None:
    made = good(VALUES, **DIMENSION)
    assert made["record_key"] == '["7","2024-05-09T12:00:00.000000Z"]'
    assert (made["change_op"], made["key_ends"], made["ends_at"]) == ("insert", False, None)
    both = good(VALUES | {"sold_at": "2024-05-09T14:00:00.5+02:00"}, **DIMENSION | {"primary_key": ["id", "note"]})
    assert both["record_key"] == '["7","n","2024-05-09T12:00:00.500000Z"]'


def test_a_change_of_a_day_begins_with_the_day_in_the_zone_of_the_contract() -> None:
    made = good(VALUES | {"sold_at": "2024-05-09", "until": "2024-05-10"}, **DIMENSION, clocks=IN_BERLIN)
    assert made["record_key"] == '["7","2024-05-08T22:00:00.000000Z"]'
    assert made["event_ts"] == datetime(2024, 5, 8, 22, tzinfo=timezone.utc)
    assert made["event_date"] == date(2024, 5, 9)
    assert made["ends_at"] == datetime(2024, 5, 9, 22, tzinfo=timezone.utc)


def test_the_last_day_of_a_change_belongs_to_it_where_the_contract_says_so() -> None:
    """As SAP writes the end of a validity; 9999-12-31 is no end."""
    last = DIMENSION | {"dimension": {"valid_to": "until", "valid_to_is_last_day": True}}

    def ends(until: str, **changes: Any) -> Any:
        return good(VALUES | {"sold_at": "2024-05-09", "until": until}, **last, **changes)["ends_at"]

    assert ends("2024-05-10") == datetime(2024, 5, 11, tzinfo=timezone.utc)
    assert ends("2024-05-10", clocks=IN_BERLIN) == datetime(2024, 5, 10, 22, tzinfo=timezone.utc)
    assert ends("2024-05-09") == datetime(2024, 5, 10, tzinfo=timezone.utc), "it is valid on one day"
    assert ends("2024-05-10T12:00:00Z") == datetime(2024, 5, 10, 12, tzinfo=timezone.utc)
    assert ends("9999-12-31") is None
    assert "does not lie after the change begins" in reason(VALUES | {"sold_at": "2024-05-09", "until": "2024-05-08"}, **last)


def test_a_delete_ends_a_key_and_a_retract_deletes_a_change() -> None:
    bare = {"id": "7", "sold_at": "2024-05-09T12:00:00Z", "until": "long ago"}
    ends, retracts = (good(bare | {"op": word}, **DIMENSION) for word in ("D", "Retract"))
    assert (ends["change_op"], ends["key_ends"], ends["ends_at"]) == ("insert", True, None)
    assert (retracts["change_op"], retracts["key_ends"], retracts["ends_at"]) == ("delete", False, None)
    assert ends["record_key"] == retracts["record_key"] == good(VALUES, **DIMENSION)["record_key"]
    for word in ("delete", "retract"):
        assert reason({"id": "7", "op": word}, **DIMENSION) == "sold_at: required and empty"
    assert reason(VALUES | {"op": "retract"}).startswith("op: 'retract' is none of"), "of an event source it is no word"


def test_a_change_ends_after_it_begins() -> None:
    said = "does not lie after the change begins, at 2024-05-09 12:00:00Z"
    for until in ("2024-05-09T12:00:00Z", "2024-05-09", "0001-01-01"):
        assert reason(VALUES | {"until": until}, **DIMENSION) == f"until: {until} {said}"
    assert reason(VALUES | {"until": "soon"}, **DIMENSION).startswith("until: 'soon' is not a time")
    later = good(VALUES | {"until": "9999-12-31T23:59:59Z"}, **DIMENSION)
    assert later["ends_at"] == datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
    assert reason(VALUES | {"until": "0001-01-01"}, **DIMENSION, clocks=IN_BERLIN) == "until: 0001-01-01 is out of range"
