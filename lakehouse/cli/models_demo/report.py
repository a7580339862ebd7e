"""Prints the demo's output: a few lines and a table after each step, all read from recorded results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.commands.model_backtest import print_parts, print_rules
from lakehouse.cli.console import counted, data_table, number_column, out
from lakehouse.examples.card_payments import deliveries
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rich.table import Table

    from lakehouse.models.affected import AffectedReleases
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.promotion.promotion_log import ModelPromotion
    from lakehouse.models.retraining_log import Retraining
    from lakehouse.models.scoring.canary_log import CanaryEntry
    from lakehouse.settings import Settings
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


def versions(settings: Settings, wanted: Collection[str] | None, in_use: str | None) -> None:
    """Print versions of the model with their sets and their quality on the evaluation part.

    :param wanted: default: all.
    """
    known = releases.all_of(settings, ReleaseKind.MODEL, deliveries.MODEL)
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
