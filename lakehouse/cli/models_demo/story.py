"""The course of the demo: its steps in order, each with its output. The steps themselves are in ``steps``.

Prints the demo's output: a few lines and a table after each step, all read from recorded results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import counted, data_table, errors, number_column, out
from lakehouse.cli.models_demo import steps
from lakehouse.cli.models_demo.steps import DemoLake
from lakehouse.examples.card_payments import chargebacks, deliveries
from lakehouse.models.trial_commands import print_parts, print_rules
from lakehouse.orchestration.execution.in_process import local_instance
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rich.table import Table

    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.canary_log import CanaryEntry
    from lakehouse.models.lineage import AffectedReleases
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.models.retraining_log import Retraining
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


def backtest(entry: Backtest) -> None:
    """Print a backtest: both versions by month, with intervals, and the verdict."""
    reading = entry.results["readings"][entry.results["judged"]]
    months = reading["months"]
    _parts({**months, "total": reading["total"]} if len(months) > 1 else months, entry.against, entry.version)
    if entry.passed:
        line(f"Every acceptance rule is met: {entry.version} may be promoted.")
    for rule in entry.failed:
        line(f"Not met: {rule}")
    line(f"The report: {entry.report}/report.html")


def canary(entry: CanaryEntry) -> None:
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


def retraining(done: Retraining) -> None:
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
    demo.take_in(steps.RELEASED.date())
    demo.at(steps.RELEASED)
    released = steps.release_labels(demo, steps.LABELS, "what is known of July to September a month later")
    with errors.status("building the training set"):
        built = steps.build_set(demo, steps.TRAINING_SET, steps.LABELS, "the summer as it was known then")
    with errors.status("training the first version"):
        steps.train(demo, steps.FIRST, steps.TRAINING_SET, "amount, channel and hour", {"inputs": steps.FIRST_INPUTS})
    promoted = steps.promote(demo, steps.FIRST, "the first version")
    section(steps.RELEASED, "Labels are frozen, a training set is built of them, and a first version is in use")
    line(f"{released.full_name}: what was known of fraud by then; a chargeback comes up to 60 days late.")
    training_set(built)
    in_use(promoted)


def _challenger(demo: DemoLake) -> None:
    demo.take_in(steps.COMPARED.date())
    demo.at(steps.COMPARED)
    with errors.status("training a challenger and comparing it on October and November"):
        steps.train(demo, steps.CHALLENGER, steps.TRAINING_SET, "with the cardholder and the payments of the country")
        compared = steps.compare(demo, steps.CHALLENGER, steps.FIRST)
    section(steps.COMPARED, f"A challenger learns from the same set: backtest of {compared.title}")
    versions(demo.lake, (steps.FIRST, steps.CHALLENGER), steps.FIRST)
    backtest(compared)


def _canary(demo: DemoLake) -> None:
    with errors.status("scoring November with both versions"):
        steps.start_canary(demo, steps.CHALLENGER)
        demo.at(steps.CANARY_JUDGED)
        judged = steps.judge_canary(demo)
    promoted = steps.promote(demo, steps.CHALLENGER, "better in the backtest and in the canary")
    section(steps.CANARY_JUDGED, "A canary scores a share of November's payments, and the challenger is promoted")
    line(f"{judged.of_entities:.0%} of the payments were scored by both; {judged.labels or 0:,} of their labels are mature.")
    canary(judged)
    in_use(promoted)


def _correction(demo: DemoLake, seed: int) -> None:
    demo.deliver({deliveries.CHARGEBACKS: deliveries.correction(seed)})
    demo.at(steps.CORRECTED)
    concerned = steps.concerned(demo, *deliveries.correction(seed))
    demo.take_in(steps.CORRECTED.date())
    demo.at(steps.CORRECTED)
    section(steps.CORRECTED, "The result of an investigation arrives: labels of the summer were wrong")
    impact(concerned, steps.CHALLENGER, len(chargebacks.investigated(seed)))
    with errors.status("learning again from the corrected labels"):
        retrained = steps.learn_again(demo)
        compared = steps.compare(demo, retrained.new_version, retrained.champion)
    section(steps.CORRECTED, f"The model learns again: backtest of {compared.title}")
    retraining(retrained)
    training_set(releases.find(demo.lake, ReleaseKind.TRAINING_SET, retrained.training_set, retrained.new_set))
    backtest(compared)
    line(f"{retrained.new_version} is not promoted by itself, whatever its backtest says.")


def _rollback(demo: DemoLake) -> None:
    demo.at(steps.ROLLED_BACK)
    done = steps.roll_back(demo, f"good customers are declined; {steps.FIRST} until that is understood")
    section(steps.ROLLED_BACK, "The promotion is taken back")
    in_use(done)
    versions(demo.lake, None, done.to_version)


def _say_how_to_go_on(demo: DemoLake, seed: int) -> None:
    lines = (
        "",
        "The commands below need the contracts of the demo:",
        f"  export LAKEHOUSE_CONTRACTS={demo.lake.settings.contracts}",
        "Show all that a version has learned from, and what became of it:",
        f"  lakehouse model show {deliveries.MODEL} {steps.CHALLENGER}",
        "List what a file concerns, of numbers, training sets and models:",
        f"  lakehouse change impact {deliveries.CHARGEBACKS} --file {next(iter(deliveries.correction(seed)))}",
        "Show the manifest of the training set, and make the set again from its recorded inputs:",
        f"  lakehouse dataset show {deliveries.TRAINING_SET} {steps.TRAINING_SET}",
        f"  lakehouse dataset reproduce {deliveries.TRAINING_SET} {steps.TRAINING_SET}",
        "Look at the runs and the registered versions in MLflow:",
        f"  mlflow ui --backend-store-uri sqlite:///{demo.lake.root}/mlflow/mlflow.db",
    )
    for text in lines:
        out.print(text, soft_wrap=True)
