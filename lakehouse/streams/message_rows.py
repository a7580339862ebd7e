"""Makes rows of Bronze from messages: every message is one row, also one without a value or whose value is no record (R1).

A value is read like a line of a JSON file, by columns where the result is certain to be the same. The other parts of a message
are kept in columns of their own (``OF_A_MESSAGE``). The arrival time of a message is Kafka's timestamp, unless the contract names
a column, and its arrival day is the day of that timestamp.

Messages that the ledger records as ingested but that have no row in Bronze are restored: they are read again from their topic.
The cause is a Bronze that was restored from a copy, or whose log has lost commits. A lost delivery is read from its own offsets
and becomes the same rows under the same id, so that nothing downstream of Bronze is affected. Messages that the brokers no longer
have are reported. The same for files is in ``bronze.ingest``; detecting lost rows belongs to ``ledger.ingestions``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import ingest
from lakehouse.bronze.column_rows import rows_of_blocks
from lakehouse.bronze.csv_columns import Lines
from lakehouse.bronze.file_formats import Record, json_records, readable_text
from lakehouse.bronze.json_columns import block_of_lines
from lakehouse.bronze.reader import can_read_by_columns
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta import partition_writer
from lakehouse.delta.columns import MOMENT, arrow_schema, bronze_columns, business_days
from lakehouse.ledger import ingestions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.spark import commits as spark_commits
from lakehouse.streams import reading_plan
from lakehouse.streams.reading_plan import MessageRange, PartitionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.client import MessageColumns
    from lakehouse.streams.reading_plan import PartitionLog, TopicState

#: The number of messages that are parsed at once.
_BLOCK_ROWS = 2**15
_EMPTY = "an empty message, which is no JSON"
_TOMBSTONE = "a message without a value (a tombstone), from which no record follows"
_KEYLESS = "a message with neither a value nor a key that is text"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MILLISECOND = 253_402_300_799_999


@dataclass(frozen=True)
class DeliveredMessages:
    """A delivery of messages, with their positions among all messages read, and the arrival time of each."""

    delivery: DeliveredFile
    range: MessageRange
    content_hash: str
    positions: NDArray[np.int64]
    received_at: pa.TimestampArray


def deliveries(
    contract: SourceContract, cluster_id: str, log: PartitionLog, begin: int, messages: MessageColumns, now: datetime
) -> list[DeliveredMessages]:
    """The deliveries that messages of a log form, one for each arrival day.

    :param begin: the offset from which they were read.
    :param now: the latest arrival time of a message, whatever the clock of its producer shows.
    """
    if not messages.offsets:
        return []
    offsets = np.array(messages.offsets, np.int64)
    received_at = arrival_times(messages, now)
    days = _arrival_days(contract, received_at)
    delivered = []
    for day in np.unique(days).tolist():
        positions = np.flatnonzero(days == np.datetime64(day))
        # Offsets that hold no message belong to the day around them.
        starts = begin if positions[0] == 0 else int(offsets[positions[0]])
        ends = messages.end if positions[-1] == len(offsets) - 1 else int(offsets[positions[-1]]) + 1
        place = MessageRange(log, starts, ends)
        delivery = DeliveredFile(f"{place}", place.ingestion_id(cluster_id), day, now)
        delivered.append(
            DeliveredMessages(
                delivery, place, place.content_hash(cluster_id, day), positions, received_at.take(pa.array(positions))
            )
        )
    return delivered


def delivered_again(
    contract: SourceContract, delivery: DeliveredFile, place: MessageRange, content_hash: str, messages: MessageColumns
) -> DeliveredMessages:
    """An earlier delivery, whose messages were read again.

    :param delivery: as the ledger has it; its messages arrive at the latest when it was received.
    :param messages: all messages of its range, possibly with others of the same log.
    """
    offsets = np.array(messages.offsets, np.int64)
    received_at = arrival_times(messages, delivery.received_at)
    is_of_day = _arrival_days(contract, received_at) == np.datetime64(delivery.arrival_date)
    positions = np.flatnonzero((place.begin <= offsets) & (offsets < place.end) & is_of_day)
    return DeliveredMessages(delivery, place, content_hash, positions, received_at.take(pa.array(positions)))


def _arrival_days(contract: SourceContract, received_at: pa.TimestampArray) -> NDArray[np.datetime64]:
    days = business_days(received_at, ZoneInfo(contract.clocks.timezone))
    first = pa.scalar(contract.source.start_date, pa.date32())
    return np.asarray(pc.max_element_wise(days, first).to_numpy(zero_copy_only=False))


def arrival_times(messages: MessageColumns, now: datetime) -> pa.TimestampArray:
    """When each message arrived: at Kafka's timestamp; at ``now`` if it has none, or one later than ``now``."""
    latest = (now - _EPOCH) // (datetime.resolution * 1000)
    moments = [latest if moment is None or moment > latest else moment for moment in messages.milliseconds]
    return pc.cast(pc.multiply(pa.array(moments, pa.int64()), 1000), MOMENT)


