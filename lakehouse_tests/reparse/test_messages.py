"""Messages that are read again under another contract keep their places, and arrived when Kafka says."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa

from lakehouse.dispositions.readings import RECEIVED
from lakehouse.reparse.read_again import RawFile, rows_read_otherwise
from lakehouse_tests.support.kafka_lake import at, contract
from lakehouse_tests.support.message_columns import NOW, columns, rows

BROKEN = [b'{"id": "a", "event_time": "2024-01-02T10:00:00Z", "amount": "1.5"}', b"{", None, b" "]
SOUND = [b'{"id": "b", "event_time": "2024-01-02T10:00:00Z", "amount": 1}', b'{"id": "c",\n"event_time": "2024-01-02"}']


def read_again(before: pa.Table, **changes: object) -> pa.Table:
    source = contract("t", "a:1", **changes)
    names = set(before["ingestion_id"].to_pylist())
    return rows_read_otherwise(
        source, {name: RawFile("t", None, NOW) for name in names}, before.append_column(RECEIVED, before["arrival_ts"])
    )


def test_under_the_same_contract_no_message_reads_otherwise() -> None:
    values = [*BROKEN, *SOUND, b'{"id": "d", "event_time": "2024-01-05T23:00:00Z"}']
    before = rows(contract("t", "a:1"), columns(values, [at(3, second=number) for number in range(len(values))]))
    assert len(before) == 7
    assert len(read_again(before)) == 0


def test_a_message_that_becomes_a_record_arrived_at_its_timestamp() -> None:
    before = rows(contract("t", "a:1"), columns([*BROKEN, *SOUND], [at(3, second=number) for number in range(6)]))
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "decimal(9,2)"}]
    before = before.set_column(
        before.column_names.index("amount"), "amount", before["amount"].cast(pa.string()).cast(pa.decimal128(9, 2))
    )
    [row] = read_again(before, model={"fields": fields}).to_pylist()
    assert (row["record_key"], row["malformed_reason"], f"{row['amount']}") == ("a", None, "1.50")
    assert row["arrival_ts"] == datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
    assert (row["kafka_offset"], row["kafka_partition"], row["kafka_key"]) == (5, 1, "5")
