"""Several lines per record are states of it: the key is the record's, the order is asked for where the file does not show it."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.project.questions import InferenceError
from lakehouse_tests.support.inferred_files import infer_file

if TYPE_CHECKING:
    from pathlib import Path

T = "2024-11-04T09:00:00Z"
#: AWS DMS with a timestamp column.
DMS = """Op,timestamp,id,amount,order_date
I,2024-11-04 09:00:00,1,10.00,2024-11-04
I,2024-11-04 09:01:00,2,5.00,2024-11-04
U,2024-11-04 10:00:00,1,12.00,2024-11-04
U,2024-11-05 10:00:00,1,7.00,2024-11-04
D,2024-11-05 11:00:00,2,5.00,2024-11-04
"""
#: Debezium with ExtractNewRecordState.
DEBEZIUM = "".join(
    f'{{"id": {number}, "amount": "{amount}", "day": "2024-11-04", "__op": "{op}", '
    f'"__deleted": "{deleted}", "__source_ts_ms": {at}}}\n'
    for number, amount, op, deleted, at in [
        (1, "10.00", "c", "false", 1730714400000),
        (2, "5.00", "c", "false", 1730714401000),
        (1, "12.00", "u", "false", 1730714500000),
        (2, "5.00", "d", "true", 1730714600000),
    ]
)
LINES = """order_id,line_no,op,amount,day,changed_at
1,1,I,10.00,2024-11-04,2024-11-04T09:00:00Z
1,2,I,20.00,2024-11-04,2024-11-04T09:00:00Z
1,2,U,25.00,2024-11-04,2024-11-04T10:00:00Z
2,1,I,1.00,2024-11-04,2024-11-04T11:00:00Z
"""
READINGS = """sensor_id,op,read_at,kwh
A,insert,2024-11-04T09:00:00Z,1.5
A,insert,2024-11-04T10:00:00Z,2.5
A,update,2024-11-04T10:00:00Z,3.5
"""
AUDITED = """invoice_id,action,amount,day,modified_at
7,created,10.00,2024-11-04,2024-11-04T09:00:00Z
7,updated,11.00,2024-11-04,2024-11-04T10:00:00Z
8,created,5.00,2024-11-04,2024-11-04T11:00:00Z
8,deleted,5.00,2024-11-04,2024-11-04T12:00:00Z
"""


@pytest.mark.parametrize(
    ("name", "content", "key", "arrival", "total"),
    [
        ("orders.csv", DMS, ["id"], "timestamp", "7"),
        ("orders.json", DEBEZIUM, ["id"], "__source_ts_ms", "12"),
        ("orders.csv", LINES, ["order_id", "line_no"], "changed_at", "36"),
        ("readings.csv", READINGS, ["sensor_id", "read_at"], None, "5"),
        ("invoices.csv", AUDITED, ["invoice_id"], "modified_at", "11"),
    ],
    ids=["dms", "debezium", "lines", "readings", "audit"],
)
def test_records_with_operations_are_known_by_what_no_file_inserts_twice(
    tmp_path: Path, name: str, content: str, key: list[str], arrival: str | None, total: str
) -> None:
    read = infer_file(tmp_path, name, content)
    assert (read.source.primary_key, read.source.clocks.arrival, read.malformed) == (key, arrival, [])
    assert sum_of(read.live) == Decimal(total)


def sum_of(rows: list[dict[str, Any]]) -> Decimal:
    return sum((row["amount"] if "amount" in row else row["kwh"] for row in rows), Decimal())


def test_operations_without_a_time_of_change_count_by_line_and_are_asked_for(tmp_path: Path) -> None:
    text = "id,action,amount,at\n1,I,10.00,2024-11-04T09:00:00Z\n2,I,5.00,2024-11-04T09:10:00Z\n"
    read = infer_file(tmp_path, "sales.csv", f"{text}1,U,12.00,2024-11-04T10:00:00Z\n2,D,,2024-11-04T11:00:00Z\n")
    assert (read.source.primary_key, read.questions) == (["id"], {"primary_key": ["id", "none"]})
    assert sum_of(read.live) == Decimal(12)
    assert "a file has several lines per id: the last one counts, and a later file outranks an earlier one" in read.text
    assert "a later line moves the record to its own day" in read.text


STATES = [
    ("1,new,2024-11-04,2024-11-04,100.00", "1,paid,2024-11-04,2024-11-05,120.00"),
    ("2,new,2024-11-04,2024-11-04,50.00", "2,paid,2024-11-04,2024-11-04,55.00"),
]


@pytest.mark.parametrize(
    ("columns", "rows", "order"),
    [
        ("order_id,status,created_date,update_date,amount", [*STATES[0], *STATES[1]], [("update_date", "text")]),
        ("order_id,status,created_date,last_modified_on,amount", [*STATES[0][::-1], *STATES[1]], [("last_modified_on", "text")]),
        ("order_id,status,day,updated_on,amount", ["1,a,24.11.2024,24.11.2024,1.00", "1,b,24.11.2024,25.11.2024,175.00"], []),
    ],
)  # fmt: skip
def test_several_lines_per_id_with_a_day_of_update_are_states_of_one_record(
    tmp_path: Path, columns: str, rows: list[str], order: list[tuple[str, str]]
) -> None:
    read = infer_file(tmp_path, "orders.csv", "\n".join([columns, *rows, ""]))
    assert [(item.column, item.type) for item in read.source.order.sequence] == order
    assert (read.source.primary_key, read.malformed, sum_of(read.live)) == (["order_id"], [], Decimal(175))
    assert next(iter(read.questions["primary_key"])) == "order_id"


def test_lines_of_an_id_without_a_day_of_update_may_be_states_and_are_asked_for(tmp_path: Path) -> None:
    rows = "1,new,2024-11-04,100.00\n1,paid,2024-11-04,120.00\n2,new,2024-11-04,50.00\n"
    read = infer_file(tmp_path, "orders.csv", f"order_id,status,created_date,amount\n{rows}")
    assert read.questions["primary_key"] == ["order_id,status,created_date", "order_id", "each", "none"]
    answered = infer_file(tmp_path, "orders.csv", f"order_id,status,created_date,amount\n{rows}", {"primary_key": "order_id"})
    assert (sum_of(answered.live), answered.questions) == (Decimal(170), {})
    times = infer_file(tmp_path, "orders.csv", f"order_id,at,amount\n1,{T},1.00\n1,2024-11-05T09:00:00Z,2.00\n")
    assert times.questions["primary_key"] == ["order_id,at", "order_id", "none"]


def test_an_update_time_that_is_empty_at_first_orders_nothing(tmp_path: Path) -> None:
    rows = f"1,{T},,100.00\n1,{T},2024-11-04T10:00:00Z,120.00\n2,{T},,50.00\n"
    read = infer_file(tmp_path, "orders.csv", f"order_id,created_at,updated_at,amount\n{rows}")
    assert (read.source.primary_key, read.source.clocks.arrival, sum_of(read.live)) == (["order_id"], None, Decimal(170))
    assert "primary_key" in read.questions


FLAGS = [
    ("IsDeleted", "false", "true"),
    ("_fivetran_deleted", "FALSE", "TRUE"),
    ("is_deleted", "0", "1"),
    ("deleted", "n", "y"),
    ("LOEVM", "", "X"),
]


@pytest.mark.parametrize(("flag", "no", "yes"), FLAGS)
def test_a_flag_of_deletion_withdraws_its_record_and_is_asked_for(tmp_path: Path, flag: str, no: str, yes: str) -> None:
    content = f"id,{flag},created_at,amount\n1,{no},{T},10.00\n2,{yes},{T},5.00\n3,{no},{T},1.00\n"
    read = infer_file(tmp_path, "log.csv", content)
    assert (read.questions, read.malformed) == ({"deleted": [flag, "none"]}, [])
    assert (read.source.changes.op, sum_of(read.live)) == (flag, Decimal(11))
    counts = infer_file(tmp_path, "log.csv", content, {"deleted": "none"})
    assert (counts.source.changes.op, sum_of(counts.live), counts.questions) == (None, Decimal(16), {})
    kept = infer_file(tmp_path, "log.csv", content, {"deleted": flag})
    assert (kept.source.changes.op, kept.questions) == (flag, {})


def test_a_flag_that_no_sample_sets_is_read_and_not_asked_for(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.json", f'{{"id": 1, "is_deleted": false, "at": "{T}", "amount": 1.5}}\n')
    assert (read.source.changes.op, read.source.changes.delete_words, read.questions) == ("is_deleted", ["true"], {})


def test_a_time_of_deletion_and_a_flag_without_a_key_are_left_out_of_the_first_metric(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", f"id,amount,created_at,deleted_at\n1,10.00,{T},\n2,5.00,{T},2024-11-05T10:00:00Z\n")
    assert [measure.sql for measure in read.metric.measures] == [
        "count(*) FILTER (WHERE deleted_at IS NULL)",
        "sum(amount) FILTER (WHERE deleted_at IS NULL)",
    ]
    assert read.questions == {"deleted": ["deleted_at", "none"]}
    rows = f"{T},1.00,false\n{T},1.00,false\n{T},2.00,true\n"
    keyless = infer_file(tmp_path, "log.csv", f"at,amount,is_deleted\n{rows}")
    assert keyless.metric.measures[1].sql == "sum(amount) FILTER (WHERE NOT coalesce(is_deleted, false))"


def test_times_without_a_zone_beside_event_days_are_read_in_the_zone(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", "id,day,printed_at\n1,2024-11-04,2024-11-04 10:00:00\n")
    assert (read.malformed, read.source.clocks.naive_times) == ([], "in_timezone")
    assert "times of printed_at have no zone and are read as UTC" in read.text


@pytest.mark.parametrize(
    ("header", "row", "envelope"),
    [
        ("__$start_lsn,__$seqval,__$operation,id,amount", "0x00,0x00,2,1,5", "sqlserver"),
        ("id,amount,_change_type,_commit_version,_commit_timestamp", f"1,5,insert,3,{T}", "delta_feed"),
    ],
)
def test_a_change_feed_is_refused_with_its_envelope(tmp_path: Path, header: str, row: str, envelope: str) -> None:
    with pytest.raises(InferenceError, match=rf"(?s)is a change feed .* source: \{{envelope: {envelope}\}}"):
        infer_file(tmp_path, "log.csv", f"{header}\n{row}\n")


QUOTES = """quote_id,line_no,version,quote_date,amount
Q1,1,1,2024-11-04,10.00
Q1,2,1,2024-11-04,5.00
Q1,1,2,2024-11-04,12.00
"""
STATES_OF_LINES = f"""order_id,pos,day,updated_at,amount
1,1,2024-11-04,{T},5.00
1,2,2024-11-04,2024-11-04T09:30:00Z,7.00
1,1,2024-11-04,2024-11-04T10:00:00Z,6.00
"""
AIRBYTE = f"""_airbyte_raw_id,_airbyte_extracted_at,id,amount,created_at,updated_at
u1,2024-11-05T01:00:00Z,1,10.00,{T},{T}
u2,2024-11-05T01:00:00Z,1,11.00,{T},2024-11-04T12:00:00Z
u3,2024-11-05T01:00:00Z,2,5.00,{T},{T}
"""


@pytest.mark.parametrize(
    ("content", "key", "total"),
    [(QUOTES, ["quote_id", "line_no"], 17), (STATES_OF_LINES, ["order_id", "pos"], 13), (AIRBYTE, ["id"], 16)],
)
def test_the_number_of_a_line_identifies_nothing_alone_nor_does_the_id_of_a_replication(
    tmp_path: Path, content: str, key: list[str], total: int
) -> None:
    read = infer_file(tmp_path, "log.csv", content)
    assert (read.source.primary_key, sum_of(read.live), read.questions) == (key, Decimal(total), {})


def test_lines_of_an_order_with_other_goods_are_asked_for(tmp_path: Path) -> None:
    rows = f"1,A,2024-11-04,{T},5.00\n1,B,2024-11-04,2024-11-04T09:30:00Z,7.00\n1,A,2024-11-04,2024-11-04T10:00:00Z,6.00\n"
    read = infer_file(tmp_path, "log.csv", f"order_id,sku,day,updated_at,amount\n{rows}")
    assert (read.source.primary_key, sum_of(read.live)) == (["order_id", "sku"], Decimal(13))
    assert read.questions == {"primary_key": ["order_id,sku", "order_id", "none"]}


def test_the_operations_of_a_snowflake_stream_are_read_and_events_of_maxwell_are_refused(tmp_path: Path) -> None:
    rows = "1,10.00,2024-11-04,INSERT,FALSE,r1\n2,5.00,2024-11-04,DELETE,FALSE,r2\n"
    stream = infer_file(tmp_path, "s.csv", f"ID,AMOUNT,ORDER_DATE,METADATA$ACTION,METADATA$ISUPDATE,METADATA$ROW_ID\n{rows}")
    assert (stream.source.changes.op, stream.source.primary_key, sum_of(stream.live)) == ("METADATA$ACTION", ["id"], 10)
    with pytest.raises(InferenceError, match=r"holds change events of Maxwell.*jq -c '\.data \+"):
        infer_file(tmp_path, "m.json", '{"database":"d","table":"t","type":"insert","ts":1730714400,"data":{"id":1}}\n')


def test_days_and_flags_of_parquet_order_and_withdraw_as_texts_do(tmp_path: Path) -> None:
    rows = [
        {"order_id": 1, "created_on": date(2024, 11, 4), "updated_on": date(2024, 11, 5), "amount": 120.0, "is_deleted": False},
        {"order_id": 1, "created_on": date(2024, 11, 4), "updated_on": date(2024, 11, 4), "amount": 100.0, "is_deleted": False},
        {"order_id": 2, "created_on": date(2024, 11, 4), "updated_on": date(2024, 11, 6), "amount": 55.0, "is_deleted": True},
    ]
    pq.write_table(pa.Table.from_pylist(rows), file := io.BytesIO())
    read = infer_file(tmp_path, "orders.parquet", file.getvalue())
    assert (sum_of(read.live), read.malformed) == (Decimal(120), [])
    assert {about: options[0] for about, options in read.questions.items()} == {
        "primary_key": "order_id",
        "deleted": "is_deleted",
    }
