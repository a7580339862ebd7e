"""The lake of the demo: its files and contracts, its clock, and the ingestion of files.

Labels, sets and models belong to ``steps``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.bronze.landing import landing_files
from lakehouse.bronze.pending_files import unseen_files
from lakehouse.calendar.event_day import replay_clock
from lakehouse.cli.commands.demo import write_files
from lakehouse.cli.commands.replay import with_progress
from lakehouse.contracts import load_catalog
from lakehouse.examples.card_payments import deliveries
from lakehouse.ledger import ingestions
from lakehouse.orchestration.common.resources import LakeSpark
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.settings import Settings, SimulatedClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.contracts import ModelContract

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
        own = Settings(root=root, landing=None, contracts=contracts, bundled_contracts=False)
        self.settings = own.model_copy(update={"spark_long_lived": True}).with_clock(self._clock)
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
        return sum(write_files(Path(self.settings.landing_of(source)), texts) for source, texts in files.items())

    def take_in(self, through: date) -> None:
        """Process the arrivals up to the end of day ``through``.

        Payments are processed delivery by delivery, each as if it were today, because a number is a feature from its publication
        on. The other sources have no numbers, and every row has its own arrival time: their files are read at once.
        """
        self.at(replay_clock(through))
        layers = InProcess(self.settings, self.catalog, self._instance)
        for source in (deliveries.CARDHOLDERS, deliveries.CHARGEBACKS):
            self._take_in_at_once(layers, source, through)
        run = Replay(self.settings, self.catalog, deliveries.PAYMENTS, self._instance)
        days, _ = run.arrival_days(last=through)
        if days:
            with_progress(run, days)

    def _take_in_at_once(self, layers: InProcess, source: str, through: date) -> None:
        files, _ = landing_files(self.settings, self.catalog.sources[source])
        new = unseen_files(files, ingestions.all_of(self.settings, source))
        days = sorted({file.arrival_date for file in new if file.arrival_date <= through})
        if days:
            layers.run(dg.AssetKey(["bronze", source]), days)
        catch_up(self.settings, self.catalog, source, layers)
