"""``lakehouse dataset``: releases of labels, and the training sets built from them."""

from __future__ import annotations

import getpass
import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, data_table, deployment, errors, number_column, out

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, TrainingSetContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.changes import SetChanges
    from lakehouse.training_sets.releases import Release


app = typer.Typer(help="Labels and training sets: release, build, compare, make again.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="A training set, such as training_data.")]
_Version = Annotated[str, typer.Argument(help="A version, such as v5.0.")]
_Notes = Annotated[str, typer.Option(help="What the version is for, or what has changed.")]
_By = Annotated[str, typer.Option("--by", help="Who does it; default: the user's name.")]
_KnownAt = Annotated[
    datetime | None,
    typer.Option(parser=arguments.moment, metavar="TIME", help="Only what was known by then (UTC); a day means its end."),
]
_SHOWN = 20


@app.command()
def release(
    source: Annotated[str, typer.Argument(help="The source with the labels.")],
    version: Annotated[str, typer.Argument(help="The version, such as v3.0.")],
    notes: _Notes,
    by: _By = "",
    known_at: _KnownAt = None,
) -> None:
    """Freeze the knowledge of a label source. Later files and decisions never belong to the version."""
    from lakehouse.training_sets import labels  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
    if source not in catalog.sources:
        _unknown("dataset", source, catalog.sources)
    made = labels.release(lake, catalog.sources[source], version, by=by or getpass.getuser(), notes=notes, known_at=known_at)
    out.print(f"{made.full_name} is released: {_known(made)}.", soft_wrap=True)


@app.command()
def build(
    name: _Name,
    version: _Version,
    notes: _Notes,
    by: _By = "",
    labels: Annotated[str | None, typer.Option(help="The version of the labels; default: the newest.")] = None,
    known_at: _KnownAt = None,
) -> None:
    """Build a version of a training set: each event with its features as known then, and its released label; starts Spark."""
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.training_sets import build as set_build  # noqa: PLC0415

    lake, catalog, contract = _contract(name)
    with errors.status("computing the features of each event as they were known then"):
        made = set_build.build(
            LakeSpark().session(),
            lake,
            catalog,
            contract,
            set_build.SetRequest(version, by=by or getpass.getuser(), notes=notes, labels_version=labels, known_at=known_at),
        )
    _print_set(made)


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="Only the versions of this name.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the released versions of labels, training sets and models, with deprecations."""
    from lakehouse.training_sets import releases  # noqa: PLC0415

    lake, _ = deployment(reading=True)
    known, deprecated = releases.all_of(lake, name=name), releases.deprecations(lake, name=name)
    if as_json:
        for entry in known:
            out.print(_as_json(entry, deprecated.get(entry.full_name)), soft_wrap=True)
        return
    if not known:
        out.print("Nothing is released.")
        return
    table = data_table()
    for heading in ("version", "kind", "released", "by"):
        table.add_column(heading, no_wrap=True)
    table.add_column("notes", overflow="fold")
    for entry in known:
        ended = deprecated.get(entry.full_name)
        notes = entry.notes if ended is None else f"deprecated by {ended.by}: {ended.notes}"
        kind = entry.kind.value.replace("_", " ")
        table.add_row(entry.full_name, kind, f"{entry.recorded_at:%Y-%m-%d}", entry.by, notes, style="dim" if ended else "")
    out.print(table)


@app.command()
def show(name: _Name, version: _Version, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show the manifest of a training set: labels, time ranges, rows, and each column with its definition and distribution."""
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, _ = deployment(reading=True)
    version_of_set = releases.find(lake, ReleaseKind.TRAINING_SET, name, version)
    ended = releases.deprecations(lake, ReleaseKind.TRAINING_SET, name).get(version_of_set.full_name)
    if as_json:
        out.print(_as_json(version_of_set, ended), soft_wrap=True)
        return
    _print_set(version_of_set)
    if ended is not None:
        out.print(f"deprecated on {ended.recorded_at:%Y-%m-%d} by {ended.by}: {ended.notes}", style="yellow", soft_wrap=True)


@app.command()
def changes(name: _Name, version: _Version, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """List the corrections that have arrived since a set was built, and the rows that they would change; may start Spark."""
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.training_sets import changes as set_changes  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, catalog, _ = _contract(name)
    version_of_set = releases.find(lake, ReleaseKind.TRAINING_SET, name, version)
    with errors.status("comparing with what is known now"):
        since = set_changes.since(LakeSpark().session, lake, catalog, version_of_set)
    if as_json:
        counts = {
            key: getattr(since, key) for key in ("total", "changed", "changed_labels", "added", "removed", "share", "inputs")
        }
        out.print(json.dumps({"version": version_of_set.full_name, **counts, "rows": since.rows}, default=str), soft_wrap=True)
    else:
        _print_changes(since)


@app.command()
def reproduce(name: _Name, version: _Version) -> None:
    """Recompute a training set from its recorded inputs and compare the content; starts Spark. A lost table is restored."""
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.training_sets import build as set_build  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, catalog = deployment()
    version_of_set = releases.find(lake, ReleaseKind.TRAINING_SET, name, version)
    with errors.status("computing the rows again"):
        made = set_build.reproduce(LakeSpark().session(), lake, catalog, version_of_set)
    if made.is_equal:
        written = "; its table was gone and is written again" if made.restored else ""
        out.print(
            f"{version_of_set.full_name} is the same: {counted(version_of_set.about['rows'])}, hash {made.after}{written}.",
            soft_wrap=True,
        )
        return
    out.print(f"{version_of_set.full_name} differs: hash {made.after} instead of {made.before}.", style="red", soft_wrap=True)
    for note in made.notes:
        out.print(f"    {note}", soft_wrap=True)
    raise typer.Exit(1)


@app.command()
def deprecate(name: _Name, version: _Version, notes: _Notes, by: _By = "") -> None:
    """Deprecate a version of labels or of a training set, with a note on its replacement."""
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, _ = deployment()
    labels = {entry.name for entry in releases.all_of(lake, ReleaseKind.LABELS)}
    kind = ReleaseKind.LABELS if name in labels else ReleaseKind.TRAINING_SET
    entry = releases.deprecate(lake, kind, name, version, by=by or getpass.getuser(), notes=notes)
    out.print(f"{entry.full_name} is deprecated.", soft_wrap=True)


def _contract(name: str) -> tuple[Lake, Catalog, TrainingSetContract]:
    lake, catalog = deployment()
    if name not in catalog.training_sets:
        _unknown("training_set", name, catalog.training_sets)
    return lake, catalog, catalog.training_sets[name]


def _unknown(key: str, name: str, known: dict[str, Any]) -> None:
    errors.print(f"No contract has '{key}: {name}'; known are {', '.join(sorted(known)) or 'none'}.", style="red")
    raise typer.Exit(2)


def _known(entry: Release) -> str:
    return "all that is known" if entry.known_at is None else f"what was known at {entry.known_at:%Y-%m-%d %H:%M} UTC"


def _print_set(entry: Release) -> None:
    about = entry.about
    labels = f"{about['labels']['source']}_{about['labels']['version']}"
    out.print(f"{entry.full_name}: {counted(about['rows'])}, labels {labels}, {_known(entry)}; {entry.notes}", soft_wrap=True)
    for name, part in about["time"].items():
        out.print(f"    {name}: {counted(part['rows'])}, {part['from'][:16]} to {part['to'][:16]}", soft_wrap=True)
    table, columns = data_table(), about["columns"]
    table.add_column("column", no_wrap=True)
    table.add_column("is", overflow="fold")
    number_column(table, "NULL", [f"{column['nulls']:.1%}" for column in columns.values()])
    table.add_column("values", overflow="fold")
    for name, column in columns.items():
        table.add_row(name, _definition(about["features"].get(name)), f"{column['nulls']:.1%}", _distribution(column))
    out.print(table)
    out.print(f"content {about['content_hash']}", style="dim", soft_wrap=True)


def _definition(feature: dict[str, Any] | None) -> str:
    if feature is None:
        return "the label"
    if "metric" in feature:
        return f"{feature['measure']} of gold/{feature['metric']}, as published"
    if "dimension" in feature:
        return f"{feature['column']} of {feature['dimension']}, as known"
    return f"{feature['sql']}"


def _distribution(column: dict[str, Any]) -> str:
    if "quantiles" in column:
        if column["mean"] is None:
            return "none"
        return f"{column['min']:g} to {column['max']:g}, mean {column['mean']:.4g}"
    most = [f"{value} {count:,}" for value, count in list(column.get("frequent", {}).items())[:3]]
    return ", ".join(most) + (", ..." if column.get("distinct", 0) > len(most) else "")


def _print_changes(since: SetChanges) -> None:
    name = since.release.full_name
    if not (since.changed or since.added or since.removed):
        out.print(f"{name}: nothing would differ now.", soft_wrap=True)
        return
    counts = f"{since.changed:,} changed ({since.changed_labels:,} labels), {since.added:,} added, {since.removed:,} removed"
    out.print(f"{name}: {since.share:.2%} of {counted(since.total)} would differ now: {counts}", soft_wrap=True)
    for source, inputs in since.inputs.items():
        out.print(f"    since then: {len(inputs):,} files or decisions of {source}", soft_wrap=True)
    for row in since.rows[:_SHOWN]:
        columns = ", ".join(map(str, row["columns"])) if row["change"] == "changed" else ""  # type: ignore[call-overload]
        out.print(f"    {row['record_key']}: {row['change']} {columns}", soft_wrap=True)
    if len(since.rows) > _SHOWN:
        out.print("    ... ('--json' lists more)")


def _as_json(entry: Release, ended: Release | None) -> str:
    content = {**vars(entry), "kind": entry.kind.value, "event": entry.event.value}
    if ended is not None:
        content["deprecated"] = {"at": ended.recorded_at, "by": ended.by, "notes": ended.notes}
    return json.dumps(content, default=str, ensure_ascii=False)
