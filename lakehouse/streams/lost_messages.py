"""Restores messages that the ledger records as ingested but that have no row in Bronze: they are read again from their topic.

The cause is a Bronze that was restored from a copy, or whose log has lost commits. A lost delivery is read from its own offsets
and becomes the same rows under the same id, so that nothing downstream of Bronze is affected. Messages that the brokers no longer
have are reported. The same for files is in ``bronze.ingest``; detecting lost rows belongs to ``ledger.lost_rows``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.bronze import ingest
from lakehouse.delta import partition_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.ledger import lost_rows
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.spark import commits as spark_commits
from lakehouse.streams import message_ranges, message_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.client import MessageColumns
    from lakehouse.streams.message_ranges import MessageRange, PartitionLog
    from lakehouse.streams.reading_plan import TopicState

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
    if lost := lost_rows.lost_deliveries(lake, source):
        ranges = [(entry, message_ranges.range_of(entry.source_file)) for entry in lost]
        held = [(entry, place) for entry, place in ranges if place.log in logs and _is_held(state, place)]
        _LOG.warning("bronze/%s lacks %d deliveries of its topic: %d are read again", source, len(lost), len(held))
        for together in _overlapping(held):
            _append(lake, contract, together, read, run_id)
        if gone := lost_rows.lost_deliveries(lake, source):
            way_out = (
                "the brokers do not have these messages any more, or have others in their place: restore a newer copy of bronze"
            )
            raise lost_rows.refused(f"bronze/{source}", gone, way_out)
    if unclaimed := lost_rows.lost_claims(lake, source):
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
    messages = read(message_ranges.MessageRange(log, begin, end))
    again = [
        message_rows.delivered_again(contract, _delivered(entry), place, entry.content_hash, messages)
        for entry, place in together
    ]
    again = [each for each, (entry, _) in zip(again, together) if len(each.positions) == entry.rows]
    if not again:
        return
    columns = bronze_columns(contract)
    stored = locations.bronze(lake, contract.dataset)
    table = spark_commits.table_of(stored, columns, "arrival_date", partition_writer.APPEND_ONLY)
    batches = (batch for each in again for batch in message_rows.rows(contract, each, messages))
    rows = pa.Table.from_batches(batches, arrow_schema(columns))
    ends = {log.app_id: max(end, table.transaction_version(log.app_id) or 0)}
    why = {"run_id": run_id, "deliveries": [f"{each.range}" for each in again], "again": True}
    spark_commits.append_rows_alone([rows], stored, f"bronze:{contract.dataset}", table.version(), why, ends)


def _delivered(entry: Ingestion) -> DeliveredFile:
    return DeliveredFile(entry.source_file, entry.ingestion_id, entry.arrival_date, entry.recorded_at)
