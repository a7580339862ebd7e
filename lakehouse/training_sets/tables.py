"""The addresses of the tables of training sets and models, and the table of a training set version for readers, without Spark.

All other addresses are in ``lakehouse.locations``. Writing the table of a version belongs to ``build``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.training_set import TrainingSetContract
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakehouse.lake import Lake, Table
    from lakehouse.training_sets.releases import Release


def training_set(lake: Lake, name: str, version: str) -> Table:
    """The rows of a training set version, such as ``datasets/training_data_v5.0``."""
    full_name = f"{name}_{version}"
    return lake.table("datasets", full_name)


def releases(lake: Lake) -> Table:
    """The released and deprecated versions of labels, training sets and models."""
    return lake.table("ops", "releases")


def model_promotions(lake: Lake) -> Table:
    """The promotions and rollbacks of models, with their starts and ends."""
    return lake.table("ops", "model_promotions")


def backtests(lake: Lake) -> Table:
    """The comparisons of model versions on the same rows."""
    return lake.table("ops", "backtests")


def canaries(lake: Lake) -> Table:
    """The canaries of models: starts, judgements, stops."""
    return lake.table("ops", "canaries")


def retrainings(lake: Lake) -> Table:
    """The retrainings caused by corrections, step by step."""
    return lake.table("ops", "retrainings")


def scores(lake: Lake, model: str) -> Table:
    """The scores of a model, each with the version that computed it."""
    return lake.table("scores", model)


def model_reports(lake: Lake, model: str, version: str) -> str:
    """The folder with the reports of a model version; not a table."""
    return f"{lake.root}/models/{model}/{version}"


class MissingSetError(LakehouseError):
    """A training set version whose rows are gone. The message says how to restore them."""


def contract_of(release: Release) -> TrainingSetContract:
    """The contract under which a version was built."""
    return TrainingSetContract.model_validate(release.about["contract"])


def read_set(lake: Lake, release: Release, columns: Sequence[str] | None = None, where: table_io.Where | None = None) -> pa.Table:
    """Rows of a version: record_key, event_ts, split, the features, label, label_known_at, and the join columns.

    :param columns: all by default.
    :param where: for columns, the values of which a row must have one.
    :raises MissingSetError: if the table is gone.
    """
    stored = training_set(lake, release.name, release.version)
    table = stored.open()
    if table is None:
        name = f"{release.name} {release.version}"
        msg = f"there is no table at {stored}: 'lakehouse dataset reproduce {name}' makes the rows of {name} again"
        raise MissingSetError(msg)
    names = [item.name for item in table.schema().fields] if columns is None else list(columns)
    return table_io.read_version(table, names, where or {})
