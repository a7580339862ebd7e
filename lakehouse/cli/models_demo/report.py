"""What the demo prints: after each step a few lines and a table, all of it read from what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import counted, data_table, number_column, out
from lakehouse.examples.card_payments import deliveries
from lakehouse.models.promotion import promotion_log
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rich.table import Table

    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.promotion.promotion_log import ModelPromotion
    from lakehouse.models.scoring.canary_log import CanaryEntry
    from lakehouse.settings import Settings
    from lakehouse.training_sets.affected import AffectedSet
    from lakehouse.training_sets.changes import SetChanges
    from lakehouse.training_sets.releases import Release

#: The measure that the tables show.
MEASURE = "average_precision"


def section(moment: datetime, title: str) -> None:
    """Begin the section of a step."""
    out.print()
    out.print(f"{moment:%Y-%m-%d}  {title}", style="bold", soft_wrap=True)


def line(text: str) -> None:
    """A sentence below the title of a section."""
    out.print(text, soft_wrap=True)


def training_set(release: Release) -> None:
    """A version of the set: its parts, and what its labels are."""
    about = release.about
    labels = f"{about['labels']['source']}_{about['labels']['version']}"
    fraud = about["columns"]["label"]["mean"]
    parts = ", ".join(f"{name} {part['from'][:10]} to {part['to'][:10]} {part['rows']:,}" for name, part in about["time"].items())
    line(f"{release.full_name}: {counted(about['rows'])} ({parts}), labels {labels}, {fraud:.1%} fraud.")


def versions(settings: Settings) -> None:
    """The versions of the model with their sets and their quality on the part for evaluation."""
    known = releases.all_of(settings, ReleaseKind.MODEL, deliveries.MODEL)
    out.print(versions_table(known, promotion_log.in_use(settings, deliveries.MODEL)))


def versions_table(known: Sequence[Release], in_use: str | None) -> Table:
    """A row for each version of the model."""
    table = data_table()
    for heading in ("version", "training set", "labels", "inputs"):
        table.add_column(heading, no_wrap=heading != "inputs", overflow="fold")
    quality = [f"{entry.about['metrics'][entry.about['evaluated_on']][MEASURE]:.3f}" for entry in known]
    number_column(table, f"{MEASURE} in September", quality)
    table.add_column("state", no_wrap=True)
    for entry, measured in zip(known, quality):
        of_set = entry.about["training_set"]
        inputs = ", ".join(entry.about["parameters"].get("inputs") or ["all"])
        state = "in use" if entry.version == in_use else ""
        table.add_row(entry.version, of_set["full_name"], of_set["labels"]["version"], inputs, measured, state)
    return table


def backtest(entry: Backtest) -> None:
    """A backtest: both versions by month, with intervals, and the verdict."""
    judged = entry.results["judged"]
    reading = entry.results["readings"][judged]
    out.print(compared_table(reading, entry.against, entry.version))
    if entry.passed:
        line(f"Every rule is met: {entry.version} may be promoted. The report is in {entry.report}.")
        return
    for rule in entry.failed:
        line(f"Not met: {rule}.")
    line(f"{entry.version} may not be promoted unless a person signs it off. The report is in {entry.report}.")


def compared_table(reading: Mapping[str, Any], champion: str, challenger: str) -> Table:
    """Two versions by month and in total, by what a backtest or a canary has recorded."""
    parts = {**reading["months"], "total": reading["total"]} if len(reading["months"]) > 1 else {"total": reading["total"]}
    measured = [part["measures"][MEASURE] for part in parts.values()]
    table = data_table(f"{MEASURE}, with intervals of 95%")
    table.add_column("events of", no_wrap=True)
    number_column(table, "rows", [f"{part['rows']:,}" for part in parts.values()])
    number_column(table, "fraud", [f"{part['positives']:,}" for part in parts.values()])
    for heading, side in ((champion, "champion"), (challenger, "challenger"), ("difference", "difference")):
        number_column(table, heading, [_interval(values[side]) for values in measured])
    for (name, part), values in zip(parts.items(), measured):
        sides = [_interval(values[side]) for side in ("champion", "challenger", "difference")]
        table.add_row(name, f"{part['rows']:,}", f"{part['positives']:,}", *sides)
    return table


def canary(entry: CanaryEntry) -> None:
    """A judged canary."""
    line(f"The {entry.title}: {entry.outcome.value if entry.outcome else 'not judged'}, by {entry.labels:,} mature labels.")
    out.print(compared_table(entry.results, entry.champion, entry.challenger))
    for rule in entry.results["rules"]:
        line(f"{rule['rule']}: {rule['verdict']} ({rule['gain']:+.4f})")


def in_use(done: ModelPromotion) -> None:
    """A promotion or rollback."""
    instead = f" in place of {done.from_version}" if done.from_version else ""
    line(f"{done.model} {done.to_version} is in use{instead}: {done.notes}.")


def impact(settings: Settings, affected: Sequence[AffectedSet], since: SetChanges) -> None:
    """What a correction concerns: training sets, and the versions of models that have learned from them."""
    known, current = releases.all_of(settings, ReleaseKind.MODEL), promotion_log.in_use(settings, deliveries.MODEL)
    table = data_table("What has learned from the payments that the file speaks of")
    for heading in ("training set", "rows", "share", "learned from it"):
        table.add_column(heading, overflow="fold")
    for entry in affected:
        learned = [
            f"{model.name} {model.version}{' (in use)' if model.version == current else ''}"
            for model in known
            if model.about["training_set"]["full_name"] == entry.full_name
        ]
        table.add_row(entry.full_name, f"{entry.rows:,} of {entry.total:,}", f"{entry.share:.2%}", ", ".join(learned))
    out.print(table)
    line(
        f"{since.release.full_name} would differ in {since.changed:,} of {counted(since.total)} ({since.share:.2%}), "
        f"{since.changed_labels:,} of them in their label: with this file, and with what came late before it."
    )


def _interval(estimate: Mapping[str, float | None]) -> str:
    """A number with its interval; a dash where it could not be measured."""
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return "-"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
