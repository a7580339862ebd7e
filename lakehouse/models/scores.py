"""The scores of a model version for rows, computed from the columns on which it was trained.

Selecting the rows and using the scores belongs to the callers (``score``, ``backtests.backtest``).

The table of a model's scores, by event day: for each entity, a row per version that has scored it; one row is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import partition_writer, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.models import evaluation, function
from lakehouse.training_sets import addresses, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from numpy.typing import NDArray

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.canary_log import Arm
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
        return evaluation.scores_of(self.contract, self.model, function.frame_of(rows, self.features))

    def rows_learned(self, rows: pa.Table) -> int:
        """The number of rows within the time range of the version's training rows; 0 if the range is not recorded."""
        if self.learned is None:
            return 0
        times = rows["event_ts"]
        first, last = (pa.scalar(moment, times.type) for moment in self.learned)
        within = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
        return pc.sum(within).as_py() or 0


def load(lake: Lake, catalog: Catalog, contract: ModelContract, version: str) -> LoadedVersion:
    """Load a released version with its model.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, or cannot be reached.
    """
    release = releases.find(lake, ReleaseKind.MODEL, contract.name, version)
    default = catalog.training_sets[contract.training_set].features.names
    features = release.about.get("feature_names", default)
    return LoadedVersion(contract, version, function.load(lake, contract, version), features, learned_span(release))


def learned_span(release: Release) -> tuple[datetime, datetime] | None:
    """The first and the last event time of the part on which a version was trained; None if not recorded."""
    of_set = release.about.get("training_set", {})
    part = of_set.get("time", {}).get(release.about.get("fit_on"))
    return None if part is None else (datetime.fromisoformat(part["from"]), datetime.fromisoformat(part["to"]))


def features_hash(rows: pa.Table, features: Sequence[str]) -> NDArray[np.int64]:
    """A hash of the model's input for each row; equal features have equal hashes, also in another process or table."""
    frame = function.frame_of(rows, features)
    numbers = frame.select_dtypes("float64").columns
    frame[numbers] += 0.0  # -0.0 and 0.0 are equal
    for name in frame.select_dtypes("object").columns:
        frame[f"{name} is NULL"] = frame[name].isna()  # the hash treats None as the text 'None'
    # Categories would treat texts as equal that differ only after a NUL character.
    hashed = pd.util.hash_pandas_object(frame, index=False, categorize=False).to_numpy(np.uint64)
    signed: NDArray[np.int64] = hashed.view(np.int64)  # Delta has only signed integers
    return signed


#: ``served`` marks the row that counts; ``features_hash`` covers the columns that the version uses, see ``version_scores``.
SCHEMA = pa.schema(
    [
        ("record_key", pa.string()),
        ("event_ts", pa.timestamp("us", "UTC")),
        ("event_date", pa.date32()),
        ("score", pa.float64()),
        ("model_version", pa.string()),
        ("arm", pa.string()),
        ("served", pa.bool_()),
        ("features_hash", pa.int64()),
        ("scored_at", pa.timestamp("us", "UTC")),
        ("run_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class ScoringRun:
    """The author and the time of a scoring."""

    run_id: str
    by: str
    scored_at: datetime


def scored_rows(rows: pa.Table, version: LoadedVersion, arm: Arm, served: NDArray[np.bool_], run: ScoringRun) -> pa.Table:
    """The scores of a version for ``rows``, as rows of the table.

    :param rows: record_key, event_ts, event_date and the features.
    :param served: whether each score is served.
    """
    hashes = features_hash(rows, version.features)
    count = len(rows)
    return pa.table(
        [
            *(rows[name].cast(SCHEMA.field(name).type) for name in ("record_key", "event_ts", "event_date")),
            pa.array(version.scores(rows)),
            pa.repeat(version.version, count),
            pa.repeat(arm.value, count),
            pa.array(served),
            pa.array(hashes),
            pa.repeat(pa.scalar(run.scored_at, pa.timestamp("us", "UTC")), count),
            pa.repeat(run.run_id, count),
        ],
        schema=SCHEMA,
    )


@row_writer.retried_on_conflict
def write(
    lake: Lake,
    model: str,
    days: Collection[date],
    versions: Collection[str],
    scored: Sequence[pa.Table],
    run: ScoringRun,
) -> None:
    """Replace the scores of ``versions`` for ``days``, in one commit.

    Scores of other versions stay, but are no longer served.

    :param scored: the rows of the versions, all from ``days``; at least one table, which may be empty.
    :raises CommitFailedError: if other writers win eight times in a row.
    """
    stored = addresses.scores(lake, model)
    table = row_writer.open_or_create(stored, SCHEMA, ["event_date"])
    new = pa.concat_tables(scored)
    older = table_io.read_version(table, SCHEMA.names, {"event_date": sorted(days)}).cast(SCHEMA)
    older = older.filter(pc.invert(pc.is_in(older["model_version"], pa.array(sorted(versions)))))
    older = older.set_column(SCHEMA.get_field_index("served"), SCHEMA.field("served"), pa.repeat(False, len(older)))
    rows = pa.concat_tables([new, older]).sort_by([("event_date", "ascending"), ("record_key", "ascending")])
    why = {"scores": model, "run_id": run.run_id, "by": run.by, "days": [f"{day}" for day in sorted(days)]}
    partition_writer.replace(table, rows, days, why=why)


def read(lake: Lake, model: str, where: table_io.Where | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The scores that meet ``where``, with ``columns`` (default: all); empty if nothing has been scored."""
    names = list(columns or SCHEMA.names)
    wanted = pa.schema([SCHEMA.field(name) for name in names])
    rows = addresses.scores(lake, model).read(names, where)
    return wanted.empty_table() if rows is None else rows.cast(wanted)
