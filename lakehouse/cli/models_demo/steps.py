"""The steps of the demo: actions on labels, training sets and versions of the model, and their times.

A recorded step is not repeated, so a repeated demo changes nothing. Printing belongs to ``report``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.calendar.days import span
from lakehouse.errors import LakehouseError
from lakehouse.examples.card_payments import chargebacks, deliveries
from lakehouse.impact import analysis
from lakehouse.models import affected, backtest_log, retraining, retraining_log, training
from lakehouse.models.affected import AffectedReleases
from lakehouse.models.backtests.backtest import backtest
from lakehouse.models.promotion import promotion, promotion_log
from lakehouse.models.promotion.promotion_log import PromotionKind
from lakehouse.models.scoring import canary, canary_log, score, score_table
from lakehouse.training_sets import affected as affected_sets
from lakehouse.training_sets import build, labels, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lakehouse.cli.models_demo.demo_lake import DemoLake
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.promotion.promotion_log import ModelPromotion
    from lakehouse.models.retraining_log import Retraining
    from lakehouse.models.scoring.canary_log import CanaryEntry
    from lakehouse.training_sets.releases import Release

LABELS, TRAINING_SET, FIRST, CHALLENGER = "v3.0", "v5.0", "v2.3", "v2.4"
#: The inputs of the first version: without the cardholder and the number of payments of a country.
FIRST_INPUTS = ["log_amount", "channel", "night"]
#: The months of the backtests.
BACKTEST_FROM, BACKTEST_TO = "2024-10", "2024-11"
BY = "demo"
#: The days scored while the canary runs.
CANARY_FROM, CANARY_UNTIL = date(2024, 11, 1), date(2024, 12, 1)
#: The times of the label releases, of the challenger's training, and of the rollback.
RELEASED = datetime(2024, 11, 1, 8, tzinfo=timezone.utc)
COMPARED = datetime(2025, 2, 3, 8, tzinfo=timezone.utc)
CANARY_JUDGED = COMPARED + timedelta(days=1)
CORRECTED = chargebacks.INVESTIGATION_ARRIVES + timedelta(hours=15)
ROLLED_BACK = CORRECTED + timedelta(hours=20)


def release_labels(lake: DemoLake, version: str, notes: str) -> Release:
    """Freeze the known labels."""
    return labels.release(lake.settings, lake.catalog.sources[deliveries.CHARGEBACKS], version, by=BY, notes=notes)


def build_set(lake: DemoLake, version: str, labels_version: str, notes: str) -> Release:
    """Build a version of the training set, unless it is already released."""
    known = {entry.version: entry for entry in releases.all_of(lake.settings, ReleaseKind.TRAINING_SET, deliveries.TRAINING_SET)}
    if version in known:
        return known[version]
    contract = lake.catalog.training_sets[deliveries.TRAINING_SET]
    return build.build(
        *(lake.session(), lake.settings, lake.catalog, contract, version), by=BY, notes=notes, labels_version=labels_version
    )


def train(lake: DemoLake, version: str, set_version: str, notes: str, parameters: Mapping[str, Any] | None = None) -> Release:
    """Train a version of the model."""
    return training.train(
        *(lake.settings, lake.catalog, lake.contract, version, set_version), by=BY, notes=notes, parameters=parameters
    )


def compare(lake: DemoLake, version: str, against: str) -> Backtest:
    """Compare two versions on October and November, unless already compared."""
    known = backtest_log.newest(lake.settings, deliveries.MODEL, version, against)
    if known is not None:
        return known
    months = (BACKTEST_FROM, BACKTEST_TO)
    return backtest(lake.session(), lake.settings, lake.catalog, lake.contract, version, against, *months, by=BY)


def promote(lake: DemoLake, version: str, notes: str) -> ModelPromotion:
    """Promote a version that has never been in use."""
    known = [entry for entry in promotion_log.completed(lake.settings, deliveries.MODEL) if entry.to_version == version]
    if known:
        return known[0]
    return promotion.promote(lake.settings, lake.catalog, lake.contract, version, by=BY, notes=notes)


def roll_back(lake: DemoLake, notes: str) -> ModelPromotion:
    """Roll back the newest promotion, once."""
    known = promotion_log.completed(lake.settings, deliveries.MODEL)[-1]
    if known.kind is PromotionKind.ROLLBACK:
        return known
    return promotion.rollback(lake.settings, lake.contract, by=BY, notes=notes)


def start_canary(lake: DemoLake, version: str) -> CanaryEntry:
    """Start a canary of a version and score the days of :data:`CANARY_FROM`, unless already done."""
    known = canary_log.of(lake.settings, deliveries.MODEL)
    entry = (
        known[-1].started
        if known
        else canary.start(lake.settings, lake.contract, version, by=BY, reason="the backtest is passed")
    )
    if not len(score_table.read(lake.settings, deliveries.MODEL, columns=["record_key"])):
        days = [day for day in span(CANARY_FROM, CANARY_UNTIL) if day < CANARY_UNTIL]
        score.score(lake.session(), lake.settings, lake.catalog, lake.contract, days, run_id="demo", by=BY)
    return entry


def judge_canary(lake: DemoLake) -> CanaryEntry:
    """Judge the canary by the mature labels, then stop it, and return the judgement."""
    known = canary_log.of(lake.settings, deliveries.MODEL)[-1]
    if known.judged is None:
        canary.judge(lake.session, lake.settings, lake.catalog, lake.contract, by=BY)
        canary.stop(lake.settings, deliveries.MODEL, by=BY, reason="it is judged")
        known = canary_log.of(lake.settings, deliveries.MODEL)[-1]
    assert known.judged is not None  # noqa: S101 (it has just been recorded)
    return known.judged


def concerned(lake: DemoLake, file: str) -> AffectedReleases:
    """The earlier releases of the demo that a file of chargebacks affects."""
    source = lake.catalog.sources[deliveries.CHARGEBACKS]
    columns = affected_sets.columns_searched(lake.settings, source)
    of_file = affected.of_impact(
        lake.settings, source, analysis.of_file(lake.settings, lake.catalog, source.dataset, file, columns)
    )
    return AffectedReleases(
        [name for name in of_file.labels if name.endswith(LABELS)],
        [entry for entry in of_file.training_sets if entry.version == TRAINING_SET],
        [entry for entry in of_file.models if entry.training_set.version == TRAINING_SET],
    )


def learn_again(lake: DemoLake) -> Retraining:
    """Carry out the retraining that the model's policy requires, once."""
    known = retraining_log.of(lake.settings, deliveries.MODEL)
    if known and known[-1].is_over:
        return known[-1]
    wanted = retraining.due(lake.session, lake.settings, lake.catalog, lake.contract)
    if wanted is None:
        msg = f"the correction does not reach 'retrain_when' of {deliveries.MODEL}; use another seed"
        raise LakehouseError(msg)
    return retraining.carry_out(lake.session, lake.settings, lake.catalog, lake.contract, wanted, by=BY)
