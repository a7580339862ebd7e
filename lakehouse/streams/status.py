"""The progress of Bronze in a topic: the positions and the lag per partition, and the record of lost messages.

A position is the next offset of a log: the version of a Delta transaction of Bronze. Where Bronze's log no longer has it, the
offset is computed from the deliveries themselves, and a remark is made. Deliveries that only Bronze has are found by comparison
with the ledger. The lag is the number of waiting messages, and since when they wait. No JVM is started; waits are short.

``ops/stream_gaps`` has the messages of the sources' topics that were lost before they were read, and who has accepted the loss.
While a gap is open, its partition is not read further, and the source lacks an input (``lateness.missing_inputs``): alerts report
it, and numbers do not become final. The definition of a gap is in ``reading_plan``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import business_day_of
from lakehouse.lake import table_io
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import ingestions
from lakehouse.ledger.log_table import LogTable
from lakehouse.streams import reading_plan
from lakehouse.streams.client import OffsetGoneError, TopicReader
from lakehouse.streams.reading_plan import GapKind, OffsetGap, PartitionLog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.reading_plan import TopicState


@dataclass(frozen=True)
class PartitionStatus:
    """A partition: the offset that is read next, the end of the topic, and the newest delivery from it.

    ``gap`` describes its lost messages; the partition is then not read further, and ``next_offset`` is where reading stopped.
    """

    partition: int
    next_offset: int
    end_offset: int
    newest: Ingestion | None
    gap: str | None

    @property
    def lag(self) -> int:
        """The number of waiting offsets."""
        return max(0, self.end_offset - self.next_offset)


@dataclass(frozen=True)
class TopicStatus:
    """The present state of a topic, from the brokers and Bronze, with remarks for people."""

    state: TopicState
    partitions: list[PartitionStatus]
    remarks: list[str]

    @property
    def lag(self) -> int:
        """The number of waiting offsets of all partitions."""
        return sum(entry.lag for entry in self.partitions)


def of_topic(lake: Lake, contract: SourceContract, kafka: KafkaTopic, answer_seconds: float | None = None) -> TopicStatus:
    """The progress of a source in its topic; nothing is written, also where messages are missing.

    :param answer_seconds: as for :class:`TopicReader`.
    :raises StreamProblem: when the topic cannot be read.
    """
    remarks: list[str] = []
    with TopicReader(lake, kafka, answer_seconds) as reader:
        state, is_compacted = reader.state(), reader.is_compacted()
    if is_compacted:
        remarks.append(
            f"{kafka.topic} is compacted: Kafka removes older messages of a key without a trace, also such as were not read yet"
        )
    delivered = ingestions.all_of(lake, contract.dataset)
    recorded = reading_plan.ends(entry.source_file for entry in delivered)
    table = locations.bronze(lake, contract.dataset).open()
    known = {} if table is None else positions_of_bronze(contract.dataset, table, state, recorded, remarks)
    entries = gap_entries(lake, contract.dataset)
    waiting = [entry.gap for entry in open_among(entries)]
    planned = reading_plan.plan(state, known, accepted(entries), waiting)
    newest = _newest(delivered)
    gaps = {gap.log.partition: gap for gap in planned.gaps}
    begin = {log.partition: offset for log, offset in planned.begin.items()}
    rows = []
    for partition, (first, end) in sorted(state.offsets.items()):
        gap = gaps.get(partition)
        stands = begin.get(partition, first if gap is None else gap.begin)
        rows.append(PartitionStatus(partition, stands, end, newest.get(partition), None if gap is None else f"{gap}"))
    return TopicStatus(state, rows, remarks)


def _newest(delivered: Iterable[Ingestion]) -> dict[int, Ingestion]:
    """The delivery that was recorded last, by partition."""
    newest: dict[int, Ingestion] = {}
    for entry in sorted(delivered, key=lambda entry: (entry.recorded_at, entry.ingestion_id)):
        messages = reading_plan.parse(entry.source_file)
        if messages is not None and entry.status == "ingested":
            newest[messages.log.partition] = entry
    return newest


#: The timeout of a broker's answer, in seconds: an evaluation of alerts must not wait for a broker that is down.
ANSWER_SECONDS = 2.0
_BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class TopicLag:
    """The messages that wait in a topic.

    :param messages: the number of waiting offsets, over all partitions.
    :param oldest: Kafka's timestamp of the oldest waiting message in the partitions that were read; None if none waits.
    """

    messages: int
    oldest: datetime | None


def lag_of_topic(lake: Lake, contract: SourceContract, kafka: KafkaTopic, *, with_age: bool) -> TopicLag:
    """The messages that wait in the topic of a source.

    :param with_age: whether the first waiting message of each partition is read, for at most a few seconds in total.
    :raises StreamProblem: when the topic cannot be read.
    """
    known = of_topic(lake, contract, kafka, ANSWER_SECONDS)
    waiting = [partition for partition in known.partitions if partition.lag and partition.gap is None]
    return TopicLag(known.lag, _oldest(lake, kafka, waiting) if with_age and waiting else None)


def _oldest(lake: Lake, kafka: KafkaTopic, waiting: list[PartitionStatus]) -> datetime | None:
    """The oldest of the next messages of the partitions ``waiting``. Offsets without a message have no age."""
    until = time.monotonic() + ANSWER_SECONDS
    moments: list[int] = []
    with TopicReader(lake, kafka, ANSWER_SECONDS) as reader:
        for entry in waiting:
            left = until - time.monotonic()
            if left <= 0:
                break
            place = {entry.partition: entry.next_offset}
            try:
                read = reader.fetch(place, {entry.partition: entry.next_offset + 1}, 1, left)
            except OffsetGoneError:  # it was deleted just now; a gap has an alert of its own
                continue
            moments += [moment for moment in read[entry.partition].milliseconds if moment is not None]
    return _BEGIN + timedelta(milliseconds=min(moments)) if moments else None


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


def positions_of_bronze(
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
    delivered = reading_plan.ends(names)
    lost = {log: offset for log, offset in delivered.items() if log not in committed}
    if lost:
        listed = ", ".join(f"{offset} for partition {log.partition}" for log, offset in sorted(lost.items()))
        remarks.append(f"the log of bronze/{source} lacks the offsets of its topic; they are taken from its rows: {listed}")
    return committed | lost


def unrecorded_deliveries(
    table: DeltaTable, known: Mapping[PartitionLog, int], entries: Collection[Ingestion], cluster_id: str
) -> list[DeliveryInBronze]:
    """The deliveries that Bronze has and the ledger lacks, because a run was stopped between the two.

    :param known: from :func:`of_bronze`.
    """
    recorded = reading_plan.ends(entry.source_file for entry in entries)
    behind = {log for log, offset in known.items() if recorded.get(log, 0) < offset}
    if not behind:
        return []
    names = {entry.source_file for entry in entries}
    listed = table_io.distinct_of_version(table, ["source_file", "arrival_date"], {}).to_pylist()
    missing = [row for row in listed if row["source_file"] not in names and reading_plan.parse(row["source_file"])]
    if not missing:
        return []
    where = {name: {row[name] for row in missing} for name in ("source_file", "arrival_date")}
    return described_positions(table_io.read_version(table, _READ, where), cluster_id)


def described_positions(rows: pa.Table, cluster_id: str) -> list[DeliveryInBronze]:
    """The deliveries in ``rows`` of Bronze, which must have all rows of each."""
    sizes = pc.fill_null(pc.binary_length(rows["raw_payload"]), 0)
    table = rows.select(["source_file", "ingestion_id", "arrival_date", "kafka_timestamp"]).append_column("size", sizes)
    wanted = [([], "count_all"), ("size", "sum"), ("kafka_timestamp", "max")]
    groups = table.group_by(["source_file", "ingestion_id", "arrival_date"]).aggregate(wanted).to_pylist()
    return list(_in_order(groups, cluster_id))


def _in_order(groups: list[dict[str, Any]], cluster_id: str) -> Iterable[DeliveryInBronze]:
    for row in sorted(groups, key=lambda row: f"{row['ingestion_id']}"):
        name, day, count = row["source_file"], row["arrival_date"], row["count_all"]
        place = reading_plan.range_of(name)
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


@dataclass(frozen=True)
class GapEntry:
    """A gap that was detected, or that a person has accepted (``by`` and ``reason``); the fields are those of ``OffsetGap``."""

    source: str
    kind: GapKind
    topic: str
    topic_id: str
    resets: int
    partition: int
    begin: int
    resume: int
    text: str
    recorded_at: datetime
    by: str | None = None
    reason: str | None = None

    @property
    def gap(self) -> OffsetGap:
        """The gap."""
        return OffsetGap(self.kind, PartitionLog(self.topic, self.topic_id, self.partition, self.resets), self.begin, self.resume)


def gap_log(lake: Lake) -> LogTable[GapEntry]:
    """The table."""
    return LogTable(GapEntry, lake, locations.stream_gaps(lake), partition_by="source")


def gap_entries(lake: Lake, source: str) -> list[GapEntry]:
    """All entries of a source, oldest first."""
    return sorted(gap_log(lake).read({"source": [source]}), key=_in_time)


def accepted(known: Iterable[GapEntry]) -> list[OffsetGap]:
    """The gaps that people have accepted, among :func:`entries`."""
    return [entry.gap for entry in known if entry.by is not None]


def open_gaps(lake: Lake, source: str) -> list[GapEntry]:
    """The newest entry of each partition's gap that is not accepted and that existed when the topic was last read."""
    return open_among(gap_entries(lake, source))


