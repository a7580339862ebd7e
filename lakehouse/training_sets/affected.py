"""The released labels and training sets that contain given keys or days of a source. Reads start no Spark.

A row of a set is affected if a record is about its event, labels it, or is about a dimension key with which the row was joined.
The rows are found from the records of the sources. The number of rows that would differ now is computed in ``changes``; the
models trained on a set are determined in ``models.lineage``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar import days as calendar_days
from lakehouse.calendar.days import span
from lakehouse.contracts.training_set import KEY_PREFIX
from lakehouse.dimensions import tables as dimension_keys
from lakehouse.ledger import key_log
from lakehouse.snapshots import input_sets
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import MissingSetError, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.training_set import TrainingSetContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release


def label_values(lake: Lake, contract: TrainingSetContract, keys: pa.Array) -> pa.Array:
    """The values of ``label.on`` in current and past records with one of ``keys``: a deleted record no longer names its event."""
    stored = locations.bronze(lake, contract.label.source)
    rows = stored.read([contract.label.on], {"record_key": keys})
    return pa.array([], pa.string()) if rows is None else pc.unique(rows[contract.label.on]).drop_null()


@dataclass(frozen=True)
class AffectedSet:
    """A training set with the number of its affected rows, and of all its rows.

    :param is_gone: whether its table is gone, so that its rows cannot be counted; ``rows`` is 0 then.
    """

    name: str
    version: str
    rows: int
    total: int
    is_gone: bool = False

    @property
    def full_name(self) -> str:
        """The name with the version."""
        return f"{self.name}_{self.version}"

    @property
    def share(self) -> float:
        """The share of affected rows."""
        return self.rows / self.total if self.total else 0.0


def columns_searched(lake: Lake, source: SourceContract) -> list[str]:
    """The label columns of a source by whose values, besides their keys, sets are searched for its records."""
    contracts = map(releases.contract_of, releases.all_of(lake, ReleaseKind.TRAINING_SET))
    columns = {contract.label.on for contract in contracts if contract.label.source == source.dataset}
    return sorted(columns & {entry.name for entry in source.model.fields})


def labels_by_keys(lake: Lake, source: SourceContract, keys: pa.Array) -> list[str]:
    """The released labels of a source that contain a record with one of ``keys``, by full name."""
    return _labels_with(lake, source, lambda columns: key_log.about(lake, source.dataset, columns, keys))


def labels_by_days(lake: Lake, source: SourceContract, first: date, last: date) -> list[str]:
    """The released labels of a source that contain a record of the event days ``first`` to ``last``, by full name."""
    return _labels_with(lake, source, lambda columns: _claims_of_days(lake, source, columns, first, last))


def by_keys(
    lake: Lake, source: SourceContract, keys: pa.Array, values: Mapping[str, pa.Array] | None = None
) -> list[AffectedSet]:
    """The sets with rows affected by a source's records with one of ``keys``.

    :param values: the values, by column, of records that are not in Bronze yet, see :func:`columns_searched`.
    """
    return _sets_with(lake, source, lambda contract, rows: _concerned(lake, contract, source, rows, keys, values or {}))


def by_days(lake: Lake, source: SourceContract, first: date, last: date) -> list[AffectedSet]:
    """The sets with rows affected by a source's records of the event days ``first`` to ``last``, in the source's time zone."""
    claims = _claims_of_days(lake, source, ["record_key"], first, last)
    keys = pa.array([], pa.string()) if claims is None else pc.unique(claims["record_key"])
    zone = ZoneInfo(source.clocks.timezone)
    begins, ends = calendar_days.start_of_day(first, zone), calendar_days.end_of_day(last, zone)

    def concerned(contract: TrainingSetContract, rows: pa.Table) -> pa.ChunkedArray:
        by_key = _concerned(lake, contract, source, rows, keys, {})
        if contract.entity.source != source.dataset:
            return by_key
        times = rows["event_ts"]
        within = pc.and_(pc.greater_equal(times, _utc(begins)), pc.less(times, _utc(ends)))
        return pc.or_(by_key, within)

    return _sets_with(lake, source, concerned)


def _labels_with(lake: Lake, source: SourceContract, claims_of: Callable[[list[str]], pa.Table | None]) -> list[str]:
    known = releases.all_of(lake, ReleaseKind.LABELS, source.dataset)
    claims = claims_of(["ingestion_id", "arrival_ts"]) if known else None
    if claims is None or not len(claims):
        return []
    return [entry.full_name for entry in known if _contains(lake, entry, claims)]


def _contains(lake: Lake, labels: Release, claims: pa.Table) -> bool:
    """Whether released labels contain one of ``claims``."""
    ids = pa.array(sorted(input_sets.ids_of(lake, labels.name, labels.about["inputs"])), pa.string())
    held = pc.is_in(claims["ingestion_id"], value_set=ids)
    until = labels.about["until"]
    if until is not None:
        held = pc.and_(held, pc.less_equal(claims["arrival_ts"], _utc(datetime.fromisoformat(until))))
    return bool(pc.any(held, min_count=0).as_py())


def _claims_of_days(lake: Lake, source: SourceContract, columns: list[str], first: date, last: date) -> pa.Table | None:
    table, days = locations.key_log(lake, source.dataset), list(span(first, last))
    return table.read(columns, {"event_date": days})


def _utc(moment: datetime) -> pa.Scalar:
    return pa.scalar(moment, pa.timestamp("us", "UTC"))


def _sets_with(
    lake: Lake,
    source: SourceContract,
    concerned: Callable[[TrainingSetContract, pa.Table], pa.ChunkedArray],
) -> list[AffectedSet]:
    """The sets that read a source and have affected rows, or whose rows are gone."""
    sets = list[AffectedSet]()
    for release in releases.all_of(lake, ReleaseKind.TRAINING_SET):
        contract = releases.contract_of(release)
        if source.dataset not in contract.sources:
            continue
        columns = ["record_key", "event_ts", *(f"{KEY_PREFIX}{name}" for name in contract.key_columns)]
        try:
            rows = releases.read_set(lake, release, columns)
        except MissingSetError:
            sets.append(AffectedSet(release.name, release.version, 0, release.about["rows"], is_gone=True))
            continue
        count = int(pc.sum(pc.cast(concerned(contract, rows), pa.int64())).as_py() or 0)
        if count:
            sets.append(AffectedSet(release.name, release.version, count, release.about["rows"]))
    return sets


def _concerned(
    lake: Lake,
    contract: TrainingSetContract,
    source: SourceContract,
    rows: pa.Table,
    keys: pa.Array,
    values: Mapping[str, pa.Array],
) -> pa.ChunkedArray:
    """Whether each row of a set is about a key of a source, is labelled by it, or was joined with it."""
    concerned = pc.is_in(rows["record_key"], value_set=pa.array([], pa.string()))
    if contract.entity.source == source.dataset:
        concerned = pc.or_(concerned, pc.is_in(rows["record_key"], value_set=keys))
    if contract.label.source == source.dataset:
        column = rows[f"{KEY_PREFIX}{contract.label.event_key}"]
        named = label_values(lake, contract, keys).cast(column.type)
        if contract.label.on in values:
            named = pa.concat_arrays([named, values[contract.label.on].cast(column.type)])
        concerned = pc.or_(concerned, pc.is_in(column, value_set=pc.unique(named)))
    if source.is_dimension:
        wanted = pc.unique(dimension_keys.dimension_keys(keys).drop_null())
        for join in contract.features.joins:
            if join.dimension == source.dataset:
                texts = dimension_keys.key_texts([rows[f"{KEY_PREFIX}{name}"] for name in join.on])
                concerned = pc.or_(concerned, pc.fill_null(pc.is_in(texts, value_set=wanted), False))
    return concerned
