"""The demo of models: its lake, its steps in order, and the printed output of each step.

The steps are actions on labels, training sets and versions of the model, with their times. A recorded step is not repeated, so a
repeated demo changes nothing. The output is a few lines and a table after each step, all read from recorded results. The files
and contracts are generated in ``examples.card_payments``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse.bronze.landing import landing_files
from lakehouse.bronze.pending_files import unseen_files
from lakehouse.calendar.days import replay_clock, span
from lakehouse.cli.console import counted, data_table, errors, number_column, out
from lakehouse.contracts import load_catalog
from lakehouse.errors import LakehouseError
from lakehouse.examples.card_payments import deliveries
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
    score,
    scores,
    training,
)
from lakehouse.models.backtest import BacktestRequest, backtest
from lakehouse.models.lineage import AffectedReleases
from lakehouse.models.promotion_log import PromotionKind
from lakehouse.models.trial_commands import print_parts, print_rules
from lakehouse.orchestration.commands import with_progress
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess, local_instance
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.orchestration.run_events import asset_key
from lakehouse.training_sets import affected as affected_sets
from lakehouse.training_sets import build, labels, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from pyspark.sql import SparkSession
    from rich.table import Table

    from lakehouse.contracts import ModelContract
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.canary_log import CanaryEntry
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.models.retraining import Retraining
    from lakehouse.training_sets.releases import Release


#: The measure shown in the tables.
MEASURE = "average_precision"


def section(moment: datetime, title: str) -> None:
    """Begin the section of a step."""
    out.print()
    out.print(f"{moment:%Y-%m-%d}  {title}", style="bold", soft_wrap=True)


def line(text: str) -> None:
    """Print a sentence below the title of a section."""
    out.print(text, soft_wrap=True)


def training_set(release: Release) -> None:
    """Print a version of the set: its parts and its labels."""
    about = release.about
    labels = f"{about['labels']['source']}_{about['labels']['version']}"
    fraud = about["columns"]["label"]["mean"]
    parts = ", ".join(f"{name} {part['from'][:10]} to {part['to'][:10]} {part['rows']:,}" for name, part in about["time"].items())
    line(f"{release.full_name}: {counted(about['rows'])} ({parts}), labels {labels}, {fraud:.1%} fraud.")


def versions(demo: Lake, wanted: Collection[str] | None, in_use: str | None) -> None:
    """Print versions of the model with their sets and their quality on the evaluation part.

    :param wanted: default: all.
    """
    known = releases.all_of(demo, ReleaseKind.MODEL, deliveries.MODEL)
    out.print(versions_table([entry for entry in known if wanted is None or entry.version in wanted], in_use))


def versions_table(known: Sequence[Release], in_use: str | None) -> Table:
    """A row for each version of the model."""
    table = data_table("The versions of the model")
    for heading in ("version", "training set", "labels", "inputs"):
        table.add_column(heading, no_wrap=heading != "inputs", overflow="fold")
    quality = [f"{entry.about['metrics'][entry.about['evaluated_on']][MEASURE]:.4f}" for entry in known]
    number_column(table, f"{MEASURE.replace('_', ' ')} in September, by its own labels", quality)
    table.add_column("state", no_wrap=True)
    for entry, measured in zip(known, quality):
        of_set = entry.about["training_set"]
        inputs = ", ".join(entry.about["parameters"].get("inputs") or ["all"])
        state = "in use" if entry.version == in_use else ""
        table.add_row(entry.version, of_set["full_name"], of_set["labels"]["version"], inputs, measured, state)
    return table


def print_backtest(entry: Backtest) -> None:
    """Print a backtest: both versions by month, with intervals, and the verdict."""
    reading = entry.results["readings"][entry.results["judged"]]
    months = reading["months"]
    _parts({**months, "total": reading["total"]} if len(months) > 1 else months, entry.against, entry.version)
    if entry.passed:
        line(f"Every acceptance rule is met: {entry.version} may be promoted.")
    for rule in entry.failed:
        line(f"Not met: {rule}")
    line(f"The report: {entry.report}/report.html")


def print_canary(entry: CanaryEntry) -> None:
    """Print a judged canary: both versions on its scored entities."""
    _parts({"total": entry.results["total"]}, entry.champion, entry.challenger)
    print_rules(entry.results["rules"])


def _parts(parts: Mapping[str, Any], champion: str, challenger: str) -> None:
    """Print a measure by month and in total."""
    of_measure = {name: {**part, "measures": {MEASURE: part["measures"][MEASURE]}} for name, part in parts.items()}
    print_parts(f"{challenger} against {champion}, with intervals of 95%", champion, challenger, of_measure)


def in_use(done: ModelPromotion) -> None:
    """Print a promotion or rollback."""
    instead = f" in place of {done.from_version}" if done.from_version else ""
    line(f"{done.model} {done.to_version} is in use{instead}: {done.notes}.")


def impact(concerned: AffectedReleases, in_use: str, records: int) -> None:
    """Print the releases affected by a file: labels, training sets, and the model versions trained on them.

    :param in_use: the version in use when the file arrived.
    :param records: the number of records in the file.
    """
    known = ", ".join(concerned.labels) or "none of the released labels"
    line(f"{records:,} records, some about chargebacks that are in {known}.")
    out.print(impact_table(concerned, in_use))


def impact_table(concerned: AffectedReleases, in_use: str) -> Table:
    """A row for each training set with rows affected by a correction."""
    table = data_table("What has learned from the payments that it speaks of")
    for heading in ("training set", "rows", "share", "learned from it"):
        table.add_column(heading, overflow="fold")
    for entry in concerned.training_sets:
        learned = [
            f"{model.model} {model.version}{' (in use)' if model.version == in_use else ''}"
            for model in concerned.models
            if model.training_set.full_name == entry.full_name
        ]
        table.add_row(entry.full_name, f"{entry.rows:,} of {entry.total:,}", f"{entry.share:.2%}", ", ".join(learned))
    return table


def print_retraining(done: Retraining) -> None:
    """Print the cause of a retraining."""
    line(
        f"{done.changed_rows:,} rows of {done.training_set}_{done.set_version} ({done.share}) and {done.changed_labels:,} labels "
        "differ now, by this file and by the chargebacks that came since: the model learns again, with the same parameters."
    )


def play(root: str, seed: int) -> None:
    """Play the demo in a lake below ``root``; existing results are not recomputed."""
    with local_instance() as instance:
        demo = DemoLake(root, instance)
        new = demo.deliver(deliveries.files(seed))
        errors.print(
            f"Files of payments, cardholders and chargebacks in {demo.lake.root}/landing, {new} of them new.", style="dim"
        )
        if new:
            errors.print("Taking them in, training and comparing: a few minutes.", style="dim")
        _first_version(demo)
        _challenger(demo)
        _canary(demo)
        _correction(demo, seed)
        _rollback(demo)
        _say_how_to_go_on(demo, seed)


def _first_version(demo: DemoLake) -> None:
    demo.take_in(RELEASED.date())
    demo.at(RELEASED)
    released = release_labels(demo, LABELS, "what is known of July to September a month later")
    with errors.status("building the training set"):
        built = build_set(demo, TRAINING_SET, LABELS, "the summer as it was known then")
    with errors.status("training the first version"):
        train(demo, FIRST, TRAINING_SET, "amount, channel and hour", {"inputs": FIRST_INPUTS})
    promoted = promote(demo, FIRST, "the first version")
    section(RELEASED, "Labels are frozen, a training set is built of them, and a first version is in use")
    line(f"{released.full_name}: what was known of fraud by then; a chargeback comes up to 60 days late.")
    training_set(built)
    in_use(promoted)


def _challenger(demo: DemoLake) -> None:
    demo.take_in(COMPARED.date())
    demo.at(COMPARED)
    with errors.status("training a challenger and comparing it on October and November"):
        train(demo, CHALLENGER, TRAINING_SET, "with the cardholder and the payments of the country")
        compared = compare(demo, CHALLENGER, FIRST)
    section(COMPARED, f"A challenger learns from the same set: backtest of {compared.title}")
    versions(demo.lake, (FIRST, CHALLENGER), FIRST)
    print_backtest(compared)


def _canary(demo: DemoLake) -> None:
    with errors.status("scoring November with both versions"):
        start_canary(demo, CHALLENGER)
        demo.at(CANARY_JUDGED)
        judged = judge_canary(demo)
    promoted = promote(demo, CHALLENGER, "better in the backtest and in the canary")
    section(CANARY_JUDGED, "A canary scores a share of November's payments, and the challenger is promoted")
    line(f"{judged.of_entities:.0%} of the payments were scored by both; {judged.labels or 0:,} of their labels are mature.")
    print_canary(judged)
    in_use(promoted)


def _correction(demo: DemoLake, seed: int) -> None:
    demo.deliver({deliveries.CHARGEBACKS: deliveries.correction(seed)})
    demo.at(CORRECTED)
    concerned = concerned_by(demo, *deliveries.correction(seed))
    demo.take_in(CORRECTED.date())
    demo.at(CORRECTED)
    section(CORRECTED, "The result of an investigation arrives: labels of the summer were wrong")
    impact(concerned, CHALLENGER, len(deliveries.investigated(seed)))
    with errors.status("learning again from the corrected labels"):
        retrained = learn_again(demo)
        compared = compare(demo, retrained.new_version, retrained.champion)
    section(CORRECTED, f"The model learns again: backtest of {compared.title}")
    print_retraining(retrained)
    training_set(releases.find(demo.lake, ReleaseKind.TRAINING_SET, retrained.training_set, retrained.new_set))
    print_backtest(compared)
    line(f"{retrained.new_version} is not promoted by itself, whatever its backtest says.")


def _rollback(demo: DemoLake) -> None:
    demo.at(ROLLED_BACK)
    done = roll_back(demo, f"good customers are declined; {FIRST} until that is understood")
    section(ROLLED_BACK, "The promotion is taken back")
    in_use(done)
    versions(demo.lake, None, done.to_version)


def _say_how_to_go_on(demo: DemoLake, seed: int) -> None:
    lines = (
        "",
        "The commands below need the contracts of the demo:",
        f"  export LAKEHOUSE_CONTRACTS={demo.lake.settings.contracts}",
        "Show all that a version has learned from, and what became of it:",
        f"  lakehouse model show {deliveries.MODEL} {CHALLENGER}",
        "List what a file concerns, of numbers, training sets and models:",
        f"  lakehouse change impact {deliveries.CHARGEBACKS} --file {next(iter(deliveries.correction(seed)))}",
        "Show the manifest of the training set, and make the set again from its recorded inputs:",
        f"  lakehouse dataset show {deliveries.TRAINING_SET} {TRAINING_SET}",
        f"  lakehouse dataset reproduce {deliveries.TRAINING_SET} {TRAINING_SET}",
        "Look at the runs and the registered versions in MLflow:",
        f"  mlflow ui --backend-store-uri sqlite:///{demo.lake.root}/mlflow/mlflow.db",
    )
    for text in lines:
        out.print(text, soft_wrap=True)


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
            layers.run(asset_key("bronze", source), days)
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

CORRECTED = deliveries.INVESTIGATION_ARRIVES + timedelta(hours=15)

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
        demo.session(),
        demo.lake,
        demo.catalog,
        contract,
        build.SetRequest(version, by=BY, notes=notes, labels_version=labels_version),
    )


def train(demo: DemoLake, version: str, set_version: str, notes: str, parameters: Mapping[str, Any] | None = None) -> Release:
    """Train a version of the model."""
    return training.train(
        demo.lake,
        demo.catalog,
        demo.contract,
        training.TrainingRequest(version, set_version, by=BY, notes=notes, parameters=parameters),
    )


def compare(demo: DemoLake, version: str, against: str) -> Backtest:
    """Compare two versions on October and November, unless already compared."""
    known = backtest_log.newest_backtest(demo.lake, deliveries.MODEL, version, against)
    if known is not None:
        return known
    months = (BACKTEST_FROM, BACKTEST_TO)
    request = BacktestRequest(version, against, *months)
    return backtest(demo.session(), demo.lake, demo.catalog, demo.contract, request, by=BY)


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


def concerned_by(demo: DemoLake, file: str) -> AffectedReleases:
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
    known = retraining.retrainings_of(demo.lake, deliveries.MODEL)
    if known and known[-1].is_over:
        return known[-1]
    wanted = retraining.due(demo.session, demo.lake, demo.catalog, demo.contract)
    if wanted is None:
        msg = f"the correction does not reach 'retrain_when' of {deliveries.MODEL}; use another seed"
        raise LakehouseError(msg)
    return retraining.carry_out(demo.session, demo.lake, demo.catalog, demo.contract, wanted, by=BY)
