"""Which released labels and training sets contain what a file, a key, some days or a decision is about. Reads start no Spark.

A row of a set is affected if it is about the event of a record, was labelled by it, or was joined with the key of a dimension
that it is about. How many of them would differ now is computed in ``changes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dimensions import keys as dimension_keys
from lakehouse.dimensions.joins import join_keys
from lakehouse.snapshots import input_sets
from lakehouse.training_sets import releases, reproduce, set_table
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse.training_sets.rows.row_keys import KEY_PREFIX, key_columns, label_values

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts import SourceContract
    from lakehouse.contracts.training.training_set import TrainingSetContract
    from lakehouse.settings import Settings
    from lakehouse.training_sets.releases import Release


@dataclass(frozen=True)
class AffectedSet:
    """A training set with the number of its rows that are affected, of all that it has."""

    name: str
    version: str
    rows: int
    total: int

    @property
    def full_name(self) -> str:
        """Its name with the version."""
        return f"{self.name}_{self.version}"

    @property
    def share(self) -> float:
        """The share of its rows."""
        return self.rows / self.total if self.total else 0.0


def label_releases(settings: Settings, source: str, ids: Collection[str]) -> list[str]:
    """The released labels of a source that contain one of some files or decisions, by full name."""
    known = releases.all_of(settings, ReleaseKind.LABELS, source)
    wanted = set(ids)
    return [entry.full_name for entry in known if wanted & input_sets.ids_of(settings, source, entry.about["inputs"])]


def by_keys(settings: Settings, source: SourceContract, keys: pa.Array) -> list[AffectedSet]:
    """The sets with rows that records under some keys of a source concern."""
    affected = list[AffectedSet]()
    for release in releases.all_of(settings, ReleaseKind.TRAINING_SET):
        contract = reproduce.contract_of(release)
        if source.dataset not in contract.sources:
            continue
        columns = ["record_key", *(f"{KEY_PREFIX}{name}" for name in key_columns(contract))]
        rows = set_table.read(settings, release, columns)
        concerned = _concerned(settings, contract, source, rows, keys)
        _add(affected, release, int(pc.sum(pc.cast(concerned, pa.int64())).as_py() or 0))
    return affected


def by_days(settings: Settings, source: SourceContract, first: date, last: date) -> list[AffectedSet]:
    """The sets with rows about events of a source on some days, in UTC."""
    begins = datetime(first.year, first.month, first.day, tzinfo=timezone.utc)
    ends = datetime(last.year, last.month, last.day, tzinfo=timezone.utc) + timedelta(days=1)
    affected = list[AffectedSet]()
    for release in releases.all_of(settings, ReleaseKind.TRAINING_SET):
        if reproduce.contract_of(release).entity.source == source.dataset:
            times = set_table.read(settings, release, ["event_ts"])["event_ts"]
            within = pc.and_(pc.greater_equal(times, begins), pc.less(times, ends))
            _add(affected, release, int(pc.sum(pc.cast(within, pa.int64())).as_py() or 0))
    return affected


def _add(affected: list[AffectedSet], release: Release, rows: int) -> None:
    if rows:
        affected.append(AffectedSet(release.name, release.version, rows, release.about["rows"]))


def _concerned(
    settings: Settings, contract: TrainingSetContract, source: SourceContract, rows: pa.Table, keys: pa.Array
) -> pa.ChunkedArray:
    """Whether each row of a set is about a key of a source, labelled by it, or joined with it."""
    concerned = pc.is_in(rows["record_key"], value_set=pa.array([], pa.string()))
    if contract.entity.source == source.dataset:
        concerned = pc.or_(concerned, pc.is_in(rows["record_key"], value_set=keys))
    if contract.label.source == source.dataset:
        values = label_values(settings, contract, keys)
        column = rows[f"{KEY_PREFIX}{contract.label.event_key}"]
        concerned = pc.or_(concerned, pc.is_in(column, value_set=values.cast(column.type)))
    if source.is_dimension:
        wanted = pc.unique(dimension_keys.dimension_keys(keys).drop_null())
        for join in contract.features.joins:
            if join.dimension == source.dataset:
                texts = join_keys.texts([rows[f"{KEY_PREFIX}{name}"] for name in join.on])
                concerned = pc.or_(concerned, pc.fill_null(pc.is_in(texts, value_set=wanted), False))
    return concerned
