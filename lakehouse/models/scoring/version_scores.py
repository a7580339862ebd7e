"""The scores of a model version for rows, computed from the columns on which it was trained.

Selecting the rows and using the scores belongs to the callers (``score``, ``backtests.backtest``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import LakehouseError
from lakehouse.models import evaluation, trained
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.settings import Settings
    from lakehouse.training_sets.releases import Release


class MissingFeatureError(LakehouseError):
    """A version needs a column that current rows do not have. The message names it."""


@dataclass(frozen=True)
class LoadedVersion:
    """A version of a model, ready to score.

    :param features: the input columns, in their order.
    :param learned: the first and the last event time of its training rows, if known.
    """

    contract: ModelContract
    version: str
    model: Any
    features: Sequence[str]
    learned: tuple[datetime, datetime] | None = None

    def scores(self, rows: pa.Table) -> NDArray[np.float64]:
        """The score of each row.

        :raises MissingFeatureError: if the rows lack a column on which the version was trained.
        :raises ScoringError: if the model gives no usable scores.
        """
        lacking = [name for name in self.features if name not in rows.column_names]
        if lacking:
            name = f"{self.contract.name} {self.version}"
            msg = (
                f"{name} has learned from {', '.join(lacking)}, which the training set {self.contract.training_set} has no more: "
                f"put it back into the contract, or use a version that was trained without it"
            )
            raise MissingFeatureError(msg)
        if not len(rows):
            return np.zeros(0)
        return evaluation.scores_of(self.contract, self.model, trained.frame_of(rows, self.features))

    def rows_learned(self, rows: pa.Table) -> int:
        """The number of rows within the time range of the version's training rows; 0 if the range is not recorded."""
        if self.learned is None:
            return 0
        times = rows["event_ts"]
        first, last = (pa.scalar(moment, times.type) for moment in self.learned)
        within = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
        return pc.sum(within).as_py() or 0


def load(settings: Settings, catalog: Catalog, contract: ModelContract, version: str) -> LoadedVersion:
    """Load a released version with its model.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, or cannot be reached.
    """
    release = releases.find(settings, ReleaseKind.MODEL, contract.name, version)
    default = catalog.training_sets[contract.training_set].features.names
    features = release.about.get("feature_names", default)
    return LoadedVersion(contract, version, trained.load(settings, contract, version), features, learned_span(release))


def learned_span(release: Release) -> tuple[datetime, datetime] | None:
    """The first and the last event time of the part on which a version was trained; None if not recorded."""
    of_set = release.about.get("training_set", {})
    part = of_set.get("time", {}).get(release.about.get("fit_on"))
    return None if part is None else (datetime.fromisoformat(part["from"]), datetime.fromisoformat(part["to"]))


def features_hash(rows: pa.Table, features: Sequence[str]) -> NDArray[np.int64]:
    """A hash of the model's input for each row; equal features have equal hashes, also in another process or table."""
    frame = trained.frame_of(rows, features)
    numbers = frame.select_dtypes("float64").columns
    frame[numbers] += 0.0  # -0.0 and 0.0 are equal
    for name in frame.select_dtypes("object").columns:
        frame[f"{name} is NULL"] = frame[name].isna()  # the hash treats None as the text 'None'
    # Categories would treat texts as equal that differ only after a NUL character.
    hashed = pd.util.hash_pandas_object(frame, index=False, categorize=False).to_numpy(np.uint64)
    signed: NDArray[np.int64] = hashed.view(np.int64)  # Delta has only signed integers
    return signed
