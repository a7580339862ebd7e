"""The records from which a training set is computed: its inputs, the record of each key, and the values known at a given time.

The inputs are a set of inputs for each source, and the time up to which published numbers count; naming the sets belongs to
``snapshots.input_sets``. The point-in-time rule derives, from a key's records and the start of their knowledge, the values known
at a given time: for one key in Python, for the records of a source with Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import deliveries, row_frames
from lakehouse.dispositions.winners import LIVING_KINDS, first_rows, groups, numpy_of, sortable
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.silver import admitted_claims
from lakehouse.snapshots import input_sets
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training_set import Reading
    from lakehouse.lake import Lake


if TYPE_CHECKING:
    Positions = NDArray[np.int64]

#: The columns that the rule reads; other columns of the records are carried along.
READ = ("dimension_key", "kind", "event_ts", "known_from", *ORDER)
#: The position that means that no record counts.
_NOTHING = -1


def known_values(records: pa.Table) -> pa.Table:
    """The moments from which each record of a key counts.

    :param records: all records of the keys, with :data:`READ`.
    :returns: the columns of the records, and ``from_ts``; rows by key and time. From a row with ``kind`` NULL on, nothing is
        known of the key; the row's other columns are from a record of the key.
    """
    key = groups(records["dimension_key"])
    rank = np.empty(len(records), np.int64)
    rank[np.lexsort([sortable(records[name]) for name in reversed(ORDER)])] = np.arange(len(records))
    event, known = numpy_of(records["event_ts"]), numpy_of(records["known_from"])
    usable = np.maximum(event, known)
    is_delete = numpy_of(pc.equal(records["kind"], "delete"))
    with_delete = np.zeros(key.max(initial=-1) + 1, bool)
    with_delete[key[is_delete]] = True
    plain = _greatest_so_far(np.flatnonzero(~with_delete[key]), key, usable, event, rank)
    others = _moment_by_moment(np.flatnonzero(with_delete[key]), key, usable, event, rank, is_delete)
    moments = np.concatenate([plain, others])
    moments = moments[np.lexsort((moments[:, 1], moments[:, 0]))]
    changes = np.ones(len(moments), bool)
    changes[1:] = (moments[1:, 0] != moments[:-1, 0]) | (moments[1:, 2] != moments[:-1, 2])
    return _rows(records, moments[changes], first_rows(key))


def _greatest_so_far(positions: Positions, key: Positions, usable: Positions, event: Positions, rank: Positions) -> Positions:
    """For keys without a delete: key, moment, and the greatest record up to that moment."""
    by_time = positions[np.lexsort((rank[positions], event[positions], usable[positions], key[positions]))]
    by_greatness = np.lexsort((rank[by_time], event[by_time]))
    place = np.empty(len(positions), np.int64)
    place[by_greatness] = np.arange(len(positions))
    # Keys are consecutive; with the key's number as prefix, no record of an earlier key is greater.
    in_front = key[by_time] * len(positions)
    greatest = np.maximum.accumulate(in_front + place) - in_front
    rows = np.stack([key[by_time], usable[by_time], by_time[by_greatness[greatest]]], axis=1)
    return rows[_last_of_moment(rows)]


def _moment_by_moment(
    positions: Positions, key: Positions, usable: Positions, event: Positions, rank: Positions, is_delete: NDArray[np.bool_]
) -> Positions:
    """For keys with a delete, which are few: key, moment, and the record that counts, or none."""
    rows = list[tuple[int, int, int]]()
    newest: dict[int, int] = {}
    of_key = None
    for position in positions[np.lexsort((rank[positions], usable[positions], key[positions]))].tolist():
        if key[position] != of_key:
            newest, of_key = {}, key[position]
        about = int(event[position])
        if about not in newest or rank[newest[about]] < rank[position]:
            newest[about] = position
        held = [time for time, record in newest.items() if not is_delete[record]]
        rows.append((int(key[position]), int(usable[position]), newest[max(held)] if held else _NOTHING))
    moments = np.array(rows, np.int64).reshape(-1, 3)
    return moments[_last_of_moment(moments)]


def _last_of_moment(rows: Positions) -> NDArray[np.bool_]:
    """Whether a row is the last of its key and moment; the rows are sorted by both."""
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = (rows[1:, 1] != rows[:-1, 1]) | (rows[1:, 0] != rows[:-1, 0])
    return is_last


def _rows(records: pa.Table, moments: Positions, first_of_key: Positions) -> pa.Table:
    nothing = moments[:, 2] == _NOTHING
    positions = np.where(nothing, first_of_key[moments[:, 0]], moments[:, 2])
    rows = records.take(pa.array(positions))
    kind = pc.if_else(pa.array(nothing), pa.scalar(None, pa.string()), rows["kind"].combine_chunks())
    rows = rows.set_column(rows.column_names.index("kind"), "kind", kind)
    return rows.append_column("from_ts", pa.array(moments[:, 1], pa.timestamp("us", "UTC")))


_ROW_ID = ["ingestion_id", "line_number"]
_DECIDED = pa.schema([("ingestion_id", pa.string()), ("line_number", pa.int64()), ("_decided_at", pa.timestamp("us", "UTC"))])


def claims(
    spark: SparkSession, lake: Lake, contract: SourceContract, inputs: SourceInputs, keys: pa.Array | None = None
) -> DataFrame:
    """The admitted claims of a set of inputs, each with ``known_from``.

    :param keys: include only claims about these keys.
    """
    source = contract.dataset
    log = admitted_claims.of_inputs(spark, lake, source, inputs.ids, keys)
    if inputs.until is not None:
        log = log.where(F.col("arrival_ts") <= F.lit(inputs.until))
    decided = decisions.newest(lake, source, inputs.ids)
    counting = admitted_claims.admitted(spark, log, decided)
    counting = admitted_claims.ordered(spark, counting, deliveries.of(lake, contract, inputs.ids, inputs.until))
    times = [
        {"ingestion_id": row[0], "line_number": row[1], "_decided_at": decision.decided_at}
        for row, decision in decided.items()
        if decision.admits
    ]
    if not times:
        return counting.withColumn("known_from", F.col("arrival_ts"))
    overlay = dataframes.local(spark, pa.Table.from_pylist(times, schema=_DECIDED))
    joined = counting.join(F.broadcast(overlay), _ROW_ID, "left")
    was_admitted = F.col("standing") == AdmissionStatus.ADMITTED.value
    late = F.greatest("arrival_ts", "_decided_at")
    return joined.withColumn("known_from", F.when(was_admitted, F.col("arrival_ts")).otherwise(late)).drop("_decided_at")


def events(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    inputs: SourceInputs,
    span: Span,
    reading: Reading,
) -> DataFrame:
    """One row for each existing key: its first record under ``as_known``, the newest under ``as_corrected``; silver's columns.

    The first record is the content of a scoring request at the event: later corrections of its columns were not known.
    """
    record = F.struct("known_from", *ORDER, "ingestion_id", "event_date", "arrival_date")
    aggregates = [*admitted_claims.greatest_claims(), F.min(F.when(_has_row(), record)).alias("_first")]
    every = claims(spark, lake, contract, inputs, span.keys)
    per_key = every.groupBy("record_key").agg(*aggregates)
    won = per_key.withColumn("_won", admitted_claims.winner(by_sequence=contract.by_sequence))
    living = won.where(_has_row("_won.kind"))
    chosen = living.select("record_key", "_first.*" if reading == "as_known" else "_won.*").where(_within(span))
    chosen = chosen.select("record_key", "arrival_date", *_ROW_ID).localCheckpoint()
    of_keys, fills = chosen, contract.has_partial_corrections and reading == "as_corrected"
    if fills:
        of_keys = every.where("kind <> 'retire'").join(chosen.select("record_key"), "record_key", "left_semi")
    arrivals = {row[0] for row in of_keys.select("arrival_date").distinct().collect()}
    rows = row_frames.sound_rows(spark, lake, contract, {"arrival_date": arrivals}, inputs.ids)
    if fills:
        rows = row_frames.completed(contract, of_keys, rows)
    return rows.join(chosen.select("record_key", *_ROW_ID), ["record_key", *_ROW_ID], "left_semi")


def records(spark: SparkSession, lake: Lake, contract: SourceContract, inputs: SourceInputs) -> DataFrame:
    """Every admitted record about its own key, deletes included: silver's columns, ``kind``, ``known_from`` and the
    order of the deliveries.
    """
    own = claims(spark, lake, contract, inputs).where(F.col("kind") != "retire")
    narrow = own.select("record_key", *_ROW_ID, "kind", "known_from", "ordered_at", "delivery")
    rows = row_frames.sound_rows(spark, lake, contract, {}, inputs.ids)
    return rows.join(narrow, ["record_key", *_ROW_ID])


def _has_row(kind: str = "kind") -> Column:
    return F.col(kind).isin(*LIVING_KINDS)


def _within(span: Span) -> Column:
    return (F.col("event_date") >= F.lit(span.first)) & (F.col("event_date") < F.lit(span.until))


@dataclass(frozen=True)
class Span:
    """The events of a range of days: from ``first`` until before ``until``; with ``keys``, only the events of these keys."""

    first: date
    until: date
    keys: pa.Array | None = None


@dataclass(frozen=True)
class SourceInputs:
    """The ids of a source's files, decisions and requests; with ``until``, only rows that had arrived by then count."""

    ids: frozenset[str]
    until: datetime | None = None