def rows_of_messages(
    contract: SourceContract, delivered: DeliveredMessages, messages: MessageColumns
) -> Iterator[pa.RecordBatch]:
    """The rows of a delivery, in the order of their offsets.

    :param messages: all messages read of the log.
    """
    for begin in range(0, len(delivered.positions), _BLOCK_ROWS):
        positions = delivered.positions[begin : begin + _BLOCK_ROWS].tolist()
        values = [messages.values[position] for position in positions]
        received = delivered.received_at.slice(begin, len(positions))
        keys = [messages.keys[position] for position in positions]
        problems = {place: messages.problems[each] for place, each in enumerate(positions) if each in messages.problems}
        batch = _parsed(contract, delivered.delivery, values, keys, received, problems)
        if len(batch) != len(positions):
            msg = f"{len(positions)} messages of {delivered.range} became {len(batch)} rows"
            raise RuntimeError(msg)
        yield _with_places(batch, delivered.range, messages, positions)


def _parsed(
    contract: SourceContract,
    delivery: DeliveredFile,
    values: list[bytes | None],
    keys: list[bytes | None],
    received: pa.TimestampArray,
    problems: Mapping[int, str],
) -> pa.RecordBatch:
    """The rows of a block of messages; ``line_number`` is the position of a message in the block, from 0."""
    unread = {place: _record_without_value(contract, place, values[place], keys[place]) for place in _blank(values)}
    unread |= {place: Record(place, readable_text(values[place] or b""), None, problem) for place, problem in problems.items()}
    contents = [b"" if value is None or place in unread else value for place, value in enumerate(values)]
    schema = arrow_schema(bronze_columns(contract))
    if can_read_by_columns(contract):
        block = block_of_lines(Lines(0, contents), contract)
        exact = [replace(record, received_at=received[record.line_number].as_py()) for record in (*block.exact, *unread.values())]
        split = block.exactly

        def exactly(row: int) -> Record:
            record = split(row)
            return replace(record, received_at=received[record.line_number].as_py())

        block = replace(block, exact=exact, exactly=exactly, received_at=received.take(block.line_numbers))
        batches = list(rows_of_blocks(contract, delivery, [block]))
    else:
        moments = received.to_pylist()
        read = sorted([*json_records(enumerate(contents)), *unread.values()], key=lambda record: record.line_number)
        records = (replace(record, received_at=moments[record.line_number]) for record in read)
        parsed = RowParser(contract, delivery).rows(records)
        batches = []
        while some := list(islice(parsed, _BLOCK_ROWS)):
            batches.append(pa.RecordBatch.from_pylist(some, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks().to_batches()[0]


def _blank(values: list[bytes | None]) -> list[int]:
    """The places of messages without a value, or with a blank one."""
    return [place for place, value in enumerate(values) if value is None or not value.strip(b" \t\r\n")]


def _record_without_value(contract: SourceContract, place: int, value: bytes | None, key: bytes | None) -> Record:
    kafka = contract.source.kafka
    if value is not None:
        return Record(place, readable_text(value), None, _EMPTY)
    if kafka is None or kafka.tombstones == "malformed":
        return Record(place, "", None, _TOMBSTONE)
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        text = ""
    if not text:
        return Record(place, "", None, _KEYLESS)
    of_key = next(field.in_file for field in contract.model.fields if field.name == contract.primary_key[0])
    return Record(place, "", {of_key: text, f"{contract.changes.op}": contract.changes.delete_words[0]})


def _with_places(
    batch: pa.RecordBatch, of_delivery: MessageRange, messages: MessageColumns, positions: list[int]
) -> pa.RecordBatch:
    """The rows with the places of their messages."""
    offsets = pa.array([messages.offsets[position] for position in positions], pa.int64())
    milliseconds = pa.array([messages.milliseconds[position] for position in positions], pa.int64())
    milliseconds = pc.if_else(pc.less_equal(milliseconds, _LAST_MILLISECOND), milliseconds, None)  # later ones are no times
    has_value = pa.array([messages.values[position] is not None for position in positions])
    places = {
        "raw_payload": pc.if_else(has_value, batch.column("raw_payload"), None),
        "line_number": pc.add(pc.subtract(offsets, of_delivery.begin), 1),
        "kafka_topic": pa.repeat(of_delivery.log.topic, len(positions)),
        "kafka_partition": pa.repeat(pa.scalar(of_delivery.log.partition, pa.int32()), len(positions)),
        "kafka_offset": offsets,
        "kafka_timestamp": pc.cast(pc.multiply(milliseconds, 1000), MOMENT),
        "kafka_key": pa.array([_text(messages.keys[position]) for position in positions], pa.string()),
        "kafka_headers": pa.array([_json(messages.headers[position]) for position in positions], pa.string()),
    }
    arrays = [places.get(field.name, batch.column(field.name)) for field in batch.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _text(content: bytes | None) -> str | None:
    return None if content is None else readable_text(content)


def _json(headers: list[tuple[str, bytes | None]] | None) -> str | None:
    return None if not headers else json.dumps([[name, _text(value)] for name, value in headers], ensure_ascii=False)


_LOG = logging.getLogger(__name__)


def restore(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    state: TopicState,
    logs: Collection[PartitionLog],
    read: Callable[[MessageRange], MessageColumns],
    run_id: str,
) -> None:
    """Read lost deliveries again, and derive lost claims from Bronze.

    :param logs: the present logs of the topic, after its resets.
    :param read: returns the messages of a range, decoded.
    :raises LostRowsError: naming the deliveries whose messages the brokers no longer have.
    """
    source = contract.dataset
    if lost := ingestions.lost_deliveries(lake, source):
        ranges = [(entry, reading_plan.range_of(entry.source_file)) for entry in lost]
        held = [(entry, place) for entry, place in ranges if place.log in logs and _is_held(state, place)]
        _LOG.warning("bronze/%s lacks %d deliveries of its topic: %d are read again", source, len(lost), len(held))
        for together in _overlapping(held):
            _append(lake, contract, together, read, run_id)
        if gone := ingestions.lost_deliveries(lake, source):
            way_out = (
                "the brokers do not have these messages any more, or have others in their place: restore a newer copy of bronze"
            )
            raise ingestions.lost_rows_error(f"bronze/{source}", gone, way_out)
    if unclaimed := ingestions.lost_claims(lake, source):
        _LOG.warning("the key log of %s lacks %d deliveries: it is derived again from bronze", source, len(unclaimed))
        ingest.judge(lake, contract, session, [_delivered(entry) for entry in unclaimed], {})


def _is_held(state: TopicState, place: MessageRange) -> bool:
    first, end = state.offsets[place.log.partition]
    return first <= place.begin and place.end <= end


def _overlapping(held: Iterable[tuple[Ingestion, MessageRange]]) -> list[list[tuple[Ingestion, MessageRange]]]:
    """Deliveries in groups whose ranges overlap: one read may contain messages of several arrival days."""
    groups: list[list[tuple[Ingestion, MessageRange]]] = []
    end = None
    for entry, place in sorted(held, key=lambda each: (each[1].log, each[1].begin, each[1].end)):
        if end is None or end[0] != place.log or end[1] <= place.begin:
            groups.append([])
            end = (place.log, place.end)
        groups[-1].append((entry, place))
        end = (place.log, max(end[1], place.end))
    return groups


def _append(
    lake: Lake,
    contract: SourceContract,
    together: list[tuple[Ingestion, MessageRange]],
    read: Callable[[MessageRange], MessageColumns],
    run_id: str,
) -> None:
    """Append deliveries of one log in one commit, except deliveries that no longer have the same number of rows."""
    log = together[0][1].log
    begin, end = min(place.begin for _, place in together), max(place.end for _, place in together)
    messages = read(reading_plan.MessageRange(log, begin, end))
    again = [delivered_again(contract, _delivered(entry), place, entry.content_hash, messages) for entry, place in together]
    again = [each for each, (entry, _) in zip(again, together) if len(each.positions) == entry.rows]
    if not again:
        return
    columns = bronze_columns(contract)
    stored = locations.bronze(lake, contract.dataset)
    table = spark_commits.table_of(stored, columns, "arrival_date", partition_writer.APPEND_ONLY)
    batches = (batch for each in again for batch in rows_of_messages(contract, each, messages))
    rows = pa.Table.from_batches(batches, arrow_schema(columns))
    ends = {log.app_id: max(end, table.transaction_version(log.app_id) or 0)}
    why = {"run_id": run_id, "deliveries": [f"{each.range}" for each in again], "again": True}
    spark_commits.append_rows_alone([rows], stored, f"bronze:{contract.dataset}", table.version(), why, ends)


def _delivered(entry: Ingestion) -> DeliveredFile:
    return DeliveredFile(entry.source_file, entry.ingestion_id, entry.arrival_date, entry.recorded_at)
