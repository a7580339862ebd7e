"""The steps of the demo: actions on labels, training sets and versions of the model, and their times.

A recorded step is not repeated, so a repeated demo changes nothing. Printing belongs to ``story``.

The lake of the demo: its files and contracts, its clock, and the ingestion of files.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.bronze.landing import landing_files
from lakehouse.bronze.pending_files import unseen_files
from lakehouse.calendar.days import replay_clock, span
from lakehouse.contracts import load_catalog
from lakehouse.errors import LakehouseError
from lakehouse.examples.card_payments import chargebacks, deliveries
from lakehouse.examples.demo_commands import write_files
from lakehouse.impact import analysis
from lakehouse.lake import Lake, SimulatedClock
from lakehouse.ledger import ingestions
from lakehouse.models import (
    backtest_log,
    canary,
    canary_log,
    lineage,
    promotion,
    promotion_log,
    retraining,
    retraining_log,
    score,
    scores,
    training,
)
from lakehouse.models.backtest import backtest
from lakehouse.models.lineage import AffectedReleases
from lakehouse.models.promotion_log import PromotionKind
from lakehouse.orchestration.commands import with_progress
from lakehouse.orchestration.common.resources import LakeSpark
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.training_sets import affected as affected_sets
from lakehouse.training_sets import build, labels, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import SparkSession

    from lakehouse.contracts import ModelContract
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.canary_log import CanaryEntry
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.models.retraining_log import Retraining
    from lakehouse.training_sets.releases import Release


#: The folder in the root for the contracts of the demo.
_CONTRACTS = "demo_models_contracts"


class DemoLake:
    """A lake with card payments, whose clock shows the time of the current step.

    :param instance: the Dagster instance that stores the runs.
    """

    def __init__(self, root: str, instance: dg.DagsterInstance) -> None:
        contracts = Path(root, _CONTRACTS)
        write_files(contracts, deliveries.contracts())
        self._clock = SimulatedClock(replay_clock(deliveries.HISTORY_BEGINS))
        own = Lake.open(root=root, landing=None, contracts=contracts, bundled_contracts=False)
        self.lake = own.with_settings(spark_long_lived=True).at(self._clock)
        self.catalog = load_catalog(contracts, bundled=False)
        self._instance = instance
        self._spark = LakeSpark(long_lived=True)

    @property
    def contract(self) -> ModelContract:
        """The contract of the model."""
        return self.catalog.models[deliveries.MODEL]

    def session(self) -> SparkSession:
        """The Spark session, started on first use."""
        return self._spark.session()

    def at(self, moment: datetime) -> None:
        """Set the clock."""
        self._clock.set(moment)

    def deliver(self, files: Mapping[str, Mapping[str, str]]) -> int:
        """Copy files to the landing folder.

        :param files: by source, file name to text.
        :returns: the number of new files.
        """
        return sum(write_files(Path(self.lake.landing_of(source)), texts) for source, texts in files.items())

    def take_in(self, through: date) -> None:
        """Process the arrivals up to the end of day ``through``.

        Payments are processed delivery by delivery, each as if it were today, because a number is a feature from its publication
        on. The other sources have no numbers, and every row has its own arrival time: their files are read at once.
        """
        self.at(replay_clock(through))
        layers = InProcess(self.lake, self.catalog, self._instance)
        for source in (deliveries.CARDHOLDERS, deliveries.CHARGEBACKS):
            self._take_in_at_once(layers, source, through)
        run = Replay(self.lake, self.catalog, deliveries.PAYMENTS, self._instance)
        days, _ = run.arrival_days(last=through)
        if days:
            with_progress(run, days)

    def _take_in_at_once(self, layers: InProcess, source: str, through: date) -> None:
        files, _ = landing_files(self.lake, self.catalog.sources[source])
        new = unseen_files(files, ingestions.all_of(self.lake, source))
        days = sorted({file.arrival_date for file in new if file.arrival_date <= through})
        if days:
            layers.run(dg.AssetKey(["bronze", source]), days)
        catch_up(self.lake, self.catalog, source, layers)


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


def release_labels(demo: DemoLake, version: str, notes: str) -> Release:
    """Freeze the known labels."""
    return labels.release(demo.lake, demo.catalog.sources[deliveries.CHARGEBACKS], version, by=BY, notes=notes)


def build_set(demo: DemoLake, version: str, labels_version: str, notes: str) -> Release:
    """Build a version of the training set, unless it is already released."""
    known = {entry.version: entry for entry in releases.all_of(demo.lake, ReleaseKind.TRAINING_SET, deliveries.TRAINING_SET)}
    if version in known:
        return known[version]
    contract = demo.catalog.training_sets[deliveries.TRAINING_SET]
    return build.build(
        *(demo.session(), demo.lake, demo.catalog, contract, version), by=BY, notes=notes, labels_version=labels_version
    )


def train(demo: DemoLake, version: str, set_version: str, notes: str, parameters: Mapping[str, Any] | None = None) -> Release:
    """Train a version of the model."""
    return training.train(
        *(demo.lake, demo.catalog, demo.contract, version, set_version), by=BY, notes=notes, parameters=parameters
    )


def compare(demo: DemoLake, version: str, against: str) -> Backtest:
    """Compare two versions on October and November, unless already compared."""
    known = backtest_log.newest(demo.lake, deliveries.MODEL, version, against)
    if known is not None:
        return known
    months = (BACKTEST_FROM, BACKTEST_TO)
    return backtest(demo.session(), demo.lake, demo.catalog, demo.contract, version, against, *months, by=BY)


def promote(demo: DemoLake, version: str, notes: str) -> ModelPromotion:
    """Promote a version that has never been in use."""
    known = [entry for entry in promotion_log.completed(demo.lake, deliveries.MODEL) if entry.to_version == version]
    if known:
        return known[0]
    return promotion.promote(demo.lake, demo.catalog, demo.contract, version, by=BY, notes=notes)


def roll_back(demo: DemoLake, notes: str) -> ModelPromotion:
    """Roll back the newest promotion, once."""
    known = promotion_log.completed(demo.lake, deliveries.MODEL)[-1]
    if known.kind is PromotionKind.ROLLBACK:
        return known
    return promotion.rollback(demo.lake, demo.contract, by=BY, notes=notes)


def start_canary(demo: DemoLake, version: str) -> CanaryEntry:
    """Start a canary of a version and score the days of :data:`CANARY_FROM`, unless already done."""
    known = canary_log.of(demo.lake, deliveries.MODEL)
    entry = (
        known[-1].started if known else canary.start(demo.lake, demo.contract, version, by=BY, reason="the backtest is passed")
    )
    if not len(scores.read(demo.lake, deliveries.MODEL, columns=["record_key"])):
        days = [day for day in span(CANARY_FROM, CANARY_UNTIL) if day < CANARY_UNTIL]
        score.score(demo.session(), demo.lake, demo.catalog, demo.contract, days, run_id="demo", by=BY)
    return entry


def judge_canary(demo: DemoLake) -> CanaryEntry:
    """Judge the canary by the mature labels, then stop it, and return the judgement."""
    known = canary_log.of(demo.lake, deliveries.MODEL)[-1]
    if known.judged is None:
        canary.judge(demo.session, demo.lake, demo.catalog, demo.contract, by=BY)
        canary.stop(demo.lake, deliveries.MODEL, by=BY, reason="it is judged")
        known = canary_log.of(demo.lake, deliveries.MODEL)[-1]
    assert known.judged is not None  # noqa: S101 (it has just been recorded)
    return known.judged


def concerned(demo: DemoLake, file: str) -> AffectedReleases:
    """The earlier releases of the demo that a file of chargebacks affects."""
    source = demo.catalog.sources[deliveries.CHARGEBACKS]
    columns = affected_sets.columns_searched(demo.lake, source)
    of_file = lineage.of_impact(demo.lake, source, analysis.of_file(demo.lake, demo.catalog, source.dataset, file, columns))
    return AffectedReleases(
        [name for name in of_file.labels if name.endswith(LABELS)],
        [entry for entry in of_file.training_sets if entry.version == TRAINING_SET],
        [entry for entry in of_file.models if entry.training_set.version == TRAINING_SET],
    )


def learn_again(demo: DemoLake) -> Retraining:
    """Carry out the retraining that the model's policy requires, once."""
    known = retraining_log.of(demo.lake, deliveries.MODEL)
    if known and known[-1].is_over:
        return known[-1]
    wanted = retraining.due(demo.session, demo.lake, demo.catalog, demo.contract)
    if wanted is None:
        msg = f"the correction does not reach 'retrain_when' of {deliveries.MODEL}; use another seed"
        raise LakehouseError(msg)
    return retraining.carry_out(demo.session, demo.lake, demo.catalog, demo.contract, wanted, by=BY)
