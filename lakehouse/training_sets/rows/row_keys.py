"""Finds the rows of a training set from the records of its sources, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from lakehouse.contracts.training.training_set import TrainingSetContract
    from lakehouse.settings import Settings


def label_values(settings: Settings, contract: TrainingSetContract, keys: pa.Array) -> pa.Array:
    """The values of ``label.on`` in current and past records with one of ``keys``: a deleted record no longer names its event."""
    path = locations.bronze(settings, contract.label.source)
    rows = table_io.read(path, [contract.label.on], {"record_key": keys}, settings.storage_options)
    return pa.array([], pa.string()) if rows is None else pc.unique(rows[contract.label.on]).drop_null()