@dataclass(frozen=True)
class Knowledge:
    """The inputs of each source, by name, and the time up to which published numbers count."""

    sources: Mapping[str, SourceInputs]
    published_until: datetime

    def with_source(self, source: str, inputs: SourceInputs) -> Knowledge:
        """A copy with other inputs of ``source``."""
        return Knowledge({**self.sources, source: inputs}, self.published_until)

    def recorded(self, lake: Lake) -> dict[str, Any]:
        """The knowledge in its stored form: the sets of inputs are recorded under their names."""
        now = lake.now()
        inputs = {
            source: {"inputs": input_sets.record(lake, source, of_source.ids, now), "until": _text(of_source.until)}
            for source, of_source in self.sources.items()
        }
        return {"inputs": inputs, "published_until": _text(self.published_until)}


def now(lake: Lake, sources: Iterable[str], known_at: datetime | None = None) -> Knowledge:
    """The knowledge of now, or of ``known_at``."""
    if known_at is None:
        of_sources = {source: SourceInputs(frozenset(input_sets.every_input(lake, source))) for source in sources}
        return Knowledge(of_sources, lake.now())
    of_sources = {source: SourceInputs(frozenset(input_sets.known_at(lake, source, known_at)), known_at) for source in sources}
    return Knowledge(of_sources, known_at)


def stored(lake: Lake, about: Mapping[str, Any]) -> Knowledge:
    """Load the knowledge that :meth:`Knowledge.recorded` has stored.

    :raises UnknownInputsError: if a set of inputs is not recorded.
    """
    of_sources = {
        source: SourceInputs(frozenset(input_sets.ids_of(lake, source, entry["inputs"])), _time(entry["until"]))
        for source, entry in about["inputs"].items()
    }
    return Knowledge(of_sources, datetime.fromisoformat(about["published_until"]))


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
