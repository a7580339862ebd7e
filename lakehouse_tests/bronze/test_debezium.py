"""Debezium's events, as its documentation describes them."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.bronze.envelopes import encoded, unfold_debezium, without_tombstones
from lakehouse.bronze.file_formats import json_records
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts.source import SourceContract
from lakehouse.ledger.ids import DeliveredFile

OLD, NEW = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
POSTGRES = {"connector": "postgresql", "lsn": 24023128, "txId": 555, "ts_ms": 1_559_033_904_863}
MYSQL = {"connector": "mysql", "file": "mysql-bin.000003", "pos": 484, "row": 0}
SQL_SERVER = {
    "connector": "sqlserver",
    "commit_lsn": "00000027:00000758:0005",
    "change_lsn": "00000027:00000758:0003",
    "event_serial_no": "1",
}


def event(op: str, **changes: Any) -> dict[str, Any]:
    sides = {"before": None if op in {"c", "r"} else OLD, "after": None if op == "d" else NEW}
    return {**sides, "source": POSTGRES, "op": op, "ts_ms": 1_559_033_904_961, "transaction": None, **changes}


def place(op: str = "u", **source: Any) -> tuple[int, str]:
    sequence, text = encoded(unfold_debezium(event(op, source=source), ["id"]).order)
    return sequence, text or ""


@pytest.mark.parametrize(
    ("op", "meaning", "row", "former"),
    [("c", "insert", NEW, None), ("r", "insert", NEW, None), ("u", "correct", NEW, OLD), ("d", "delete", OLD, None)],
)
def test_an_event_tells_the_row_after_it_or_the_deleted_one(op: str, meaning: str, row: Any, former: Any) -> None:
    change = unfold_debezium(event(op), ["id"])
    assert (change.op, change.row, change.former) == (meaning, row, former)
    assert unfold_debezium({"schema": {"type": "struct"}, "payload": event(op)}, ["id"]) == change


def test_an_update_need_not_say_what_was_before() -> None:
    assert unfold_debezium(event("u", before=None), ["id"]).former is None


def test_the_times_of_the_connector_and_of_the_database_are_columns_for_a_contract_that_needs_them() -> None:
    row = unfold_debezium(event("u"), ["id", "__ts_ms", "__source_ts_ms"]).row
    assert row["__ts_ms"] == datetime(2019, 5, 28, 8, 58, 24, 961_000, tzinfo=timezone.utc)
    assert row["__source_ts_ms"] == datetime(2019, 5, 28, 8, 58, 24, 863_000, tzinfo=timezone.utc)
    assert unfold_debezium(event("u", ts_ms=None), ["__ts_ms"]).row["__ts_ms"] is None


def test_events_of_postgresql_follow_the_write_ahead_log() -> None:
    assert place(lsn=9) < place(lsn=10) < place(lsn="11")


def test_at_one_place_a_snapshot_comes_first_and_an_end_before_a_beginning() -> None:
    assert place("r", lsn=9) < place("d", lsn=9) < place("c", lsn=9) == place("u", lsn=9) < place("r", lsn=10)


def test_events_of_mysql_follow_the_number_of_the_log_the_position_and_the_row() -> None:
    events = [
        ("bin.999999", 900, 1),
        ("bin.1000000", 4, 0),
        ("bin.1000000", 4, 2),
        ("bin.1000000", 4, 10),
        ("bin.1000000", 50, 0),
    ]
    placed = [place(file=file, pos=pos, row=row) for file, pos, row in events]
    assert placed == sorted(placed)
    assert place(**MYSQL) == place(**{**MYSQL, "row": None})


def test_events_of_sql_server_follow_the_commit_the_change_and_its_part() -> None:
    lsn = "00000027:00000758:000{}".format
    parts = [(lsn(5), lsn(3), 1), (lsn(5), lsn(3), 2), (lsn(5), lsn("a"), 1), (lsn("A"), lsn(3), None)]
    placed = [place(commit_lsn=commit, change_lsn=change, event_serial_no=part) for commit, change, part in parts]
    assert placed == sorted(placed)
    assert place("r", commit_lsn=lsn(5), change_lsn=None) < placed[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": None}, "op: missing from the envelope"),
        ({"op": "x"}, "op: 'x' is none of c, r, u, d"),
        (
            {"op": "t"},
            "op: 't' is a truncation of the whole table, which names no row; delete its rows, or have the table sent again",
        ),
        ({"op": "m"}, "op: 'm' is a message of the database's log, which is about no row; leave it out of the topic"),
        ({"after": None}, "after: missing from the envelope"),
        ({"after": [1]}, "after: a JSON list where an object is expected"),
        ({"before": "x"}, "before: a JSON str where an object is expected"),
        ({"op": "d", "before": None}, "before: missing from the envelope"),
        ({"source": None}, "source: missing from the envelope"),
        ({"source": {}}, "source.lsn: missing, and so are source.file and source.commit_lsn: no order follows from the event"),
        ({"source": {"lsn": "0/16"}}, "source.lsn: '0/16' is not an integer"),
        ({"source": {"lsn": True}}, "source.lsn: 'True' is not an integer"),
        ({"source": MYSQL | {"pos": None}}, "source.pos: missing from the envelope"),
        ({"source": MYSQL | {"file": "bin"}}, "source.file: 'bin' does not end with the number of a log"),
        ({"source": SQL_SERVER | {"change_lsn": None}}, "source.change_lsn: missing from the envelope"),
        (
            {"source": SQL_SERVER | {"commit_lsn": "27:758:5"}},
            "source.commit_lsn: '27:758:5' is not three hexadecimal numbers of 8, 8 and 4 digits",
        ),
        ({"ts_ms": "now"}, "ts_ms: 'now' is not an integer"),
        ({"ts_ms": 10**18}, "ts_ms: 1000000000000000000 is no time in milliseconds since 1970"),
        (
            {"after": NEW | {"name": "__debezium_unavailable_value"}},
            "name: not in the event (__debezium_unavailable_value); set REPLICA IDENTITY FULL for the table",
        ),
    ],
)
def test_a_malformed_event_has_a_reason_that_names_the_field(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        unfold_debezium(event("u") | changes, ["id", "name", "__ts_ms"])


def test_what_the_contract_does_not_need_may_be_missing() -> None:
    assert unfold_debezium(event("u", after=NEW | {"name": "__debezium_unavailable_value"}), ["id"]).row["id"] == 1
    assert unfold_debezium(event("u", ts_ms="now"), ["id"]).op == "correct"


def test_other_messages_of_a_topic_are_no_events() -> None:
    for message in ({"status": "BEGIN", "id": "571"}, {"schema": None, "payload": "x"}):
        with pytest.raises(ValueError, match=r"^(op: missing|payload: a JSON str where)"):
            unfold_debezium(message, ["id"])


def test_a_tombstone_is_no_record() -> None:
    lines = [b"null\n", b" null \r\n", b'{"schema": null, "payload": null}\n', b'{"payload": {}}\n', b"nil\n", b'{"id": null}\n']
    kept = without_tombstones(json_records(enumerate(lines, start=1)))
    assert [record.line_number for record in kept] == [4, 5, 6]


def decimal_schema(scale: str) -> dict[str, Any]:
    column = {"field": "amount", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": scale}}
    return {"type": "struct", "fields": [{"field": side, "type": "struct", "fields": [column]} for side in ("before", "after")]}


@pytest.mark.parametrize(
    ("bytes_of", "scale", "amount"),
    [("AMg=", "2", "2.00"), ("/zg=", "2", "-2.00"), ("AA==", "4", "0.0000"), ("ATo=", "0", "314"), ("Ag==", "-2", "2E+2")],
)
def test_a_decimal_as_bytes_is_read_with_the_scale_of_its_schema_or_beside_it(bytes_of: str, scale: str, amount: str) -> None:
    row = {"id": 1, "amount": bytes_of}
    of_schema = unfold_debezium({"schema": decimal_schema(scale), "payload": event("c", after=row)}, ["id"]).row
    beside = unfold_debezium(event("c", after={"id": 1, "amount": {"scale": int(scale), "value": bytes_of}}), ["id"]).row
    assert (of_schema["amount"], beside["amount"]) == (Decimal(amount), Decimal(amount))
    assert unfold_debezium(event("c", after=row), ["id"]).row == row, "without a scale it is no number"


def test_bytes_that_the_schema_calls_a_decimal_and_are_none_are_named() -> None:
    with pytest.raises(ValueError, match=r"amount: '12\.50' is no decimal in base64, as the message says"):
        unfold_debezium({"schema": decimal_schema("2"), "payload": event("c", after={"id": 1, "amount": "12.50"})}, ["id"])


def test_bytes_of_a_decimal_without_a_schema_are_malformed_with_the_setting_of_the_connector() -> None:
    fields = [{"name": "id", "type": "bigint"}, {"name": "amount", "type": "decimal(12,2)"}]
    source = SourceContract.model_validate(
        {
            "dataset": "orders",
            "primary_key": ["id"],
            "source": {"format": "json", "envelope": "debezium"},
            "clocks": {"event": "__ts_ms"},
            "model": {"fields": fields},
        }
    )
    delivery = DeliveredFile("orders.json", "0123456789abcdef", date(2024, 2, 1), datetime(2024, 2, 1, tzinfo=timezone.utc))
    line = json.dumps(event("c", after={"id": 1, "amount": "AMg="})).encode()
    [row] = RowParser(source, delivery).rows(json_records([(1, line)]))
    assert row["malformed_reason"].startswith("amount: 'AMg=' is not a number; if these are the bytes of a decimal, set ")
