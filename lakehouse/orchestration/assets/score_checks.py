"""The checks of a model's scores: their names, and the rows that they evaluate. The checks are in ``models.scoring``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.quality.check_result import CheckResult

#: The checks of each day of scores, with their descriptions.
NAMES = {
    "row_count": "Each event of the day has exactly one score that counts.",
    "null_shares": "No feature is NULL much more often than in the set that the champion has learned from.",
    "feature_drift": "The features are distributed as in the set that the champion has learned from.",
    "prediction_drift": "The champion's scores are distributed as those on its own set.",
    "label_maturity": "Events that are old enough have a label.",
    "training_serving_skew": "The features that were scored are those that a training set has for the same events.",
}


def judge(
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    session: Callable[[], SparkSession],
    days: Collection[date],
) -> list[CheckResult]:
    """Evaluate every check for each of ``days``; the events are computed once for all checks.

    :raises NoChampionError: if no version is in use.
    :raises TrackingError: if MLflow cannot be reached.
    """
    from lakehouse.models import score, score_checks  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.models import scores as model_scores  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.training_sets import events as set_events  # noqa: PLC0415

    if not days:
        return []
    champion = model_scores.load(lake, catalog, contract, score.champion_of(lake, contract))
    learned, reference = (
        score_checks.set_of(lake, contract, champion.version),
        score_checks.reference_scores(lake, contract, champion),
    )
    of_set, now = catalog.training_sets[contract.training_set], lake.now()
    first, until = min(days), max(days) + timedelta(days=1)
    events = set_events.unlabelled(session(), lake, catalog, of_set, days)
    labelled = set_events.keys_with_label(session(), lake, catalog, of_set, first, until)
    scores = model_scores.read(lake, contract.name, {"event_date": sorted(days)})
    results = []
    for day in sorted(days):
        ours, rows = (table.filter(pc.equal(table["event_date"], day)) for table in (scores, events))
        results += [
            score_checks.row_count(contract, day, ours, rows),
            score_checks.null_shares(contract, day, rows, learned),
            score_checks.feature_drift(contract, day, rows, learned),
            score_checks.prediction_drift(contract, day, ours, champion.version, reference),
            score_checks.label_maturity(of_set, day, ours, labelled, now),
            score_checks.training_serving_skew(contract, day, ours, champion, rows),
        ]
    return results
