"""Brings the messages of a topic into Bronze: each micro-batch is one commit, and each message is in exactly one.

The commit records, per partition, the offset after its messages as the version of a Delta transaction: the beginning of the next
micro-batch is read from Bronze alone. The commits that follow it are those of files (``bronze.ingest``), in the same order;
the next run completes from Bronze what a stopped run left out (R11). Of two concurrent runs one conflicts, and tries again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse import locations
from lakehouse.bronze import ingest
from lakehouse.delta import partition_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.errors import LakehouseError
from lakehouse.lateness import watermark_per_key
from lakehouse.ledger import contract_archive, ingestions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.spark import commits as spark_commits
from lakehouse.streams import avro, message_rows, reading_plan, status
from lakehouse.streams.client import OffsetGoneError, StreamProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.client import MessageColumns, TopicReader
    from lakehouse.streams.reading_plan import MessageRange, PartitionLog, ReadingPlan, TopicState


#: Reading the topic's state again shows whether an offset is gone for good, which is a gap.
_looked_at_again = retry(
    retry=retry_if_exception_type(OffsetGoneError), stop=stop_after_attempt(4), wait=wait_random_exponential(0.1, 1), reraise=True
)


class StreamSchemaError(LakehouseError):
    """Bronze cannot store rows of the present contract; the message says why and what to do."""


@dataclass(frozen=True)
class StreamLimits:
    """The limits of a micro-batch: the number of messages, and the time in seconds within which they arrive.

    :param to_end: whether it ends as soon as it has all messages that the topic has now.
    """

    max_messages: int = 100_000
    seconds: float = 60.0
    to_end: bool = True
    is_stopped: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class MicroBatch:
    """The result of a micro-batch, and the gaps that keep partitions from being read.

    :param resumed: deliveries of an earlier run that was stopped after its commit to Bronze.
    :param at_end: whether the topic has no further message that may be read.
    """

    taken: list[Ingestion] = field(default_factory=list)
    resumed: list[Ingestion] = field(default_factory=list)
    gaps: list[status.GapEntry] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    at_end: bool = True

    @property
    def recorded(self) -> list[Ingestion]:
        """All deliveries that the micro-batch has recorded in the ledger."""
        return [*self.resumed, *self.taken]

    @property
    def rows(self) -> int:
        """The number of rows added to Bronze."""
        return sum(entry.rows for entry in self.taken)


class StreamIngest:
    """Brings the messages of one source into Bronze.

    :param session: returns the Spark session; it is called only for rules in SQL and new columns.
    """

    def __init__(
        self,
        lake: Lake,
        contract: SourceContract,
        session: Callable[[], SparkSession],
        run_id: str,
        reader: TopicReader,
    ) -> None:
        self._lake, self._contract, self._session = lake, contract, session
        self._source, self._run_id, self._reader = contract.dataset, run_id, reader
        self._bronze = locations.bronze(lake, contract.dataset)
        kafka = contract.source.kafka
        self._decoder = avro.AvroDecoder(lake, kafka.values) if kafka and kafka.values else None
        self._is_settled = self._is_contract_recorded = False
        self._logs: set[PartitionLog] = set()

    @cached_property
    def _contract_problem(self) -> str | None:
        """The reason why no message may be ingested under the contract, or None; computed once for this object."""
        return contract_archive.problem_of_source(self._lake, self._contract)

    @_looked_at_again
    @spark_commits.recomputed_on_conflict
    def micro_batch(self, limits: StreamLimits | None = None) -> MicroBatch:
        """Ingest the messages of the topic, up to the limits, in one commit.

        :raises StreamProblem: when the topic or the schema registry cannot be read.
        :raises StreamSchemaError: when the contract and Bronze are incompatible.
        """
        limits = StreamLimits() if limits is None else limits
        was_settled, self._is_settled = self._is_settled, False  # another run's commit is the cause of a second attempt
        if problem := self._contract_problem or ingest.schema_problem(self._lake, self._contract, self._session):
            msg = f"bronze/{self._source} cannot take the messages: {problem}"
            raise StreamSchemaError(msg)
        state, remarks = self._reader.state(), list[str]()
        entries = [] if was_settled else ingestions.all_of(self._lake, self._source)
        self._logs |= reading_plan.ends(entry.source_file for entry in entries).keys()
        if entries:
            logs = {log for log in reading_plan.newest(self._logs) if (log.topic, log.topic_id) == (state.topic, state.topic_id)}
            message_rows.restore(self._lake, self._contract, self._session, state, logs, self._messages_of, self._run_id)
        columns = bronze_columns(self._contract)
        table = spark_commits.table_of(self._bronze, columns, "arrival_date", partition_writer.APPEND_ONLY)
        version = table.version()
        known = status.positions_of_bronze(self._source, table, state, self._logs, remarks)
        missing = [] if was_settled else status.unrecorded_deliveries(table, known, entries, state.cluster_id)
        resumed = self._recorded([self._entry(each) for each in missing])
        recorded = status.gap_entries(self._lake, self._source)
        waiting = [entry.gap for entry in status.open_among(recorded)]
        plan = reading_plan.plan(state, known, status.accepted(recorded), waiting)
        gaps = status.record_gaps(self._lake, self._contract, plan.gaps, recorded)
        begin = {log.partition: offset for log, offset in plan.begin.items()}
        end = {partition: state.offsets[partition][1] for partition in begin}
        wanted = end if limits.to_end else None
        taken: list[Ingestion] = []
        reached = dict(begin)
        if begin and (wanted is None or begin != wanted):
            read = self._reader.fetch(begin, wanted, limits.max_messages, limits.seconds, limits.is_stopped)
            reached = {partition: columns_read.end for partition, columns_read in read.items()}
            taken = self._taken(state, plan, read, version)
        self._logs |= plan.begin.keys() if taken else set()
        at_end = all(reached[partition] >= offset for partition, offset in end.items())
        self._is_settled = True
        return MicroBatch(taken, resumed, gaps, remarks, at_end)

    def _messages_of(self, place: MessageRange) -> MessageColumns:
        """The messages of a range that was read before.

        :raises OffsetGoneError: when the brokers have deleted them meanwhile.
        :raises StreamProblem: when they do not deliver all of them in time.
        """
        partition, limits = place.log.partition, StreamLimits()
        read = self._reader.fetch({partition: place.begin}, {partition: place.end}, place.end - place.begin, limits.seconds)
        if read[partition].end < place.end:
            msg = f"the brokers gave only the messages before {read[partition].end} of {place} in {limits.seconds:.0f} seconds"
            raise StreamProblem(msg)
        return read[partition] if self._decoder is None else self._decoder.decoded(read[partition])

    def _taken(self, state: TopicState, plan: ReadingPlan, read: Mapping[int, MessageColumns], version: int) -> list[Ingestion]:
        """Append the messages read in one commit, and record their deliveries in the ledger.

        :raises SchemaRegistryError: if a schema cannot be fetched; then nothing was committed.
        """
        now, schema = self._lake.now(), arrow_schema(bronze_columns(self._contract))
        delivered: list[message_rows.DeliveredMessages] = []
        batches: list[pa.RecordBatch] = []
        for log, begin in plan.begin.items():
            messages = read[log.partition] if self._decoder is None else self._decoder.decoded(read[log.partition])
            of_log = message_rows.deliveries(self._contract, state.cluster_id, log, begin, messages, now)
            batches += [batch for each in of_log for batch in message_rows.rows_of_messages(self._contract, each, messages)]
            delivered += of_log
        transactions = {log.app_id: read[log.partition].end for log in plan.begin}
        if not delivered:
            return []
        if not self._is_contract_recorded:
            contract_archive.accept(self._lake, self._contract)
            self._is_contract_recorded = True
        rows = pa.Table.from_batches(batches, schema)
        why = {"run_id": self._run_id, "deliveries": [f"{each.range}" for each in delivered]}
        spark_commits.append_rows_alone([rows], self._bronze, f"bronze:{self._source}", version, why, transactions)
        found = status.described_positions(rows, state.cluster_id)
        return self._recorded([self._entry(each) for each in found])

    def _recorded(self, entries: Sequence[Ingestion]) -> list[Ingestion]:
        """Judge the rows of deliveries that Bronze has, and record them."""
        if not entries:
            return []
        now = self._lake.now()
        files = [DeliveredFile(entry.source_file, entry.ingestion_id, entry.arrival_date, now) for entry in entries]
        judged = ingest.judge(self._lake, self._contract, self._session, files, {})
        recorded = [replace(entry, **judged[entry.ingestion_id]) for entry in entries]
        ingestions.record(self._lake, *recorded)
        watermark_per_key.advance(self._lake, self._contract)
        return recorded

    def _entry(self, delivery: status.DeliveryInBronze) -> Ingestion:
        return ingestions.Ingestion(
            source=self._source,
            ingestion_id=delivery.ingestion_id,
            content_hash=delivery.content_hash,
            arrival_date=delivery.arrival_date,
            source_file=delivery.name,
            bytes=delivery.bytes,
            modified=delivery.newest,
            status="ingested",
            message=delivery.remark,
            run_id=self._run_id,
            recorded_at=self._lake.now(),
        )


def rows_by_day(batch: MicroBatch) -> Mapping[date, int]:
    """The number of rows that a micro-batch added, by arrival day."""
    counts: Counter[date] = Counter()
    for entry in batch.taken:
        counts[entry.arrival_date] += entry.rows
    return counts
