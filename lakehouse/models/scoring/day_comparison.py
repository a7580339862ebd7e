"""The comparison of both versions' scores on a canary day, without labels: the distances, and the largest ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.models.evaluation import THRESHOLD
from lakehouse.models.scoring import drift

if TYPE_CHECKING:
    from datetime import date

#: The number of entities with the greatest difference that are listed.
_NAMED = 10


@dataclass(frozen=True)
class ApartEntity:
    """An entity with the scores of both versions."""

    record_key: str
    champion: float
    challenger: float


@dataclass(frozen=True)
class DayComparison:
    """The scores of both versions on the same entities of an event day.

    :param distance: the greatest difference between the cumulative shares of both versions.
    :param correlation: None if a version gives every entity the same score.
    :param decisions: the number of entities that only one of the versions scores at or above the prediction threshold.
    :param furthest: the entities with the greatest differences, in descending order.
    """

    day: date
    entities: int
    champion_mean: float
    challenger_mean: float
    mean_difference: float
    distance: float
    correlation: float | None
    decisions: int
    furthest: list[ApartEntity]


def compare_day(day: date, scores: pa.Table) -> DayComparison | None:
    """Compare the scores of a day; None if no entity has both scores.

    :param scores: the scores of the canary, from ``canary.scores_of_both``.
    """
    rows = scores.filter(pc.equal(scores["event_date"], pa.scalar(day)))
    if not len(rows):
        return None
    champion, challenger = (rows[side].to_numpy() for side in ("champion", "challenger"))
    apart = np.abs(challenger - champion)
    order = np.lexsort((rows["record_key"].to_numpy(zero_copy_only=False), -apart))[:_NAMED]
    named = rows.take(pa.array(order)).to_pylist()
    varies = champion.std() > 0 and challenger.std() > 0
    return DayComparison(
        day=day,
        entities=len(rows),
        champion_mean=float(champion.mean()),
        challenger_mean=float(challenger.mean()),
        mean_difference=float(apart.mean()),
        distance=drift.of_samples(champion, challenger),
        correlation=float(np.corrcoef(champion, challenger)[0, 1]) if varies else None,
        decisions=int(((champion >= THRESHOLD) != (challenger >= THRESHOLD)).sum()),
        furthest=[ApartEntity(row["record_key"], row["champion"], row["challenger"]) for row in named],
    )
