"""A trained model as an object, and its input frame.

Training belongs to ``training``, computing scores to ``evaluation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import is_number
from lakehouse.models import tracking, training_function
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from lakehouse.contracts import ModelContract, TrainingSetContract
    from lakehouse.settings import Settings


def load(settings: Settings, contract: ModelContract, version: str) -> Any:
    """Load the object returned by the training function of a version.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, cannot be reached, or its files cannot be read.
    """
    training_function.make_importable(settings)
    return tracking.load(settings, releases.find(settings, ReleaseKind.MODEL, contract.name, version))


def features_frame(set_contract: TrainingSetContract, rows: pa.Table) -> pd.DataFrame:
    """The input of a model: the features of a set in the order of its contract; see :func:`frame_of`.

    :param rows: rows with at least these columns.
    """
    return frame_of(rows, set_contract.features.names)


def frame_of(rows: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """The columns ``columns`` as a pandas frame. A column has the same type in every frame, whatever its rows.

    Numbers and truth values are float64 with NaN for NULL, text is ``object`` with None, days and times are timestamps.
    """
    selected = pa.table({name: _plain(rows[name]) for name in columns})
    frame: pd.DataFrame = selected.to_pandas(date_as_object=False)
    return frame


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_boolean(kind):
        return pc.cast(pc.cast(values, pa.int8()), pa.float64())
    if is_number(kind):
        return pc.cast(values, pa.float64(), safe=False)
    return pc.cast(values, pa.timestamp("us")) if pa.types.is_date(kind) else values