def open_among(known: Iterable[GapEntry]) -> list[GapEntry]:
    """The open gaps (see :func:`open_gaps`) among :func:`entries`."""
    newest: dict[tuple[str, int], GapEntry] = {}
    for entry in sorted(known, key=_in_time):
        if entry.by is None:
            newest[entry.topic, entry.partition] = entry
        else:
            newest.pop((entry.topic, entry.partition), None)
    return list(newest.values())


def record_gaps(lake: Lake, contract: SourceContract, gaps: Collection[OffsetGap], known: Sequence[GapEntry]) -> list[GapEntry]:
    """Record the present gaps, unless they are recorded already.

    :param known: the :func:`entries` of the source.
    :returns: their entries.
    """
    source, now = contract.dataset, lake.now()
    recorded = {entry.gap for entry in open_among(known)}
    new = [_entry(source, gap, now) for gap in gaps if gap not in recorded]
    if new:
        gap_log(lake).append(new)
    present = [entry for entry in open_among([*known, *new]) if entry.gap in gaps]
    _record_missing(lake, contract, present)
    return present


def accept_gaps(lake: Lake, contract: SourceContract, by: str, reason: str) -> list[GapEntry]:
    """Accept the open gaps of a source: reading continues after them.

    :returns: the gaps that were accepted.
    """
    source, now = contract.dataset, lake.now()
    done = [_entry(source, entry.gap, now, by, reason) for entry in open_gaps(lake, source)]
    if done:
        gap_log(lake).append(done)
    _record_missing(lake, contract, [])
    return done


def _in_time(entry: GapEntry) -> tuple[datetime, bool]:
    """The sort key of entries; at the same time, acceptances come last."""
    return (entry.recorded_at, entry.by is not None)


def _record_missing(lake: Lake, contract: SourceContract, present: Collection[GapEntry]) -> None:
    zone = ZoneInfo(contract.clocks.timezone)
    by_day: dict[date, list[str]] = {}
    for entry in sorted(present, key=lambda entry: entry.text):
        by_day.setdefault(business_day_of(entry.recorded_at, zone), []).append(entry.text)
    missing_inputs.record(lake, contract.dataset, "stream_gap", {day: "; ".join(texts) for day, texts in by_day.items()})


def _entry(source: str, gap: OffsetGap, now: datetime, by: str | None = None, reason: str | None = None) -> GapEntry:
    of = gap.log
    place = (of.topic, of.topic_id, of.resets, of.partition)
    return GapEntry(source, gap.kind, *place, gap.begin, gap.resume, f"{gap}", now, by, reason)
