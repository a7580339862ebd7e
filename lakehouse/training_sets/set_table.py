"""The table of a training set version for readers: without Spark. Writing it belongs to ``build``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.training_set import TrainingSetContract
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release


class MissingSetError(LakehouseError):
    """A training set version whose rows are gone. The message says how to restore them."""


def contract_of(release: Release) -> TrainingSetContract:
    """The contract under which a version was built."""
    return TrainingSetContract.model_validate(release.about["contract"])


def read(lake: Lake, release: Release, columns: Sequence[str] | None = None, where: table_io.Where | None = None) -> pa.Table:
    """Rows of a version: record_key, event_ts, split, the features, label, label_known_at, and the join columns.

    :param columns: all by default.
    :param where: for columns, the values of which a row must have one.
    :raises MissingSetError: if the table is gone.
    """
    stored = addresses.training_set(lake, release.name, release.version)
    table = stored.open()
    if table is None:
        name = f"{release.name} {release.version}"
        msg = f"there is no table at {stored}: 'lakehouse dataset reproduce {name}' makes the rows of {name} again"
        raise MissingSetError(msg)
    names = [item.name for item in table.schema().fields] if columns is None else list(columns)
    return table_io.read_version(table, names, where or {})
