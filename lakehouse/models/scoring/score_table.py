"""The table of a model's scores, by event day: for each entity, a row per version that has scored it; one row is served.

Assigning versions to entities belongs to ``score``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import partition_writer, row_writer, table_io
from lakehouse.models.scoring import version_scores
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date, datetime

    import numpy as np
    from numpy.typing import NDArray

    from lakehouse.models.scoring.arms import Arm
    from lakehouse.models.scoring.version_scores import LoadedVersion
    from lakehouse.settings import Settings

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
    hashes = version_scores.features_hash(rows, version.features)
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
    settings: Settings,
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
    path = addresses.scores(settings, model)
    table = row_writer.open_or_create(path, SCHEMA, settings.storage_options, ["event_date"])
    new = pa.concat_tables(scored)
    older = table_io.read_version(table, SCHEMA.names, {"event_date": sorted(days)}).cast(SCHEMA)
    older = older.filter(pc.invert(pc.is_in(older["model_version"], pa.array(sorted(versions)))))
    older = older.set_column(SCHEMA.get_field_index("served"), SCHEMA.field("served"), pa.repeat(False, len(older)))
    rows = pa.concat_tables([new, older]).sort_by([("event_date", "ascending"), ("record_key", "ascending")])
    why = {"scores": model, "run_id": run.run_id, "by": run.by, "days": [f"{day}" for day in sorted(days)]}
    partition_writer.replace(table, rows, days, why=why)


def read(settings: Settings, model: str, where: table_io.Where | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The scores that meet ``where``, with ``columns`` (default: all); empty if nothing has been scored."""
    names = list(columns or SCHEMA.names)
    wanted = pa.schema([SCHEMA.field(name) for name in names])
    rows = table_io.read(addresses.scores(settings, model), names, where, settings.storage_options)
    return wanted.empty_table() if rows is None else rows.cast(wanted)
