"""The positions of Bronze and the ledger in a topic: the next offset of each log, and the deliveries that only Bronze has.

The offset is the version of a Delta transaction of Bronze. Where Bronze's log no longer has it, the offset is computed from the
deliveries themselves, and a remark is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.lake import table_io
from lakehouse.streams import message_ranges
from lakehouse.streams.message_ranges import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.reading_plan import TopicState

_READ = ["source_file", "ingestion_id", "arrival_date", "raw_payload", "kafka_timestamp"]


@dataclass(frozen=True)
class DeliveryInBronze:
    """A delivery of messages, as its rows in Bronze describe it.

    ``bytes`` is the size of its values as text, ``newest`` is the newest timestamp of Kafka, ``remark`` gives the number of its
    offsets without a message.
    """

    name: str
    ingestion_id: str
    content_hash: str
    arrival_date: date
    rows: int
    bytes: int
    newest: datetime | None
    remark: str | None


def of_bronze(
    source: str, table: DeltaTable, state: TopicState, recorded: Collection[PartitionLog], remarks: list[str]
) -> dict[PartitionLog, int]:
    """The next offset of each log of which Bronze has messages.

    :param table: Bronze, at the version on which the next commit is based.
    :param recorded: the logs of which the ledger has deliveries.
    :param remarks: a sentence is appended where Bronze's log lacks an offset.
    """
    logs = {*recorded, *(PartitionLog(state.topic, state.topic_id, partition) for partition in state.offsets)}
    committed = {log: version for log in logs if (version := table.transaction_version(log.app_id)) is not None}
    lacking = logs - committed.keys()
    if not lacking or not table_io.rows_at_most(table, {}):
        return committed
    names = table_io.distinct_of_version(table, ["source_file"], {})["source_file"].to_pylist()
    delivered = message_ranges.ends(names)
    lost = {log: offset for log, offset in delivered.items() if log not in committed}
    if lost:
        listed = ", ".join(f"{offset} for partition {log.partition}" for log, offset in sorted(lost.items()))
        remarks.append(f"the log of bronze/{source} lacks the offsets of its topic; they are taken from its rows: {listed}")
    return committed | lost


def unrecorded(
    table: DeltaTable, known: Mapping[PartitionLog, int], entries: Collection[Ingestion], cluster_id: str
) -> list[DeliveryInBronze]:
    """The deliveries that Bronze has and the ledger lacks, because a run was stopped between the two.

    :param known: from :func:`of_bronze`.
    """
    recorded = message_ranges.ends(entry.source_file for entry in entries)
    behind = {log for log, offset in known.items() if recorded.get(log, 0) < offset}
    if not behind:
        return []
    names = {entry.source_file for entry in entries}
    listed = table_io.distinct_of_version(table, ["source_file", "arrival_date"], {}).to_pylist()
    missing = [row for row in listed if row["source_file"] not in names and message_ranges.parse(row["source_file"])]
    if not missing:
        return []
    where = {name: {row[name] for row in missing} for name in ("source_file", "arrival_date")}
    return described(table_io.read_version(table, _READ, where), cluster_id)


def described(rows: pa.Table, cluster_id: str) -> list[DeliveryInBronze]:
    """The deliveries in ``rows`` of Bronze, which must have all rows of each."""
    sizes = pc.fill_null(pc.binary_length(rows["raw_payload"]), 0)
    table = rows.select(["source_file", "ingestion_id", "arrival_date", "kafka_timestamp"]).append_column("size", sizes)
    wanted = [([], "count_all"), ("size", "sum"), ("kafka_timestamp", "max")]
    groups = table.group_by(["source_file", "ingestion_id", "arrival_date"]).aggregate(wanted).to_pylist()
    return list(_in_order(groups, cluster_id))


def _in_order(groups: list[dict[str, Any]], cluster_id: str) -> Iterable[DeliveryInBronze]:
    for row in sorted(groups, key=lambda row: f"{row['ingestion_id']}"):
        name, day, count = row["source_file"], row["arrival_date"], row["count_all"]
        place = message_ranges.range_of(name)
        without = place.end - place.begin - count
        remark = f"{without} of its {place.end - place.begin} offsets hold no message of this arrival day" if without else None
        yield DeliveryInBronze(
            name,
            row["ingestion_id"],
            place.content_hash(cluster_id, day),
            day,
            count,
            row["size_sum"],
            row["kafka_timestamp_max"],
            remark,
        )
