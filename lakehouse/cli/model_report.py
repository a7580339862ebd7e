"""Prints versions of models and their lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import counted, data_table, out
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse.models.lineage import ModelLineage
    from lakehouse.training_sets.releases import Release

_SHOWN_MEASURES = 3


def print_release(release: Release) -> None:
    """Print a trained version: its inputs, and its quality by part of the set."""
    about = release.about
    _line(f"{release.name} {release.version} has learned from {about['training_set']['full_name']} by {about['function']}.")
    _print_quality(about)
    _line(f"MLflow: version {about['mlflow']['version']}, run {about['mlflow']['run_id']}.")


def row_of(release: Release, in_use: Collection[tuple[str, str | None]], deprecated: Mapping[str, Release]) -> dict[str, Any]:
    """The entry of a version in a list.

    :param in_use: each model with its version in use.
    """
    about = release.about
    state = "in use" if (release.name, release.version) in in_use else "deprecated" if release.full_name in deprecated else ""
    return {
        "model": release.name,
        "version": release.version,
        "state": state,
        "training_set": about["training_set"]["full_name"],
        "metrics": about["metrics"][about["evaluated_on"]],
        "released_at": release.recorded_at.isoformat(),
        "by": release.by,
        "notes": release.notes,
    }


def print_versions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a list of versions."""
    table = data_table()
    for heading in ("model", "version", "state", "training set"):
        table.add_column(heading, no_wrap=heading == "version", overflow="fold")
    for heading in ("quality", "released", "notes"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        measures = list(row["metrics"].items())[:_SHOWN_MEASURES]
        quality = ", ".join(f"{name} {_number(value)}" for name, value in measures)
        released = f"{row['released_at'][:10]} by {row['by']}"
        table.add_row(row["model"], row["version"], row["state"], row["training_set"], quality, released, row["notes"])
    out.print(table)


def print_lineage(lineage: ModelLineage) -> None:
    """Print the lineage of a version."""
    release, about = lineage.release, lineage.about
    of_set = about["training_set"]
    state = " (in use)" if lineage.in_use else ""
    out.print(f"{release.name} {release.version}{state}", style="bold")
    _line(f"released by {release.by} at {format_moment(release.recorded_at)}: {release.notes}")
    if lineage.deprecation is not None:
        gone = lineage.deprecation
        out.print(f"deprecated by {gone.by} at {format_moment(gone.recorded_at)}: {gone.notes}", style="yellow", soft_wrap=True)
    labels = of_set.get("labels") or {}
    of_labels = f", labels {labels['source']} {labels['version']}" if labels else ""
    _line(f"data: {of_set['full_name']} ({counted(of_set.get('rows', 0))}{of_labels}, content {of_set.get('content_hash')})")
    if lineage.set_deprecation is not None:
        gone = lineage.set_deprecation
        out.print(
            f"    deprecated by {gone.by} at {format_moment(gone.recorded_at)}: {gone.notes}", style="yellow", soft_wrap=True
        )
    for part, rows in about["part_rows"].items():
        role = " and ".join(name for name, key in (("fitted", "fit_on"), ("evaluated", "evaluated_on")) if about[key] == part)
        _line(f"    {part}: {role} on {counted(rows)}{_range(of_set.get('time') or {}, part)}")
    _line(f"code: {about['function']} {about['code']['training']}, lakehouse {about['code']['lakehouse']}")
    _line(f"contract: {about['contract_version']}")
    _line(f"parameters: {', '.join(f'{name}={value}' for name, value in about['parameters'].items()) or 'none'}")
    _line("features:")
    for name in about["feature_names"]:
        definition = about["features"].get(name) or {}
        told_of = ", ".join(f"{key} {value}" for key, value in definition.items())
        _line(f"    {name}: {told_of}" if told_of else f"    {name}")
    _print_quality(about)
    _line(f"MLflow: version {about['mlflow']['version']}, run {about['mlflow']['run_id']}")
    _print_history(lineage)


def _print_history(lineage: ModelLineage) -> None:
    for move in lineage.promotions:
        _line(f"{format_moment(move.recorded_at)}  {move.title} by {move.by}: {move.notes}")
        for rule in move.accepted or []:
            _line(f"    signed off ({move.sign_off}): {rule}")
    for backtest in lineage.backtests:
        verdict = "passed" if backtest.passed else f"not passed: {'; '.join(backtest.failed)}"
        _line(f"{format_moment(backtest.recorded_at)}  backtest of {backtest.title} by {backtest.by}: {verdict}")
    for event in lineage.canaries:
        _line(f"canary: {', '.join(f'{key} {value}' for key, value in event.items())}")


def _print_quality(about: Mapping[str, Any]) -> None:
    for part, measures in about["metrics"].items():
        numbers = ", ".join(f"{name} {_number(value)}" for name, value in measures.items())
        _line(f"quality on {about['training_set']['full_name']}/{part} ({counted(about['part_rows'][part])}): {numbers}")


def _range(time: Mapping[str, Any], part: str) -> str:
    """The first and the last event of a part, if the manifest of the set has them."""
    span = (time.get("splits") or time).get(part)
    return f" from {span['from']} to {span['to']}" if isinstance(span, dict) and {"from", "to"} <= span.keys() else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _line(text: str) -> None:
    out.print(text, soft_wrap=True)
