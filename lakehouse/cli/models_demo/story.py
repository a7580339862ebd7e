"""The course of the demo: its steps in order, each with its output. The steps themselves are in ``steps``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.cli.console import errors, out
from lakehouse.cli.models_demo import report, steps
from lakehouse.cli.models_demo.demo_lake import DemoLake
from lakehouse.examples.card_payments import chargebacks, deliveries
from lakehouse.orchestration.execution.in_process import local_instance
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def play(settings: Settings, seed: int) -> None:
    """Play the demo in a lake below the root of ``settings``; existing results are not recomputed."""
    with local_instance() as instance:
        lake = DemoLake(settings.root, instance)
        new = lake.deliver(deliveries.files(seed))
        errors.print(
            f"Files of payments, cardholders and chargebacks in {settings.root}/landing, {new} of them new.", style="dim"
        )
        if new:
            errors.print("Taking them in, training and comparing: a few minutes.", style="dim")
        _first_version(lake)
        _challenger(lake)
        _canary(lake)
        _correction(lake, seed)
        _rollback(lake)
        _say_how_to_go_on(lake, seed)


def _first_version(lake: DemoLake) -> None:
    lake.take_in(steps.RELEASED.date())
    lake.at(steps.RELEASED)
    released = steps.release_labels(lake, steps.LABELS, "what is known of July to September a month later")
    with errors.status("building the training set"):
        built = steps.build_set(lake, steps.TRAINING_SET, steps.LABELS, "the summer as it was known then")
    with errors.status("training the first version"):
        steps.train(lake, steps.FIRST, steps.TRAINING_SET, "amount, channel and hour", {"inputs": steps.FIRST_INPUTS})
    promoted = steps.promote(lake, steps.FIRST, "the first version")
    report.section(steps.RELEASED, "Labels are frozen, a training set is built of them, and a first version is in use")
    report.line(f"{released.full_name}: what was known of fraud by then; a chargeback comes up to 60 days late.")
    report.training_set(built)
    report.in_use(promoted)


def _challenger(lake: DemoLake) -> None:
    lake.take_in(steps.COMPARED.date())
    lake.at(steps.COMPARED)
    with errors.status("training a challenger and comparing it on October and November"):
        steps.train(lake, steps.CHALLENGER, steps.TRAINING_SET, "with the cardholder and the payments of the country")
        compared = steps.compare(lake, steps.CHALLENGER, steps.FIRST)
    report.section(steps.COMPARED, f"A challenger learns from the same set: backtest of {compared.title}")
    report.versions(lake.settings, (steps.FIRST, steps.CHALLENGER), steps.FIRST)
    report.backtest(compared)


def _canary(lake: DemoLake) -> None:
    with errors.status("scoring November with both versions"):
        steps.start_canary(lake, steps.CHALLENGER)
        lake.at(steps.CANARY_JUDGED)
        judged = steps.judge_canary(lake)
    promoted = steps.promote(lake, steps.CHALLENGER, "better in the backtest and in the canary")
    report.section(steps.CANARY_JUDGED, "A canary scores a share of November's payments, and the challenger is promoted")
    report.line(
        f"{judged.of_entities:.0%} of the payments were scored by both; {judged.labels or 0:,} of their labels are mature."
    )
    report.canary(judged)
    report.in_use(promoted)


def _correction(lake: DemoLake, seed: int) -> None:
    lake.deliver({deliveries.CHARGEBACKS: deliveries.correction(seed)})
    lake.at(steps.CORRECTED)
    concerned = steps.concerned(lake, *deliveries.correction(seed))
    lake.take_in(steps.CORRECTED.date())
    lake.at(steps.CORRECTED)
    report.section(steps.CORRECTED, "The result of an investigation arrives: labels of the summer were wrong")
    report.impact(concerned, steps.CHALLENGER, len(chargebacks.investigated(seed)))
    with errors.status("learning again from the corrected labels"):
        retrained = steps.learn_again(lake)
        compared = steps.compare(lake, retrained.new_version, retrained.champion)
    report.section(steps.CORRECTED, f"The model learns again: backtest of {compared.title}")
    report.retraining(retrained)
    report.training_set(releases.find(lake.settings, ReleaseKind.TRAINING_SET, retrained.training_set, retrained.new_set))
    report.backtest(compared)
    report.line(f"{retrained.new_version} is not promoted by itself, whatever its backtest says.")


def _rollback(lake: DemoLake) -> None:
    lake.at(steps.ROLLED_BACK)
    done = steps.roll_back(lake, f"good customers are declined; {steps.FIRST} until that is understood")
    report.section(steps.ROLLED_BACK, "The promotion is taken back")
    report.in_use(done)
    report.versions(lake.settings, None, done.to_version)


def _say_how_to_go_on(lake: DemoLake, seed: int) -> None:
    lines = (
        "",
        "The commands below need the contracts of the demo:",
        f"  export LAKEHOUSE_CONTRACTS={lake.settings.contracts}",
        "Show all that a version has learned from, and what became of it:",
        f"  lakehouse model show {deliveries.MODEL} {steps.CHALLENGER}",
        "List what a file concerns, of numbers, training sets and models:",
        f"  lakehouse impact {deliveries.CHARGEBACKS} --file {next(iter(deliveries.correction(seed)))}",
        "Show the manifest of the training set, and make the set again from its recorded inputs:",
        f"  lakehouse dataset show {deliveries.TRAINING_SET} {steps.TRAINING_SET}",
        f"  lakehouse dataset reproduce {deliveries.TRAINING_SET} {steps.TRAINING_SET}",
        "Look at the runs and the registered versions in MLflow:",
        f"  mlflow ui --backend-store-uri sqlite:///{lake.settings.root}/mlflow/mlflow.db",
    )
    for text in lines:
        out.print(text, soft_wrap=True)
